package sqlledger

import (
	"cmp"
	"context"
	"time"

	"github.com/onerun-dev/onerun"
)

// Unclaimed is a run that was executed without having been claimed.
type Unclaimed struct {
	onerun.Claim
	Started time.Time
	End     onerun.Outcome
	Worker  onerun.Worker
}

// Unclaimer is a transaction in which the end of such a run is delivered.
type Unclaimer interface {
	Shared
	Runs
	Deliverer
	// RunOf reads a run; nil: there is none.
	RunOf(runID string) (*RunRow, error)
	// GrantedTo gives the attempt and the token of a claim that was granted; ok is false: it wasn't.
	GrantedTo(runID, owner string) (attempt int, token int64, ok bool, err error)
	// LastOf is the last attempt of an owner; 0: there is none.
	LastOf(runID, owner string) (int, error)
	// DeliveredBefore reports whether a run's journal has an unclaimed one, by its mark.
	DeliveredBefore(runID, mark string) (bool, error)
	// ClosedByOperator reports whether a person has closed an attempt.
	ClosedByOperator(runID string, attempt int) (bool, error)
	// WantLock takes the row of a lock in hand, and makes it first where there is none.
	WantLock(namespace string, lock onerun.LockName) error
	// DropLock removes the row of a lock that nobody ever had.
	DropLock(namespace string, lock onerun.LockName) error
	// MakeRun makes the run, FAILED and without an attempt; false: somebody was faster.
	MakeRun(u Unclaimed) (bool, error)
	// AddAttempt adds an attempt that has FAILED to a run that is in hand, and tells the run of it.
	AddAttempt(u Unclaimed, r *RunRow, number int) error
}

// DeliverUnclaimed delivers the end of a run that was executed without having been claimed. w is
// who executed it. shorter is as with Deliver.
func DeliverUnclaimed[T Unclaimer](ctx context.Context, write Transact[T], shorter func(error) bool, c onerun.Claim, started time.Time, o onerun.Outcome, w onerun.Worker) (d onerun.Delivery, err error) {
	if c.Job == "" {
		return d, usage("a lock alone has no run that could be recorded")
	}
	if err := CheckEnd(o); err != nil {
		return d, err
	}
	u := Unclaimed{Claim: c, Started: started, End: o}
	u.Worker = onerun.Worker{Label: cmp.Or(w.Label, w.Host), Host: w.Host, Machine: w.Machine} // the process is gone
	deliver := func(t T) (err error) {
		d, err = deliverUnclaimed(t, u)
		return err
	}
	err = write(ctx, "deliver an unclaimed end", deliver)
	if o.Output != nil && shorter(err) {
		u.End.Output = nil
		err = write(ctx, "deliver an unclaimed end", deliver)
	}
	return d, err
}

func deliverUnclaimed(t Unclaimer, u Unclaimed) (onerun.Delivery, error) {
	if u.Started.IsZero() {
		u.Started = t.Now()
	}
	known, err := t.RunOf(u.RunID)
	if err != nil {
		return onerun.Delivery{}, err
	}
	if known != nil {
		run := known.Seen()
		if run.Namespace != u.Namespace || run.Job != u.Job || run.Partition != u.Partition {
			return onerun.Delivery{}, usage("the run id %s is taken by %s", u.RunID, run.Name())
		}
		if l, err := granted(t, u, run.RunID); l != nil || err != nil {
			return deliverGranted(t, l, u, err)
		}
		return before(t, u, run)
	}
	var id string
	if u.Partition != "" {
		if id, err = t.RunIDOf(u.Namespace, u.Key()); err != nil {
			return onerun.Delivery{}, err
		}
		if id == "" { // in this order: a run that is pruned meanwhile is seen either way
			tomb, err := t.TombstoneOf(u.Namespace, u.Key(), "")
			switch {
			case err != nil:
				return onerun.Delivery{}, err
			case tomb != nil:
				return keepUnclaimed(t, u, tomb)
			}
		}
	}
	if id == "" {
		return makeUnclaimed(t, u)
	}
	if l, err := granted(t, u, id); l != nil || err != nil {
		return deliverGranted(t, l, u, err)
	}
	r, err := t.InHand(u.Namespace, id)
	if err == nil && r == nil { // it was pruned meanwhile
		err = t.Again()
	}
	if err != nil {
		return onerun.Delivery{}, err
	}
	run := r.Seen()
	switch delivered, err := t.DeliveredBefore(run.RunID, onerun.UnclaimedMark(u.RunID)); {
	case err != nil:
		return onerun.Delivery{}, err
	case delivered:
		return before(t, u, run)
	case onerun.UnclaimedDelivery(&run) == onerun.DeliveredApplied:
		closed, err := t.ClosedByOperator(run.RunID, run.Attempt) // whose word stands
		if err != nil {
			return onerun.Delivery{}, err
		}
		if !closed {
			return oneMore(t, u, r)
		}
	}
	err = noteUnclaimed(t, u, run, onerun.DeliveredKept)
	return onerun.Delivery{Kind: onerun.DeliveredKept, Outcome: u.End, Run: run}, err
}

