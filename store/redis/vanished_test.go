package redis_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// isLost checks that an owner is told so, by whatever it does, and that nothing is made again.
func isLost(t *testing.T, s onerun.Store, l onerun.Lease) {
	t.Helper()
	ctx := soon(t)
	_, err := s.Heartbeat(ctx, l)
	for what, err := range map[string]error{
		"heartbeat": err,
		"report":    s.Report(ctx, l, onerun.Progress{Processed: ptr(1)}),
		"end":       s.Finish(ctx, l, onerun.Outcome{Status: onerun.Succeeded}),
	} {
		if !errors.Is(err, onerun.ErrLost) {
			t.Errorf("%s of an owner whose lock or run has vanished: %v", what, err)
		}
	}
	locks, err := s.Locks(ctx, l.Namespace)
	if err != nil || len(locks) != 0 {
		t.Errorf("locks after that: %v, %v", locks, err)
	}
}

// TestLockDeleted (B29): the owner hears of it by its next heartbeat; nobody else gets the lock
// before a lease's time has passed, and then the run is closed.
func TestLockDeleted(t *testing.T) {
	t.Parallel()
	s, prefix := fresh(t)
	c := claimOf("settle", "p")
	c.TTL = time.Second
	g := granted(t, s, c)
	if n, err := direct(t, sharedServer(t)).Del(soon(t), prefix+":{default}:lock:job/settle").Result(); n != 1 {
		t.Fatalf("DEL: %d, %v", n, err)
	}
	isLost(t, s, g.Lease)
	other := claimOf("settle", "q")
	isRefused(t, s, other, onerun.RefusedLocked)
	isRefused(t, s, again(c), onerun.RefusedRunning)
	if r := detail(t, s, g.Run.RunID).Run; !r.Stale || !strings.Contains(r.Evidence, "vanished") {
		t.Errorf("a run whose lock has vanished: stale %t, %s", r.Stale, r.Evidence)
	}
	waitUntil(t, "the lock is free again", func() bool {
		next, err := s.Claim(soon(t), other)
		if err != nil {
			isRefusal(t, err, onerun.RefusedLocked)
			return false
		}
		if len(next.TakenOver) != 1 || next.TakenOver[0].RunID != g.Run.RunID || next.Lease.Token <= g.Lease.Token {
			t.Errorf("the next grant: %+v", next)
		}
		return true
	})
	if r := detail(t, s, g.Run.RunID).Run; r.Status != onerun.Failed || r.Reason != onerun.ReasonLeaseExpired {
		t.Errorf("the run whose lock had vanished is %s %s", r.Status, r.Reason)
	}
}

// TestLockDeletedByHand: a person closes a run whose lock has vanished, and whose owner said
// manual.
func TestLockDeletedByHand(t *testing.T) {
	t.Parallel()
	s, prefix := fresh(t)
	c := claimOf("settle", "p")
	c.OnCrash = onerun.CrashManual
	g := granted(t, s, c)
	direct(t, sharedServer(t)).Del(soon(t), prefix+":{default}:lock:job/settle")
	run := detail(t, s, g.Run.RunID).Run
	_, err := s.Resolve(soon(t), onerun.Resolution{
		Namespace: run.Namespace, RunID: run.RunID, Expect: onerun.Expected(run), As: onerun.Failed, Who: onerun.Who{By: "ana", Reason: "looked"},
	})
	if err != nil {
		t.Fatal(err)
	}
	granted(t, s, claimOf("settle", "q"))
}

// TestFlushed (B29): nothing is left, so nothing is known; the owners are told by their next
// heartbeat, and tokens go on above the old ones.
func TestFlushed(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	s := open(t, server.URL())
	g := granted(t, s, claimOf("settle", "p"))
	if err := direct(t, server).FlushAll(soon(t)).Err(); err != nil {
		t.Fatal(err)
	}
	isLost(t, s, g.Lease)
	<-time.After(2 * time.Millisecond) // tokens are at least the server's time in milliseconds
	next := granted(t, s, claimOf("settle", "p"))
	if next.Lease.Token <= g.Lease.Token {
		t.Errorf("token %d after %d", next.Lease.Token, g.Lease.Token)
	}
	isLostBy(t, s, g.Lease)
	if _, err := s.Heartbeat(soon(t), next.Lease); err != nil {
		t.Errorf("the new owner's heartbeat: %v", err)
	}
}

// isLostBy checks that an owner is told so, and costs the new one nothing.
func isLostBy(t *testing.T, s onerun.Store, l onerun.Lease) {
	t.Helper()
	if err := s.Finish(soon(t), l, onerun.Outcome{Status: onerun.Succeeded}); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("end of an owner that was replaced: %v", err)
	}
}

// TestRestartedWithoutPersistence (B29): as if it had been flushed.
func TestRestartedWithoutPersistence(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	s := open(t, server.URL())
	g := granted(t, s, claimOf("settle", "p"))
	restart(t, server, syscall.SIGTERM)
	isLost(t, s, g.Lease)
	granted(t, s, claimOf("settle", "p"))
}

// TestScriptsFlushed: a server that has forgotten the scripts is given them again.
func TestScriptsFlushed(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	s := open(t, server.URL())
	g := granted(t, s, claimOf("settle", "p"))
	if err := direct(t, server).ScriptFlush(soon(t)).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Heartbeat(soon(t), g.Lease); err != nil {
		t.Fatal(err)
	}
	succeed(t, s, g)
	if d := detail(t, s, g.Run.RunID); d.Run.Status != onerun.Succeeded {
		t.Errorf("status %s", d.Run.Status)
	}
}

// TestRunDeleted: a run that has vanished is a lease lost, and a claim of its key makes another.
func TestRunDeleted(t *testing.T) {
	t.Parallel()
	s, prefix := fresh(t)
	c := claimOf("settle", "p")
	c.TTL = time.Second
	g := granted(t, s, c)
	direct(t, sharedServer(t)).Del(soon(t), prefix+":{default}:run:"+g.Run.RunID)
	isLost(t, s, g.Lease)
	waitUntil(t, "the key runs again", func() bool {
		_, err := s.Claim(soon(t), again(c))
		if err != nil {
			isRefusal(t, err, onerun.RefusedLocked)
		}
		return err == nil
	})
}

// TestClosed: a store that its own program has closed says that, and not that its server is down.
func TestClosed(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	c := claimOf("nightly", "")
	g := granted(t, s, c)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, claimed := s.Claim(soon(t), c)
	_, beat := s.Heartbeat(soon(t), g.Lease)
	for what, err := range map[string]error{"claim": claimed, "heartbeat": beat, "finish": s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded})} {
		if !errors.Is(err, onerun.ErrClosed) || !errors.Is(err, onerun.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
