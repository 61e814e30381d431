package cli

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestHelp: the help of every command fits a terminal, exits 0, and ends with its exit codes.
func TestHelp(t *testing.T) {
	b := newBed(t)
	for _, name := range append([]string{""}, names()...) {
		args := []string{"--help"}
		if name != "" {
			args = []string{name, "--help"}
		}
		r := b.run(args...).exits(t, 0)
		if r.err != "" || r.out == "" {
			t.Errorf("%s: %q on standard error", args, r.err)
		}
		for line := range strings.Lines(r.out) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
				t.Errorf("%s: a line of %d columns: %s", args, n, line)
			}
		}
		last := r.out[strings.LastIndex(r.out, "\n\n")+2:]
		if !strings.HasPrefix(last, "Exit codes: ") || !strings.Contains(last, "  64  wrong usage") {
			t.Errorf("%s ends with %q, not with its exit codes", args, last)
		}
		if name != "" && b.run(name, "-h").out != r.out {
			t.Errorf("%s -h says something else than --help", name)
		}
	}
	// What a command is for, and its flags, are said in words.
	all := b.run("--help").out
	if b.run().exits(t, 0).out != all {
		t.Error("without arguments onerun says something else than with --help")
	}
	for _, c := range commands {
		if !strings.Contains(all, "\n  "+c.name+" ") || !strings.HasSuffix(c.help, ".") {
			t.Errorf("%s: %q is not in the list of commands", c.name, c.help)
		}
		eachFlag(reflect.TypeOf(c.make()).Elem(), func(f reflect.StructField) {
			if f.Tag.Get("help") == "" {
				t.Errorf("%s: %s has no help", c.name, f.Name)
			}
		})
	}
}

// TestDocsNameEveryCommand: the guide names every command, and every exit code.
func TestDocsNameEveryCommand(t *testing.T) {
	text, err := os.ReadFile("../../../docs/usage.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names() {
		if name != "version" && !regexp.MustCompile("onerun "+name+`\b`).Match(text) {
			t.Errorf("docs/usage.md doesn't name onerun %s", name)
		}
	}
	for _, code := range regexp.MustCompile(`(?m)^ +(\d+)  |  (\d+)  `).FindAllStringSubmatch(exitHelps["run"]+exitErrors, -1) {
		if n := code[1] + code[2]; !regexp.MustCompile(`\b` + n + `\b`).Match(text) {
			t.Errorf("docs/usage.md doesn't name the exit code %s", n)
		}
	}
}

func names() (all []string) {
	for _, c := range commands {
		all = append(all, c.name)
	}
	return all
}

func eachFlag(t reflect.Type, do func(reflect.StructField)) {
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous {
			eachFlag(f.Type, do)
		} else {
			do(f)
		}
	}
}
