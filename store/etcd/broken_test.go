package etcd_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/etcd"
)

// within is a context that is over soon.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestServerKilled: with SIGKILL in the middle of a run, and started again. What it acknowledged is
// there, and the owner goes on.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	s := open(t, server.URL("x"))
	g := granted(t, s, claimOf("job", "p"))
	for range 3 {
		server.Stop(syscall.SIGKILL)
		if _, err := s.Heartbeat(within(t, time.Second), g.Lease); !errors.Is(err, onerun.ErrUnavailable) {
			t.Errorf("heartbeat while the server is away: expected that it is unavailable, got %v", err)
		}
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		untilAnswered(t, func(ctx context.Context) error { _, err := s.Heartbeat(ctx, g.Lease); return err })
	}
	refusedAs(t, s, claimOf("job", "p"), onerun.RefusedRunning)
	if err := s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded}); err != nil {
		t.Fatal(err)
	}
	server.Stop(syscall.SIGKILL)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	untilAnswered(t, func(ctx context.Context) error {
		_, err := s.Runs(ctx, onerun.Query{Namespace: "ns"})
		return err
	})
	refusedAs(t, s, claimOf("job", "p"), onerun.RefusedSucceeded)
}

// untilAnswered asks until the store answers.
func untilAnswered(t testing.TB, ask func(ctx context.Context) error) {
	t.Helper()
	ctx := soon(t)
	for {
		err := ask(ctx)
		if err == nil {
			return
		}
		if !errors.Is(err, onerun.ErrUnavailable) || ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// TestServerFrozen: with SIGSTOP, for longer than the lease. The owner hears nothing, and so gives
// up in time; nobody is granted the lock before its time has passed; and then its late word
// changes nothing.
func TestServerFrozen(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	s, other := open(t, server.URL("x")), open(t, server.URL("x"))
	c := claimOf("job", "")
	c.TTL = 2 * onerun.MinTTL
	sent := time.Now()
	g := granted(t, s, c)
	if err := server.Freeze(); err != nil {
		t.Fatal(err)
	}
	for time.Since(sent) < c.TTL+500*time.Millisecond {
		if _, err := s.Heartbeat(within(t, onerun.HeartbeatEvery(c.TTL)), g.Lease); !errors.Is(err, onerun.ErrUnavailable) {
			t.Errorf("heartbeat of a frozen server: expected that it is unavailable, got %v", err)
		}
	}
	if _, err := other.Claim(within(t, 200*time.Millisecond), claimOf("job", "")); !errors.Is(err, onerun.ErrUnavailable) {
		t.Errorf("claim of a frozen server: expected that it is unavailable, got %v", err)
	}
	if err := server.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	next := claimOf("job", "")
	var ng onerun.Grant
	untilAnswered(t, func(ctx context.Context) error {
		var err error
		ng, err = other.Claim(ctx, next)
		var ref *onerun.Refusal
		if errors.As(err, &ref) { // the heartbeats that were on the way may have come in time
			return &onerun.StoreError{Kind: onerun.ErrUnavailable, Err: err}
		}
		return err
	})
	if passed := time.Since(sent); passed < c.TTL {
		t.Errorf("granted after %s, in a lease of %s", passed, c.TTL)
	}
	if _, err := s.Heartbeat(soon(t), g.Lease); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("the late owner's heartbeat: expected that it is lost, got %v", err)
	}
	if err := s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded}); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("the late owner's end: expected that it is lost, got %v", err)
	}
	if err := other.Finish(soon(t), ng.Lease, onerun.Outcome{Status: onerun.Succeeded}); err != nil {
		t.Errorf("the owner's end: %v", err)
	}
}

