package redis_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/redisbed"
	"github.com/onerun-dev/onerun/store/redis"
)

// onDisk are the settings of a server that keeps whatever it has acknowledged.
var onDisk = []string{"--appendonly", "yes", "--appendfsync", "always"}

// TestServerKilled: a server that waits for its disk is killed in the middle of jobs, at every
// step of many, and loses none of what it acknowledged.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	server := newServer(t, onDisk...)
	s := open(t, server.URL())
	held := granted(t, s, claimOf("held", "p"))
	done := claimOf("done", "p")
	succeed(t, s, granted(t, s, done))
	_, err := s.Claim(soon(t), again(done))
	isRefusal(t, err, onerun.RefusedSucceeded)
	if err := s.Report(soon(t), held.Lease, onerun.Progress{Processed: ptr(7)}); err != nil {
		t.Fatal(err)
	}
	g := granted(t, s, claimOf("end", "p"))
	for range 3 {
		restart(t, server, syscall.SIGKILL)
		if _, err := s.Heartbeat(soon(t), held.Lease); err != nil {
			t.Fatalf("heartbeat after the server was killed: %v", err)
		}
	}
	succeed(t, s, g)
	restart(t, server, syscall.SIGKILL)
	succeed(t, s, g) // it is known
	isRefused(t, s, again(done), onerun.RefusedSucceeded)
	isRefused(t, s, claimOf("held", "p"), onerun.RefusedRunning)
	if n := detail(t, s, held.Run.RunID).Run.Processed; n == nil || *n != 7 {
		t.Errorf("processed: %v", n)
	}
}

// TestKilledWhileClaiming: claims that are under way when the server is killed are granted once,
// whatever their askers heard.
func TestKilledWhileClaiming(t *testing.T) {
	t.Parallel()
	server := newServer(t, onDisk...)
	s := open(t, server.URL())
	granted(t, s, claimOf("warm", ""))
	const n = 8
	type end struct {
		c   onerun.Claim
		g   onerun.Grant
		err error
	}
	ends := make(chan end, n)
	for i := range n {
		go func() {
			for j := 0; ; j++ { // claims, until the server is gone
				c := claimOf(fmt.Sprintf("job-%d-%d", i, j), "p")
				g, err := s.Claim(t.Context(), c)
				if err != nil {
					ends <- end{c, g, err}
					return
				}
			}
		}()
	}
	waitUntil(t, "there are claims", func() bool {
		runs, err := s.Runs(soon(t), onerun.Query{Namespace: onerun.DefaultNamespace})
		return err == nil && len(runs) > 50
	})
	server.Stop(syscall.SIGKILL)
	all := make([]end, n)
	for i := range all {
		all[i] = <-ends
		if !errors.Is(all[i].err, onerun.ErrUnavailable) {
			t.Fatalf("a claim when the server was killed: %v", all[i].err)
		}
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	for _, e := range all { // asked again, by the same owner
		g := granted(t, s, e.c)
		isRefused(t, s, again(e.c), onerun.RefusedRunning)
		succeed(t, s, g)
		if d := detail(t, s, g.Run.RunID); len(d.Attempts) != 1 {
			t.Errorf("%d attempts", len(d.Attempts))
		}
	}
}

// TestPaused: a server that is frozen beyond the lease answers a late heartbeat only if nobody
// has the lock meanwhile; and who asks is told in time that it doesn't answer.
func TestPaused(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	s := open(t, server.URL())
	c := claimOf("settle", "p")
	c.TTL = time.Second
	g := granted(t, s, c)
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := timeout(t, 300*time.Millisecond)
	defer cancel()
	if _, err := s.Heartbeat(ctx, g.Lease); !errors.Is(err, onerun.ErrUnavailable) {
		t.Fatalf("heartbeat of a frozen server: %v", err)
	}
	<-time.After(1200 * time.Millisecond) // the lease itself
	if err := server.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	// What was sent before may have arrived: then it is held, and for a second at most.
	waitUntil(t, "the next claim of the lock is granted", func() bool {
		_, err := s.Claim(soon(t), claimOf("settle", "q"))
		if err != nil {
			isRefusal(t, err, onerun.RefusedLocked)
		}
		return err == nil
	})
	if _, err := s.Heartbeat(soon(t), g.Lease); !errors.Is(err, onerun.ErrLost) {
		t.Fatalf("heartbeat of an owner that was replaced: %v", err)
	}
	if err := s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded}); !errors.Is(err, onerun.ErrLost) {
		t.Fatalf("end of an owner that was replaced: %v", err)
	}
}

