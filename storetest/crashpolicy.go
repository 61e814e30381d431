package storetest

import (
	"time"

	"github.com/onerun-dev/onerun"
)

// crashPolicyCases: what becomes of the run of a dead owner. Its own policy
// decides, never that of whoever comes next.
func crashPolicyCases() []check {
	return []check{
		{"crash policy/auto closes a keyed run, and doesn't execute it again", func(t *trial) {
			c := t.job("settle", day)
			g := t.orphan(c)
			ref := t.refusedAfterDeath(again(c), onerun.RefusedFailed)
			r := t.run(g.Lease.RunID)
			t.stoodBy(ref, r)
			t.closed(ref.Closed, g)
			t.diedAs(r)
			equal(t, r.Attempt, 1, "attempts")
			t.event(r.RunID, onerun.EventTakenOver)
			ref = t.refused(again(c), onerun.RefusedFailed)
			equal(t, len(ref.Closed), 0, "runs closed by the second claim")
		}},
		{"crash policy/an unknown outcome is no ordinary failure", func(t *trial) {
			c := retrying(t.job("settle", day), 3, 0)
			g := t.orphan(c)
			if t.h.Leases {
				t.refusedAfterDeath(again(c), onerun.RefusedFailed)
				equal(t, t.run(g.Lease.RunID).NextRetryAt.IsZero(), true, "whether lease_expired has no retry")
				return
			}
			// A proven death is a known failure: --retries covers it.
			next := t.granted(again(c))
			t.closed(next.TakenOver, g)
			equal(t, next.Lease.Attempt, 2, "attempt after a proven death")
		}},
		{"crash policy/retry-lost executes it again", func(t *trial) {
			c := retrying(t.job("settle", day), 1, 0)
			c.RetryLost = true
			g := t.orphan(c)
			next := t.granted(again(c))
			t.closed(next.TakenOver, g)
			equal(t, next.Lease.Attempt, 2, "attempt")
			equal(t, next.Lease.RunID, g.Lease.RunID, "run")
			a := t.attempt(g.Lease.RunID, 1)
			equal(t, a.Status, onerun.Failed, "status of attempt 1")
			equal(t, a.Reason, t.death(), "reason of attempt 1")
			t.finish(next, succeeded)
		}},
		{"crash policy/retry-lost waits its time", func(t *trial) {
			c := retrying(t.job("settle", day), 1, time.Hour)
			c.RetryLost = true
			t.orphan(c)
			t.refusedAfterDeath(again(c), onerun.RefusedRetryNotDue)
		}},
		{"crash policy/an approval executes it again", func(t *trial) {
			c := t.job("settle", day)
			g := t.orphan(c)
			t.refusedAfterDeath(again(c), onerun.RefusedFailed)
			t.rerun(c, t.run(g.Lease.RunID))
		}},
		{"crash policy/manual leaves it to a person", func(t *trial) {
			c := manual(retrying(t.job("settle", day), 3, 0))
			c.RetryLost = true
			g := t.orphan(c)
			t.stoodBy(t.refused(again(c), onerun.RefusedStale), g.Run)
			t.refused(t.job("settle", "2026-09-16"), onerun.RefusedStale)
			r := t.run(g.Lease.RunID)
			equal(t, r.Status, onerun.Running, "status")
			equal(t, r.Stale, true, "Run.Stale")
			t.resolve(r, onerun.Succeeded)
			t.refused(again(c), onerun.RefusedSucceeded)
			t.granted(t.job("settle", "2026-09-16"))
		}},
		{"crash policy/a manual owner that comes back", func(t *trial) {
			c := manual(t.job("settle", day))
			g := t.orphan(c)
			t.refused(again(c), onerun.RefusedStale)
			_, err := t.s.Heartbeat(t.ctx, g.Lease)
			if err != nil || !t.h.Leases {
				// A dead process doesn't come back, and nobody speaks for it. Where
				// only the lease is over, a store may say so too.
				t.is(err, onerun.ErrLost, "a late heartbeat")
				t.refused(again(c), onerun.RefusedStale)
				return
			}
			t.refused(again(c), onerun.RefusedRunning)
			t.finish(g, succeeded)
			t.refused(again(c), onerun.RefusedSucceeded)
		}},
		{"crash policy/the holder's, not the caller's", func(t *trial) {
			byHand, byItself := manual(t.job("settle", day)), t.job("report", day)
			alsoUnkeyed := manual(t.job("sweep", ""))
			gs := t.orphans(byHand, byItself, alsoUnkeyed)
			caller := again(byHand)
			caller.OnCrash = onerun.CrashAuto
			t.stoodBy(t.refused(caller, onerun.RefusedStale), gs[0].Run)
			t.refusedAfterDeath(manual(again(byItself)), onerun.RefusedFailed)
			t.diedAs(t.run(gs[1].Lease.RunID))
			t.stoodBy(t.refused(t.job("sweep", ""), onerun.RefusedStale), gs[2].Run)
		}},
		{"crash policy/retries are the holder's, not the caller's", func(t *trial) {
			with, without := retrying(t.job("settle", day), 1, 0), t.job("report", day)
			with.RetryLost = true
			t.orphans(with, without)
			equal(t, t.granted(retrying(again(with), 0, 0)).Lease.Attempt, 2, "attempt that the dead owner's policy allows")
			eager := retrying(again(without), 5, 0)
			eager.RetryLost = true
			t.refusedAfterDeath(eager, onerun.RefusedFailed)
		}},
		{"crash policy/an unkeyed job starts its next run", func(t *trial) {
			c := t.job("sweep", "")
			g := t.orphan(c)
			next := t.granted(again(c))
			t.closed(next.TakenOver, g)
			t.diedAs(t.run(g.Lease.RunID))
			equal(t, next.Lease.Attempt, 1, "attempt")
			if next.Lease.RunID == g.Lease.RunID {
				t.failf("the next run of an unkeyed job: expected another run id, got the dead one's")
			}
		}},
		{"crash policy/a lock alone comes free", func(t *trial) {
			t.orphan(t.lockOnly("db"))
			g := t.granted(t.lockOnly("db"))
			equal(t, len(g.TakenOver), 0, "runs taken over")
		}},
		{"crash policy/another job under the same lock", func(t *trial) {
			db, books := onerun.NamedLock("db"), onerun.NamedLock("books")
			gs := t.orphans(under(t.job("settle", day), db), manual(under(t.job("close", day), books)))
			next := t.granted(under(t.job("report", day), db))
			t.closed(next.TakenOver, gs[0])
			t.diedAs(t.run(gs[0].Lease.RunID))
			t.stoodBy(t.refused(under(t.job("report", "2026-09-16"), books), onerun.RefusedStale), gs[1].Run)
			t.refused(t.lockOnly("books"), onerun.RefusedStale)
		}},
		{"crash policy/a key that died under another lock", func(t *trial) {
			c := retrying(t.job("settle", day), 1, 0)
			c.RetryLost = true
			byHand := manual(t.job("close", day))
			gs := t.orphans(c, byHand)
			next := t.granted(under(again(c), onerun.NamedLock("other")))
			t.closed(next.TakenOver, gs[0])
			equal(t, next.Lease.Attempt, 2, "attempt under the other lock")
			t.stoodBy(t.refused(under(again(byHand), onerun.NamedLock("third")), onerun.RefusedStale), gs[1].Run)
			t.granted(t.job("settle", "2026-09-16")) // the first lock is free
		}},
		{"crash policy/a handle that was closed is not a dead owner", func(t *trial) {
			// Close leaves leases to run out; nobody is proven dead by it.
			s, err := t.h.Open(t.ctx)
			t.must(err, "open the store")
			c := t.job("settle", day)
			t.grantedBy(s, c)
			t.must(s.Close(), "close")
			t.refused(again(c), onerun.RefusedRunning)
		}},
	}
}