// TestRepliesLost: the change is made, and its reply doesn't arrive. Asked again, it is the same
// grant, and the same end.
func TestRepliesLost(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	proxy, err := server.Proxy()
	if err != nil {
		t.Fatal(err)
	}
	// A lease is granted, and what is read arrives: only the reply of the change doesn't, once it is told to get lost.
	var lose atomic.Bool
	cut := etcd.WithHook(func(step string) {
		if step == "send" && lose.CompareAndSwap(true, false) {
			proxy.Pass(true, false)
		}
	})
	direct, s := open(t, server.URL("lost")), open(t, proxy.URL("lost"), cut)
	if _, err := s.Runs(soon(t), onerun.Query{Namespace: "ns"}); err != nil { // the ledger is made
		t.Fatal(err)
	}
	for _, c := range []onerun.Claim{claimOf("job", "p"), claimOf("sweep", "")} {
		lose.Store(true)
		if _, err := s.Claim(untilStatus(t, direct, c.Job, onerun.Running), c); !errors.Is(err, onerun.ErrUnavailable) || lose.Load() {
			t.Fatalf("claim without a reply: expected that it is unavailable, got %v", err)
		}
		proxy.Pass(true, true)
		g := granted(t, s, c)
		if !g.Adopted || c.Job != "" && g.Lease.Attempt != 1 {
			t.Errorf("claim, told again: expected the grant that it has, got %+v", g)
		}
		refusedAs(t, direct, otherOf(c), map[bool]onerun.Reason{true: onerun.RefusedRunning, false: onerun.RefusedLocked}[c.Partition != ""])
		lose.Store(true)
		out := onerun.Outcome{Status: onerun.Succeeded}
		if err := s.Finish(untilStatus(t, direct, c.Job, onerun.Succeeded), g.Lease, out); !errors.Is(err, onerun.ErrUnavailable) || lose.Load() {
			t.Errorf("end without a reply: expected that it is unavailable, got %v", err)
		}
		if d, err := direct.Detail(soon(t), "ns", g.Lease.RunID); err != nil || d.Run.Status != onerun.Succeeded {
			t.Errorf("run, whose end had no reply: %+v, %v", d.Run, err)
		}
		proxy.Pass(true, true)
		for range 2 {
			if err := s.Finish(soon(t), g.Lease, out); err != nil {
				t.Errorf("end, told again: %v", err)
			}
		}
		d, err := direct.Detail(soon(t), "ns", g.Lease.RunID)
		if err != nil || d.Run.Status != onerun.Succeeded || len(d.Attempts) != 1 {
			t.Errorf("run: %+v, %v", d, err)
		}
	}
}

// untilStatus ends when a job's run is seen to have a status, and so the change that makes it has
// been applied.
func untilStatus(t *testing.T, s onerun.Store, job string, status onerun.Status) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(soon(t))
	look := soon(t)
	go func() {
		defer cancel()
		for look.Err() == nil {
			runs, err := s.Runs(look, onerun.Query{Namespace: "ns", Job: job})
			if err == nil && len(runs) == 1 && runs[0].Status == status {
				return
			}
			time.Sleep(20 * time.Millisecond) // the servers of the other tests need the processors too
		}
	}()
	return ctx
}

func otherOf(c onerun.Claim) onerun.Claim {
	c.Owner, c.RunID = onerun.NewID(), onerun.NewRunID(time.Now())
	return c
}

// TestOneWayCut: who has two ways, and one of them is cut without a word, goes on by the other one, long before it is
// noticed that nothing comes back.
func TestOneWayCut(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	proxy, err := server.Proxy()
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, strings.Replace(proxy.URL("way"), "/way", ","+server.Endpoint()+"/way", 1))
	g := granted(t, s, claimOf("job", "p"))
	for range 4 { // by both
		if _, err := s.Heartbeat(soon(t), g.Lease); err != nil {
			t.Fatal(err)
		}
	}
	proxy.Pass(false, false)
	for range 10 {
		if _, err = s.Heartbeat(within(t, time.Second), g.Lease); err == nil {
			break
		}
	}
	for range 4 {
		if _, err := s.Heartbeat(soon(t), g.Lease); err != nil {
			t.Error(err)
		}
	}
	if err != nil {
		t.Errorf("heartbeats: %v", err)
	}
}

// TestCutOff: a client that is cut off hears nothing, and is unavailable, not refused; when the way
// is free again it goes on.
func TestCutOff(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	proxy, err := server.Proxy()
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, proxy.URL("cut"))
	g := granted(t, s, claimOf("job", "p"))
	proxy.Pass(false, false)
	began := time.Now()
	if _, err := s.Heartbeat(within(t, 500*time.Millisecond), g.Lease); !errors.Is(err, onerun.ErrUnavailable) {
		t.Errorf("heartbeat of one that is cut off: expected that it is unavailable, got %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("a call with half a second took %s", took)
	}
	proxy.Pass(true, true)
	proxy.Break() // as a firewall that has forgotten the connection
	untilAnswered(t, func(ctx context.Context) error { _, err := s.Heartbeat(ctx, g.Lease); return err })
	if err := s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded}); err != nil {
		t.Error(err)
	}
}
