package hostlock_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/hostlock"
	"github.com/onerun-dev/onerun/store/memory"
)

// leftBehind is a run that was granted, and has ended while the store was out of reach.
func (h *host) leftBehind(c onerun.Claim, out onerun.Outcome) onerun.Grant {
	h.t.Helper()
	h.remote.away.Store(false)
	g := h.granted(h, c)
	h.remote.away.Store(true)
	if err := h.Finish(soon(h.t), g.Lease, out); !errors.Is(err, onerun.ErrUnavailable) {
		h.t.Fatalf("finish: %v", err)
	}
	h.Leave(g.Lease)
	h.remote.away.Store(false)
	return g
}

// forgets makes the store one that knows nothing.
func (h *host) forgets() { h.remote.Store = memory.New() }

// forgotten delivers what waits, and wants one end of a claim that the store has forgotten.
func (h *host) forgotten(all []onerun.Delivery, err error, kind onerun.DeliveryKind) onerun.Delivery {
	h.t.Helper()
	if err != nil || len(all) != 1 || all[0].Err != nil || all[0].Kind != kind || !all[0].Forgotten || all[0].Unclaimed {
		h.t.Fatalf("delivered: %+v, error %v; want one that is %s", all, err, kind)
	}
	return all[0]
}

// nothingLeft wants no end to wait for the store in any file.
func (h *host) nothingLeft(lock onerun.LockName) {
	h.t.Helper()
	if all, err := h.Flush(soon(h.t)); err != nil || len(all) > 0 {
		h.t.Errorf("flush: %+v, error %v, want that nothing waits", all, err)
	}
	if left := h.files(); len(left) > 0 {
		h.t.Errorf("files that stay: %v", left)
	}
	if n := h.note(lock); n != nil && n.Outcome != nil {
		h.t.Errorf("the end stays in the note: %+v", n)
	}
}

// TestForgottenClaim: the end of a run whose claim the store has forgotten is recorded, by
// whichever start comes next or by a flush, and its key doesn't run again.
func TestForgottenClaim(t *testing.T) {
	t.Parallel()
	for out, reason := range map[*onerun.Outcome]onerun.Reason{&success: onerun.RefusedSucceeded, &exited: onerun.RefusedFailed} {
		for _, lock := range []onerun.LockName{onerun.JobLock("settle"), onerun.KeyLock("settle:a"), onerun.NamedLock("db")} {
			for name, deliver := range map[string]func(h *host) ([]onerun.Delivery, error){
				"a start of the key": func(h *host) ([]onerun.Delivery, error) {
					c := claimOf("settle", "a")
					c.Lock = lock
					return h.refused(h, c, reason).Delivered, nil
				},
				"a start of another key": func(h *host) ([]onerun.Delivery, error) {
					c := claimOf("settle", "b")
					c.Lock = lock
					return h.granted(h, c).Delivered, nil
				},
				"a flush": func(h *host) ([]onerun.Delivery, error) { return h.Flush(soon(t)) },
			} {
				h := newHost(t)
				c := claimOf("settle", "a")
				c.Lock, c.BusinessDate, c.Labels = lock, "2026-09-15", map[string]string{"team": "books"}
				g := h.leftBehind(c, *out)
				h.forgets()
				if refused, err := h.Explain(soon(t), again(c)); err != nil || refused == nil || refused.Reason != reason {
					t.Errorf("explain: %v, error %v, want %s", refused, err, reason)
				}
				if all, err := h.Spooled(soon(t)); err != nil || len(all) != 1 || all[0].Unclaimed || all[0].RunID != g.Lease.RunID {
					t.Errorf("%s under %s: waiting: %+v, error %v", name, lock, all, err)
				}
				all, err := deliver(h)
				h.forgotten(all, err, onerun.DeliveredApplied)
				d := h.detail("settle", "a")
				if d.Run.RunID != g.Lease.RunID || d.Run.Status != out.Status || d.Run.BusinessDate != c.BusinessDate || d.Run.Labels["team"] != "books" || len(d.Attempts) != 1 {
					t.Errorf("%s under %s: %+v", name, lock, d)
				}
				if e := d.Events[len(d.Events)-1]; e.Name != onerun.EventLateOutcome || !strings.Contains(e.Detail, "which the store has forgotten") {
					t.Errorf("event: %+v", e)
				}
				h.refused(h, again(c), reason)
				if name != "a start of another key" { // which holds the lock
					h.nothingLeft(lock)
				}
			}
		}
	}
}

