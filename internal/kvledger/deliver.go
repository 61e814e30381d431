package kvledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// Deliver implements onerun.Claimer.
func (l *Ledger) Deliver(ctx context.Context, lease onerun.Lease, out onerun.Outcome) (d onerun.Delivery, err error) {
	if st := out.Status; ctx.Err() == nil && st != onerun.Succeeded && st != onerun.Failed && st != onerun.Skipped {
		return d, fmt.Errorf("%w: an attempt can't end as %q", onerun.ErrUsage, st)
	}
	w, err := l.writeOutput(ctx, lease, out.Output)
	if err != nil {
		return d, err
	}
	if d, err = l.deliver(ctx, lease, out, w); tooMuch(w, err) {
		d, err = l.deliver(ctx, lease, out, nil)
	}
	if err != nil {
		return onerun.Delivery{}, err
	}
	return d, nil
}

func (l *Ledger) deliver(ctx context.Context, lease onerun.Lease, out onerun.Outcome, w *written) (d onerun.Delivery, err error) {
	err = l.decide(ctx, "deliver", nil, func(t *tx) error {
		r, err := load[runRecord](t, keyRun(lease.RunID))
		if err != nil {
			return err
		}
		if err := t.clock(); err != nil {
			return err
		}
		if r == nil || r.pruned() || r.Run.Namespace != lease.Namespace {
			return fmt.Errorf("%w: there is no run %s", onerun.ErrLost, lease.RunID)
		}
		d, err = t.deliverTo(r, lease, out, w)
		return err
	})
	return d, err
}

// deliverTo decides what becomes of an end, and commits that.
func (t *tx) deliverTo(r *runRecord, lease onerun.Lease, out onerun.Outcome, w *written) (d onerun.Delivery, err error) {
	a, err := t.attempt(r, lease)
	if err != nil {
		return d, err
	}
	if a == nil {
		return d, fmt.Errorf("%w: attempt %d of run %s is not that owner's", onerun.ErrLost, lease.Attempt, lease.RunID)
	}
	d = onerun.Delivery{Attempt: lease.Attempt, Outcome: out, Kind: onerun.DeliveryOf(r.Run, a.Attempt, r.decided(lease.Attempt), out)}
	was, detail := string(a.Status)+" "+string(a.Reason), ""
	switch d.Kind {
	case onerun.DeliveredApplied:
		h, err := t.lock(r.Run.Namespace, r.Run.Lock)
		if err != nil {
			return d, err
		}
		delete(t.seen, keyLife(r.Run.Namespace, r.Run.Lock))
		t.keepOutput(r, a.Number, w)
		if err := t.close(r, out, onerun.ByOwner); err != nil {
			return d, err
		}
		if h.owner() == lease.Owner {
			t.free(&h)
		}
		detail = d.Words()
	case onerun.DeliveredCorrected:
		t.keepOutput(r, a.Number, w)
		if err := t.close(r, out, onerun.ByOwner); err != nil {
			return d, err
		}
		detail = "corrected, was " + was
	case onerun.DeliveredKept:
		kept := out
		kept.Error, kept.Output = onerun.CutError(out.Error), nil
		a.Late = &kept
		detail = onerun.MayHaveRunTwice
		if !slices.ContainsFunc(r.Attempts, func(b attemptRecord) bool { return b.Number == a.Number }) {
			t.put(keyAttempt(r.Run.RunID, a.Number), a)
		}
	}
	if detail != "" {
		if err := t.runEvent(r, onerun.EventLateOutcome, onerun.Who{}, detail); err != nil {
			return d, err
		}
		t.putRun(r)
		if _, err := t.commit("deliver"); err != nil {
			return d, err
		}
	}
	return d, t.after(&d, r)
}

// after adds to a delivery what its run is now.
func (t *tx) after(d *onerun.Delivery, r *runRecord) error {
	runs, err := t.fresh().shown(r)
	if err == nil {
		d.Run = runs[0]
	}
	return err
}

