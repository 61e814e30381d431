package storetest

import (
	"time"

	"github.com/onerun-dev/onerun"
)

// deliveryCases: an end that comes late, told by whoever found it, without a lease.
func deliveryCases() []check {
	return []check{
		{"delivery/to an attempt that is RUNNING", func(t *trial) {
			for what, c := range map[string]onerun.Claim{"auto": t.job("settle", day), "manual": manual(t.job("report", day))} {
				g := t.orphan(c)
				o := late(onerun.Succeeded)
				d := t.deliver(g, o, onerun.DeliveredApplied)
				t.endedBy(g, o, onerun.ByOwner)
				equal(t, d.Run.Status, onerun.Succeeded, "status that Deliver returns, crash policy %s", what)
				equal(t, t.event(g.Lease.RunID, onerun.EventLateOutcome).By, "", "who is kept with event late_outcome")
				t.refused(again(c), onerun.RefusedSucceeded)
				c = again(c)
				c.Partition = "2026-09-16"
				next := t.granted(c) // the lock is free
				equal(t, len(next.TakenOver), 0, "runs that the next claim closed on the way")
			}
		}},
		{"delivery/a retry follows from it", func(t *trial) {
			c := retrying(t.job("settle", day), 1, 0)
			t.deliver(t.orphan(c), late(onerun.Failed), onerun.DeliveredApplied)
			equal(t, t.granted(again(c)).Lease.Attempt, 2, "attempt after an end that was delivered as FAILED")
			c = retrying(t.job("report", day), 1, time.Hour)
			t.deliver(t.orphan(c), late(onerun.Failed), onerun.DeliveredApplied)
			t.refused(again(c), onerun.RefusedRetryNotDue)
			c = t.job("close", day)
			t.deliver(t.orphan(c), late(onerun.Failed), onerun.DeliveredApplied)
			t.refused(again(c), onerun.RefusedFailed)
		}},
		{"delivery/of an unkeyed run", func(t *trial) {
			c := t.job("sweep", "")
			g := t.orphan(c)
			t.deliver(g, late(onerun.Succeeded), onerun.DeliveredApplied)
			t.endedBy(g, late(onerun.Succeeded), onerun.ByOwner)
			t.finish(t.granted(again(c)), succeeded)
			g = t.orphan(again(c))
			next := t.granted(again(c)) // closes it, and is a run of its own
			t.deliver(g, late(onerun.Succeeded), onerun.DeliveredCorrected)
			t.endedBy(g, late(onerun.Succeeded), onerun.ByOwner)
			t.finish(next, succeeded)
		}},
		{"delivery/what is recorded already", func(t *trial) {
			for i, o := range []onerun.Outcome{succeeded, failed, skipped} {
				g := t.granted(t.job("settle", partition(i)))
				t.finish(g, o)
				t.deliveredBefore(g, o)
			}
			g := t.orphan(t.job("applied", day))
			t.deliver(g, late(onerun.Failed), onerun.DeliveredApplied)
			t.deliveredBefore(g, late(onerun.Failed))
			g = t.fallen(t.job("corrected", day))
			t.deliver(g, late(onerun.Succeeded), onerun.DeliveredCorrected)
			t.deliveredBefore(g, late(onerun.Succeeded))
			g = t.fallen(t.job("kept", day))
			t.approve(t.run(g.Lease.RunID))
			t.keptAside(g, late(onerun.Succeeded))
			t.deliveredBefore(g, late(onerun.Succeeded))
		}},
		{"delivery/corrects what a machine closed", func(t *trial) {
			for as, then := range map[onerun.Status]onerun.Reason{
				onerun.Succeeded: onerun.RefusedSucceeded, onerun.Failed: onerun.RefusedFailed, onerun.Skipped: onerun.RefusedSkipped,
			} {
				c := t.job("settle", "as-"+string(as))
				g := t.fallen(c)
				equal(t, t.attempt(g.Lease.RunID, 1).ClosedBy, onerun.ByMachine, "ClosedBy of an attempt that a later claim closed")
				o := late(as)
				d := t.deliver(g, o, onerun.DeliveredCorrected)
				equal(t, d.Run.Status, as, "status that Deliver returns")
				t.endedBy(g, o, onerun.ByOwner)
				t.event(g.Lease.RunID, onerun.EventLateOutcome)
				t.refused(again(c), then)
			}
		}},
		{"delivery/a correction takes the retry back", func(t *trial) {
			c := retrying(t.job("settle", day), 1, time.Hour)
			c.RetryLost = true
			g := t.orphan(c)
			t.refusedAfterDeath(again(c), onerun.RefusedRetryNotDue)
			t.deliver(g, late(onerun.Succeeded), onerun.DeliveredCorrected)
			equal(t, t.run(g.Lease.RunID).NextRetryAt.IsZero(), true, "whether a corrected run has no retry")
			t.refused(again(c), onerun.RefusedSucceeded)
		}},
		{"delivery/kept when a later attempt is there", func(t *trial) {
			first, next := t.takenOver(t.job("settle", day))
			t.keptAside(first, late(onerun.Succeeded))
			_, err := t.s.Heartbeat(t.ctx, next.Lease)
			t.must(err, "heartbeat of the later attempt")
			t.finish(next, failed)
			first, next = t.takenOver(t.job("report", day))
			t.finish(next, succeeded)
			t.keptAside(first, late(onerun.Failed))
		}},
		{"delivery/kept when a person has decided since", func(t *trial) {
			for what, decide := range map[string]func(r onerun.Run){
				"approved": func(r onerun.Run) { t.approve(r) },
				"requested": func(r onerun.Run) {
					_, err := t.s.Approve(t.ctx, stepBy(r, onerun.ApproveRequest, "ana@h1"))
					t.must(err, "request a rerun")
				},
				"rerun":              func(r onerun.Run) { t.approve(r); t.finish(t.granted(t.job("settle", r.Partition)), failed) },
				"resolved-succeeded": func(r onerun.Run) { t.resolve(r, onerun.Succeeded) },
				"resolved-skipped":   func(r onerun.Run) { t.resolve(r, onerun.Skipped) },
			} {
				g := t.fallen(t.job("settle", what))
				decide(t.run(g.Lease.RunID))
				t.keptAside(g, late(onerun.Succeeded))
			}
			for _, as := range ends { // RUNNING, its owner being dead
				g := t.orphan(manual(t.job("by-hand-"+string(as), day)))
				t.resolve(t.run(g.Lease.RunID), as)
				equal(t, t.attempt(g.Lease.RunID, 1).ClosedBy, onerun.ByOperator, "ClosedBy of an attempt that a person closed")
				o := late(onerun.Failed)
				o.Reason = onerun.ReasonSignal
				t.keptAside(g, o)
			}
		}},
		{"delivery/a decision about an earlier attempt is none", func(t *trial) {
			c := t.job("settle", day)
			t.approve(t.ended(c, failed))
			g := t.orphan(again(c))
			t.refusedAfterDeath(again(c), onerun.RefusedFailed)
			t.deliver(g, late(onerun.Succeeded), onerun.DeliveredCorrected)
			t.refused(again(c), onerun.RefusedSucceeded)
		}},
		{"delivery/of another end than the recorded one", func(t *trial) {
			g := t.granted(t.job("settle", day))
			t.finish(g, succeeded)
			t.keptAside(g, late(onerun.Failed))
		}},
		{"delivery/of what nobody knows", func(t *trial) { t.notDelivered() }},
		{"delivery/malformed", func(t *trial) {
			g := t.orphan(t.job("settle", day))
			before := t.look()
			for _, status := range []onerun.Status{onerun.Running, "", "DONE"} {
				_, err := t.s.Deliver(t.ctx, g.Lease, onerun.Outcome{Status: status})
				t.is(err, onerun.ErrUsage, "deliver an end as %q", status)
			}
			t.unchanged(before, t.look(), "a malformed end")
		}},
		{"delivery/the status, whatever the text", func(t *trial) {
			o := late(onerun.Failed)
			o.Error = "before\x00after password=hunter2 \xff"
			g := t.orphan(t.job("applied", day))
			t.deliver(g, o, onerun.DeliveredApplied)
			t.endedBy(g, o, onerun.ByOwner)
			g = t.fallen(t.job("kept", day))
			t.approve(t.run(g.Lease.RunID))
			t.keptAside(g, o)
		}},
		{"delivery/many at once have one effect", func(t *trial) {
			stores := t.opens(4)
			for what, x := range map[string]struct {
				g    onerun.Grant
				want onerun.DeliveryKind
			}{
				"RUNNING":             {t.orphan(t.job("applied", day)), onerun.DeliveredApplied},
				"closed by a machine": {t.fallen(t.job("corrected", day)), onerun.DeliveredCorrected},
			} {
				events := len(t.detail(x.g.Lease.RunID).Events)
				kinds := make([]onerun.DeliveryKind, t.h.Clients)
				t.together(len(kinds), func(i int) error {
					d, err := stores[i%len(stores)].Deliver(t.ctx, x.g.Lease, late(onerun.Succeeded))
					kinds[i] = d.Kind
					return err
				})
				n := map[onerun.DeliveryKind]int{}
				for _, k := range kinds {
					n[k]++
				}
				equal(t, n[x.want], 1, "deliveries %s to an attempt %s, of %d at once", x.want, what, len(kinds))
				equal(t, n[onerun.DeliveredBefore], len(kinds)-1, "deliveries that found it done")
				equal(t, len(t.detail(x.g.Lease.RunID).Events)-events, 1, "events of %d deliveries at once", len(kinds))
			}
		}},
	}
}

// notDelivered delivers ends of attempts that are not there.
func (t *trial) notDelivered() {
	g := t.orphan(t.job("settle", day))
	closed := t.fallen(t.job("report", day))
	before := t.look()
	for _, lease := range []onerun.Lease{g.Lease, closed.Lease} {
		for what, change := range map[string]func(*onerun.Lease){
			"run":        func(l *onerun.Lease) { l.RunID = onerun.NewRunID(time.Now()) },
			"run at all": func(l *onerun.Lease) { l.RunID = "" },
			"attempt":    func(l *onerun.Lease) { l.Attempt++ },
			"attempt 0":  func(l *onerun.Lease) { l.Attempt = 0 },
			"owner":      func(l *onerun.Lease) { l.Owner = onerun.NewID() },
			"namespace":  func(l *onerun.Lease) { l.Namespace = t.ns + "-b" },
		} {
			l := lease
			change(&l)
			_, err := t.s.Deliver(t.ctx, l, late(onerun.Succeeded))
			t.is(err, onerun.ErrLost, "deliver the end of another %s", what)
		}
	}
	t.unchanged(before, t.look(), "the end of an attempt that isn't there")
}
