package storetest

import (
	"errors"
	"time"

	"github.com/onerun-dev/onerun"
)

// approvalCases: an approval lifts rows 2, 3, 4 and 6, for exactly one claim, as
// long as the run is what its approver saw.
func approvalCases() []check {
	return []check{
		{"approvals/lift succeeded, skipped, failed, retry not due", func(t *trial) {
			for partition, end := range map[string]onerun.Outcome{"succeeded": succeeded, "skipped": skipped, "failed": failed} {
				c := t.job("settle", partition)
				t.rerun(c, t.ended(c, end))
			}
			c := retrying(t.job("settle", "not-due"), 1, time.Hour)
			t.rerun(c, t.ended(c, failed))
		}},
		{"approvals/lift a cancellation in advance", func(t *trial) {
			r := t.cancel("settle", day)
			t.approve(r)
			c := t.job("settle", day)
			g := t.granted(c)
			equal(t, g.Lease.Attempt, 1, "first attempt of a key that was cancelled")
			equal(t, g.Lease.RunID, r.RunID, "run id of a key that was cancelled")
			t.finish(g, succeeded)
			t.refused(again(c), onerun.RefusedSucceeded)
		}},
		{"approvals/don't lift paused", func(t *trial) {
			c := t.job("settle", day)
			r := t.ended(c, succeeded)
			t.approve(r)
			t.pause("settle")
			t.refused(again(c), onerun.RefusedPaused)
			t.openApproval(r.RunID)
			t.resume("settle")
			equal(t, t.granted(again(c)).Lease.Attempt, 2, "attempt after the pause")
		}},
		{"approvals/don't lift locked", func(t *trial) {
			c := t.job("settle", day)
			r := t.ended(c, succeeded)
			t.approve(r)
			g := t.granted(t.job("settle", "2026-09-16"))
			t.refused(again(c), onerun.RefusedLocked)
			t.openApproval(r.RunID)
			t.finish(g, succeeded)
			equal(t, t.granted(again(c)).Lease.Attempt, 2, "attempt after the lock came free")
		}},
		{"approvals/don't lift running", func(t *trial) {
			c := t.job("settle", day)
			t.approve(t.ended(c, succeeded))
			g := t.granted(again(c))
			t.stoodBy(t.refused(again(c), onerun.RefusedRunning), g.Run)
		}},
		{"approvals/spent by exactly one of many claims", func(t *trial) {
			stores := t.opens(4)
			for round := range t.h.Rounds {
				c := t.job("settle", partition(round))
				r := t.ended(c, succeeded)
				t.approve(r)
				won := t.contend(stores, t.h.Clients, c)
				equal(t, len(won), 1, "claims that were granted by one approval")
				equal(t, won[0].Lease.Attempt, 2, "attempt")
				t.spent(r.RunID, 2)
				t.must(stores[won[0].by].Finish(t.ctx, won[0].Lease, succeeded), "finish the rerun")
				t.refused(again(c), onerun.RefusedSucceeded)
			}
		}},
		{"approvals/bound to the status that was seen", func(t *trial) {
			c := t.job("settle", day)
			r := t.ended(c, failed)
			t.approve(r)
			r = t.resolve(r, onerun.Succeeded)
			t.refused(again(c), onerun.RefusedSucceeded)
			t.rerun(c, r) // an approval that is out of date doesn't stand in the way of a new one
		}},
		{"approvals/bound to the attempt that was seen", func(t *trial) {
			// The first approval is left over when the second one is spent. It was
			// for attempt 1, so it says nothing about attempt 2.
			c := t.job("settle", day)
			r := t.ended(c, failed)
			t.approve(r)
			t.approve(t.resolve(r, onerun.Succeeded))
			t.finish(t.granted(again(c)), failed)
			t.refused(again(c), onerun.RefusedFailed)
		}},
		{"approvals/an outdated expectation", func(t *trial) {
			r := t.ended(t.job("settle", day), succeeded)
			before := t.look()
			for name, change := range outdated {
				q := approval(r)
				change(&q.Expect)
				_, err := t.s.Approve(t.ctx, q)
				t.is(err, onerun.ErrState, "approve with another %s", name)
			}
			t.unchanged(before, t.look(), "a refused approval")
		}},
		{"approvals/one open at a time", func(t *trial) {
			c := t.job("settle", day)
			r := t.ended(c, succeeded)
			t.approve(r)
			before := t.look()
			_, err := t.s.Approve(t.ctx, approval(r))
			t.is(err, onerun.ErrState, "approve what is approved already")
			t.unchanged(before, t.look(), "a second approval")
		}},
		{"approvals/twenty at once", func(t *trial) {
			stores := t.opens(4)
			c := t.job("settle", day)
			r := t.ended(c, failed)
			errs := make([]error, 20)
			t.together(len(errs), func(i int) error {
				_, errs[i] = stores[i%len(stores)].Approve(t.ctx, approval(r))
				return nil
			})
			given := 0
			for _, err := range errs {
				if err == nil {
					given++
				} else {
					t.is(err, onerun.ErrState, "one of twenty approvals")
				}
			}
			equal(t, given, 1, "approvals that were given")
			equal(t, len(t.contend(stores, t.h.Clients, c)), 1, "claims that were granted")
		}},
		{"approvals/expired", func(t *trial) {
			c := t.job("settle", day)
			r := t.ended(c, succeeded)
			q := approval(r)
			q.ExpiresAt = t.now().Add(-time.Second)
			_, err := t.s.Approve(t.ctx, q)
			t.must(err, "approve")
			t.refused(again(c), onerun.RefusedSucceeded)
			q.ExpiresAt = t.now().Add(time.Hour)
			_, err = t.s.Approve(t.ctx, q)
			t.must(err, "approve again when the first approval expired")
			if t.h.Advance != nil {
				t.pass(time.Hour)
				t.refused(again(c), onerun.RefusedSucceeded)
				q.ExpiresAt = t.now().Add(time.Hour)
				_, err = t.s.Approve(t.ctx, q)
				t.must(err, "approve a third time")
			}
			equal(t, t.granted(again(c)).Lease.Attempt, 2, "attempt")
		}},
		{"approvals/of what can't be approved", func(t *trial) {
			running := t.granted(t.job("settle", day))
			_, err := t.s.Approve(t.ctx, approval(running.Run))
			t.is(err, onerun.ErrState, "approve a RUNNING run")
			unkeyed := t.ended(t.job("sweep", ""), failed)
			_, err = t.s.Approve(t.ctx, approval(unkeyed))
			t.is(err, onerun.ErrState, "approve an unkeyed run")
			unknown := approval(unkeyed)
			unknown.RunID = onerun.NewRunID(time.Now())
			_, err = t.s.Approve(t.ctx, unknown)
			t.is(err, onerun.ErrNotFound, "approve a run that nobody knows")
		}},
	}
}

