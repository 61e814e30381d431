package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// DeliverUnclaimed implements onerun.UnclaimedKeeper.
func (s *Store) DeliverUnclaimed(ctx context.Context, c onerun.Claim, started time.Time, out onerun.Outcome) (onerun.Delivery, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return onerun.Delivery{}, err
	}
	defer s.mu.Unlock()
	if c, err = checkUnclaimed(c, out); err != nil {
		return onerun.Delivery{}, err
	}
	if started.IsZero() {
		started = now
	}
	d := onerun.Delivery{Kind: onerun.DeliveredBefore, Outcome: out}
	r, t := s.runs[c.RunID], s.tombOf(c.Namespace, "", c.Job, c.Partition)
	switch {
	case r != nil && (r.Namespace != c.Namespace || r.Job != c.Job || r.Partition != c.Partition):
		return onerun.Delivery{}, fmt.Errorf("%w: the run id %s is taken by %s", onerun.ErrUsage, c.RunID, r.Name())
	case r != nil && granted(r, c.Owner) != nil:
		return s.deliverTo(r, *granted(r, c.Owner), out, now)
	case r != nil:
		d.Run, d.Attempt = s.look(r, now), attemptOf(r, c.Owner)
		return d, nil
	case c.Partition == "":
	case t != nil:
		d.Run = *t
		if t.RunID != c.RunID && !s.delivered(t.RunID, c.RunID) {
			d.Kind = onerun.DeliveredKept
			s.event(now, onerun.EventLateOutcome, *t, onerun.Who{}, onerun.UnclaimedDetail(c, started, out, d.Kind))
		}
		return d, nil
	default:
		r = s.keys[s.id(c.Namespace, c.Key())]
	}
	var run *onerun.Run
	if r != nil {
		if l := granted(r, c.Owner); l != nil {
			return s.deliverTo(r, *l, out, now)
		}
		if s.delivered(r.RunID, c.RunID) {
			d.Run, d.Attempt = s.look(r, now), attemptOf(r, c.Owner)
			return d, nil
		}
		run = &r.Run
	}
	d.Kind = s.rules.Unclaimed(run)
	if run != nil && len(r.attempts) > 0 && r.attempts[len(r.attempts)-1].ClosedBy == onerun.ByOperator {
		d.Kind = onerun.DeliveredKept
	}
	if d.Kind == onerun.DeliveredApplied {
		if r == nil {
			r = s.create(c, now)
		}
		c.TwoPeople = c.TwoPeople || r.TwoPeople
		d.Attempt = r.Attempt + 1
		r.begin(c, d.Attempt, 0, time.Time{}, started)
		s.close(r, out, onerun.ByOwner, now)
	}
	if r != nil {
		s.event(now, onerun.EventLateOutcome, r.Run, onerun.Who{}, onerun.UnclaimedDetail(c, started, out, d.Kind))
		d.Run = s.look(r, now)
	}
	return d, nil
}

// checkUnclaimed refuses what no claim could have been, and no end.
func checkUnclaimed(c onerun.Claim, out onerun.Outcome) (onerun.Claim, error) {
	if st := out.Status; st != onerun.Succeeded && st != onerun.Failed && st != onerun.Skipped {
		return c, fmt.Errorf("%w: an attempt can't end as %q", onerun.ErrUsage, st)
	}
	if c.Job == "" {
		return c, fmt.Errorf("%w: a lock alone has no run that could be recorded", onerun.ErrUsage)
	}
	c.Order = onerun.OrderAny // it waited for nobody
	return check(c)
}

// delivered reports whether the journal of a run has an unclaimed one already.
func (s *Store) delivered(runID, unclaimed string) bool {
	return slices.ContainsFunc(s.events, func(e onerun.Event) bool {
		return e.RunID == runID && e.Name == onerun.EventLateOutcome && strings.HasPrefix(e.Detail, onerun.UnclaimedMark(unclaimed))
	})
}

// granted is the lease of an owner whose claim was granted after all; nil: it wasn't.
func granted(r *record, owner string) *onerun.Lease {
	for _, a := range r.attempts {
		if a.Owner == owner && a.Token != 0 {
			return &onerun.Lease{Namespace: r.Namespace, Lock: r.Lock, RunID: r.RunID, Attempt: a.Number, Owner: owner, Token: a.Token}
		}
	}
	return nil
}

// attemptOf is the number of an owner's attempt; 0: it has none.
func attemptOf(r *record, owner string) int {
	for _, a := range r.attempts {
		if a.Owner == owner {
			return a.Number
		}
	}
	return 0
}