// death is the reason with which a dead owner's attempt is closed.
func (t *trial) death() onerun.Reason {
	if t.h.Leases {
		return onerun.ReasonLeaseExpired
	}
	return onerun.ReasonOwnerDied
}

func (t *trial) diedAs(r onerun.Run) {
	equal(t, r.Status, onerun.Failed, "status of a dead owner's run")
	equal(t, r.Reason, t.death(), "reason of a dead owner's run")
	equal(t, r.FinishedAt.IsZero(), false, "whether a dead owner's run has no end")
}

// closed checks that exactly the one run is said to have been closed on the way.
func (t *trial) closed(runs []onerun.Run, g onerun.Grant) {
	if len(runs) != 1 || runs[0].RunID != g.Lease.RunID {
		t.failf("runs closed on the way: expected run %s, got %d: %v", g.Lease.RunID, len(runs), runs)
	}
	equal(t, runs[0].Status, onerun.Failed, "status of the run that was closed on the way")
	equal(t, runs[0].Reason, t.death(), "reason of the run that was closed on the way")
	equal(t, runs[0].Attempt, g.Lease.Attempt, "attempt that was closed on the way")
}

// orphan makes a grant whose owner is dead, as far as the store can know.
func (t *trial) orphan(c onerun.Claim) onerun.Grant { return t.orphans(c)[0] }

// orphans makes several. With leases the owners fall silent for longer than their
// TTL; without, each is a process that claims and is killed.
func (t *trial) orphans(claims ...onerun.Claim) []onerun.Grant {
	var out []onerun.Grant
	ttl := t.scale(time.Minute, onerun.MinTTL)
	for _, c := range claims {
		if t.h.Leases {
			c.TTL = ttl
			out = append(out, t.granted(c))
			continue
		}
		p := t.client(spawn{})
		out = append(out, p.granted(c))
		p.kill()
	}
	if t.h.Leases {
		t.lapse(ttl)
		for _, c := range claims {
			t.noticed(c)
		}
	}
	return out
}

// lapse lets a lease run out that was renewed just now.
func (t *trial) lapse(ttl time.Duration) {
	t.pass(ttl + t.scale(0, 100*time.Millisecond))
}

// noticed waits until the store sees that the lease is over, which some do a
// little late.
func (t *trial) noticed(c onerun.Claim) {
	for range 100 {
		ref, err := t.s.Explain(t.ctx, again(c))
		t.must(err, "explain %s", nameOf(c))
		if ref == nil || ref.Reason != onerun.RefusedRunning && ref.Reason != onerun.RefusedLocked {
			return
		}
		if t.h.Advance != nil {
			break
		}
		t.pass(100 * time.Millisecond)
	}
	t.failf("the lease of %s: expected it to be seen as over, got that it is held", nameOf(c))
}
