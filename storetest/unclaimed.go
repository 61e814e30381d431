package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// unclaimedCases: runs that were executed without having been claimed, because the store
// could not be asked. A store on one host is never out of its reach, so the cases are for
// those with leases.
func unclaimedCases(leases bool) []check {
	if !leases {
		return nil
	}
	return []check{
		{"unclaimed/of a key that has no run", func(t *trial) {
			for end, then := range map[onerun.Status]onerun.Reason{
				onerun.Succeeded: onerun.RefusedSucceeded, onerun.Failed: onerun.RefusedFailed, onerun.Skipped: onerun.RefusedSkipped,
			} {
				c := t.job("settle", "as-"+string(end))
				c.BusinessDate, c.VersionLabel, c.WorkerLabel, c.Labels = day, "v7", "w1", map[string]string{"team": "books"}
				c.ScheduledAt = began.Add(-time.Minute)
				d := t.unclaimed(c, late(end), onerun.DeliveredApplied)
				equal(t, d.Attempt, 1, "Delivery.Attempt")
				r := t.recorded(c, c.RunID, 1, late(end))
				equal(t, r.BusinessDate, c.BusinessDate, "Run.BusinessDate")
				equal(t, r.VersionLabel, c.VersionLabel, "Run.VersionLabel")
				equal(t, r.Worker.Label, c.WorkerLabel, "Run.Worker.Label")
				equal(t, r.Labels["team"], "books", "a label")
				equal(t, r.ScheduledAt.Equal(c.ScheduledAt), true, "whether ScheduledAt is the claim's")
				t.refused(again(c), then)
			}
			t.finish(t.granted(t.job("settle", "2026-09-16")), succeeded) // the lock is nobody's
		}},
		{"unclaimed/the claim had been granted", func(t *trial) {
			second := retrying(t.job("load", day), 2, 0)
			t.ended(second, failed)
			for _, c := range []onerun.Claim{t.job("settle", day), again(second), t.job("sweep", "")} {
				g := t.granted(c) // and the reply was lost
				d, err := keeperOf(t, t.s).DeliverUnclaimed(t.ctx, c, began, late(onerun.Succeeded))
				t.must(err, "deliver the unclaimed end of %s", nameOf(c))
				equal(t, d.Kind, onerun.DeliveredApplied, "Delivery.Kind")
				equal(t, d.Attempt, g.Lease.Attempt, "Delivery.Attempt")
				equal(t, t.run(g.Lease.RunID).Status, onerun.Succeeded, "status")
				_, err = t.s.Heartbeat(t.ctx, g.Lease)
				t.is(err, onerun.ErrLost, "heartbeat of an owner whose end was delivered")
			}
		}},
		{"unclaimed/the store has forgotten the claim", func(t *trial) {
			c := t.job("settle", day)
			c.Granted = 7
			t.unclaimedTwice(c, late(onerun.Succeeded), onerun.DeliveredApplied)
			r := t.recorded(c, c.RunID, 1, late(onerun.Succeeded))
			t.forgotten(r.RunID)
			t.refused(again(c), onerun.RefusedSucceeded)
			c = t.job("report", day)
			other := t.ended(c, succeeded) // by whoever has claimed it since
			c = again(c)
			c.Granted = 7
			t.unclaimed(c, late(onerun.Failed), onerun.DeliveredKept)
			t.forgotten(other.RunID)
		}},
		{"unclaimed/what a person has decided stays", func(t *trial) {
			c := t.job("settle", day)
			r := t.run(t.orphan(manual(c)).Lease.RunID)
			t.resolve(r, onerun.Failed)
			t.unclaimed(again(c), late(onerun.Succeeded), onerun.DeliveredKept)
			equal(t, t.run(r.RunID).Status, onerun.Failed, "status")
		}},
		{"unclaimed/of an unkeyed job", func(t *trial) {
			for range 2 {
				c := t.job("sweep", "")
				t.unclaimed(c, late(onerun.Failed), onerun.DeliveredApplied)
				t.recorded(c, c.RunID, 1, late(onerun.Failed))
				t.finish(t.granted(again(c)), succeeded)
			}
			equal(t, len(t.runs(onerun.Query{Namespace: t.ns, Job: "sweep"})), 4, "runs, two of them unclaimed")
		}},
		{"unclaimed/one more attempt of a run that FAILED", func(t *trial) {
			for what, first := range map[string]func(c onerun.Claim) onerun.Run{
				"by itself":  func(c onerun.Claim) onerun.Run { return t.ended(c, failed) },
				"by a death": func(c onerun.Claim) onerun.Run { return t.run(t.fallen(c).Lease.RunID) },
				"with a retry": func(c onerun.Claim) onerun.Run {
					return t.ended(retrying(c, 1, time.Hour), failed)
				},
			} {
				c := t.job("settle", strings.ReplaceAll(what, " ", "-"))
				run := first(c)
				was := t.attempt(run.RunID, 1)
				c = again(c)
				equal(t, t.unclaimed(c, late(onerun.Succeeded), onerun.DeliveredApplied).Attempt, 2, "Delivery.Attempt after a run FAILED %s", what)
				r := t.recorded(c, run.RunID, 2, late(onerun.Succeeded))
				equal(t, r.NextRetryAt.IsZero(), true, "whether a run that SUCCEEDED has no retry")
				now := t.attempt(run.RunID, 1)
				equal(t, now.Status, was.Status, "status of the attempt before")
				equal(t, now.Owner, was.Owner, "owner of the attempt before")
				t.refused(again(c), onerun.RefusedSucceeded)
			}
		}},
		{"unclaimed/a retry follows from it, by its own policy", func(t *trial) {
			c := retrying(t.job("settle", day), 1, 0)
			t.unclaimed(c, late(onerun.Failed), onerun.DeliveredApplied)
			equal(t, t.granted(again(c)).Lease.Attempt, 2, "attempt after an unclaimed one that FAILED")
			c = t.job("report", day)
			t.ended(retrying(c, 5, 0), failed)
			t.unclaimed(again(c), late(onerun.Failed), onerun.DeliveredApplied)
			t.refused(again(c), onerun.RefusedFailed) // it had none left to give
			c = retrying(t.job("close", day), 2, time.Hour)
			t.ended(c, failed)
			t.unclaimed(again(c), late(onerun.Failed), onerun.DeliveredApplied)
			t.refused(again(c), onerun.RefusedRetryNotDue)
		}},
		{"unclaimed/the run is unchanged unless it FAILED", func(t *trial) { t.unclaimedInVain() }},
		{"unclaimed/delivered twice", func(t *trial) {
			c := t.job("made", day)
			t.unclaimedTwice(c, late(onerun.Failed), onerun.DeliveredApplied)
			c = t.job("added", day)
			t.ended(c, failed)
			t.unclaimedTwice(again(c), late(onerun.Failed), onerun.DeliveredApplied)
			t.unclaimedTwice(t.job("sweep", ""), late(onerun.Succeeded), onerun.DeliveredApplied)
			c = t.job("kept", day)
			t.ended(c, succeeded)
			t.unclaimedTwice(again(c), late(onerun.Succeeded), onerun.DeliveredKept)
			t.pruned(onerun.PruneRequest{Job: "kept", Partition: day}, t.only(onerun.Query{Job: "kept", Partition: day}).RunID)
			t.unclaimedTwice(again(c), late(onerun.Succeeded), onerun.DeliveredKept)
		}},
		{"unclaimed/an approval of what was before lifts nothing", func(t *trial) {
			c := t.job("settle", day)
			t.approve(t.ended(c, failed))
			t.unclaimed(again(c), late(onerun.Succeeded), onerun.DeliveredApplied)
			t.refused(again(c), onerun.RefusedSucceeded)
		}},
		{"unclaimed/whoever holds the lock keeps it", func(t *trial) {
			g := t.granted(t.job("settle", "2026-09-16"))
			c := t.job("settle", day)
			t.unclaimed(c, late(onerun.Succeeded), onerun.DeliveredApplied)
			_, err := t.s.Heartbeat(t.ctx, g.Lease)
			t.must(err, "heartbeat of who holds the lock")
			t.refused(t.job("settle", "2026-09-17"), onerun.RefusedLocked)
			t.finish(g, succeeded)
		}},
		{"unclaimed/malformed", func(t *trial) { t.unclaimedMalformed() }},
		{"unclaimed/the status, whatever the text", func(t *trial) {
			o := late(onerun.Failed)
			o.Error, o.Output = "before\x00after password=hunter2 \xff", &onerun.Output{Text: "line\x00\xff", Total: 6}
			c := t.job("settle", day)
			c.Labels = map[string]string{"k\x00\xff": "v\x00\xff"}
			t.unclaimed(c, o, onerun.DeliveredApplied)
			t.recorded(c, c.RunID, 1, o)
			out, err := t.s.Output(t.ctx, t.ns, c.RunID, 1)
			t.must(err, "read the output of an unclaimed run")
			equal(t, out.Text, o.Output.Cleaned().Text, "the output")
		}},
		{"unclaimed/many at once have one effect", func(t *trial) {
			made, added, kept := t.job("made", day), t.job("added", day), t.job("kept", day)
			t.ended(added, failed)
			t.ended(kept, succeeded)
			stores := t.opens(4)
			for what, x := range map[string]struct {
				c    onerun.Claim
				want onerun.DeliveryKind
			}{
				"no run": {made, onerun.DeliveredApplied}, "a run that FAILED": {again(added), onerun.DeliveredApplied}, "a run that SUCCEEDED": {again(kept), onerun.DeliveredKept},
			} {
				kinds := make([]onerun.DeliveryKind, t.h.Clients)
				t.together(len(kinds), func(i int) error {
					d, err := keeperOf(t, stores[i%len(stores)]).DeliverUnclaimed(t.ctx, x.c, began, late(onerun.Failed))
					kinds[i] = d.Kind
					return err
				})
				kinds = slices.DeleteFunc(kinds, func(k onerun.DeliveryKind) bool { return k == onerun.DeliveredBefore })
				equal(t, fmt.Sprint(kinds), fmt.Sprint([]onerun.DeliveryKind{x.want}), "what %d deliveries at once were that found it undone, with %s", t.h.Clients, what)
			}
		}},
		{"unclaimed/beside a claim", func(t *trial) {
			stores := t.opens(2)
			for round := range t.h.Rounds {
				c := t.job("settle", partition(round))
				if round%2 == 1 {
					c.Retries, c.BackoffMin, c.BackoffMax = 1, 0, 0
					t.ended(c, failed)
					c = again(c)
				}
				next := again(c)
				var d onerun.Delivery
				var claimed error
				t.together(2, func(i int) (err error) {
					if i == 0 {
						d, err = keeperOf(t, stores[0]).DeliverUnclaimed(t.ctx, c, began, late(onerun.Succeeded))
						return err
					}
					var g onerun.Grant
					if g, claimed = stores[1].Claim(t.ctx, next); claimed == nil {
						return stores[1].Finish(t.ctx, g.Lease, succeeded)
					}
					if ref := new(onerun.Refusal); errors.As(claimed, &ref) {
						return nil
					}
					return claimed
				})
				if (d.Kind == onerun.DeliveredApplied) == (claimed == nil) {
					t.failf("an unclaimed end beside a claim: expected one of them to win, got %s, and %s", d.Kind, said(claimed))
				}
			}
		}},
	}
}
