package hostlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// TestLockAloneLeft: a lock alone whose end the store could not be told is free on this host as
// soon as the store can be asked again, and not when its lease is over.
func TestLockAloneLeft(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.remote.away.Store(false)
	alone := onerun.Claim{Namespace: onerun.DefaultNamespace, Lock: onerun.NamedLock("db"), LockMode: onerun.LockFlock, Owner: onerun.NewID(), Policy: onerun.Policy{TTL: time.Hour}}
	g := h.granted(h, alone)
	h.remote.away.Store(true)
	if err := h.Finish(soon(t), g.Lease, success); !errors.Is(err, onerun.ErrUnavailable) {
		t.Fatalf("finish: %v", err)
	}
	h.Leave(g.Lease)
	h.remote.away.Store(false)
	alone.Owner = onerun.NewID()
	h.granted(h, alone)
}

// TestEndOfAnotherStore: an end in a lock file of a store that gives itself no name is nobody's
// to write over.
func TestEndOfAnotherStore(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "store"} {
		h := newHost(t)
		h.open(name)
		h.remote.away.Store(false)
		c := claimOf("settle", "2026-09-15")
		dir, err := filelock.Open(h.dir, filelock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		owner := onerun.NewID()
		lock, held, err := dir.Acquire(soon(t), filelock.Request{Namespace: c.Namespace, Lock: c.Lock, Mode: c.LockMode, Owner: owner, Job: c.Job})
		if err != nil || held != nil {
			t.Fatal(held, err)
		}
		err = errors.Join(lock.Write(filelock.Note{State: filelock.StateStarting, RunID: onerun.NewRunID(time.Now()), Attempt: 1, Token: 7}),
			lock.SetOutcome(filelock.NewOutcome(success)), lock.Release(), dir.Close())
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			h.refused(h, again(c), onerun.RefusedStale)
		}
		if n := h.note(c.Lock); n == nil || n.Outcome == nil || n.Owner != owner {
			t.Errorf("store %q: the end was written over: %+v", name, n)
		}
	}
}

func again(c onerun.Claim) onerun.Claim {
	c.Owner, c.RunID = onerun.NewID(), onerun.NewRunID(time.Now())
	return c
}

// forgetful is a store that has lost a run.
type forgetful struct{ *faulty }

func (forgetful) Finish(context.Context, onerun.Lease, onerun.Outcome) error { return onerun.ErrLost }

func (forgetful) Deliver(context.Context, onerun.Lease, onerun.Outcome) (onerun.Delivery, error) {
	return onerun.Delivery{}, onerun.ErrLost
}

// TestForgottenEndStays: the end of a run that the store doesn't know stays in the lock file, for
// a store that was restored to an earlier day, and is brought up to date again.
func TestForgottenEndStays(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.remote.away.Store(false)
	whole := h.Store.Remote
	c := claimOf("settle", "2026-09-15")
	g := h.granted(h, c)
	h.Store.Remote = forgetful{h.remote}
	if err := h.Finish(soon(t), g.Lease, success); !errors.Is(err, onerun.ErrLost) {
		t.Fatalf("finish: %v", err)
	}
	if _, err := h.Deliver(soon(t), g.Lease, success); !errors.Is(err, onerun.ErrLost) {
		t.Fatalf("deliver: %v", err)
	}
	h.Store.Remote = whole
	h.refused(h, again(c), onerun.RefusedSucceeded)
}

// TestAskingElsewhere: a key whose claim under another lock was granted without its caller
// hearing of it is not blocked for the length of its lease.
func TestAskingElsewhere(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.remote.away.Store(false)
	h.remote.deaf.Store(true)
	c := claimOf("settle", "2026-09-15")
	h.unavailable(h, c)
	h.remote.away.Store(false)
	c = again(c)
	c.Lock = onerun.NamedLock("db")
	if refused, err := h.Explain(soon(t), c); refused != nil || err != nil {
		t.Errorf("explain: %v, error %v", refused, err)
	}
	h.granted(h, c)
	if a := h.detail("settle", "2026-09-15").Attempts; len(a) != 2 || !a[0].Void {
		t.Errorf("attempts: %+v", a)
	}
}
