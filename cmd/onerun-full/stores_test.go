package main_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/onerun-dev/onerun/internal/etcdbed"
	"github.com/onerun-dev/onerun/internal/mariadbbed"
	"github.com/onerun-dev/onerun/internal/redisbed"
	"github.com/onerun-dev/onerun/internal/zkbed"
)

// daemon is a server of whatever kind.
type daemon interface {
	Start() error
	Stop(sig syscall.Signal)
}

// otherStores start a server and give the URL of a store on it. A server keeps what it has
// acknowledged when it is killed.
var otherStores = map[string]func(t *testing.T) (daemon, string, error){
	"mysql": func(t *testing.T) (daemon, string, error) {
		bed := mariadbbed.New("/dev/shm", "")
		t.Cleanup(bed.Close)
		s, err := bed.Server()
		if err != nil {
			return nil, "", err
		}
		return s, s.URL("mysql"), nil
	},
	"redis": func(t *testing.T) (daemon, string, error) {
		bed := redisbed.New("/dev/shm", "")
		t.Cleanup(bed.Close)
		s, err := bed.Server("--appendonly", "yes", "--appendfsync", "always")
		if err != nil {
			return nil, "", err
		}
		return s, s.URL(), nil
	},
	"etcd": func(t *testing.T) (daemon, string, error) {
		bed := etcdbed.New("/dev/shm", "")
		t.Cleanup(bed.Close)
		s, err := bed.Server()
		if err != nil {
			return nil, "", err
		}
		return s, s.URL("jobs"), nil
	},
	"zookeeper": func(t *testing.T) (daemon, string, error) {
		bed := zkbed.New("/dev/shm", "")
		t.Cleanup(bed.Close)
		s, err := bed.Server()
		if err != nil {
			return nil, "", err
		}
		return s, "zookeeper://" + s.Addr() + "/jobs", nil
	},
}

// TestOtherStores: the same commands and the same promises on each of the other stores, for two
// hosts of one server.
func TestOtherStores(t *testing.T) {
	t.Parallel()
	for name, start := range otherStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, url, err := start(t)
			if err != nil {
				t.Fatal(err)
			}
			a, b := newHost(t, url), newHost(t, url)
			onceOn(t, a, b)
			stoppedFromElsewhere(t, a, b)
			killed(t, a, b)
			lookedAt(t, a)
			serverKilled(t, a, server)
		})
	}
}

// onceOn: a key runs once on both hosts, and again only when a person says so.
func onceOn(t *testing.T, a, b *host) {
	t.Helper()
	key := []string{"run", "settle", "--partition", "one", "-E", "5"}
	a.run(append(key, "--", "sh", "-c", `echo $ONERUN_KEY; test -n "$ONERUN_TOKEN"`)...).exits(t, 0)
	for _, h := range []*host{a, b} {
		h.run(append(key, "--", "touch", h.path("again"))...).exits(t, 5)
		if _, err := os.Stat(h.path("again")); err == nil {
			t.Error("it ran twice")
		}
	}
	b.run("rerun", "settle:one", "--reason", "two orders came late").exits(t, 0)
	a.run(append(key, "--", "sh", "-c", "test $ONERUN_ATTEMPT = 2")...).exits(t, 0)
	b.run(append(key, "--", "true")...).exits(t, 5)
	b.is("settle", "SUCCEEDED", "")
	b.run("run", "other", "--partition", "one", "--", "sh", "-c", "exit 3").exits(t, 3)
	a.run("run", "other", "--partition", "one", "--", "true").exits(t, 79)
	a.run("pause", "other", "--reason", "looking").exits(t, 0)
	b.run("run", "other", "--partition", "two", "-E", "5", "--", "true").exits(t, 5)
	b.run("resume", "other", "--reason", "looked").exits(t, 0)
	b.run("run", "other", "--partition", "two", "--", "true").exits(t, 0)
	b.run("run", "other", "--order", "fifo", "-w", "1s", "--", "true").exits(t, 64)
}

// stoppedFromElsewhere: what runs on one host is seen, refused and stopped from the other.
func stoppedFromElsewhere(t *testing.T, a, b *host) {
	t.Helper()
	p := a.start("run", "long", "--ttl", "6s", "--", "sh", "-c", "echo up >up; exec sleep 1000")
	a.sees("up")
	b.run("run", "long", "-E", "5", "--", "true").exits(t, 5)
	if got := b.list("status", "long"); len(got) != 1 || got[0]["status"] != "RUNNING" || got[0]["lease_expires_at"] == nil {
		t.Errorf("status: %v", got)
	}
	b.run("stop", "long", "--reason", "enough").exits(t, 0)
	p.wait().exits(t, 143)
	b.is("long", "FAILED", "stopped")
}

