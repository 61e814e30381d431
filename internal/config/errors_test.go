package config_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/config"
)

func TestRefused(t *testing.T) {
	const empty = "the value is empty; give it one, or leave the key out"
	const colon = `": " can't stand in this value; put the value in quotes, or, if a key is meant, indent it like the one above`
	for _, c := range []struct {
		text string
		want string
	}{
		// Keys.
		{"jobs:\n  a:\n    tiemout: 5s", `3:5: unknown key "tiemout"; did you mean "timeout"?`},
		{"jobs:\n  a: {ttl: 5s, on-crash: auto}", `2:16: unknown key "on-crash"; did you mean "on_crash"?`},
		{"jobs:\n  a:\n    onCrash: auto", `3:5: unknown key "onCrash"; did you mean "on_crash"?`},
		{"defaults: {zzz: 1}", `1:12: unknown key "zzz"`},
		{"defalts: {}", `1:1: unknown key "defalts"; did you mean "defaults"?`},
		{"timeout: 5s", `1:1: unknown key "timeout": it belongs below a job or below defaults`},
		{"defaults: {namespace: x}", `1:12: unknown key "namespace": it belongs to the top of the file`},
		{"defaults: {jobs: x}", `1:12: unknown key "jobs": it belongs to the top of the file`},
		{"defaults: {shell: x}", `1:12: shell has no place in defaults: each job has its own`},
		{"defaults: {command: [x]}", `1:12: command has no place in defaults: each job has its own`},
		{"namespace: a\n# x\nnamespace: b", `3:1: the key "namespace" stands here and in line 1; keep one`},
		{"alerts: {a: 1, 'a': 2}", `1:16: the key "a" stands here and in line 1; keep one`},
		{"jobs:\n  a: {shell: x}\n  b: {}\n  a: {}", `4:3: the key "a" stands here and in line 2; keep one`},
		{"jobs:\n  \u00e9a: {}\n  e\u0301a: {}", `3:3: the job "éa" stands here and in line 2, written in another way; keep one`},
		{"calendars:\n  \u00e9a: x\n  e\u0301a: y", `3:3: the calendar "éa" stands here and in line 2, written in another way; keep one`},
		{"alerts: {<<: {}, <<: {}}", `1:18: the key "<<" stands here and in line 1; keep one`},
		{"jobs:\n  a/b: {}", `2:3: job "a/b": holds "/"; allowed are letters, digits and . _ -`},
		{"jobs:\n  \"\": {}", `2:3: job "": is empty; give it 1 to 100 letters, digits, '.', '_' or '-'`},
		{"jobs:\n  \"a\\nb\": {}", `2:3: job "a\nb": holds "\n"; allowed are letters, digits and . _ -`},
		{"alerts: {[a]: b}", "1:13: a key has to be a word"},
		{"alerts: {a: &x y, *x : b}", `1:19: a key has to be a word`},
		{"? namespace\n: x", `1:1: a key that starts with "? " has no place here; write KEY: VALUE`},
		{"jobs:\n  a:\n    shell: x\n    command: [y]", `4:5: command and shell in one job, the other in line 3; keep one`},
		{"jobs:\n  a: &a {command: [y]}\n  b:\n    <<: *a\n    shell: x", `5:5: command and shell in one job, the other in line 2; keep one`},

		// Values.
		{"jobs:\n  a:\n    shell: rm a\tb", `3:12: a tab stands within this value, and would be lost; put the value in quotes`},
		{"jobs:\n  a: {shell: rm a\tb}", `2:14: a tab stands within this value, and would be lost; put the value in quotes`},
		{"jobs:\n  a:\n    shell: * * *", `3:12: a * has another meaning here; put the value in quotes`},
		{"namespace:", "1:1: namespace: " + empty},
		{"jobs:\n  a:\n    timeout:\n    ttl: 5s", "3:5: timeout: " + empty},
		{"namespace: ~", "1:12: namespace: " + empty},
		{"namespace:\n  null", "2:3: namespace: " + empty},
		{`namespace: ""`, "1:12: namespace: " + empty},
		{"namespace: |\njobs: {}", "1:12: namespace: " + empty},
		{"jobs:", "1:1: jobs: " + empty},
		{"jobs:\n  a:", "2:3: a: " + empty},
		{"alerts:", "1:1: alerts: " + empty},
		{"namespace: &x", "1:12: the anchor has no value"},
		{"jobs:\n  a: {ttl: 5s}\n  b: &x\n  c: {}", "3:3: b: " + empty},
		{"namespace: true", "1:12: namespace: this is true or false; a word is wanted here; if this is the word, put it in quotes"},
		{"namespace: [a]", "1:12: namespace: this is a list; one value is wanted here"},
		{"namespace:\n  a: b", "2:3: namespace: this is a mapping; one value is wanted here"},
		{"jobs: x", "1:7: jobs: this is one value; a mapping is wanted here, JOB: {KEY: VALUE}"},
		{"jobs: [x]", "1:7: jobs: this is a list; a mapping is wanted here, JOB: {KEY: VALUE}"},
		{"jobs:\n  a: ./x", "2:6: a: this is one value; a mapping is wanted here, KEY: VALUE"},
		{"jobs:\n  a:\n    command: ./x --all", "3:14: command: this is one value; a list is wanted here, [A, B] or a line with - for each"},
		{"jobs:\n  a:\n    command: []", "3:14: command: the list is empty; name a program"},
		{"jobs:\n  a:\n    command: [a, [b]]", "3:18: command: an item of the list has to be one value, not a list or a mapping"},
		{"jobs:\n  a:\n    command: [a, ~]", `3:18: command: an item of the list is empty; write "" for an empty text, and put null and ~ in quotes`},
		{"jobs:\n  a:\n    command:\n    - a\n    -\n    - b", `3:5: command: an item of the list is empty; write "" for an empty text, and put null and ~ in quotes`},
		{"jobs:\n  a:\n    command: [\"a\\0\"]", "3:15: command: the value holds a NUL character, which no program can be given"},
		{"jobs:\n  a:\n    label: [x]", "3:12: label: this is a list; a mapping is wanted here, {NAME: VALUE} or a line with NAME: VALUE for each"},
		{"jobs:\n  a:\n    label: {x: [y]}", `3:16: label: the value of "x" has to be one value, not a list or a mapping`},
		{"jobs:\n  a:\n    label:\n      x:", `4:7: label: the value of "x" is empty; write "" for an empty text, and put null and ~ in quotes`},
		{"jobs:\n  a:\n    label: {ok: y, bad: z}", `3:25: label: "bad=z" is no label`},
		{"jobs:\n  a:\n    retry_later: yes", `3:18: retry_later: true or false is wanted here, without quotes; did you mean "true"?`},
		{"jobs:\n  a:\n    retry_later: \"false\"", `3:18: retry_later: true or false is wanted here, without quotes; did you mean "false"?`},
		{"jobs:\n  a:\n    retry_later: [a]", `3:18: retry_later: true or false is wanted here, without quotes`},
		{"jobs:\n  a:\n    timeout:   90x  # c", `3:16: timeout: "90x" is no duration; write for example 90s`},
		{"store_timeout: 90x", `1:16: store_timeout: "90x" is no duration; write for example 90s`},
		{"redact: [a, 'b(']", "1:13: redact: not a regular expression (RE2): missing closing )"},
		{"redact:\n- a*", "2:3: redact: the expression matches the empty text, so it would mask everywhere"},
		{"calendars: {kr: [a]}", "1:17: kr: this is a list; one value is wanted here"},
		{"calendars: {a b: x}", `1:13: calendar "a b": holds " "; allowed are letters, digits and . _ -`},

		// Aliases.
		{"jobs:\n  a:\n    <<: *x\n  b: &x {}", "3:9: no anchor of this name stands above; put a value that starts with * in quotes"},
		{"jobs:\n  a: &base {}\n  b: *bsae", `3:6: no anchor of this name stands above; put a value that starts with * in quotes; did you mean "base"?`},
		{"alerts: &x [*x]", "1:13: no anchor of this name stands above; put a value that starts with * in quotes"},
		{"jobs:\n  a:\n    <<: 5\n    ttl: 5s", "3:9: << takes a mapping, as in <<: *NAME, or a list of mappings"},
		{"jobs:\n  a: &a {ttl: x}\n  b: *a", `2:15: ttl: "x" is no duration; write for example 90s`},
		{"jobs:\n  a: {schedule: * 1 * * *}", "2:17: a * has another meaning here; put the value in quotes"},

		// The text.
		{"namespace: x\n\ttimezone: y", "2:1: a tab indents this line; indent with spaces"},
		{"jobs:\n  a:\n  \t  ttl: 5s", "3:3: a tab indents this line; indent with spaces"},
		{"jobs:\n \ta: {}", "2:2: a tab indents this line; indent with spaces"},
		{"namespace: x\n---\nnamespace: y", "2:1: a second document starts here; a file holds one"},
		{"---\nnamespace: x\n--- {}", "3:1: a second document starts here; a file holds one"},
		{"namespace: x\n...\ntimezone: y", "3:1: the document ended with the line ..., so nothing can follow"},
		{"namespace: x\nt\xffz", "2:2: the byte 0xFF is not valid UTF-8; save the file as UTF-8"},
		{"\xff\xfen\x00", "1:1: the byte 0xFF is not valid UTF-8; save the file as UTF-8"},
		{"namespace: x\x00y", `1:13: the control character '\x00' can't stand in a file; write "\x00" in double quotes`},
		{"%YAML 1.2\n---\nnamespace: x", "1:1: a line that starts with % has no place here; leave it out"},
		{"namespace: !!str 5", "1:12: tags have no place here; put a text that starts with ! in quotes, and one that looks like a number too"},
		{"timezone: x\nnamespace: !x", "2:12: tags have no place here; put a text that starts with ! in quotes, and one that looks like a number too"},
		{"just a word", "1:1: the file has to be a mapping, KEY: VALUE on each line"},
		{"\n- a", "2:1: the file has to be a mapping, KEY: VALUE on each line"},
		{"jobs:\n  a: {ttl: 5s", "2:6: the closing } is missing"},
		{"jobs:\n  a:\n    command: [x, y", "3:14: the closing ] is missing"},
		{"jobs:\n  a:\n    command: [x, y\n    ttl: 5s", "4:5: a comma or the closing bracket is missing before this"},
		{"namespace: \"x\ntimezone: y", "1:12: the closing quote is missing"},
		{"namespace: 'x", "1:12: the closing quote is missing"},
		{`namespace: "a\qb"`, `1:14: \q means nothing in double quotes; write \\ for a backslash, or use single quotes`},
		{`namespace: "a\x4g"`, `1:14: \x needs hexadecimal digits after it; write \\ for a backslash`},
		{"namespace: \"a\n  \\u12\"", `2:3: \u needs hexadecimal digits after it; write \\ for a backslash`},
		{"store: @/etc/store", "1:8: '@' can't start a value; put the value in quotes"},
		{"namespace: x: y", "1:13: " + colon},
		{"namespace: x\n  timezone: y", "2:11: " + colon},
		{"namespace: x\ntimezone y", "2:1: KEY: VALUE is wanted here"},
		{"jobs:\n  a:\n    schedule: */5 * * * *", "3:19: a * has another meaning here; put the value in quotes"},
		{"namespace: |x\n  y", "1:12: after | or > stands something else than an indentation and + or -; put a value that starts with one in quotes"},
		{"|\n#", "1:1: the text that belongs to | or > is missing, or not indented"},
		{"namespace: &a &b x", "1:15: two anchors for one value; keep one"},
	} {
		if got := refused(t, c.text); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%q\n gave %s\nwant %s", c.text, strings.Join(got, "\n     "), c.want)
		}
		// Neither a byte order mark nor the way lines end moves a place.
		if crlf := refused(t, "\ufeff"+strings.ReplaceAll(c.text, "\n", "\r\n")); !slices.Equal(crlf, []string{c.want}) && c.text[0] != 0xff {
			t.Errorf("%q with CRLF\n gave %s\nwant %s", c.text, strings.Join(crlf, "\n     "), c.want)
		}
	}
}

