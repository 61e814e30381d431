package main_test

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun/internal/pgbed"
)

// stamps is a job that writes the time since boot to a file ten times a second, and heeds no
// request to end.
const stamps = `trap '' TERM; echo $$ >pid; while :; do read up x </proc/uptime; echo $up >>stamps; sleep 0.1; done`

// uptime is the time since boot, as /proc/uptime tells it.
func uptime(t *testing.T) float64 {
	t.Helper()
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	return number(t, strings.Fields(string(text))[0])
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// last is the last stamp of a job that is gone.
func (h *host) last() float64 {
	h.t.Helper()
	text, err := os.ReadFile(h.path("stamps"))
	if err != nil {
		h.t.Fatal(err)
	}
	lines := strings.Fields(string(text))
	return number(h.t, lines[len(lines)-1])
}

func cut(t *testing.T) (*pgbed.Server, *pgbed.Proxy) {
	t.Helper()
	s := server(t)
	p, err := s.Proxy()
	if err != nil {
		t.Fatal(err)
	}
	return s, p
}

// TestCutOff (B25, B26): the network of A is cut while its job works on. A stops it before B is
// let in; then B has it, and what A has to say of its end changes nothing of B's.
func TestCutOff(t *testing.T) {
	t.Parallel()
	s, net := cut(t)
	url := s.URL("postgres", "schema", "one")
	a, b := newHost(t, net.URL("postgres", "schema", "one")), newHost(t, url)
	holder := a.start("run", "settle", "--ttl", "3s", "--grace", "1s", "--finish-wait", "2s", "--log-level", "info", "--", "sh", "-c", stamps)
	pid := a.sees("pid")
	net.Pass(false, false)
	waiter := b.start("run", "settle", "--ttl", "3s", "--wait", "1m", "--", "sh", "-c", "read up x </proc/uptime; echo $up >in; echo up >up; while test ! -e go; do sleep 0.05; done")
	in := number(t, strings.TrimSpace(b.sees("in")))
	a.gone(pid)
	if last := a.last(); last >= in {
		t.Errorf("B began at %v, and A's job still worked at %v", in, last)
	}
	r := holder.wait().exits(t, 75)
	if !strings.Contains(r.err, "lease_lost") {
		t.Errorf("A's log: %s", r.err)
	}
	net.Pass(true, true)
	a.run("flush")
	if got := b.list("status", "settle"); len(got) != 1 || got[0]["status"] != "RUNNING" {
		t.Errorf("B's run after A's late word: %v", got)
	}
	b.write("go")
	waiter.wait().exits(t, 0)
	history := b.list("history", "settle")
	if len(history) != 2 || history[0]["status"] != "SUCCEEDED" || history[1]["status"] != "FAILED" {
		t.Errorf("history: %v", history)
	}
}

func (h *host) write(name string) {
	h.t.Helper()
	if err := os.WriteFile(h.path(name), []byte("x\n"), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// TestFrozen: the wrapper is stopped, and with it all that renews the lease. The guard ends
// the job in time, and then the wrapper; another host may begin after that.
func TestFrozen(t *testing.T) {
	t.Parallel()
	s := server(t)
	url := s.URL("postgres", "schema", "one")
	a, b := newHost(t, url), newHost(t, url)
	holder := a.start("run", "settle", "--partition", "one", "--ttl", "3s", "--grace", "1s", "--", "sh", "-c", stamps)
	pid := a.sees("pid")
	a.guarded(holder)
	holder.signal(syscall.SIGSTOP)
	frozen := uptime(t)
	a.gone(pid)
	if last := a.last(); last >= frozen+3 {
		t.Errorf("frozen at %v, the job worked until %v", frozen, last)
	}
	holder.wait().exits(t, 128+int(syscall.SIGKILL))
	b.is("settle", "FAILED", "lease_lost")
	b.run("run", "settle", "--partition", "one", "--", "true").exits(t, 79) // a person has to decide
}

// TestStoppingRenews: a job that takes its time to stop keeps its lease meanwhile.
func TestStoppingRenews(t *testing.T) {
	t.Parallel()
	url := schema(t)
	a, b := newHost(t, url), newHost(t, url)
	p := a.start("run", "settle", "--ttl", "1s", "--timeout", "1s", "--grace", "1m", "--", "sh", "-c", `trap 'echo asked >asked' TERM; echo up >up; while test ! -e go; do sleep 0.05; done; exit 3`)
	a.sees("asked")
	asked := time.Now()
	for time.Since(asked) < 3*time.Second { // as the peers do, who would let it in now
		b.run("run", "settle", "-E", "5", "--", "touch", "beside").exits(t, 5)
	}
	a.write("go")
	p.wait().exits(t, 124)
	a.is("settle", "FAILED", "timeout")
}
