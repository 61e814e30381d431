package storetest

import (
	"fmt"
	"time"

	"github.com/onerun-dev/onerun"
)

// twoPeopleCases: a rerun that one person requests and another one approves.
func twoPeopleCases() []check {
	return []check{
		{"two people/the whole table", func(t *trial) { t.approvalTable() }},
		{"two people/a rerun by two", func(t *trial) {
			c := t.job("settle", day)
			c.TwoPeople = true
			r := t.ended(c, succeeded)
			asked := t.step(r, onerun.ApproveRequest, "ana@h1")
			equal(t, asked.By, "", "who approved what is only requested")
			t.refused(again(c), onerun.RefusedSucceeded)
			a := t.step(r, onerun.ApproveSecond, "kim@h1")
			for what, x := range map[string]onerun.Approval{"returned": a, "kept": t.lastApproval(r.RunID)} {
				equal(t, x.By, "kim@h1", "%s: who approved", what)
				equal(t, x.Reason, "approve by kim@h1", "%s: why it was approved", what)
				equal(t, x.RequestedBy, "ana@h1", "%s: who requested", what)
				equal(t, x.RequestReason, "request by ana@h1", "%s: why it was requested", what)
				equal(t, x.RequestedAt.IsZero(), false, "%s: whether there is no time of the request", what)
				equal(t, x.UsedAt.IsZero(), true, "%s: whether it is unspent", what)
			}
			e := t.event(r.RunID, onerun.EventRerunRequested)
			equal(t, e.By+": "+e.Reason, "ana@h1: request by ana@h1", "who and why of event rerun_requested")
			e = t.event(r.RunID, onerun.EventRerunApproved)
			equal(t, e.By+": "+e.Reason, "kim@h1: approve by kim@h1", "who and why of event rerun_approved")
			g := t.granted(again(c))
			equal(t, g.Lease.Attempt, 2, "attempt of the rerun")
			t.spent(r.RunID, 2)
			t.finish(g, succeeded)
			t.refused(again(c), onerun.RefusedSucceeded)
			t.stepRefused(t.run(r.RunID), onerun.ApproveSecond, "lee@h1", "a second approval of a request that is spent")
		}},
		{"two people/one person on two hosts", func(t *trial) {
			c := t.job("settle", day)
			c.TwoPeople = true
			r := t.ended(c, failed)
			t.step(r, onerun.ApproveRequest, "ana@h1")
			for _, same := range []string{"ana@h1", "ana@h2", "ana@h2 as root", "ana", "ana as root"} {
				t.stepRefused(r, onerun.ApproveSecond, same, "approve one's own request as "+same)
			}
			t.step(r, onerun.ApproveSecond, "kim@h1 as root")
			equal(t, t.granted(again(c)).Lease.Attempt, 2, "attempt")
		}},
		{"two people/what its last owner said", func(t *trial) {
			c := t.job("settle", day)
			c.TwoPeople = true
			r := t.ended(c, failed)
			equal(t, r.TwoPeople, true, "Run.TwoPeople")
			equal(t, t.attempt(r.RunID, 1).TwoPeople, true, "Attempt.TwoPeople")
			t.stepRefused(r, onerun.ApproveAlone, "kim@h1", "approve alone what its owner wants two people for")
			t.step(r, onerun.ApproveRequest, "ana@h1")
			t.step(r, onerun.ApproveSecond, "kim@h1")
			c.TwoPeople = false // a later owner that doesn't say so
			r = t.ended(again(c), failed)
			equal(t, r.TwoPeople, true, "Run.TwoPeople after a later owner that doesn't say so")
			t.stepRefused(r, onerun.ApproveAlone, "kim@h1", "approve alone what once took two people")
		}},
		{"two people/what the operator's side says", func(t *trial) {
			for _, r := range []onerun.Run{t.ended(t.job("settle", day), failed), t.cancel("settle", "cancelled")} {
				q := stepBy(r, onerun.ApproveAlone, "kim@h1")
				q.TwoPeople = true
				before := t.look()
				_, err := t.s.Approve(t.ctx, q)
				t.is(err, onerun.ErrState, "approve alone what needs two people")
				t.unchanged(before, t.look(), "a refused approval")
				t.step(r, onerun.ApproveRequest, "ana@h1")
				_, err = t.s.Approve(t.ctx, q)
				t.is(err, onerun.ErrState, "approve alone what was requested and needs two people")
				t.step(r, onerun.ApproveSecond, "kim@h1")
			}
		}},
		{"two people/a request lifts nothing", func(t *trial) {
			for partition, end := range map[string]onerun.Outcome{"succeeded": succeeded, "skipped": skipped, "failed": failed} {
				c := t.job("settle", partition)
				t.step(t.ended(c, end), onerun.ApproveRequest, "ana@h1")
				t.refused(again(c), onerun.Reason(partition))
			}
			c := retrying(t.job("settle", "not-due"), 1, time.Hour)
			t.step(t.ended(c, failed), onerun.ApproveRequest, "ana@h1")
			t.refused(again(c), onerun.RefusedRetryNotDue)
		}},
		{"two people/an outdated request", func(t *trial) {
			r := t.ended(t.job("settle", day), failed)
			t.step(r, onerun.ApproveRequest, "ana@h1")
			r = t.resolve(r, onerun.Succeeded)
			t.stepRefused(r, onerun.ApproveSecond, "kim@h1", "approve a request for another status")
			t.step(r, onerun.ApproveRequest, "lee@h1")
			equal(t, t.step(r, onerun.ApproveSecond, "ana@h1").RequestedBy, "lee@h1", "who requested what is approved")

			c := retrying(t.job("settle", "2026-09-16"), 1, 0) // its due retry comes first
			r = t.ended(c, failed)
			t.step(r, onerun.ApproveRequest, "ana@h1")
			r = t.ended(again(c), failed)
			t.stepRefused(r, onerun.ApproveSecond, "kim@h1", "approve a request for another attempt")
			t.step(r, onerun.ApproveRequest, "ana@h1")

			r = t.ended(t.job("settle", "2026-09-17"), failed)
			q := stepBy(r, onerun.ApproveRequest, "ana@h1")
			q.ExpiresAt = t.now().Add(-time.Second)
			_, err := t.s.Approve(t.ctx, q)
			t.must(err, "request a rerun")
			t.stepRefused(r, onerun.ApproveSecond, "kim@h1", "approve a request that is over")
			_, err = t.s.Approve(t.ctx, q)
			t.must(err, "request a rerun again")
			t.step(r, onerun.ApproveAlone, "kim@h1")
			equal(t, t.lastApproval(r.RunID).RequestedBy, "", "who requested what one person approved")
		}},
		{"two people/approvers at once", func(t *trial) {
			stores := t.opens(4)
			c := t.job("settle", day)
			c.TwoPeople = true
			r := t.ended(c, failed)
			t.step(r, onerun.ApproveRequest, "ana@h1")
			errs := make([]error, t.h.Clients)
			t.together(len(errs), func(i int) error {
				_, errs[i] = stores[i%len(stores)].Approve(t.ctx, stepBy(r, onerun.ApproveSecond, fmt.Sprintf("kim%d@h1", i)))
				return nil
			})
			t.oneDecided(errs, "second approvals")
			equal(t, len(t.contend(stores, t.h.Clients, c)), 1, "claims that were granted")
		}},
		{"two people/an outdated expectation", func(t *trial) {
			r := t.ended(t.job("settle", day), failed)
			t.step(r, onerun.ApproveRequest, "ana@h1")
			before := t.look()
			for name, change := range outdated {
				q := stepBy(r, onerun.ApproveSecond, "kim@h1")
				change(&q.Expect)
				_, err := t.s.Approve(t.ctx, q)
				t.is(err, onerun.ErrState, "approve with another %s", name)
			}
			t.unchanged(before, t.look(), "a refused approval")
		}},
		{"two people/where a decision was made", func(t *trial) {
			who := onerun.Who{By: "ana@h1", Terminal: "pts/3", Reason: because}
			r := t.ended(t.job("settle", day), failed)
			resolved := resolution(r, onerun.Succeeded)
			resolved.Who = who
			r, err := t.s.Resolve(t.ctx, resolved)
			t.must(err, "resolve")
			asked := stepBy(r, onerun.ApproveRequest, "ana@h1")
			asked.Who = who
			_, err = t.s.Approve(t.ctx, asked)
			t.must(err, "request a rerun")
			agreed := stepBy(r, onerun.ApproveSecond, "kim@h1")
			agreed.Terminal = "tty1"
			_, err = t.s.Approve(t.ctx, agreed)
			t.must(err, "approve a rerun")
			equal(t, t.event(r.RunID, onerun.EventResolved).Terminal, "pts/3", "terminal of event resolved")
			equal(t, t.event(r.RunID, onerun.EventRerunRequested).Terminal, "pts/3", "terminal of event rerun_requested")
			equal(t, t.event(r.RunID, onerun.EventRerunApproved).Terminal, "tty1", "terminal of event rerun_approved")
			again := t.ended(t.job("report", day), failed)
			t.resolve(again, onerun.Succeeded)
			equal(t, t.event(again.RunID, onerun.EventResolved).Terminal, "", "terminal of a decision without one")
		}},
	}
}

