package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// leavers are jobs that leave a process behind, stay, which runs until somebody kills it.
var leavers = map[string]string{
	"background":           "$stay &",
	"session":              "setsid $stay &",
	"fork twice":           "($stay &)",
	"session, fork twice":  `(setsid sh -c "$stay & :" &)`,
	"nohup":                "nohup $stay &",
	"nothing open":         "$stay <&- >&- 2>&- &",
	"copies":               "exec 3>&1 4>&2 5<&0; $stay 6>&1 7>&2 >&- 2>&- &",
	"ignores what it gets": "trap '' HUP TERM PIPE; $stay &",
}

// leave makes a job of a leaver: it ends when what it leaves has begun.
func (b *bed) leave(t *testing.T, leaver string) (file string) {
	t.Helper()
	_ = os.Remove(b.path("pid"))
	for name, text := range map[string]string{
		"stay.sh":  "echo $$ >pid.new; mv pid.new pid; exec sleep 600",
		"leave.sh": "stay='sh stay.sh'\n" + leaver + "\nuntil test -e pid; do sleep 0.01; done\necho started\ntouch over\n",
	} {
		if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return "leave.sh"
}

// stayer is what a job has left, to be killed at the end of the test.
func (b *bed) stayer(t *testing.T) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(b.read("pid")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	return pid
}

// TestLeftBehindHasNoLock: what a job leaves has nothing of onerun's open, neither a lock nor
// the ledger, and the next start runs beside it.
func TestLeftBehindHasNoLock(t *testing.T) {
	t.Parallel()
	for _, how := range [][]string{
		{"run", "settle", "-E", "75"},
		{"run", "settle", "-E", "75", "--lock-mode", "create"},
		{"run", "settle", "-E", "75", "--capture", "none"},
		{"lock", "L", "-n", "-E", "75"},
		{"lock", "L", "-n", "-E", "75", "--lock-mode", "create"},
	} {
		b := newBed(t)
		for name, leaver := range leavers {
			cmd := b.command(append(how, "--", "sh", b.leave(t, leaver))...) // its output is /dev/null: what is left may keep it
			if code := codeOf(cmd.Run()); code != 0 {
				t.Fatalf("%v, %s: exit status %d", how, name, code)
			}
			pid := b.stayer(t)
			b.run(append(how, "--", "touch", "beside")...).exits(t, 0)
			if !exists(b.path("beside")) || os.Remove(b.path("beside")) != nil {
				t.Errorf("%v, %s: nothing ran beside it", how, name)
			}
			if open := b.openOf(t, pid); len(open) != 0 || !runs(pid) {
				t.Errorf("%v, %s: it runs: %v; it has open: %v", how, name, runs(pid), open)
			}
		}
	}
}

// openOf are the files of the bed's store that a process has open, by whatever name.
func (b *bed) openOf(t *testing.T, pid int) (open []string) {
	t.Helper()
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.Walk(b.path("store"), func(path string, file os.FileInfo, err error) error {
		for _, fd := range fds {
			if to, e := os.Stat(fd); e == nil && err == nil && os.SameFile(file, to) {
				open = append(open, path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return open
}

// TestLeftBehindHoldsNobodyUp: onerun ends within a second of its job, whatever is left has
// what open, and however much it prints. How much that takes on a busy machine is not known.
func TestLeftBehindHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for name, leaver := range map[string]string{
		"standard output":  "$stay 2>&- &",
		"standard error":   "$stay >&- &",
		"both":             "$stay &",
		"both, in session": "setsid $stay &",
		"copies":           "exec 3>&1 4>&2; $stay >&- 2>&- &",
		"one for both":     "$stay 2>&1 &",
		"it chatters":      "(while echo tick; do sleep 0.02; done) & $stay >&- 2>&- &",
		"it floods":        "yes & $stay >&- 2>&- &",
		"it floods both":   "(trap '' PIPE; yes | tee /dev/stderr) & $stay >&- 2>&- &",
	} {
		file := b.leave(t, leaver)
		r := b.run("run", "settle", "--output", "on-failure", "--", "sh", file).exits(t, 0).silent(t)
		ended := time.Now()
		pid := b.stayer(t)
		over, err := os.Stat(b.path("over"))
		if err != nil {
			t.Fatal(err)
		}
		if late := ended.Sub(over.ModTime()); late > 10*time.Second {
			t.Errorf("%s: it ended %s after its job", name, late)
		}
		if !runs(pid) {
			t.Errorf("%s: nothing is left", name)
		}
		if run := b.list(t, "history", "--limit", "1")[0]; run["status"] != "SUCCEEDED" || run["exit_code"] != 0.0 {
			t.Errorf("%s: it is %v %v", name, run["status"], run["exit_code"])
		}
		if kept := b.run("logs", "settle").exits(t, 0); !strings.Contains(kept.out, "started\n") && !strings.Contains(name, "floods") {
			t.Errorf("%s: kept is %q, passed on %q", name, kept.out, r.out)
		}
	}
}

// TestLeftBehindIsNamed: with --hold tree whoever is refused is told what is still there.
func TestLeftBehindIsNamed(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"flock", "create"} {
		b := newBed(t)
		p := b.start("run", "settle", "--hold", "tree", "--lock-mode", mode, "--", "sh", b.leave(t, "$stay &"))
		p.says("started")
		pid := b.stayer(t)
		named := fmt.Sprintf("its job's first process has ended, and of its group still run [%d]", pid)
		if !eventually(func() bool {
			r := b.run("run", "settle", "--log-level", "info", "-E", "75", "--", "touch", "beside").exits(t, 75)
			return strings.Contains(r.err, named)
		}) {
			t.Errorf("%s: nobody says %q", mode, named)
		}
		if r := b.run("explain", "settle").exits(t, 0); !strings.Contains(r.out, named) {
			t.Errorf("%s: explain says %q", mode, r.out)
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
		if code := p.wait(); code != 0 || exists(b.path("beside")) {
			t.Errorf("%s: exit status %d, something ran beside it: %v", mode, code, exists(b.path("beside")))
		}
		b.run("run", "settle", "-E", "75", "--", "true").exits(t, 0)
	}
}
