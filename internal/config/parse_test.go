package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/onerun-dev/onerun/internal/config"
)

// The example of SPEC.md, section 8.
const example = `store: "@/etc/onerun/store"          # or the URL
namespace: prod
timezone: Asia/Seoul
calendars: {kr: holidays-kr.ics}
alerts:
  ops: {url: "slack://…", on: [failure, stale, late, recovery]}
defaults: {notify: [ops], timeout: 1h}
jobs:
  daily-settlement:
    schedule: "0 1 * * *"
    period: day
    date: yesterday                  # relative to the slot, not to the start
    command: [./settle, --all]       # or  shell: "./a | ./b"
    on_crash: manual
    rerun: two-person
    catch_up: {policy: latest, window: 24h}
    overlap: skip
    start_by: 10m                    # after the slot, else an alert
    finish_by: 2h
`

func TestExample(t *testing.T) {
	f, err := config.Parse("/etc/onerun/onerun.yaml", []byte(example), schema())
	if err != nil {
		t.Fatal(err)
	}
	text := func(s string, line, column int) config.Value {
		return config.Value{Text: s, Line: line, Column: column}
	}
	note := func(line int, key, in, why string) config.Note {
		column := 5
		if in == "" {
			column = 1
		}
		return config.Note{Path: "/etc/onerun/onerun.yaml", Line: line, Column: column, In: in, Key: key, Why: why}
	}
	const job, none = "job daily-settlement", "this version has no scheduler"
	want := &config.File{
		Path: "/etc/onerun/onerun.yaml",
		Top: map[string]config.Value{
			"store": text("@/etc/onerun/store", 1, 8), "namespace": text("prod", 2, 12), "timezone": text("Asia/Seoul", 3, 11),
			"alerts": text("", 6, 3),
		},
		Defaults: map[string]config.Value{
			"notify": {List: []string{"ops"}, Line: 7, Column: 20}, "timeout": text("1h", 7, 36),
		},
		Jobs: map[string]map[string]config.Value{"daily-settlement": {
			"schedule": text("", 10, 15), "period": text("day", 11, 13), "date": text("yesterday", 12, 11),
			"command":  {List: []string{"./settle", "--all"}, Line: 13, Column: 14},
			"on_crash": text("manual", 14, 15), "rerun": text("two-person", 15, 12), "catch_up": text("", 16, 15),
			"overlap": text("", 17, 14), "start_by": text("", 18, 15), "finish_by": text("", 19, 16),
		}},
		Calendars: map[string]string{"kr": "/etc/onerun/holidays-kr.ics"},
		Later: []config.Note{
			note(5, "alerts", "", "this version sends no alerts"), note(10, "schedule", job, none),
			note(15, "rerun", job, "this version knows one person"), note(16, "catch_up", job, none),
			note(17, "overlap", job, none), note(18, "start_by", job, none), note(19, "finish_by", job, none),
		},
	}
	if diff := cmp.Diff(want, f, unseen); diff != "" {
		t.Error(diff)
	}
	if got, want := f.Later[1].String(), "/etc/onerun/onerun.yaml:10:5: schedule: this version has no scheduler"; got != want {
		t.Errorf("a note reads %q, want %q", got, want)
	}
}

func TestEmpty(t *testing.T) {
	for _, text := range []string{"", "\n\n", "# nothing yet\n", "---\n", "---\n...\n", "\ufeff", "\ufeff# x\r\n", "{}", "jobs: {}\ndefaults: {}\nredact: []\ncalendars: {}"} {
		f := parse(t, text)
		if n := len(f.Top) + len(f.Defaults) + len(f.Jobs) + len(f.Redact) + len(f.Calendars) + len(f.Later); n > 0 {
			t.Errorf("%q is not empty: %+v", text, f)
		}
	}
}

func TestValuesAsWritten(t *testing.T) {
	for _, c := range []struct{ written, want string }{
		{"1.10", "1.10"},
		{"007", "007"},
		{"0x1F", "0x1F"},
		{"1_000", "1_000"},
		{"1e3", "1e3"},
		{".inf", ".inf"},
		{"2026-09-15", "2026-09-15"},
		{"yes", "yes"},
		{"off", "off"},
		{`"true"`, "true"},
		{`'null'`, "null"},
		{"a#b", "a#b"},
		{"a # b", "a"},
		{"a:b", "a:b"},
		{"http://h/?q=1", "http://h/?q=1"},
		{"일일정산", "일일정산"},
		{`'it''s'`, "it's"},
		{`"tab\t\u00e9\\"`, "tab\té\\"},
		{"\ta", "a"},
		{"a\t", "a"},
		{"a\n  b", "a b"},
		{"|\n  # a\n    b\n", "# a\n  b\n"},
		{"| # note\n  a\n", "a\n"},
		{">-\n  a\n  b\n", "a b"},
		{"|\n  \tx\n", "\tx\n"},
		{`"a\
    b"`, "ab"},
		{"<<", "<<"},
	} {
		for _, end := range []string{"\n", "\r\n"} {
			text := "namespace: " + c.written + end + "timezone: x" + end
			if end == "\r\n" {
				text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n")
			}
			f := parse(t, text)
			if got := f.Top["namespace"].Text; got != c.want {
				t.Errorf("%q is read as %q, want %q", c.written, got, c.want)
			}
			if f.Top["timezone"].Text != "x" {
				t.Errorf("after %q: %+v", c.written, f.Top)
			}
		}
	}
}

