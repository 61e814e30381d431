package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// guardsOf are the guards that an onerun has started and that still run.
func guardsOf(wrapper int) (pids []int) {
	for _, pid := range childrenOf(wrapper) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // gone meanwhile, or a zombie: no guard any more
		if strings.HasPrefix(string(text), guardName+"\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}

func childrenOf(parent int) (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		pid := filepath.Base(filepath.Dir(name))
		if parentOf(pid) == strconv.Itoa(parent) {
			n, _ := strconv.Atoi(pid)
			pids = append(pids, n)
		}
	}
	return pids
}

// guardOf waits for the guard of an onerun, other than one.
func guardOf(t *testing.T, p *proc, other int) (guard int) {
	t.Helper()
	if !eventually(func() bool {
		for _, pid := range guardsOf(p.cmd.Process.Pid) {
			if pid != other {
				guard = pid
			}
		}
		return guard != 0
	}) {
		t.Fatal("there is no guard")
	}
	return guard
}

// family is a job that has left its group in every way there is, and says so.
const family = `
setsid sh -c 'echo $$ >>pids; exec sleep 600' &
sh -c 'setsid sh -c "echo \$\$ >>pids; exec sleep 600" & exec env -u ONERUN_OWNER sh -c "echo \$\$ >>pids; exec sleep 600"' &
(trap "" TERM HUP; echo $(exec sh -c 'echo $PPID') >>pids; while :; do sleep 1; done) &
echo $$ >>pids
while test $(wc -l <pids) -lt 5; do sleep 0.01; done
touch up
trap "" TERM
while :; do sleep 1; done
`

// familyOf starts a job that is family, and waits until all of it is up.
func familyOf(t *testing.T, b *bed, args ...string) (p *proc, pids []int) {
	t.Helper()
	for name, text := range map[string]string{"family.sh": family, "pids": ""} {
		if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_ = os.Remove(b.path("up"))
	p = b.start(append(args, "--", "sh", "family.sh")...)
	if !eventually(func() bool { return exists(b.path("up")) }) {
		t.Fatal("the job isn't up")
	}
	for f := range strings.FieldsSeq(b.read("pids")) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return p, pids
}

// allGone waits until nothing of a family runs any more.
func allGone(t *testing.T, pids []int) {
	t.Helper()
	if !eventually(func() bool {
		for _, pid := range pids {
			if runs(pid) {
				return false
			}
		}
		return true
	}) {
		t.Fatalf("some of %v still run", pids)
	}
}

func runs(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	state := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))[0]
	return state != "Z" && state != "X"
}

// ended waits until a run isn't RUNNING any more.
func (b *bed) ended(t *testing.T, name string) map[string]any {
	t.Helper()
	var run map[string]any
	if !eventually(func() bool { run = b.object(t, "show", name); return run["status"] != "RUNNING" }) {
		t.Fatalf("%s is still RUNNING", name)
	}
	return run
}

// holdDatabase keeps everybody from writing to the ledger, until release.
func (b *bed) holdDatabase(t *testing.T) (release func()) {
	t.Helper()
	cmd := exec.Command("sqlite3", "-batch", b.path("store/onerun.db"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "PRAGMA busy_timeout = 60000;\nBEGIN IMMEDIATE;\nSELECT 'held';\n"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "held" {
		continue
	}
	return func() {
		_, _ = io.WriteString(in, "ROLLBACK;\n")
		_ = in.Close()
		_ = cmd.Wait()
	}
}

// TestGuardWrapperKilled: when the wrapper alone is killed, everything of its job is gone,
// whatever group or session it went to, the attempt is closed, and the lock is free.
func TestGuardWrapperKilled(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"flock", "create"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			for _, crash := range []string{"auto", "manual"} { // the guard has seen the end, so that is recorded
				p, pids := familyOf(t, b, "run", "settle-"+crash, "--partition", "p", "--lock-mode", mode, "--on-crash", crash)
				guardOf(t, p, 0)
				p.kill()
				allGone(t, pids)
				run := b.ended(t, "settle-"+crash+":p")
				if run["status"] != "FAILED" || run["reason"] != "owner_died" {
					t.Errorf("%s: it is %v %v", crash, run["status"], run["reason"])
				}
				b.run("run", "settle-"+crash, "--partition", "q", "--lock-mode", mode, "-w", "30s", "--", "true").exits(t, 0)
				b.run("run", "settle-"+crash, "--partition", "p", "--lock-mode", mode, "--log-file", "log", "--", "touch", "again").exits(t, 79)
			}
			if exists(b.path("again")) || len(b.list(t, "locks")) != 0 {
				t.Errorf("started again: %v; locks: %v", exists(b.path("again")), b.list(t, "locks"))
			}
		})
	}
}

