package importer

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"
)

// moment is processor time, so that a busy machine fails nothing. It is many times what an import takes, under the race
// detector too, and a small part of what one takes whose time grows with the square.
const moment = 30 * time.Second

// spent is the processor time of this process so far.
func spent(t testing.TB) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// imports are all ways in which a text can be taken.
func imports(text string) map[string]func() Result {
	o := Options{Zone: "UTC", Now: newYear}
	service := Options{Zone: "UTC", Now: newYear, Files: fstest.MapFS{"t.service": &fstest.MapFile{Data: []byte(text)}}}
	return map[string]func() Result{
		"crontab":    func() Result { return Crontab("c", []byte(text), o) },
		"system":     func() Result { return Crontab("etc/cron.d/c", []byte(text), o) },
		"anacron":    func() Result { return Crontab("anacrontab", []byte(text), o) },
		"timer":      func() Result { return Systemd("t.timer", []byte(text), o) },
		"service":    func() Result { return Systemd("t.timer", []byte("[Timer]\nOnCalendar=daily\n"), service) },
		"kubernetes": func() Result { return Kubernetes("k", []byte(text), o) },
	}
}

// What is repeated, or long, must neither take long, nor overflow the stack, nor make a file that is refused.
func TestRepeated(t *testing.T) {
	const size = 10 << 10
	begins := map[string]string{"crontab": "* * * * * ", "timer": "[Timer]\nOnCalendar=", "service": "[Service]\nExecStart=", "kubernetes": "a: \""}
	for _, unit := range []string{
		"\n", " ", "a", "\r", "\r\n", "#", "# BEGIN x\n", "# x\n", "#* * * * * x\n", "* * * * * x\n", "* ", "*,", "* * * * * 0/1,0/1 x\n", "@daily x\n", "@", "A=b\n", "A", "=",
		"%", "\\%", "\\", "'", "\"", "$(", "`", "<", "\t", "\x00", "\xff", "\u2028", "* * * * * x%y\n", "* * * * * \\%\\%\\%\n", "0 0 29 2 * x\n", "x x x x x x\n", "0-59/7,0~3 ",
		"# BEGIN ANSIBLE MANAGED BLOCK\n# END ANSIBLE MANAGED BLOCK\n", "1 5 a b\n",
		"[Timer]\nOnCalendar=daily\n", "OnCalendar=*-*-1..7\n", "OnCalendar=", "1,", "1..2/3,", "[", "]", "\\\n", "[Service]\nExecStart=/bin/x\n", "Environment=A=b\n", "${A}",
		"- ", "-\n", "? ", "! ", "!a ", "&a ", "*a ", "{", "{}", "[]", "{a: ", "{{", "---\n", "--- a\n", "a: b\n", "a:\n", "- |\n", "|\n", "<<: ", "a: &a [*a]\n", "'\n", ": ", ", ",
		"kind: CronJob\n---\n", "kind: List\n", "\ta: b\n", "%\n", "...\n", "a: >\n  b\n", "- [\n", "\"\\x", "1h ", "9", "1.",
	} {
		for kind, begin := range begins {
			for _, text := range []string{strings.Repeat(unit, size/len(unit)), begin + strings.Repeat(unit, size/len(unit))} {
				start := spent(t)
				r := imports(text)[kind]()
				if took := spent(t) - start; took > moment {
					t.Errorf("%s: %q many times in %.20q…: took %s", kind, unit, text, took)
				}
				readBack(t, r)
				if len(r.Reports) > maxReports+1 {
					t.Errorf("%s: %q many times in %.20q…: %d reports", kind, unit, text, len(r.Reports))
				}
			}
		}
	}
}

func TestTooLarge(t *testing.T) {
	for kind, do := range imports(strings.Repeat("# a comment\n", MaxSize/12+1)) {
		if r := do(); !r.Lost() {
			t.Errorf("%s: a file that is too large is taken", kind)
		} else {
			readBack(t, r)
		}
	}
	// Jobs beyond what a configuration can hold are told, and what comes before them is there.
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "%d * * * * /srv/job-%d\n", i%60, i)
	}
	r := Crontab("c", []byte(b.String()), Options{Zone: "UTC"})
	if f := readBack(t, r); len(f.Jobs) != maxJobs || !r.Lost() || r.Reports[0].Line != maxJobs+1 {
		t.Errorf("%d jobs, the first report %v", len(f.Jobs), r.Reports[0])
	}
	last := r.Reports[len(r.Reports)-1]
	if want := fmt.Sprintf("c:5000: and %d reports more", 5000-maxJobs-maxReports); !strings.HasPrefix(last.String(), want) {
		t.Errorf("the last report is %q, want %q", last, want)
	}
}

// Variables of variables can stand for as much.
func TestVariablesOfVariables(t *testing.T) {
	var b strings.Builder
	b.WriteString("env: [{name: A0, value: x}")
	for i := 1; i < 60; i++ {
		fmt.Fprintf(&b, ", {name: A%d, value: '$(A%d)$(A%d)'}", i, i-1, i-1)
	}
	b.WriteString("], args: [" + strings.Repeat("$(A59), ", 20_000) + "x]")
	start := spent(t)
	r := Kubernetes("k", []byte(strings.Replace(cronJobText("", ""), "command: [a, b]", "command: [a], "+b.String(), 1)), Options{})
	if took := spent(t) - start; took > moment || len(r.jobs) > 0 || !r.Lost() {
		t.Errorf("took %s: %d jobs, %v", took, len(r.jobs), r.Reports)
	}
	readBack(t, r)
	for _, unit := range []string{"$", "$(", "$(A)", "$()"} {
		start := spent(t)
		text := "command: [sh, '" + strings.Repeat(unit, 200_000) + "'], env: [{name: A, value: '" + strings.Repeat(unit, 100_000) + "'}]"
		readBack(t, Kubernetes("k", []byte(strings.Replace(cronJobText("", ""), "command: [a, b]", text, 1)), Options{}))
		if took := spent(t) - start; took > moment {
			t.Errorf("%s many times: took %s", unit, took)
		}
	}
}

// A few lines of aliases of aliases can stand for millions of values, and keep nobody busy.
func TestAliasesOfAliases(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 {k: v}\n")
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&b, "a%d: &a%d {x: *a%d, y: *a%d}\n", i, i, i-1, i-1)
	}
	r := Kubernetes("k", []byte(b.String()), Options{})
	if !r.Lost() || !strings.Contains(r.Reports[0].Text, "values") {
		t.Errorf("%v", r.Reports)
	}
}