// TestForgottenLeaseLost: an owner that learns of it at its end is told by ErrLost, and leaves the end
// for the next start.
func TestForgottenLeaseLost(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.remote.away.Store(false)
	c := claimOf("settle", "a")
	g := h.granted(h, c)
	h.forgets()
	if err := h.Finish(soon(t), g.Lease, success); !errors.Is(err, onerun.ErrLost) {
		t.Fatalf("finish: %v", err)
	}
	if _, err := h.Deliver(soon(t), g.Lease, success); !errors.Is(err, onerun.ErrLost) {
		t.Fatalf("deliver: %v", err)
	}
	h.forgotten(h.refused(h, again(c), onerun.RefusedSucceeded).Delivered, nil, onerun.DeliveredApplied)
	h.nothingLeft(c.Lock)
}

// TestForgottenAndClaimed: whoever has claimed the key since keeps it, and is told that it may have
// run twice.
func TestForgottenAndClaimed(t *testing.T) {
	t.Parallel()
	for _, ended := range []bool{true, false} {
		h := newHost(t)
		c := claimOf("settle", "a")
		h.leftBehind(c, success)
		h.forgets()
		g, err := h.remote.Store.Claim(soon(t), again(c)) // of another host
		if err == nil && ended {
			err = h.remote.Store.Finish(soon(t), g.Lease, success)
		}
		if err != nil {
			t.Fatal(err)
		}
		all, err := h.Flush(soon(t))
		d := h.forgotten(all, err, onerun.DeliveredKept)
		if !strings.HasSuffix(d.Words(), onerun.MayHaveRunTwice) || d.Run.RunID != g.Lease.RunID {
			t.Errorf("delivered: %+v, %q", d, d.Words())
		}
		h.nothingLeft(c.Lock)
		if !ended {
			if err := h.remote.Store.Finish(soon(t), g.Lease, success); err != nil {
				t.Errorf("finish of whoever has the key: %v", err)
			}
		}
	}
}