// TestLostReplies: whatever was applied while its reply was lost is the same when it is asked
// again.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	proxy, err := server.Proxy()
	if err != nil {
		t.Fatal(err)
	}
	s, beside := open(t, proxy.URL()), open(t, server.URL())
	succeed(t, beside, granted(t, beside, claimOf("warm", ""))) // the server knows the scripts
	lose := func(what string, ask func() error, applied func() bool) {
		t.Helper()
		if _, err := s.Jobs(soon(t), onerun.DefaultNamespace); err != nil { // a connection that is there
			t.Fatal(err)
		}
		proxy.Pass(true, false)
		told := make(chan error, 1)
		go func() { told <- ask() }()
		waitUntil(t, what+" is applied", applied)
		proxy.Break() // the reply is gone with its connection
		proxy.Pass(true, true)
		if err := <-told; err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	c := claimOf("settle", "p")
	var g onerun.Grant
	lose("a claim", func() (err error) {
		g, err = s.Claim(soon(t), c)
		return err
	}, func() bool {
		_, err := beside.Detail(soon(t), c.Namespace, c.RunID)
		return err == nil
	})
	if !g.Adopted || g.Lease.Owner != c.Owner || g.Lease.Attempt != 1 {
		t.Errorf("the grant of a claim whose reply was lost: %+v", g)
	}
	ended := func() bool { return detail(t, beside, c.RunID).Run.Status != onerun.Running }
	lose("an end", func() error { return s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded}) }, ended)
	if d := detail(t, beside, c.RunID); len(d.Attempts) != 1 || d.Run.Status != onerun.Succeeded {
		t.Errorf("after an end whose reply was lost: %+v", d)
	}
}

// TestCutOff: of a network that drops everything a caller hears when its time is over, and
// nothing is broken afterwards.
func TestCutOff(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	proxy, err := server.Proxy()
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, proxy.URL())
	g := granted(t, s, claimOf("settle", "p"))
	proxy.Pass(false, false)
	for what, ask := range map[string]func() error{
		"a heartbeat": func() error {
			ctx, cancel := timeout(t, 200*time.Millisecond)
			defer cancel()
			_, err := s.Heartbeat(ctx, g.Lease)
			return err
		},
		"a listing that is given up": func() error {
			ctx, cancel := timeout(t, time.Minute)
			time.AfterFunc(200*time.Millisecond, cancel)
			_, err := s.Runs(ctx, onerun.Query{Namespace: onerun.DefaultNamespace})
			return err
		},
	} {
		began := time.Now()
		if err := ask(); !errors.Is(err, onerun.ErrUnavailable) || time.Since(began) > 5*time.Second {
			t.Errorf("%s: after %s: %v", what, time.Since(began), err)
		}
	}
	proxy.Break()
	proxy.Pass(true, true)
	if _, err := s.Heartbeat(soon(t), g.Lease); err != nil {
		t.Errorf("a heartbeat when the network is back: %v", err)
	}
}

// restart ends a server and starts it again on the same data.
func restart(t testing.TB, s *redisbed.Server, sig syscall.Signal) {
	t.Helper()
	s.Stop(sig)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
}

func isRefused(t testing.TB, s *redis.Store, c onerun.Claim, reason onerun.Reason) {
	t.Helper()
	_, err := s.Claim(soon(t), c)
	isRefusal(t, err, reason)
}