func TestAllErrorsInOrder(t *testing.T) {
	text := `
store: mysql://x
jobs:
  a: {timeout: 5x, oncrash: auto}
  b c:
    ttl: 7y
redact: ["("]
nmespace: 값이 여기
defaults: {retry_later: 1, shell: x}
`[1:]
	want := []string{
		"1:8: store: parse *** unknown scheme, at ***",
		`3:16: timeout: "5x" is no duration; write for example 90s`,
		`3:20: unknown key "oncrash"; did you mean "on_crash"?`,
		`4:3: job "b c": holds " "; allowed are letters, digits and . _ -`,
		`5:10: ttl: "7y" is no duration; write for example 90s`,
		"6:10: redact: not a regular expression (RE2): missing closing )",
		`7:1: unknown key "nmespace"; did you mean "namespace"?`,
		`8:25: retry_later: true or false is wanted here, without quotes; did you mean "true"?`,
		"8:28: shell has no place in defaults: each job has its own",
	}
	if diff := cmp.Diff(want, refused(t, text)); diff != "" {
		t.Error(diff)
	}
	_, err := config.Parse("onerun.yaml", []byte(text), schema())
	if got := err.Error(); got != "onerun.yaml:"+want[0]+" (and 8 more)" {
		t.Errorf("all of them read %q", got)
	}
	if !errors.Is(err, onerun.ErrConfig) || errors.Is(err, onerun.ErrUsage) {
		t.Error("not an ErrConfig alone")
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	const secret = "hunter2"
	for _, text := range []string{
		"store: postgres://user:hunter2@db/x",
		"store: 'postgres://user:p%40hunter2@db/x'",
		"store: \"postgres://user:hünter2 hunter2@db/x\"",
		"store: [hunter2]",
		"store: {hunter2: x}\nnamespace: [",
		"store: !hunter2",
		"store: *hunter2",
		"store: |hunter2\n  x",
		"store: @hunter2",
		"store: \"hunter2",
		"store: hunter2: x",
		"store: &hunter2",
		"store: \"hunter2\\q\"",
		"store: hunter2\n hunter2: x",
		"store hunter2",
		"store: [hunter2",
		"jobs: {a: {notify: [hunter2]}}",
		"jobs: {a: {notify: [\"x y hunter2\"]}}",
		"jobs: {a: {notify: hunter2}}",
		"redact: ['hunter2(']",
		"redact: hunter2",
	} {
		for _, line := range refused(t, text) {
			if strings.Contains(strings.ToLower(line), secret) || strings.Contains(line, "nter2") {
				t.Errorf("%q\ngives away its secret: %s", text, line)
			}
		}
	}
	s := schema()
	s.Job["label"] = config.Key{Kind: config.Map, Check: func(text string) error { return errors.New("not " + text) }}
	_, err := config.Parse("f", []byte("jobs: {a: {label: {db_password: hunter2}}}"), s)
	if err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("a label's secret: %v", err)
	}
}

