package config_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun/internal/config"
)

// moment is processor time, so that a busy machine fails nothing. It is many times what a case takes, under the race
// detector too, and a small part of what a parser takes whose time grows with the square.
const moment = time.Minute

func inAMoment(t *testing.T, what, text string) error {
	t.Helper()
	start := spent(t)
	_, err := config.Parse("onerun.yaml", []byte(text), schema())
	if took := spent(t) - start; took > moment {
		t.Errorf("%s: took %s", what, took)
	}
	return err
}

// spent is the processor time of this process so far.
func spent(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// What is repeated must neither take long nor overflow the stack, which can't be recovered from.
func TestRepeated(t *testing.T) {
	const size = config.MaxSize / 4 // a parser whose time grows with the square needs a minute for it
	for _, unit := range []string{
		"\n", " ", "\t", "- ", "-\n", "-", "? ", "! ", "!a ", "!!str ", "&a ", "&a\n", "*a ", "*a\n", "[", "[]", "[,", "{", "{}", "{a: ", "{,",
		"a: ", "a:\n", "a: b\n", "---\n", "...\n", "\"", "\"\t", "a\t", "\"a\n", "'", "''", "'\n", "|\n", ">\n ", "- |\n", "a: |\n b\n", "# \n", "#",
		"%a\n", "<", "<<: ", "<<:", "<< :\n", "a ", "a\n", " a\n", "\\", ":", ": ", ",", ", ", "@", "`", "\"\\\n", "a: &a [*a]\n", "&a a: *a\n", "\ra",
		"값: ", "[a: ", "[{", "]", "}", "- [\n", "\ta: b\n", "\"\\x", "| \n\t\n",
	} {
		for _, begin := range []string{"", `a: "`} {
			_ = inAMoment(t, fmt.Sprintf("%q many times after %q", unit, begin), begin+strings.Repeat(unit, size/len(unit)))
		}
	}
}

func TestBounds(t *testing.T) {
	numbered := func(format string, n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.ReplaceAll(format, "#", fmt.Sprint(i)))
		}
		return b.String()
	}
	deep := func(n int) string { return "alerts: " + strings.Repeat("[", n) + strings.Repeat("]", n) + "\n" }
	bomb := "alerts:\n  - &a0 {k: v}\n"
	for i := range 40 {
		bomb += fmt.Sprintf("  - &a%d {<<: [*a%d, *a%d], k%d: v}\n", i+1, i, i, i)
	}
	for _, c := range []struct{ name, text, want string }{
		{"depth", deep(31), ""},
		{"depth", deep(32), "1:40: more than 32 lists and mappings within each other"},
		{"depth of blocks", "alerts:\n" + numbered("- ", 33), "2:65: more than 32"},
		{"jobs", "jobs:\n" + numbered("  j#:\n    timeout: 5s\n    command: [a, b]\n", 5000), ""},
		{"keys", "jobs:\n" + numbered("  j#: {}\n", 20_000), "20001:3: the file has more than 20000 keys"},
		{"parts", "alerts: [" + numbered("#,", 80_000) + "]", " the file has more than 100000 parts"},
		{"key", strings.Repeat("k", 257) + ": v", "1:1: the key has more than 256 characters"},
		{"size", "#" + strings.Repeat("x", config.MaxSize), " the file is larger than 1024 KiB"},
		{"tabs", "a: \"" + strings.Repeat("\t", 1001), "1:1005: more than 1000 tabs"},
		{"bomb", bomb, ""},
		{"bomb", bomb + "jobs:\n  a: {<<: [" + strings.Repeat("*a40, ", 20_000) + "]}\n", "44:11: aliases and merge keys make more than 250000 values"},
		{"list", "jobs:\n  l:\n    command: &l [" + numbered("#, ", 1000) + "]\n" + numbered("  j#: {command: *l}\n", 1000), ":10: aliases and merge keys make more than"},
		{"chain", "alerts:\n  - &m0 {}\n" + numbered("  - &m1# {<<: *m1#, k#: v}\n", 1), "no anchor of this name"},
	} {
		err := inAMoment(t, c.name, c.text)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: gave %v, want %q", c.name, err, c.want)
		}
	}
}

// A file that is wrong from end to end gives a bounded list, and each error once.
func TestManyErrors(t *testing.T) {
	err := inAMoment(t, "many", strings.Repeat("jobz: 1\n", 20_000))
	var errs config.Errors
	if !errors.As(err, &errs) || len(errs) != 1000 {
		t.Errorf("%d errors, want 1000", len(errs))
	}
	shared := "jobs:\n  a: &a {timeout: x, oncrash: y}\n"
	for i := range 50 {
		shared += fmt.Sprintf("  j%d: *a\n", i)
	}
	if lines := refused(t, shared); len(lines) != 2 {
		t.Errorf("an anchor's errors are told %d times: %v", len(lines), lines)
	}
}