// decided reports whether a person has decided about a run since an attempt began. A run that was
// resolved differs from its attempt, or that was closed by the operator.
func (r *runRecord) decided(attempt int) bool {
	return r.Decided >= attempt || slices.ContainsFunc(r.Approvals, func(a onerun.Approval) bool { return a.Attempt >= attempt })
}

// DeliverUnclaimed implements onerun.UnclaimedKeeper.
func (l *Ledger) DeliverUnclaimed(ctx context.Context, c onerun.Claim, started time.Time, out onerun.Outcome) (d onerun.Delivery, err error) {
	err = l.decide(ctx, "deliver", nil, func(t *tx) error {
		c, err := l.checkUnclaimed(c, out)
		if err != nil {
			return err
		}
		d, err = t.unclaimed(c, started, out)
		return err
	})
	if err != nil {
		return onerun.Delivery{}, err
	}
	return d, nil
}

// checkUnclaimed refuses what no claim could have been, and no end.
func (l *Ledger) checkUnclaimed(c onerun.Claim, out onerun.Outcome) (onerun.Claim, error) {
	if st := out.Status; st != onerun.Succeeded && st != onerun.Failed && st != onerun.Skipped {
		return c, fmt.Errorf("%w: an attempt can't end as %q", onerun.ErrUsage, st)
	}
	if c.Job == "" {
		return c, fmt.Errorf("%w: a lock alone has no run that could be recorded", onerun.ErrUsage)
	}
	c.Order = onerun.OrderAny // it waited for nobody
	return l.check(c)
}

func (t *tx) unclaimed(c onerun.Claim, started time.Time, out onerun.Outcome) (d onerun.Delivery, err error) {
	d = onerun.Delivery{Kind: onerun.DeliveredBefore, Outcome: out}
	keys := []string{keyRun(c.RunID)}
	if c.Partition != "" {
		keys = append(keys, keyOf(c.Namespace, c.Job, c.Partition))
	}
	if err := t.read(keys...); err != nil {
		return d, err
	}
	r, err := load[runRecord](t, keyRun(c.RunID))
	if err != nil {
		return d, err
	}
	if r != nil && !r.pruned() {
		if r.Run.Namespace != c.Namespace || r.Run.Job != c.Job || r.Run.Partition != c.Partition {
			return d, fmt.Errorf("%w: the run id %s is taken by %s", onerun.ErrUsage, c.RunID, r.Run.Name())
		}
	} else if r = nil; c.Partition != "" {
		key, err := load[keyRecord](t, keys[1])
		if err != nil {
			return d, err
		}
		if key != nil {
			if r, err = load[runRecord](t, keyRun(key.RunID)); err != nil {
				return d, err
			}
		}
	}
	if err := t.clock(); err != nil {
		return d, err
	}
	if started.IsZero() {
		started = t.now
	}
	if r == nil {
		return t.recordUnclaimed(d, newRun(c, t.now), c, started, out, true)
	}
	own, number, err := t.ownAttempt(r, c.Owner)
	switch {
	case err != nil:
		return d, err
	case own != nil:
		w, err := t.l.writeOutput(t.ctx, *own, out.Output)
		if err != nil {
			return d, err
		}
		return t.deliverTo(r, *own, out, w)
	}
	told, err := t.told(r, c.RunID)
	if err != nil {
		return d, err
	}
	if told || r.Run.RunID == c.RunID {
		d.Attempt = number
		return d, t.after(&d, r)
	}
	return t.recordUnclaimed(d, r, c, started, out, false)
}