// TestMaskLeavesTheWords: what a message says itself isn't masked because a secret has a letter or two of it, and a short secret is.
func TestMaskLeavesTheWords(t *testing.T) {
	s := schema()
	for _, c := range []struct {
		value, says string
		plain       bool
		want        string
	}{
		{"nonsense://x", `"nonsense" is no way to tell anybody; use http`, false, "*** is no way to tell anybody; use http"},
		{"nonsense://x", `"nonsense" is no way to tell anybody; use http`, true, `"nonsense" is no way to tell anybody; use http`},
		{"x:abc", `the key "abc" is a bad one, and so is x`, false, "the key *** is a bad one, and so is ***"},
		{"x:hunter2", `the end of it, "nter2", is a bad one`, false, "the end of it, *** is a bad one"},
	} {
		s.Top["webhook"] = config.Key{Check: func(string) error {
			if c.plain {
				return config.Plain{Err: errors.New(c.says)}
			}
			return errors.New(c.says)
		}}
		_, err := config.Parse("f", []byte("webhook: "+c.value), s)
		if err == nil || err.Error() != "f:1:10: webhook: "+c.want {
			t.Errorf("%s gives %v\nwant %s", c.value, err, c.want)
		}
	}
}

// Whatever an error quotes, it stays on its line and doesn't write to the terminal.
func TestErrorsAreOneLine(t *testing.T) {
	s := schema()
	s.Top["namespace"] = config.Key{Check: func(text string) error { return errors.New("bad\n\x1b[31m" + text) }}
	_, err := config.Parse("dir\n/f.yaml", []byte("namespace: \"\\e[1m\\n\"\n\"a\\e\\nb\": c"), s)
	var errs config.Errors
	if !errors.As(err, &errs) || len(errs) != 2 {
		t.Fatal(err)
	}
	for _, e := range errs {
		if strings.ContainsAny(e.Error(), "\n\x1b") {
			t.Errorf("%q", e.Error())
		}
	}
}
