package main_test

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestRun: what holds on one machine holds here; another host is told who runs it.
func TestRun(t *testing.T) {
	t.Parallel()
	url := schema(t)
	a, b := newHost(t, url), newHost(t, url)
	a.run("run", "settle", "--partition", "one", "--", "sh", "-c", `echo $ONERUN_KEY $ONERUN_ATTEMPT; test -n "$ONERUN_TOKEN"`).exits(t, 0)
	for _, h := range []*host{a, b} {
		h.run("run", "settle", "--partition", "one", "-E", "5", "--", "touch", "again").exits(t, 5)
		if _, err := os.Stat(h.path("again")); err == nil {
			t.Error("it ran twice")
		}
	}
	running := a.start("run", "long", "--ttl", "30s", "--", "sh", "-c", "echo up >up; read x <gate")
	if err := syscall.Mkfifo(a.path("gate"), 0o600); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	a.sees("up")
	for _, h := range []*host{a, b} {
		h.run("run", "long", "-E", "5", "--", "touch", "beside").exits(t, 5)
	}
	if got := b.list("status", "long"); len(got) != 1 || got[0]["status"] != "RUNNING" || got[0]["lease_expires_at"] == nil {
		t.Errorf("status: %v", got)
	}
	if err := os.WriteFile(a.path("gate"), []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	running.wait().exits(t, 0)
	a.is("long", "SUCCEEDED", "")
	if skips := b.only("long")["skips"]; skips != 2.0 {
		t.Errorf("%v skips", skips)
	}
}

// TestWrapperKilled: the guard ends the job and records that; the next start needs to wait
// for no lease.
func TestWrapperKilled(t *testing.T) {
	t.Parallel()
	h := newHost(t, schema(t))
	p := h.start("run", "settle", "--ttl", "1h", "--", "sh", "-c", "echo $$ >pid; exec sleep 1000")
	pid := h.sees("pid")
	h.guarded(p)
	p.signal(syscall.SIGKILL)
	h.gone(pid)
	h.until("the end in the ledger", func() bool { return h.only("settle")["status"] == "FAILED" })
	h.is("settle", "FAILED", "owner_died")
	h.run("run", "settle", "--", "true").exits(t, 0)
}

// TestKilledWithItsGuard: nobody records anything, and the next start proves it dead. On
// another host the lease speaks.
func TestKilledWithItsGuard(t *testing.T) {
	t.Parallel()
	url := schema(t)
	h, other := newHost(t, url), newHost(t, url)
	p := h.start("run", "settle", "--partition", "one", "--retries", "1", "--backoff", "0s", "--ttl", "1h", "--", "sh", "-c", "echo $$ >pid; exec sleep 1000")
	pid := h.sees("pid")
	guard := h.guarded(p)
	if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGKILL)
	h.gone(pid)
	if got := h.list("stale"); len(got) != 1 || got[0]["liveness"] != "dead" {
		t.Errorf("stale: %v", got)
	}
	other.run("run", "settle", "--partition", "one", "-E", "5", "--", "true").exits(t, 5)
	h.run("run", "settle", "--partition", "one", "--", "true").exits(t, 0)
	h.is("settle", "SUCCEEDED", "")
	var shown struct {
		Attempts []row `json:"attempts"`
	}
	h.json(&shown, "show", "settle:one")
	if len(shown.Attempts) != 2 || shown.Attempts[0]["reason"] != "owner_died" {
		t.Errorf("attempts: %v", shown.Attempts)
	}
}

// TestStop: on one host within a second; on another by the next heartbeat.
func TestStop(t *testing.T) {
	t.Parallel()
	url := schema(t)
	h, other := newHost(t, url), newHost(t, url)
	for job, from := range map[string]*host{"near": h, "far": other} {
		p := h.start("run", job, "--ttl", "6s", "--", "sh", "-c", "echo up >"+job+"; sleep 1000")
		h.sees(job)
		from.run("stop", job, "--reason", "enough").exits(t, 0)
		p.wait().exits(t, 143)
		h.is(job, "FAILED", "stopped")
	}
}

// guarded waits until a guard stands beside a wrapper, and gives its number.
func (h *host) guarded(p *process) (guard int) {
	h.t.Helper()
	h.until("the guard", func() bool { guard = guardOf(p); return guard != 0 })
	return guard
}

// guardOf is the number of a wrapper's guard; 0: there is none now.
func guardOf(p *process) int {
	for _, child := range childrenOf(p) {
		if isGuard(child) {
			return child
		}
	}
	return 0
}

func isGuard(pid int) bool {
	comm, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm") // what is gone is none
	return strings.TrimSpace(string(comm)) == "onerun-guard"
}

// childrenOf are the children of an onerun that may be gone.
func childrenOf(p *process) (children []int) {
	task := "/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/task"
	threads, _ := os.ReadDir(task)
	for _, thread := range threads {
		text, _ := os.ReadFile(task + "/" + thread.Name() + "/children")
		for _, f := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(f); err == nil {
				children = append(children, n)
			}
		}
	}
	return children
}

// gone waits until a process is.
func (h *host) gone(pid string) {
	h.t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(pid))
	if err != nil {
		h.t.Fatal(err)
	}
	h.until("the end of process "+pid, func() bool { return syscall.Kill(n, 0) != nil })
}

// TestPlainLockFile: mode create works before a store of many machines too, and what an
// operator does about its file stands in the journal.
func TestPlainLockFile(t *testing.T) {
	t.Parallel()
	h := newHost(t, schema(t))
	h.run("run", "settle", "--lock-mode", "create", "--", "sh", "-c", "ls locks/*.excl").exits(t, 0)
	if err := os.WriteFile(h.excl(t, "settle"), []byte("not a note\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.run("run", "settle", "--lock-mode", "create", "--", "touch", "ran").exits(t, 79)
	h.run("unlock", "job/settle", "--reason", "left by a test").exits(t, 0)
	h.run("run", "settle", "--lock-mode", "create", "--", "true").exits(t, 0)
	if r := h.run("explain", "settle").exits(t, 0); !strings.Contains(r.out, "would run") {
		t.Errorf("explain: %q", r.out)
	}
}

// excl is the file of a job's lock in mode create.
func (h *host) excl(t *testing.T, job string) string {
	t.Helper()
	h.run("run", job, "--lock-mode", "create", "--", "sh", "-c", "ls $PWD/locks/*.excl >name").exits(t, 0)
	return strings.TrimSpace(h.sees("name"))
}

// TestOneSlot (B15): whoever thinks that it leads fires, on every host and more than once. Each
// slot is one key, so it is executed once.
func TestOneSlot(t *testing.T) {
	t.Parallel()
	url := schema(t)
	hosts := []*host{newHost(t, url), newHost(t, url), newHost(t, url)}
	const slots, starts = 4, 3 // of each host
	for slot := range slots {
		at := "2026-09-15T01:0" + strconv.Itoa(slot) + ":00Z"
		var fired []*process
		for _, h := range hosts {
			for range starts {
				fired = append(fired, h.start("run", "tick", "--period", "1m", "--tz", "UTC", "--at", at, "-E", "5", "--", "sh", "-c", "echo $ONERUN_KEY; sleep 0.2"))
			}
		}
		ran := 0
		for _, p := range fired {
			if r := p.wait(); r.code == 0 {
				ran++
			} else {
				r.exits(t, 5)
			}
		}
		if ran != 1 {
			t.Errorf("the slot %s was executed %d times", at, ran)
		}
	}
	if runs := hosts[0].list("history", "tick"); len(runs) != slots {
		t.Errorf("%d runs", len(runs))
	}
}