// outdated are ways in which an expectation can be wrong.
var outdated = map[string]func(*onerun.Expect){
	"status":  func(e *onerun.Expect) { e.Status = onerun.Skipped },
	"attempt": func(e *onerun.Expect) { e.Attempt++ },
	"token":   func(e *onerun.Expect) { e.Token++ },
	"run":     func(e *onerun.Expect) { *e = onerun.Expect{} },
}

// rerun approves a run that has ended, executes it once more, and checks that the
// approval is kept as spent, with who and why.
func (t *trial) rerun(c onerun.Claim, r onerun.Run) {
	a := t.approve(r)
	g := t.granted(again(c))
	equal(t, g.Lease.RunID, r.RunID, "run id of the rerun")
	equal(t, g.Lease.Attempt, r.Attempt+1, "attempt of the rerun")
	t.spent(r.RunID, g.Lease.Attempt)
	t.finish(g, succeeded)
	t.refused(again(c), onerun.RefusedSucceeded)
	t.decided(r.RunID, onerun.EventRerunApproved)
	kept := t.lastApproval(r.RunID)
	equal(t, kept.Reason, a.Reason, "reason of the approval that is kept")
	equal(t, kept.By, a.By, "who gave the approval that is kept")
}

func (t *trial) lastApproval(runID string) onerun.Approval {
	all := t.detail(runID).Approvals
	if len(all) == 0 {
		t.failf("approvals of run %s: expected one, got none", runID)
	}
	last := all[0]
	for _, a := range all {
		if a.ID > last.ID {
			last = a
		}
	}
	return last
}

func (t *trial) spent(runID string, attempt int) {
	a := t.lastApproval(runID)
	if a.UsedAt.IsZero() || a.UsedBy != attempt {
		t.failf("the approval: expected it spent by attempt %d, got used at %s by attempt %d", attempt, a.UsedAt, a.UsedBy)
	}
}

func (t *trial) openApproval(runID string) {
	if a := t.lastApproval(runID); !a.UsedAt.IsZero() {
		t.failf("the approval: expected it unspent after a refusal, got used at %s", a.UsedAt)
	}
}

// win is a grant in a contest, with the client that got it.
type win struct {
	onerun.Grant
	by int
}

// contend claims n times at once, through several clients, and gives the grants.
// Whoever loses is refused; an error fails the case.
func (t *trial) contend(stores []onerun.Store, n int, c onerun.Claim) []win {
	grants, errs := make([]win, n), make([]error, n)
	t.together(n, func(i int) error {
		by := i % len(stores)
		g, err := stores[by].Claim(t.ctx, again(c))
		grants[i], errs[i] = win{g, by}, err
		return nil
	})
	var won []win
	for i, err := range errs {
		var ref *onerun.Refusal
		switch {
		case err == nil:
			won = append(won, grants[i])
		case !errors.As(err, &ref):
			t.failf("claim %s, %d at once: expected to be granted or refused, got %w", nameOf(c), n, err)
		}
	}
	return won
}

// partition is a partition of its own for each round.
func partition(i int) string {
	return time.Date(2026, 9, 15+i, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
}
