package notify

import (
	"errors"
	"strings"
	"testing"
)

// canary stands where a URL has something secret.
const canary = "c4n4ry"

// TestParse: each kind is told from the others, and what is shown of one has no secret in it.
func TestParse(t *testing.T) {
	for _, c := range []struct {
		text  string
		kind  Kind
		shown string
	}{
		{"https://hooks.example.com/c4n4ry/x?y=c4n4ry", Webhook, "https://hooks.example.com"},
		{"HTTP://ana:c4n4ry@127.0.0.1:8080", Webhook, "http://127.0.0.1:8080"},
		{"https://h/x#secret=c4n4ry", Webhook, "https://h"},
		{"https://h/x#secret=whsec_YzRuNHJ5", Webhook, "https://h"},
		{"command:curl -H 'Authorization: c4n4ry' https://x", Command, "command:"},
		{"slack://hook:c4n4ry-c4n4ry@webhook", Chat, "slack://"},
		{"Telegram://c4n4ry@telegram?chats=@x", Chat, "telegram://"},
		{"generic+https://h/c4n4ry", Chat, "generic+https://"},
		{"bark://:c4n4ry@c4n4ry.example.com/", Chat, "bark://"},
	} {
		got, err := Parse(c.text)
		if err != nil || got.Kind != c.kind || got.String() != c.shown || Shown(c.text) != c.shown {
			t.Errorf("%s: kind %d, %q, %v", c.text, got.Kind, got, err)
		}
	}
	if s := Shown("@/etc/file"); s != "@/etc/file" {
		t.Errorf("a file is shown as %q", s)
	}
}

// TestParseRefuses: what can't be used is refused, in words that repeat nothing that may be secret.
func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"", "c4n4ry", "//h/c4n4ry", "/etc/c4n4ry", "c4n4ry://x", "slakc://c4n4ry@x", "mailto:c4n4ry@x", "slack:c4n4ry", "slack:", "command:", "command:  ",
		"https:///c4n4ry", "https://", "https:c4n4ry", "http://h:c4n4ry/", "https://h/%c4n4ry%", "https://h/x#c4n4ry", "https://h/#secret=", "https://h/#secret=whsec_*c4n4ry",
		"slack://c4n4ry%zz@x", "https://h/c4n4ry\nx", "file:///c4n4ry", "https://h/\x00c4n4ry", strings.Repeat("c4n4ry", 9) + "://x", "4c4n4ry://x",
	} {
		_, err := Parse(text)
		if err == nil {
			t.Errorf("%q is accepted", text)
			continue
		}
		if strings.Contains(err.Error(), canary) {
			t.Errorf("%q: the error shows it: %v", text, err)
		}
		if Shown(text) != "?" {
			t.Errorf("%q is shown as %q", text, Shown(text))
		}
	}
	for _, text := range []string{"", "c4n4ry", "command:c4n4ry", "slack://c4n4ry", "https:///c4n4ry", "https://h:c4n4ry/"} {
		if _, err := ParsePing(text); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("ping %q: %v", text, err)
		}
	}
}

// TestHidden: whoever put a part of a URL into an error, it doesn't get out. Host and what is shown stay.
func TestHidden(t *testing.T) {
	for _, c := range []struct{ raw, err, want string }{
		{"https://ana:pa55word@hooks.example.com/T0/secret-part?key=c4n4ry", "dial tcp: lookup hooks.example.com: no such host", ""},
		{"https://ana:pa55word@hooks.example.com/T0/secret-part?key=c4n4ry", "sent /T0/secret-part?key=c4n4ry for ana:pa55word", "sent /T0/***-***?key=*** for ana:***"},
		{"https://h/a%20b%2Fc4n4ry", "it was c4n4ry", "it was ***"},
		{"https://h/x#secret=c4n4ry", "it was c4n4ry", "it was ***"},
		{"slack://hook:AAAAAAAA-BBBBBBBB-c4n4ry@webhook", "Post https://hooks.slack.com/AAAAAAAA/BBBBBBBB/c4n4ry: EOF", "Post https://***s.slack.com/***/***/***: EOF"},
		{"pushbullet://c4n4ryc4n4ry/dev", "no such token c4n4ryc4n4ry", "no such token ***"},
	} {
		if c.want == "" {
			c.want = c.err
		}
		if got := hidden(errors.New(c.err), c.raw).Error(); got != c.want {
			t.Errorf("%s: %q, want %q", c.raw, got, c.want)
		}
	}
}

func TestEvents(t *testing.T) {
	var e Events
	if err := e.UnmarshalText([]byte("skip, failure,skip")); err != nil || e.String() != "skip,failure" || !e.Has(Skip) || e.Has(Late) {
		t.Errorf("%v, %v", e, err)
	}
	for _, text := range []string{"", "failures", "failure,", "failure skip"} {
		if err := new(Events).UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "failure,blocked,skip,late,recovery") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestLines(t *testing.T) {
	if got := Lines("# ours\n\n  https://a \r\n\t# b\ncommand:x # y\nhttps://c/#secret=d"); strings.Join(got, "|") != "https://a|command:x # y|https://c/#secret=d" {
		t.Errorf("%q", got)
	}
}

// TestPingAt: the steps follow the path, and what was there stays as it was written.
func TestPingAt(t *testing.T) {
	for _, c := range []struct {
		raw  string
		step Step
		want string
	}{
		{"https://hc-ping.com/uuid", PingStart, "https://hc-ping.com/uuid/start?rid=r1"},
		{"https://hc-ping.com/uuid/", PingFail, "https://hc-ping.com/uuid/fail?rid=r1"},
		{"https://hc-ping.com/uuid", PingSuccess, "https://hc-ping.com/uuid?rid=r1"},
		{"https://h/a%2Fb?z=1&a=%20#x", PingFail, "https://h/a%2Fb/fail?z=1&a=%20&rid=r1"},
	} {
		p, err := ParsePing(c.raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.at(c.step, "r1").String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.raw, got, c.want)
		}
	}
}
