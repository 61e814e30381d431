package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// logged is one line of the log with its fields in their order.
type logged struct {
	names  []string
	values map[string]any
}

func readLog(t testing.TB, text string) (lines []logged) {
	t.Helper()
	for line := range strings.Lines(text) {
		l := logged{values: map[string]any{}}
		d := json.NewDecoder(strings.NewReader(line))
		if _, err := d.Token(); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				t.Fatalf("%v in %q", err, line)
			}
			var v any
			if err := d.Decode(&v); err != nil {
				t.Fatalf("%v in %q", err, line)
			}
			l.names = append(l.names, name.(string))
			l.values[name.(string)] = v
		}
		lines = append(lines, l)
	}
	return lines
}

const (
	every   = "time level event namespace store job"
	keyed   = every + " key business_date"
	ofClaim = "attempt run_id worker pid lock lock_path"
	ofEnd   = "started_at finished_at duration_ms"
)

// TestLogFields: every event has the documented fields that apply to it, in their order,
// and no others.
func TestLogFields(t *testing.T) {
	for _, c := range []struct {
		what string
		args []string
		want map[string]string // by event
	}{
		{"a success", []string{"--date", "2026-09-15", "--", "true"}, map[string]string{
			"claimed":  keyed + " " + ofClaim + " acquired token",
			"started":  keyed + " " + ofClaim + " token",
			"finished": keyed + " " + ofClaim + " token exit_code " + ofEnd,
		}},
		{"an unkeyed one", []string{"--", "true"}, map[string]string{
			"claimed":  every + " " + ofClaim + " acquired token",
			"started":  every + " " + ofClaim + " token",
			"finished": every + " " + ofClaim + " token exit_code " + ofEnd,
		}},
		{"a failure", []string{"--", "false"}, map[string]string{
			"failed": every + " " + ofClaim + " token reason exit_code " + ofEnd + " error",
		}},
		{"a signal", []string{"-c", "kill -9 $$"}, map[string]string{
			"failed": every + " " + ofClaim + " token reason exit_code signal " + ofEnd + " error",
		}},
		{"no such command", []string{"--", "./no-such-command"}, map[string]string{
			"failed": every + " " + ofClaim + " token reason exit_code " + ofEnd + " errno error",
		}},
		{"a timeout", []string{"--timeout", "1ms", "--", "sleep", "1000"}, map[string]string{
			"timeout": every + " " + ofClaim + " token error",
			"failed":  every + " " + ofClaim + " token reason exit_code signal " + ofEnd + " error",
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			b := newBed(t)
			r := b.run(append([]string{"run", "settle", "--log-format", "json", "--log-level", "info"}, c.args...)...)
			checkFields(t, readLog(t, r.err), c.want)
		})
	}
}

func checkFields(t *testing.T, lines []logged, want map[string]string) {
	t.Helper()
	left := maps.Clone(want)
	for _, l := range lines {
		event := l.values["event"].(string)
		if w, ok := want[event]; ok && strings.Join(l.names, " ") != w {
			t.Errorf("%s has the fields\n%s, want\n%s", event, strings.Join(l.names, " "), w)
		}
		delete(left, event)
		for _, name := range []string{"time", "started_at", "finished_at"} {
			if v, ok := l.values[name]; ok && typeOf(v) != "time" {
				t.Errorf("%s of %s is %v, not RFC 3339 with an offset", name, event, v)
			}
		}
		for _, name := range []string{"pid", "attempt", "token", "exit_code", "duration_ms"} {
			if v, ok := l.values[name]; ok && typeOf(v) != "int" {
				t.Errorf("%s of %s is %v, no number", name, event, v)
			}
		}
	}
	if len(left) > 0 {
		t.Errorf("no line for %v", slices.Sorted(maps.Keys(left)))
	}
}

// Those of a refusal, and of what a claim found dead on its way.
func TestLogFieldsOfRefusals(t *testing.T) {
	b := newBed(t)
	flags := []string{"--log-format", "json", "--log-level", "info"}
	job := b.start("run", "settle", "--date", "2026-09-15", "--", "sh", "-c", "echo up; read x")
	job.says("up")
	skipped := keyed + " worker pid lock acquired reason holder holder_age"
	r := b.run(append([]string{"run", "settle", "--date", "2026-09-15", "--worker-label", "box1", "--", "true"}, flags...)...)
	r.silent(t) // the flags came too late: they are the command's
	r = b.run(append(append([]string{"run", "settle", "--date", "2026-09-16", "--worker-label", "box1"}, flags...), "--", "true")...)
	lines := readLog(t, r.err)
	checkFields(t, lines, map[string]string{"skipped": skipped})
	if v := lines[0].values; v["reason"] != "locked" || v["acquired"] != false || v["worker"] != "box1" || !strings.HasPrefix(v["holder"].(string), "settle:2026-09-15 by ") {
		t.Errorf("skipped: %v", v)
	}
	r = b.run(append(append([]string{"run", "settle", "--date", "2026-09-16"}, flags...), "--", "true")...)
	checkFields(t, readLog(t, r.err), map[string]string{"skipped": skipped + " count"})
	job.signal(syscall.SIGSTOP) // else its guard may close the run first
	job.signalGuard(syscall.SIGKILL)
	job.die()
	r = b.run(append(append([]string{"run", "settle", "--date", "2026-09-15"}, flags...), "--", "true")...).exits(t, 79)
	lines = readLog(t, r.err)
	checkFields(t, lines, map[string]string{
		"taken_over": keyed + " attempt run_id worker pid lock reason started_at detail",
		"skipped":    skipped + " next",
	})
	if v := lines[0].values; v["reason"] != "owner_died" || v["pid"] != float64(job.cmd.Process.Pid) || v["level"] != "warn" {
		t.Errorf("taken over: %v", v)
	}
}

// On a terminal the log begins at info, unless it goes to a file; elsewhere at warn.
func TestLogLevelOnTerminal(t *testing.T) {
	b := newBed(t)
	for _, c := range []struct {
		args []string
		want string // the events
	}{
		{nil, "claimed started finished"},
		{[]string{"--log-level", "warn"}, ""},
		{[]string{"--log-file", "log"}, ""},
	} {
		events := ""
		for _, m := range regexp.MustCompile(`event=(\w+)`).FindAllStringSubmatch(onTerminal(t, b, append(append([]string{"run", "settle"}, c.args...), "--", "true")...), -1) {
			events += " " + m[1]
		}
		if strings.TrimSpace(events) != c.want {
			t.Errorf("%q: logged%s, want %s", c.args, events, c.want)
		}
	}
	if text, err := os.ReadFile(b.path("log")); err != nil || len(text) != 0 {
		t.Errorf("the log file: %q, %v", text, err)
	}
}

// onTerminal executes onerun with standard error on a terminal and returns what it shows.
func onTerminal(t *testing.T, b *bed, args ...string) string {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ours.Close() }()
	if err := unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	shown := make(chan string)
	go func() {
		text, _ := io.ReadAll(ours) // EIO when nobody has the terminal open any more: tty(4)
		shown <- string(text)
	}()
	cmd := b.command(args...)
	cmd.Stderr = theirs
	err = cmd.Run()
	_ = theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	return <-shown
}
