package storetest

import (
	"time"

	"github.com/onerun-dev/onerun"
)

// retryCases: a FAILED run with a retry left is executed again by any start, when
// it is due, and never more often than its owners' policies allow.
func retryCases() []check {
	return []check{
		{"retries/due by the store's clock", func(t *trial) {
			wait := t.scale(time.Hour, 2*time.Second)
			c := retrying(t.job("settle", day), 1, wait)
			from := t.now()
			r := t.ended(c, failed)
			to := t.now()
			if r.NextRetryAt.Before(from.Add(wait)) || r.NextRetryAt.After(to.Add(wait)) {
				t.failf("NextRetryAt: expected from %s to %s, got %s", from.Add(wait), to.Add(wait), r.NextRetryAt)
			}
			ref := t.refused(again(c), onerun.RefusedRetryNotDue)
			if !ref.RetryAt.Equal(r.NextRetryAt) {
				t.failf("RetryAt: expected %s, got %s", r.NextRetryAt, ref.RetryAt)
			}
			if t.h.Advance != nil {
				t.pass(wait - time.Millisecond)
				t.refused(again(c), onerun.RefusedRetryNotDue)
				t.pass(time.Millisecond)
			} else {
				t.pass(wait)
			}
			g := t.granted(again(c))
			equal(t, g.Lease.Attempt, 2, "attempt of the retry")
			if g.At.Before(r.NextRetryAt) {
				t.failf("retry granted at %s, expected not before %s", g.At, r.NextRetryAt)
			}
			equal(t, g.Run.NextRetryAt.IsZero(), true, "whether a RUNNING run has no next retry")
		}},
		{"retries/the budget ends in failed", func(t *trial) {
			c := retrying(t.job("settle", day), 2, 0)
			for n := 1; n <= 3; n++ {
				c = again(c)
				g := t.granted(c)
				equal(t, g.Lease.Attempt, n, "attempt")
				t.finish(g, failed)
				equal(t, t.run(g.Lease.RunID).NextRetryAt.IsZero(), n == 3, "whether no retry is left after attempt %d", n)
			}
			t.stoodBy(t.refused(again(c), onerun.RefusedFailed), t.runs(onerun.Query{Namespace: t.ns})[0])
		}},
		{"retries/the wait grows, within its bounds (B42)", func(t *trial) {
			c := t.job("settle", day)
			c.Retries, c.BackoffMin, c.BackoffMax = 100, time.Hour, 10*time.Hour
			if t.h.Advance == nil {
				// The first wait only; package onerun tests the arithmetic.
				r := t.ended(c, failed)
				t.within(r, c, t.now())
				return
			}
			for range 30 {
				c = again(c)
				g := t.granted(c)
				t.finish(g, failed)
				r := t.run(g.Lease.RunID)
				t.within(r, c, g.At)
				t.pass(c.BackoffMax)
			}
		}},
		{"retries/by the holder's policy, not the caller's", func(t *trial) {
			poor := t.job("settle", day)
			t.ended(poor, failed)
			t.refused(retrying(again(poor), 5, 0), onerun.RefusedFailed)

			rich := retrying(t.job("settle", "2026-09-16"), 5, 0)
			t.ended(rich, failed)
			g := t.granted(retrying(again(rich), 0, 0)) // the first owner's budget lets it in
			t.finish(g, failed)                         // its own lets nobody after it
			t.refused(again(rich), onerun.RefusedFailed)

			slow := retrying(t.job("settle", "2026-09-17"), 5, time.Hour)
			t.ended(slow, failed)
			t.refused(retrying(again(slow), 5, 0), onerun.RefusedRetryNotDue)
		}},
		{"retries/never after some ends", func(t *trial) {
			for _, reason := range []onerun.Reason{
				onerun.ReasonNotFound, onerun.ReasonNotExecutable, onerun.ReasonStopped, onerun.ReasonLeaseLost,
			} {
				c := retrying(t.job("settle", string(reason)), 3, 0)
				r := t.ended(c, onerun.Outcome{Status: onerun.Failed, Reason: reason})
				equal(t, r.NextRetryAt.IsZero(), true, "whether %s has no retry", reason)
				t.refused(again(c), onerun.RefusedFailed)
			}
		}},
		{"retries/after every other", func(t *trial) {
			for _, reason := range []onerun.Reason{
				onerun.ReasonExit, onerun.ReasonSignal, onerun.ReasonTimeout, onerun.ReasonCanceled, onerun.ReasonOwnerDied,
			} {
				c := retrying(t.job("settle", string(reason)), 1, 0)
				t.ended(c, onerun.Outcome{Status: onerun.Failed, Reason: reason})
				g := t.granted(again(c))
				equal(t, g.Lease.Attempt, 2, "attempt after %s", reason)
				t.finish(g, succeeded)
			}
		}},
		{"retries/none is spent by a job that was never started", func(t *trial) {
			void := onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit, Error: "no process to be had", Void: true}
			c := retrying(t.job("settle", day), 1, time.Hour)
			for n := 1; n <= 3; n++ {
				c = again(c)
				g := t.granted(c) // at once, whatever the wait and the budget
				equal(t, g.Lease.Attempt, n, "attempt")
				t.finish(g, void)
				a := t.attempt(g.Lease.RunID, n)
				equal(t, a.Void, true, "Void of attempt %d", n)
				equal(t, a.Status, onerun.Failed, "status of attempt %d", n)
			}
			g := t.granted(again(c))
			t.finish(g, failed)
			t.refused(again(c), onerun.RefusedRetryNotDue) // the first failure that counts
			poor := t.job("report", day)
			t.ended(poor, void)
			t.ended(again(poor), failed)
			t.refused(again(poor), onerun.RefusedFailed)
		}},
		{"retries/skipped and succeeded have none", func(t *trial) {
			for i, o := range []onerun.Outcome{succeeded, skipped} {
				c := retrying(t.job("settle", partition(i)), 3, 0)
				r := t.ended(c, o)
				equal(t, r.NextRetryAt.IsZero(), true, "whether a %s run has no retry", o.Status)
			}
		}},
		{"retries/any start takes the due attempt, and only one", func(t *trial) {
			stores := t.opens(4)
			for round := range t.h.Rounds {
				c := retrying(t.job("settle", partition(round)), 1, 0)
				t.ended(c, failed)
				won := t.contend(stores, t.h.Clients, c)
				equal(t, len(won), 1, "claims that were granted by one retry")
				equal(t, won[0].Lease.Attempt, 2, "attempt")
				equal(t, won[0].Lease.RunID, c.RunID, "run")
				t.must(stores[won[0].by].Finish(t.ctx, won[0].Lease, succeeded), "finish the retry")
			}
		}},
		{"retries/an approval comes before the retry's time", func(t *trial) {
			c := retrying(t.job("settle", day), 1, time.Hour)
			r := t.ended(c, failed)
			t.approve(r)
			g := t.granted(again(c))
			t.spent(r.RunID, 2)
			t.finish(g, failed)
			t.refused(again(c), onerun.RefusedFailed) // two failures: the budget of one retry is used up
		}},
		{"retries/a resolution ends them", func(t *trial) {
			c := retrying(t.job("settle", day), 5, 0)
			r := t.resolve(t.ended(c, failed), onerun.Succeeded)
			equal(t, r.NextRetryAt.IsZero(), true, "whether a resolved run has no retry")
			t.refused(again(c), onerun.RefusedSucceeded)
			byHand := manual(retrying(t.job("report", day), 5, 0))
			byHand.RetryLost = true
			g := t.orphan(byHand)
			t.resolve(t.run(g.Lease.RunID), onerun.Failed)
			t.refused(again(byHand), onerun.RefusedFailed)
		}},
	}
}

// within checks a retry's time: between the policy's bounds, from a failure that
// was recorded a moment ago.
func (t *trial) within(r onerun.Run, c onerun.Claim, at time.Time) {
	wait, slack := r.NextRetryAt.Sub(at), t.scale(0, time.Minute)
	if wait < c.BackoffMin-slack || wait > c.BackoffMax+slack {
		t.failf("wait after attempt %d: expected %s to %s, got %s", r.Attempt, c.BackoffMin, c.BackoffMax, wait)
	}
}