// TestGuardLock: the same for a lock alone.
func TestGuardLock(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	p, pids := familyOf(t, b, "lock", "L")
	guardOf(t, p, 0)
	p.kill()
	allGone(t, pids)
	b.run("lock", "-w", "30s", "L", "--", "true").exits(t, 0)
}

// TestGuardFrozen: a frozen wrapper can't end its job at --timeout, so the guard does, and
// ends the wrapper too.
func TestGuardFrozen(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	p, pids := familyOf(t, b, "run", "settle", "--partition", "p", "--timeout", "5s", "--grace", "500ms")
	guardOf(t, p, 0)
	_ = syscall.Kill(p.cmd.Process.Pid, syscall.SIGSTOP)
	allGone(t, append(pids, p.cmd.Process.Pid))
	if run := b.ended(t, "settle:p"); run["status"] != "FAILED" || run["reason"] != "timeout" {
		t.Errorf("it is %v %v", run["status"], run["reason"])
	}
	b.run("run", "settle", "--partition", "q", "-w", "30s", "--", "true").exits(t, 0)
}

// TestGuardFrozenMeek: the same of a job that heeds SIGTERM: when nothing of it is left, the
// frozen wrapper is not waited for.
func TestGuardFrozenMeek(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	p := b.start("run", "settle", "--partition", "p", "--timeout", "5s", "--grace", "500ms", "--", "sh", "-c", "echo up; exec sleep 600")
	p.says("up")
	guardOf(t, p, 0)
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	if code := p.wait(); code != 137 {
		t.Errorf("the wrapper ended with %d", code)
	}
	if run := b.ended(t, "settle:p"); run["status"] != "FAILED" || run["reason"] != "timeout" {
		t.Errorf("it is %v %v", run["status"], run["reason"])
	}
}

// TestGuardFrozenAfterTheEnd: the job has ended by itself, and its wrapper is frozen beyond the
// deadline: that end is recorded.
func TestGuardFrozenAfterTheEnd(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	p := b.start("run", "settle", "--partition", "p", "--timeout", "10s", "--grace", "500ms", "--finish-wait", "1s", "--", "sh", "-c", "echo up; read go")
	p.says("up")
	guard := guardOf(t, p, 0)
	if !eventually(func() bool { return hasPidfd(guard) }) {
		t.Fatal("the job isn't watched")
	}
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	p.goesOn()
	if code := p.wait(); code != 137 {
		t.Errorf("the wrapper ended with %d", code)
	}
	if run := b.ended(t, "settle:p"); run["status"] != "SUCCEEDED" {
		t.Errorf("it is %v %v", run["status"], run["reason"])
	}
}

// TestFrozenAndBack: a wrapper that was frozen when its guard asked the job to end, and goes on
// before the guard acts, records the timeout.
func TestFrozenAndBack(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	p := b.start("run", "settle", "--partition", "p", "--timeout", "5s", "--grace", "1m", "--", "sh", "-c", "echo $$; exec sleep 600")
	line, err := p.out.ReadString('\n')
	job, nerr := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || nerr != nil {
		t.Fatal(err, nerr)
	}
	guardOf(t, p, 0)
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	if !eventually(func() bool { return !runs(job) }) {
		t.Fatal("the guard doesn't ask it to end")
	}
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	if code := p.wait(); code != 124 {
		t.Errorf("it ended with %d", code)
	}
	if run := b.ended(t, "settle:p"); run["reason"] != "timeout" {
		t.Errorf("it is %v %v", run["status"], run["reason"])
	}
}