// granted finds the lease of a claim that was granted after all, its reply having been lost;
// nil: it wasn't.
func granted(t Unclaimer, u Unclaimed, runID string) (*onerun.Lease, error) {
	attempt, token, ok, err := t.GrantedTo(runID, u.Owner)
	if !ok || err != nil {
		return nil, err
	}
	return &onerun.Lease{Namespace: u.Namespace, Lock: u.Lock, RunID: runID, Owner: u.Owner, Attempt: attempt, Token: token}, nil
}

// deliverGranted delivers the end of one that was.
func deliverGranted(t Unclaimer, l *onerun.Lease, u Unclaimed, err error) (onerun.Delivery, error) {
	if err != nil {
		return onerun.Delivery{}, err
	}
	return DeliverIn(t, *l, u.End)
}

// before tells of what was delivered already.
func before(t Unclaimer, u Unclaimed, run onerun.Run) (onerun.Delivery, error) {
	d := onerun.Delivery{Kind: onerun.DeliveredBefore, Outcome: u.End, Run: run}
	var err error
	d.Attempt, err = t.LastOf(run.RunID, u.Owner)
	return d, err
}

func noteUnclaimed(t Unclaimer, u Unclaimed, run onerun.Run, kind onerun.DeliveryKind) error {
	return t.Event(onerun.Event{Name: onerun.EventLateOutcome, Detail: onerun.UnclaimedDetail(u.Claim, u.Started, u.End, kind)}, run)
}

// keepUnclaimed notes it beside a tombstone. The chain of events that goes on there is guarded
// by the row of the lock, as there is none of the run: whoever makes the run again of its
// tombstone takes that row too.
func keepUnclaimed(t Unclaimer, u Unclaimed, tomb *onerun.Run) (onerun.Delivery, error) {
	d := onerun.Delivery{Kind: onerun.DeliveredBefore, Outcome: u.End, Run: *tomb}
	if tomb.RunID == u.RunID {
		return d, nil
	}
	lock := tomb.Lock
	err := t.WantLock(u.Namespace, lock)
	if err == nil {
		err = t.Tick()
	}
	if err == nil {
		tomb, err = t.TombstoneOf(u.Namespace, u.Key(), "")
	}
	if err == nil && (tomb == nil || tomb.Lock != lock) {
		err = t.Again()
	}
	if err != nil {
		return onerun.Delivery{}, err
	}
	switch delivered, err := t.DeliveredBefore(tomb.RunID, onerun.UnclaimedMark(u.RunID)); {
	case err != nil:
		return onerun.Delivery{}, err
	case !delivered:
		d.Kind = onerun.DeliveredKept
		if err := noteUnclaimed(t, u, *tomb, d.Kind); err != nil {
			return onerun.Delivery{}, err
		}
	}
	return d, t.DropLock(u.Namespace, lock)
}

// makeUnclaimed makes the run.
func makeUnclaimed(t Unclaimer, u Unclaimed) (onerun.Delivery, error) {
	made, err := t.MakeRun(u)
	if err == nil && !made {
		err = t.Again() // somebody was faster: look again
	}
	if err == nil && u.Partition != "" {
		var tomb *onerun.Run
		if tomb, err = t.TombstoneOf(u.Namespace, u.Key(), ""); err == nil && tomb != nil {
			err = t.Again()
		}
	}
	if err != nil {
		return onerun.Delivery{}, err
	}
	r, err := t.RunOf(u.RunID)
	if err == nil && r == nil {
		err = t.Again()
	}
	if err != nil {
		return onerun.Delivery{}, err
	}
	return oneMore(t, u, r)
}

// oneMore adds an attempt to a run that is in hand and has FAILED, with its end. The retry
// that may follow goes by its own policy.
func oneMore(t Unclaimer, u Unclaimed, r *RunRow) (onerun.Delivery, error) {
	number := r.Attempt + 1
	err := t.AddAttempt(u, r, number)
	if err == nil {
		r.Status, r.Lock = onerun.Failed, u.Lock
		err = t.End(r.Run, r.Status, onerun.Lease{Namespace: u.Namespace, RunID: r.RunID, Attempt: number, Owner: u.Owner}, u.End)
	}
	if err == nil {
		err = noteUnclaimed(t, u, r.Seen(), onerun.DeliveredApplied)
	}
	if err != nil {
		return onerun.Delivery{}, err
	}
	run, err := t.RunByID(r.RunID)
	return onerun.Delivery{Kind: onerun.DeliveredApplied, Attempt: number, Outcome: u.End, Run: run}, err
}