// approvalTable takes every step with everything open, and checks that exactly what
// onerun.ApproveAllowed allows is done.
func (t *trial) approvalTable() {
	n := 0
	for _, two := range []bool{false, true} {
		for _, open := range []string{"nothing", "a request", "an approval"} {
			for _, step := range []onerun.ApprovalStep{onerun.ApproveAlone, onerun.ApproveRequest, onerun.ApproveSecond} {
				for _, by := range []string{"ana@h2", "kim@h1"} {
					c := t.job("settle", partition(n))
					c.TwoPeople = two
					n++
					r := t.ended(c, failed)
					if open != "nothing" {
						t.step(r, onerun.ApproveRequest, "ana@h1")
					}
					if open == "an approval" {
						t.step(r, onerun.ApproveSecond, "lee@h1")
					}
					var kept *onerun.Approval
					if open != "nothing" {
						a := t.lastApproval(r.RunID)
						kept = &a
					}
					t.note = fmt.Sprintf(" (%q by %s, open: %s, two people: %v)", step, by, open, two)
					want := onerun.ApproveAllowed(r, kept, stepBy(r, step, by), t.now())
					if want != nil {
						t.stepRefused(r, step, by, "a step that isn't allowed")
						continue
					}
					t.step(r, step, by)
					if step == onerun.ApproveRequest {
						t.refused(again(c), onerun.RefusedFailed)
						continue
					}
					t.finish(t.granted(again(c)), succeeded)
					t.spent(r.RunID, 2)
				}
			}
		}
	}
	t.note = ""
}