// killed: the guard records the end of a wrapper that was killed; where both are, the next start
// on their host proves them dead, and no lease is waited for.
func killed(t *testing.T, a, b *host) {
	t.Helper()
	for _, both := range []bool{false, true} {
		_ = os.Remove(a.path("pid"))
		p := a.start("run", "night", "--ttl", "1h", "--", "sh", "-c", "echo $$ >pid; exec sleep 1000")
		pid := a.sees("pid")
		guard := a.guarded(p)
		if both {
			if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		p.signal(syscall.SIGKILL)
		a.gone(pid)
		if both {
			b.run("run", "night", "-E", "5", "--", "true").exits(t, 5)
		} else {
			b.until("the end in the ledger", func() bool { return b.list("history", "night")[0]["status"] == "FAILED" })
		}
		a.run("run", "night", "--", "true").exits(t, 0)
		if rows := b.list("history", "night"); rows[0]["status"] != "SUCCEEDED" || rows[1]["reason"] != "owner_died" {
			t.Errorf("history: %v", rows)
		}
	}
}

// lookedAt: what else is kept is there.
func lookedAt(t *testing.T, a *host) {
	t.Helper()
	a.run("run", "prints", "--partition", "one", "--", "sh", "-c", `echo "page 1"; onerun item order-1 -- true && onerun report processed=7 failed=1`).exits(t, 0)
	if out := a.run("logs", "prints:one").exits(t, 0).out; out != "page 1\n" {
		t.Errorf("logs: %q", out)
	}
	if r := a.only("prints"); r["processed"] != 7.0 || r["failed"] != 1.0 {
		t.Errorf("history: %v", r)
	}
	if items := a.list("items", "prints"); len(items) != 1 || items[0]["state"] != "done" {
		t.Errorf("items: %v", items)
	}
	var shown struct {
		Attempts []row `json:"attempts"`
		Events   []row `json:"events"`
	}
	a.json(&shown, "show", "settle:one")
	if len(shown.Attempts) != 2 || len(shown.Events) == 0 {
		t.Errorf("show: %+v", shown)
	}
	var findings any
	r := a.run("doctor", "settle", "--json")
	if err := json.Unmarshal([]byte(r.out), &findings); err != nil || r.code > 1 || !strings.Contains(r.out, "last run settle:") {
		t.Errorf("doctor: %d, %v; it printed %.500q and %q", r.code, err, r.out, r.err)
	}
	a.run("run", "prints", "--partition", "two", "--", "true").exits(t, 0)
	if out := a.run("prune", "prints", "--keep", "1").exits(t, 0).out; !strings.Contains(out, "1 ") {
		t.Errorf("prune: %q", out)
	}
	a.run("run", "prints", "--partition", "one", "-E", "5", "--", "true").exits(t, 5)
	var pruned row
	a.json(&pruned, "prune", "--older-than", "1000d")
	if size, ok := pruned["size"]; !ok || size == 0.0 {
		t.Errorf("a store that holds something has the size %v, which is null where it isn't known", size)
	}
}

// serverKilled: the job goes on, its end waits on the host, and is delivered when the server is
// there again.
func serverKilled(t *testing.T, a *host, server daemon) {
	t.Helper()
	if err := syscall.Mkfifo(a.path("gate"), 0o600); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	p := a.start("run", "cut", "--partition", "one", "--ttl", "10m", "--finish-wait", "1s", "--store-timeout", "2s", "--", "sh", "-c", "echo up >cut; read x <gate")
	a.sees("cut")
	server.Stop(syscall.SIGKILL)
	if err := os.WriteFile(a.path("gate"), []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	p.wait().exits(t, 76)
	if r := a.run("run", "cut", "--partition", "two", "--store-timeout", "1s", "--", "true").exits(t, 69); strings.Count(r.err, "\n") != 1 {
		t.Errorf("without a server it says %q", r.err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	a.run("flush").exits(t, 0)
	a.is("cut", "SUCCEEDED", "")
	a.run("run", "cut", "--partition", "one", "-E", "5", "--", "true").exits(t, 5)
}
