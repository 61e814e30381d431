package storetest

import (
	"time"

	"github.com/onerun-dev/onerun"
)

// late is an end that comes late, as its owner saw it.
func late(s onerun.Status) onerun.Outcome {
	o := onerun.Outcome{
		Status: s, ExitCode: new(0), Processed: new(int64(7)), Failed: new(int64(1)),
		FinishedAt: time.Date(2026, 9, 16, 3, 0, 0, 789_000_000, time.UTC),
	}
	if s == onerun.Failed {
		o.ExitCode, o.Reason, o.Error = new(3), onerun.ReasonExit, "exit status 3, told late"
	}
	return o
}

// fallen makes a run that a later claim closed as its owner's death.
func (t *trial) fallen(c onerun.Claim) onerun.Grant {
	g := t.orphan(c)
	t.refusedAfterDeath(again(c), onerun.RefusedFailed)
	t.diedAs(t.run(g.Lease.RunID))
	return g
}

func (t *trial) deliver(g onerun.Grant, o onerun.Outcome, want onerun.DeliveryKind) onerun.Delivery {
	d, err := t.s.Deliver(t.ctx, g.Lease, o)
	t.must(err, "deliver the end %s of %s attempt %d", o.Status, g.Run.Name(), g.Lease.Attempt)
	equal(t, d.Kind, want, "what became of the end of %s attempt %d", g.Run.Name(), g.Lease.Attempt)
	equal(t, d.Attempt, g.Lease.Attempt, "Delivery.Attempt")
	equal(t, d.Outcome.Status, o.Status, "Delivery.Outcome.Status")
	now := t.run(g.Lease.RunID)
	equal(t, d.Run.RunID, now.RunID, "Delivery.Run.RunID")
	equal(t, d.Run.Status, now.Status, "Delivery.Run.Status")
	equal(t, d.Run.Attempt, now.Attempt, "Delivery.Run.Attempt")
	return d
}

// deliveredBefore delivers once more what was delivered.
func (t *trial) deliveredBefore(g onerun.Grant, o onerun.Outcome) {
	before := t.look()
	t.deliver(g, o, onerun.DeliveredBefore)
	t.unchanged(before, t.look(), "an end that is recorded already")
}

// endedBy checks that run and attempt agree on an end.
func (t *trial) endedBy(g onerun.Grant, o onerun.Outcome, by onerun.ClosedBy) {
	r, a := t.run(g.Lease.RunID), t.attempt(g.Lease.RunID, g.Lease.Attempt)
	equal(t, r.Status, o.Status, "run: Status")
	equal(t, a.Status, o.Status, "attempt: Status")
	equal(t, a.ClosedBy, by, "attempt: ClosedBy")
	equal(t, a.Late == nil, true, "attempt: whether Late is empty")
	for what, x := range map[string]onerun.Execution{"run": r.Execution, "attempt": a.Execution} {
		equal(t, x.Reason, o.Reason, "%s: Reason", what)
		equal(t, x.Error, onerun.CutError(o.Error), "%s: Error", what)
		samePtr(t, x.ExitCode, o.ExitCode, what+": ExitCode")
		samePtr(t, x.Processed, o.Processed, what+": Processed")
		samePtr(t, x.Failed, o.Failed, what+": Failed")
		t.near(x.FinishedAt, o.FinishedAt, 0, "%s: FinishedAt", what)
	}
}

// keptAside delivers an end that is only kept, and checks that nothing else changed.
func (t *trial) keptAside(g onerun.Grant, o onerun.Outcome) {
	t.note = " (" + g.Run.Name() + ")"
	before := t.look()
	t.deliver(g, o, onerun.DeliveredKept)
	after := t.look()
	a := t.attempt(g.Lease.RunID, g.Lease.Attempt)
	if a.Late == nil {
		t.failf("attempt %d: expected the end beside it, got none", a.Number)
	}
	equal(t, a.Late.Status, o.Status, "Late.Status")
	equal(t, a.Late.Reason, o.Reason, "Late.Reason")
	equal(t, a.Late.Error, onerun.CutError(o.Error), "Late.Error")
	samePtr(t, a.Late.ExitCode, o.ExitCode, "Late.ExitCode")
	t.near(a.Late.FinishedAt, o.FinishedAt, 0, "Late.FinishedAt")
	for i := range after.Runs {
		d := &after.Runs[i]
		if d.Run.RunID != g.Lease.RunID {
			continue
		}
		last := len(d.Events) - 1
		if last < 0 || d.Events[last].Name != onerun.EventLateOutcome {
			t.failf("events: expected %s as the last one, got %v", onerun.EventLateOutcome, d.Events)
		}
		if d.Events = d.Events[:last]; last == 0 {
			d.Events = nil
		}
		for j := range d.Attempts {
			if d.Attempts[j].Number == g.Lease.Attempt {
				d.Attempts[j].Late = nil
			}
		}
	}
	t.unchanged(before, after, "an end that is only kept")
	t.note = ""
}
