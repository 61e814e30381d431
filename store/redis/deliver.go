package redis

import (
	"context"
	"fmt"
	"slices"

	"github.com/onerun-dev/onerun"
)

// Deliver implements onerun.Claimer.
func (s *Store) Deliver(ctx context.Context, l onerun.Lease, o onerun.Outcome) (onerun.Delivery, error) {
	if !ended(o.Status) {
		return onerun.Delivery{}, fmt.Errorf("%w: an attempt can't end as %q", onerun.ErrUsage, o.Status)
	}
	return s.delivery(ctx, "deliver an end", l.Namespace, o, func(c *change, o onerun.Outcome) (onerun.Delivery, error) { return c.deliver(l, o) })
}

// delivery takes a decision about a late end. The status is never lost for the sake of its text.
func (s *Store) delivery(ctx context.Context, what, namespace string, o onerun.Outcome, decide func(*change, onerun.Outcome) (onerun.Delivery, error)) (onerun.Delivery, error) {
	var d onerun.Delivery
	try := func() error {
		return s.change(ctx, what, namespace, func(c *change) (err error) {
			d, err = decide(c, o)
			return err
		})
	}
	err := try()
	if o.Output != nil && refusedText(err) {
		o.Output = nil
		err = try()
	}
	if err != nil {
		return onerun.Delivery{}, err
	}
	if d.Run.Pruned.IsZero() {
		d.Run, err = s.after(ctx, namespace, d.Run.RunID)
	}
	return d, err
}

func (c *change) deliver(l onerun.Lease, o onerun.Outcome) (onerun.Delivery, error) {
	d := onerun.Delivery{Attempt: l.Attempt, Outcome: o}
	r, err := c.run(l.RunID)
	if err != nil {
		return d, err
	}
	if r == nil {
		return d, fmt.Errorf("%w: there is no run %s", onerun.ErrLost, l.RunID)
	}
	return c.deliverTo(r, l, o)
}

func (c *change) deliverTo(r *record, l onerun.Lease, o onerun.Outcome) (onerun.Delivery, error) {
	d := onerun.Delivery{Attempt: l.Attempt, Outcome: o, Run: onerun.Run{RunID: r.id}}
	attempts := r.attempts()
	i := slices.IndexFunc(attempts, func(a onerun.Attempt) bool { return a.Number == l.Attempt && a.Owner == l.Owner })
	if i < 0 {
		return d, fmt.Errorf("%w: attempt %d of run %s is not that owner's", onerun.ErrLost, l.Attempt, l.RunID)
	}
	a, run := attempts[i], r.run()
	decided := slices.ContainsFunc(r.approvals(), func(p onerun.Approval) bool { return p.Attempt >= l.Attempt })
	d.Kind = onerun.DeliveryOf(run, a, decided, o)
	detail := d.Words()
	var err error
	switch d.Kind {
	case onerun.DeliveredBefore:
		return d, nil
	case onerun.DeliveredApplied:
		err = c.close(r, o)
	case onerun.DeliveredCorrected:
		detail = fmt.Sprintf("corrected to %s, was %s %s", o.Status, a.Status, a.Reason)
		err = c.close(r, o)
	case onerun.DeliveredKept:
		detail = fmt.Sprintf("attempt %d ended as %s after it was closed as %s %s: %s", a.Number, o.Status, a.Status, a.Reason, onerun.MayHaveRunTwice)
		c.set(c.k.run(r.id), fmtField("d", a.Number), encode(endOf(o, "")), "v", next(r.f["v"]))
	}
	if err == nil {
		err = c.event(onerun.EventLateOutcome, run, onerun.Who{}, detail)
	}
	return d, err
}
