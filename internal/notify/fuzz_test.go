package notify

import (
	"strings"
	"testing"

	"github.com/onerun-dev/onerun/internal/fuzzbound"
)

// FuzzTarget: what a file or a flag has as the address of somebody to tell is understood or refused, in one line that repeats
// nothing of it but scheme and host; and where a message goes is what was written.
func FuzzTarget(f *testing.F) {
	for _, text := range []string{
		"https://hooks.example.com/c4n4ry/x?y=c4n4ry", "HTTP://ana:c4n4ry@127.0.0.1:8080", "https://h/x#secret=whsec_YzRuNHJ5", "https://h/x#secret=", "http://[::1%25c4n4ry]:1/", "http://h:0/", "http:///c4n4ry",
		"http://h/%2f/?a=%", "http://%41/", "command:curl c4n4ry", "command: ", "slack://hook:c4n4ry@webhook", "slack:c4n4ry", "generic+https://c4n4ry\n", "@/c4n4ry", "c4n4ry", ":", "", "# no\n\n http://h/ \r\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fuzzbound.Run(t, len(text), func() {
			for _, line := range append(Lines(text), text) {
				target, err := Parse(line)
				tell(t, line, Shown(line), err)
				if err == nil {
					tell(t, line, target.String(), nil)
					if target.Kind == Webhook && !strings.Contains(strings.ToLower(line), strings.ToLower(target.url.Scheme)+"://") {
						t.Errorf("%q goes to %s", line, target.url)
					}
				}
				ping, err := ParsePing(line)
				if err != nil {
					tell(t, line, "", err)
					continue
				}
				tell(t, line, ping.String(), nil)
				for _, step := range []Step{PingStart, PingSuccess, PingFail} {
					u := ping.at(step, "r&r")
					if again, err := webURL(u.String()); err != nil || again.Host != ping.url.Host || !strings.HasSuffix(again.Path, string(step)) || again.Query().Get("rid") == "" {
						t.Errorf("%q is pinged at %s: %v", line, u, err)
					}
				}
			}
		})
	})
}

// tell checks that what is shown of an address is one line, without what may be secret in it.
func tell(t *testing.T, text, shown string, err error) {
	t.Helper()
	if err != nil {
		shown += err.Error()
	}
	if !strings.HasPrefix(text, "@") && strings.ContainsAny(shown, "\n\r\x1b") { // a path is shown as it is written
		t.Errorf("%q is shown as %q", text, shown)
	}
	// A host may be shown, and a file's name; what has a scheme and then a path or a password may not.
	_, rest, _ := strings.Cut(text, "://")
	host, _, _ := strings.Cut(rest, "/")
	if !strings.HasPrefix(text, "@") && !strings.Contains(host[strings.LastIndexByte(host, '@')+1:], canary) && strings.Contains(shown, canary) {
		t.Errorf("%q is shown as %q", text, shown)
	}
}
