package sqlledger

import (
	"context"
	"fmt"
	"slices"

	"github.com/onerun-dev/onerun"
)

// Deliverer is a transaction in which an end is delivered late.
type Deliverer interface {
	Journal
	// ToDeliver reads the run of a lease, and takes it in hand. Without one it says why.
	ToDeliver(l onerun.Lease) (onerun.Run, error)
	// Attempts reads the attempts of a run in their order.
	Attempts(runID string) ([]onerun.Attempt, error)
	// Decided reports whether a person has approved, or requested, a rerun of an attempt or of a later one.
	Decided(runID string, attempt int) (bool, error)
	// End closes an attempt that is in the state was, as its owner would have, and frees its lock.
	End(run onerun.Run, was onerun.Status, l onerun.Lease, o onerun.Outcome) error
	// KeepLate keeps an end beside the attempt that was closed otherwise.
	KeepLate(l onerun.Lease, o onerun.Outcome) error
	// RunAfter reads a run as it is then; none where it has vanished.
	RunAfter(runID string) (onerun.Run, error)
}

// RunToDeliver is ToDeliver of a store on a server.
func RunToDeliver(t Runs, l onerun.Lease) (onerun.Run, error) {
	r, err := t.InHand(l.Namespace, l.RunID)
	if err == nil && r == nil {
		err = fmt.Errorf("%w: there is no run %s", onerun.ErrLost, l.RunID)
	}
	return SeenOrNone(r, err)
}

// Ended reports whether an attempt can end so.
func Ended(s onerun.Status) bool {
	return s == onerun.Succeeded || s == onerun.Failed || s == onerun.Skipped
}

// CheckEnd refuses an end that an attempt can't have.
func CheckEnd(o onerun.Outcome) error {
	if !Ended(o.Status) {
		return usage("an attempt can't end as %q", o.Status)
	}
	return nil
}

// Deliver delivers an end late. shorter reports whether it could perhaps be recorded if it were
// shorter: the status is never lost for the sake of its text.
func Deliver[T Deliverer](ctx context.Context, write Transact[T], shorter func(error) bool, l onerun.Lease, o onerun.Outcome) (d onerun.Delivery, err error) {
	if err := CheckEnd(o); err != nil {
		return d, err
	}
	deliver := func(t T) (err error) {
		d, err = DeliverIn(t, l, o)
		return err
	}
	err = write(ctx, "deliver an end", deliver)
	if o.Output != nil && shorter(err) {
		o.Output = nil
		err = write(ctx, "deliver an end", deliver)
	}
	return d, err
}

// DeliverIn delivers an end late, within a transaction: it is applied to an attempt that is still
// RUNNING, corrects what a machine took for its end, or is kept beside what others decided.
func DeliverIn(t Deliverer, l onerun.Lease, o onerun.Outcome) (onerun.Delivery, error) {
	d := onerun.Delivery{Attempt: l.Attempt, Outcome: o}
	run, err := t.ToDeliver(l)
	if err != nil {
		return d, err
	}
	attempts, err := t.Attempts(l.RunID)
	if err != nil {
		return d, err
	}
	i := slices.IndexFunc(attempts, func(a onerun.Attempt) bool { return a.Number == l.Attempt && a.Owner == l.Owner })
	if i < 0 {
		return d, fmt.Errorf("%w: attempt %d of run %s is not that owner's", onerun.ErrLost, l.Attempt, l.RunID)
	}
	a := attempts[i]
	decided, err := t.Decided(l.RunID, l.Attempt)
	if err != nil {
		return d, err
	}
	d.Kind = onerun.DeliveryOf(run, a, decided, o)
	detail := d.Words()
	switch d.Kind {
	case onerun.DeliveredApplied:
		err = t.End(run, a.Status, l, o)
	case onerun.DeliveredCorrected:
		detail = fmt.Sprintf("corrected to %s, was %s %s", o.Status, a.Status, a.Reason)
		err = t.End(run, a.Status, l, o)
	case onerun.DeliveredKept:
		detail = fmt.Sprintf("attempt %d ended as %s after it was closed as %s %s: %s", a.Number, o.Status, a.Status, a.Reason, onerun.MayHaveRunTwice)
		err = t.KeepLate(l, o)
	}
	if err == nil && d.Kind != onerun.DeliveredBefore {
		err = t.Event(onerun.Event{Name: onerun.EventLateOutcome, Detail: detail}, run)
	}
	if err != nil {
		return d, err
	}
	d.Run, err = t.RunAfter(l.RunID)
	return d, err
}