// TestForgottenRetry: a store that was restored to the attempt before is told of the one that it lacks.
func TestForgottenRetry(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.remote.away.Store(false)
	c := claimOf("settle", "a")
	c.Retries = 1
	early := memory.New()
	for _, s := range []*memory.Store{early, h.remote.Store} { // the one is a copy of the other
		g, err := s.Claim(soon(t), c)
		if err == nil {
			err = s.Finish(soon(t), g.Lease, exited)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	first := c.RunID
	c = again(c)
	if g := h.leftBehind(c, success); g.Lease.Attempt != 2 || g.Lease.RunID != first {
		t.Fatalf("grant: %+v", g.Lease)
	}
	h.remote.Store = early
	all, err := h.Flush(soon(t))
	h.forgotten(all, err, onerun.DeliveredApplied)
	if d := h.detail("settle", "a"); d.Run.Status != onerun.Succeeded || d.Run.RunID != first || len(d.Attempts) != 2 {
		t.Errorf("the run: %+v", d)
	}
	h.nothingLeft(c.Lock)
}

// TestSpooledButKnown: a store that has forgotten nothing is told of the end as that of its attempt,
// and what it has pruned it knows.
func TestSpooledButKnown(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	c := claimOf("settle", "a")
	g := h.leftBehind(c, success)
	all, err := h.Flush(soon(t))
	if err != nil || len(all) != 1 || all[0].Kind != onerun.DeliveredApplied || all[0].Forgotten || all[0].Unclaimed {
		t.Errorf("flush: %+v, error %v", all, err)
	}
	if d := h.detail("settle", "a"); d.Run.Token != g.Lease.Token || len(d.Attempts) != 1 {
		t.Errorf("the run: %+v", d)
	}
	h.nothingLeft(c.Lock)

	c = claimOf("settle", "b")
	g = h.leftBehind(c, success)
	if _, err := h.remote.Store.Deliver(soon(t), g.Lease, success); err != nil {
		t.Fatal(err)
	}
	if p, err := h.remote.Store.Prune(soon(t), onerun.PruneRequest{Namespace: c.Namespace, Oldest: true, Job: c.Job}); err != nil || p.Runs != 2 {
		t.Fatalf("prune: %+v, error %v", p, err)
	}
	if all, err = h.Flush(soon(t)); err != nil || len(all) != 1 || all[0].Kind != onerun.DeliveredBefore {
		t.Errorf("flush of what is pruned: %+v, error %v", all, err)
	}
	h.nothingLeft(c.Lock)
}

// TestForgottenTwice: a file that outlives its delivery, as a death of whoever delivers leaves it, has no
// effect.
func TestForgottenTwice(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	c := claimOf("settle", "a")
	h.leftBehind(c, success)
	h.forgets()
	left := h.files()
	if len(left) != 1 {
		t.Fatalf("files that wait: %v", left)
	}
	text, err := os.ReadFile(left[0])
	if err != nil {
		t.Fatal(err)
	}
	all, err := h.Flush(soon(t))
	h.forgotten(all, err, onerun.DeliveredApplied)
	if err := os.WriteFile(left[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	if all, err = h.Flush(soon(t)); err != nil || len(all) != 1 || all[0].Kind != onerun.DeliveredBefore {
		t.Errorf("flush: %+v, error %v", all, err)
	}
	if d := h.detail("settle", "a"); len(d.Attempts) != 1 {
		t.Errorf("attempts: %+v", d.Attempts)
	}
}

// TestForgottenOfTheDead: whoever inherits a lock, as a guard does, spools what it was given of the
// run whose end it can't record, and removes it when it can.
func TestForgottenOfTheDead(t *testing.T) {
	t.Parallel()
	for _, recorded := range []bool{true, false} {
		h := newHost(t)
		h.remote.away.Store(false)
		c := claimOf("settle", "a")
		g := h.granted(h, c)
		known := h.Granted(g.Lease)
		files, dir, mode := h.SharedLock(g.Lease)
		heir, err := hostlock.Open(h.remote, dir, hostlock.Options{Name: "store"})
		if err == nil {
			_, _, err = heir.Inherit(g.Lease, mode, c.Job, dup(t, files))
		}
		if err != nil {
			t.Fatal(err)
		}
		heir.SetGranted(g.Lease, known)
		h.remote.away.Store(true)
		if err := h.Finish(soon(t), g.Lease, success); !errors.Is(err, onerun.ErrUnavailable) {
			t.Fatalf("finish: %v", err)
		}
		if err := os.Remove(h.files()[0]); !recorded && err != nil { // as if it had died before that
			t.Fatal(err)
		}
		h.Leave(g.Lease)
		if err := heir.Finish(soon(t), g.Lease, success); !errors.Is(err, onerun.ErrUnavailable) {
			t.Fatalf("finish: %v", err)
		}
		h.remote.away.Store(false)
		if recorded {
			if err := heir.Finish(soon(t), g.Lease, success); err != nil {
				t.Fatal(err)
			}
			h.nothingLeft(c.Lock)
			continue
		}
		heir.Leave(g.Lease)
		h.forgets()
		h.forgotten(h.refused(h, again(c), onerun.RefusedSucceeded).Delivered, nil, onerun.DeliveredApplied)
	}
}

// TestForgottenBesideStores: the end that waits for one store is not delivered to another one whose
// locks are in the same directory.
func TestForgottenBesideStores(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	c := claimOf("settle", "a")
	h.leftBehind(c, success)
	first, other := h.remote, &faulty{Store: memory.New()}
	h.remote = other
	h.open("other")
	if all, err := h.Flush(soon(t)); err != nil || len(all) > 0 {
		t.Errorf("flush to another store: %+v, error %v", all, err)
	}
	if all, err := h.Spooled(soon(t)); err != nil || len(all) != 1 || all[0].Store != "store" {
		t.Errorf("waiting: %+v, error %v", all, err)
	}
	h.refused(h, again(c), onerun.RefusedStale)
	h.remote = first
	h.open("store")
	h.forgets()
	h.forgotten(h.refused(h, again(c), onerun.RefusedSucceeded).Delivered, nil, onerun.DeliveredApplied)
}

// TestUnclaimedBesideEnd: while the store is away, a key whose end waits here is not executed without
// a claim.
func TestUnclaimedBesideEnd(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	c := claimOf("settle", "a")
	h.leftBehind(c, success)
	h.remote.away.Store(true)
	h.refused(h.without(), again(c), onerun.RefusedSucceeded)
	h.remote.away.Store(false)
	c = claimOf("settle", "b")
	h.leftBehind(c, exited)
	h.remote.away.Store(true)
	h.unavailable(h.without(), again(c))
}

// TestNoRoomForForgotten: without a spool file the end is kept in the note alone, and recorded by a
// store that knows its run.
func TestNoRoomForForgotten(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	c := claimOf("settle", "a")
	h.leftBehind(c, success)
	for _, name := range h.files() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	h.refused(h, again(c), onerun.RefusedSucceeded)
}

// dup gives descriptors of a lock's files to whoever inherits it.
func dup(t *testing.T, files []int) (heirs []int) {
	t.Helper()
	for _, fd := range files {
		heir, err := unix.Dup(fd)
		if err != nil {
			t.Fatal(err)
		}
		heirs = append(heirs, heir)
	}
	return heirs
}