// recordUnclaimed notes an end on a run: as an attempt of it where the rules allow, else in its
// journal alone.
func (t *tx) recordUnclaimed(d onerun.Delivery, r *runRecord, c onerun.Claim, started time.Time, out onerun.Outcome, isNew bool) (onerun.Delivery, error) {
	var run *onerun.Run
	if !isNew {
		run = &r.Run
	}
	d.Kind = onerun.UnclaimedDelivery(run)
	if a := r.last(); r.pruned() || a != nil && a.ClosedBy == onerun.ByOperator {
		d.Kind = onerun.DeliveredKept
	}
	if d.Kind == onerun.DeliveredApplied {
		if c.Key() != "" {
			t.put(keyOf(c.Namespace, c.Job, c.Partition), keyRecord{RunID: r.Run.RunID})
		}
		c.TwoPeople = c.TwoPeople || r.Run.TwoPeople
		d.Attempt = r.Run.Attempt + 1
		w, err := t.l.writeOutput(t.ctx, onerun.Lease{RunID: r.Run.RunID, Attempt: d.Attempt}, out.Output)
		if err != nil {
			return d, err
		}
		who := t.l.who(c.WorkerLabel) // of a process that is gone, the host alone is known to be this one
		who = onerun.Worker{Label: cmp.Or(who.Label, who.Host), Host: who.Host, Machine: who.Machine}
		t.begin(r, c, who, d.Attempt, 0, time.Time{}, started.UTC().Truncate(time.Microsecond))
		t.keepOutput(r, d.Attempt, w)
		if err := t.close(r, out, onerun.ByOwner); err != nil {
			return d, err
		}
	}
	if err := t.runEvent(r, onerun.EventLateOutcome, onerun.Who{}, onerun.UnclaimedDetail(c, started, out, d.Kind)); err != nil {
		return d, err
	}
	t.putRun(r)
	if _, err := t.commit("deliver"); err != nil {
		return d, err
	}
	return d, t.after(&d, r)
}

// told reports whether the journal of a run has an unclaimed one already.
func (t *tx) told(r *runRecord, unclaimed string) (bool, error) {
	events, err := t.l.events(t.ctx, r.Run.Namespace, "run", r.Run.RunID)
	return slices.ContainsFunc(events, func(e onerun.Event) bool {
		return e.Name == onerun.EventLateOutcome && strings.HasPrefix(e.Detail, onerun.UnclaimedMark(unclaimed))
	}), err
}

// ownAttempt finds an owner's attempt: with its lease, if its claim was granted after all.
func (t *tx) ownAttempt(r *runRecord, owner string) (*onerun.Lease, int, error) {
	all, err := t.l.earlier(t.ctx, r)
	if err != nil {
		return nil, 0, err
	}
	for _, a := range append(all, r.Attempts...) {
		switch {
		case a.Owner != owner:
		case a.Token != 0:
			return &onerun.Lease{Namespace: r.Run.Namespace, Lock: r.Run.Lock, RunID: r.Run.RunID, Attempt: a.Number, Owner: owner, Token: a.Token}, a.Number, nil
		default:
			return nil, a.Number, nil
		}
	}
	return nil, 0, nil
}

// spent reads the approvals of a run that have keys of their own, the first first.
func (l *Ledger) spent(ctx context.Context, r *runRecord) (out []onerun.Approval, err error) {
	if r.Spent == 0 {
		return nil, nil
	}
	err = l.walk(ctx, path("approval", segment(r.Run.RunID)), func(e Entry) (bool, error) {
		a, err := decode[onerun.Approval](e.Key, e.Value)
		if err == nil {
			out = append(out, *a)
		}
		return err == nil, err
	})
	return out, err
}

// earlier reads the attempts of a run that have keys of their own, oldest first.
func (l *Ledger) earlier(ctx context.Context, r *runRecord) (out []attemptRecord, err error) {
	if r.Earlier == 0 {
		return nil, nil
	}
	err = l.walk(ctx, path("attempt", segment(r.Run.RunID)), func(e Entry) (bool, error) {
		a, err := decode[attemptRecord](e.Key, e.Value)
		if err == nil {
			out = append(out, *a)
		}
		return err == nil, err
	})
	return out, err
}
