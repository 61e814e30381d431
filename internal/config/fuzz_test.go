package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun/internal/config"
)

// Whatever the file: an answer, soon, and every place in it is one of the file.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		example, "", "\ufeff# x\r\n", "a: &a [*a]", "jobs:\n  a: &a\n    <<: [*b, {ttl: 5s}]\n", "namespace: |\n  x\n\n y\n", "namespace: \"a\\u12\n  b\"\n",
		"jobs:\n  a: {label: {x: 1.10, y: 'z'}, retry_later: yes}\n", "- - - a\n", "? a\n: b\n", "%YAML 1.2\n---\na: !!str b\n...\n", "a:\t- b\n\tc: d\n",
		"redact: ['(']\ncalendars: {a: b}\n", "namespace: a\n b # c\n\n d\n", "jobs: {a: {command: [\"x\ty\", z]}}", "namespace: >2-\n   a\n  b\n# c\n",
		"defaults: &d {ttl: 5s}\njobs: {a: *d, b: {<<: *d}, c: &c , d: *c}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		start := spent(t)
		file, err := config.Parse("f", text, schema())
		if took := spent(t) - start; took > moment {
			t.Errorf("took %s", took)
		}
		norm := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(string(text), "\ufeff"))
		lines := strings.Split(norm, "\n")
		check := func(line, column int, what string) []rune {
			if line < 1 || line > len(lines) || column < 1 || column > len([]rune(lines[line-1]))+1 {
				t.Fatalf("%s at %d:%d, which is no place of the file", what, line, column)
			}
			return []rune(lines[line-1])[column-1:]
		}
		if err != nil {
			var errs config.Errors
			if !errors.As(err, &errs) || usable(file) {
				t.Fatalf("%v with %v", err, file)
			}
			for i, e := range errs {
				if strings.ContainsAny(e.Error(), "\n\r\x1b") || strings.Contains(e.Message, "parser failed") {
					t.Errorf("error %q", e.Error())
				}
				if e.Line != 0 {
					check(e.Line, e.Column, e.Error())
				}
				if i > 0 && (e.Line < errs[i-1].Line || e.Line == errs[i-1].Line && e.Column < errs[i-1].Column) {
					t.Errorf("out of order: %v", errs)
				}
			}
			return
		}
		// A value stands where it is said to stand.
		for key, v := range file.Top {
			rest := check(v.Line, v.Column, key)
			if v.Text != "" && (len(rest) == 0 || !strings.ContainsRune("\"'|>", rest[0]) && rest[0] != []rune(v.Text)[0]) {
				t.Errorf("%s is %q, but at %d:%d stands %q", key, v.Text, v.Line, v.Column, string(rest))
			}
		}
	})
}