func TestKinds(t *testing.T) {
	f := parse(t, `
jobs:
  a:
    retry_later: True
    label: {team: a, version: 1.10, on: true, empty: ""}
    command: [sleep, 5, true, "", 'a b', 0x1]
  b:
    command:
    - x
    -   y
    - |
      z
    retry_later: false
`[1:])
	want := map[string]map[string]config.Value{
		"a": {
			"retry_later": {Text: "true", Line: 3, Column: 18},
			"label":       {Map: map[string]string{"team": "a", "version": "1.10", "on": "true", "empty": ""}, Line: 4, Column: 12},
			"command":     {List: []string{"sleep", "5", "true", "", "a b", "0x1"}, Line: 5, Column: 14},
		},
		"b": {
			"command":     {List: []string{"x", "y", "z\n"}, Line: 8, Column: 5},
			"retry_later": {Text: "false", Line: 12, Column: 18},
		},
	}
	if diff := cmp.Diff(want, f.Jobs, unseen); diff != "" {
		t.Error(diff)
	}
}

func TestAliases(t *testing.T) {
	f := parse(t, `
alerts: {common: &common {timeout: 1h, on_crash: manual}, more: &more {ttl: 5s, timeout: 2h}}
defaults: &d
  <<: *more
jobs:
  a: &a
    <<: [*common, *more]
    command: &c [./a, &word x]
  b:
    on_crash: auto
    <<: *a
    version_label: *word
  c:
    <<: {ttl: 7s}
    command: *c
  d: *d
  e: {command: [*word, b]}
  <<: {f: {shell: x}, a: {shell: y}}
`[1:])
	value := func(job, key string) string {
		v := f.Jobs[job][key]
		if v.List != nil {
			v.Text = "["
			for _, s := range v.List {
				v.Text += s + " "
			}
		}
		return v.Text
	}
	for _, c := range []struct{ job, key, want string }{
		{"a", "timeout", "1h"},
		{"a", "on_crash", "manual"},
		{"a", "ttl", "5s"},
		{"a", "command", "[./a x "},
		{"a", "shell", ""},
		{"b", "on_crash", "auto"},
		{"b", "timeout", "1h"},
		{"b", "command", "[./a x "},
		{"b", "version_label", "x"},
		{"c", "ttl", "7s"},
		{"c", "command", "[./a x "},
		{"d", "timeout", "2h"},
		{"e", "command", "[x b "},
		{"f", "shell", "x"},
	} {
		if got := value(c.job, c.key); got != c.want {
			t.Errorf("%s of %s is %q, want %q", c.key, c.job, got, c.want)
		}
	}
	if v := f.Jobs["b"]["timeout"]; v.Line != 1 || v.Column != 36 {
		t.Errorf("a merged value stands at %d:%d, want 1:36, where it is written", v.Line, v.Column)
	}
	if f.Defaults["ttl"].Text != "5s" {
		t.Errorf("defaults: %+v", f.Defaults)
	}
}

func TestNamesInNFC(t *testing.T) {
	f := parse(t, "jobs:\n  caf\u0065\u0301: {timeout: 1s}\ncalendars: {\u1112\u1161\u11ab: /a.ics}\n")
	if f.Jobs["caf\u00e9"] == nil || f.Calendars["\ud55c"] == "" {
		t.Errorf("%+v", f)
	}
}

func TestRedactAndCalendars(t *testing.T) {
	f, err := config.Parse("conf/onerun.yaml", []byte("redact: ['card=\\d+', \"x+\"]\ncalendars:\n  kr: a/../kr.ics\n  us: /etc/us.ics\n"), schema())
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Redact) != 2 || f.Redact[0].ReplaceAllString("card=12;", "*") != "*;" {
		t.Errorf("redact: %v", f.Redact)
	}
	if diff := cmp.Diff(map[string]string{"kr": "conf/kr.ics", "us": "/etc/us.ics"}, f.Calendars); diff != "" {
		t.Error(diff)
	}
}

// unseen leaves the places of items to TestItems.
var unseen = cmpopts.IgnoreUnexported(config.Value{})

// TestItems: each item of a list has its own place, one that came in by an alias where that stands.
func TestItems(t *testing.T) {
	f, err := config.Parse("f", []byte("jobs:\n  a:\n    command: [x,\n      y]\n  b: {command: [&a z, *a]}\n"), schema())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		job, text       string
		i, line, column int
	}{
		{"a", "x", 0, 3, 15},
		{"a", "y", 1, 4, 7},
		{"b", "z", 0, 5, 17},
		{"b", "z", 1, 5, 23},
	} {
		if v := f.Jobs[c.job]["command"].Item(c.i); v.Text != c.text || v.Line != c.line || v.Column != c.column {
			t.Errorf("item %d of %s is %+v", c.i, c.job, v)
		}
	}
}