// TestGuardSawTheEnd: a job that has ended by itself before its wrapper is killed keeps its
// own end.
func TestGuardSawTheEnd(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for job, want := range map[string]struct {
		script, status string
		code           any
		signal         any
	}{
		"good":   {"exit 0", "SUCCEEDED", 0.0, nil},
		"bad":    {"exit 3", "FAILED", 3.0, nil},
		"killed": {"kill -TERM $$", "FAILED", 143.0, "SIGTERM"},
		"real":   {"kill -35 $$", "FAILED", 163.0, "SIGRTMIN+1"},
	} {
		p := b.start("run", job, "--partition", "p", "--", "sh", "-c", "echo $$ >"+job+"; read x <gate-"+job+"; "+want.script)
		if err := syscall.Mkfifo(b.path("gate-"+job), 0o600); err != nil {
			t.Fatal(err)
		}
		guard := guardOf(t, p, 0)
		if !eventually(func() bool { return b.read(job) != "" && hasPidfd(guard) }) {
			t.Fatal("the job isn't up, or isn't watched")
		}
		_ = syscall.Kill(p.cmd.Process.Pid, syscall.SIGSTOP)
		if err := os.WriteFile(b.path("gate-"+job), []byte("\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		leader, err := strconv.Atoi(strings.TrimSpace(b.read(job)))
		if err != nil || !eventually(func() bool { return !runs(leader) }) {
			t.Fatalf("the job doesn't end: %v", err)
		}
		// What the guard can't see within the moment in which the zombie is handed on and
		// reaped, it can't know: this is about what it has seen.
		if !eventually(func() bool { return !hasPidfd(guard) }) {
			t.Fatal("the guard doesn't see the job's end")
		}
		p.kill()
		run := b.ended(t, job+":p")
		if run["status"] != want.status || run["exit_code"] != want.code || run["signal"] != want.signal {
			t.Errorf("%s: %v, exit code %v, signal %v", job, run["status"], run["exit_code"], run["signal"])
		}
	}
}

// hasPidfd reports whether a process holds a descriptor of a process: a guard does until it
// has seen the end of the job's first one.
func hasPidfd(pid int) bool {
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	return slices.ContainsFunc(fds, func(fd string) bool {
		to, err := os.Readlink(fd)
		return err == nil && strings.Contains(to, "pidfd")
	})
}

// TestGuardEndsAStop: a wrapper that is killed while it stops its job has a guard that goes
// on: that the first process has ended meanwhile was no end of its own.
func TestGuardEndsAStop(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason string
		flags  []string
	}{
		{"timeout", []string{"--timeout", "1500ms"}}, // time for the job to be up, and to be watched
		{"owner_died", nil},
	} {
		b := newBed(t)
		p := b.start(slices.Concat([]string{"run", "settle", "--partition", "p", "--grace", "10m"}, c.flags, []string{
			"--", "sh", "-c",
			`setsid sh -c 'trap "" TERM; echo $$ >pids; while :; do sleep 1; done' & wait`,
		})...)
		guard := guardOf(t, p, 0)
		if !eventually(func() bool { return b.read("pids") != "" && hasPidfd(guard) }) {
			t.Fatal("the job isn't up, or isn't watched")
		}
		var stop *exec.Cmd
		if c.flags == nil {
			stop = b.command("stop", "settle:p", "--reason", "test")
			if err := stop.Start(); err != nil {
				t.Fatal(err)
			}
		}
		if !eventually(func() bool { return !hasPidfd(guard) }) {
			t.Fatal("the first process doesn't end")
		}
		left, _ := strconv.Atoi(strings.TrimSpace(b.read("pids")))
		if !runs(left) {
			t.Fatal("nothing is left to be ended")
		}
		p.kill()
		allGone(t, []int{left})
		if run := b.ended(t, "settle:p"); run["status"] != "FAILED" || run["reason"] != c.reason {
			t.Errorf("it is %v %v, want FAILED %s", run["status"], run["reason"], c.reason)
		}
		if stop != nil {
			_ = stop.Wait()
		}
	}
}

// TestEscapedKeepsTheLock: when wrapper and guard are killed, nobody ends what has left the
// job's group; nothing else starts beside it, and whoever tries is told its pid.
func TestEscapedKeepsTheLock(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	p := b.start("run", "settle", "--partition", "p", "--", "sh", "-c", `setsid sh -c 'echo $$ >pids; exec sleep 600' & wait`)
	guard := guardOf(t, p, 0)
	if !eventually(func() bool { return b.read("pids") != "" }) {
		t.Fatal("the job isn't up")
	}
	left, _ := strconv.Atoi(strings.TrimSpace(b.read("pids")))
	t.Cleanup(func() { _ = syscall.Kill(left, syscall.SIGKILL) })
	p.signal(syscall.SIGSTOP) // or it would start another guard
	_ = syscall.Kill(guard, syscall.SIGKILL)
	p.kill()
	if !eventually(func() bool { return !runs(guard) }) {
		t.Fatal("the guard can't be killed")
	}
	var r result // the first process may still be dying, and is named until then
	if !eventually(func() bool {
		r = b.run("run", "settle", "--partition", "q", "-E", "75", "--log-level", "info", "--", "true")
		return r.code != 75 || strings.Contains(r.err, strconv.Itoa(left))
	}) || r.code != 75 {
		t.Errorf("beside %d: exit status %d, %s", left, r.code, r.err)
	}
	_ = syscall.Kill(left, syscall.SIGKILL)
	if !eventually(func() bool { return !runs(left) }) {
		t.Fatal("it can't be killed")
	}
	b.run("run", "settle", "--partition", "q", "--", "true").exits(t, 0)
	if run := b.ended(t, "settle:p"); run["reason"] != "owner_died" {
		t.Errorf("it is %v %v", run["status"], run["reason"])
	}
}

// TestGuardOfTheLongestTime: a time that never comes is not one that is over. The guard
// looks at its deadlines once a second.
func TestGuardOfTheLongestTime(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, flags := range [][]string{{"--timeout", "9223372036"}, {"--timeout", "80000d", "--grace", "80000d"}} {
		b.run(slices.Concat([]string{"run", "settle"}, flags, []string{"--", "sleep", "1.6"})...).exits(t, 0)
	}
}

// TestGuardReplaced: a guard that is killed is replaced, signals to everybody don't reach
// it, and it goes with its wrapper.
func TestGuardReplaced(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	p, pids := familyOf(t, b, "run", "settle", "--partition", "p")
	first := guardOf(t, p, 0)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		_ = syscall.Kill(first, s)
	}
	if !runs(first) {
		t.Error("a signal that a service manager sends to all ended the guard")
	}
	_ = syscall.Kill(first, syscall.SIGKILL)
	guardOf(t, p, first)
	p.kill()
	allGone(t, pids)
	if run := b.ended(t, "settle:p"); run["reason"] != "owner_died" {
		t.Errorf("it is %v %v", run["status"], run["reason"])
	}

	q := b.start("run", "settle", "--partition", "q", "-w", "30s", "--", "sh", "-c", "touch q; sleep 0.3")
	guard := guardOf(t, q, 0)
	if code := q.wait(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if !eventually(func() bool { return !runs(guard) }) {
		t.Error("the guard outlives what it guards")
	}
}

// TestGuardSpools: when the ledger can't be told, the guard leaves the end in the lock file,
// and the next start records it.
func TestGuardSpools(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	p, pids := familyOf(t, b, "run", "settle", "--partition", "p", "--finish-wait", "1s")
	guard := guardOf(t, p, 0)
	holder := b.holdDatabase(t)
	p.kill()
	allGone(t, pids)
	if !eventually(func() bool { return !runs(guard) }) {
		t.Fatal("the guard goes on for ever")
	}
	holder()
	r := b.run("run", "another", "--partition", "p", "--", "true").exits(t, 0)
	if !strings.Contains(r.err, "event=late_outcome") || !strings.Contains(r.err, "key=settle:p") {
		t.Errorf("the next start says %q", r.err)
	}
	if run := b.ended(t, "settle:p"); run["reason"] != "owner_died" {
		t.Errorf("it is %v %v", run["status"], run["reason"])
	}
}
