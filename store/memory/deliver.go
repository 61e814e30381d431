package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
)

// Deliver implements onerun.Claimer.
func (s *Store) Deliver(ctx context.Context, lease onerun.Lease, out onerun.Outcome) (onerun.Delivery, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return onerun.Delivery{}, err
	}
	defer s.mu.Unlock()
	if st := out.Status; st != onerun.Succeeded && st != onerun.Failed && st != onerun.Skipped {
		return onerun.Delivery{}, fmt.Errorf("%w: an attempt can't end as %q", onerun.ErrUsage, st)
	}
	r := s.runs[lease.RunID]
	if r == nil || r.Namespace != lease.Namespace {
		return onerun.Delivery{}, fmt.Errorf("%w: there is no run %s", onerun.ErrLost, lease.RunID)
	}
	return s.deliverTo(r, lease, out, now)
}

func (s *Store) deliverTo(r *record, lease onerun.Lease, out onerun.Outcome, now time.Time) (onerun.Delivery, error) {
	i := slices.IndexFunc(r.attempts, func(a onerun.Attempt) bool { return a.Number == lease.Attempt && a.Owner == lease.Owner })
	if i < 0 {
		return onerun.Delivery{}, fmt.Errorf("%w: attempt %d of run %s is not that owner's", onerun.ErrLost, lease.Attempt, lease.RunID)
	}
	a := &r.attempts[i]
	d := onerun.Delivery{Attempt: lease.Attempt, Outcome: out, Kind: s.rules.Deliver(r.Run, *a, s.decided(r.RunID, lease.Attempt), out)}
	was := string(a.Status) + " " + string(a.Reason)
	switch d.Kind {
	case onerun.DeliveredApplied:
		l := s.lockOf(r.Namespace, r.Lock)
		s.close(r, out, onerun.ByOwner, now)
		if l.lease.Owner == lease.Owner {
			s.free(l)
		}
		s.event(now, onerun.EventLateOutcome, r.Run, onerun.Who{}, d.Words())
	case onerun.DeliveredCorrected:
		s.close(r, out, onerun.ByOwner, now)
		s.event(now, onerun.EventLateOutcome, r.Run, onerun.Who{}, "corrected, was "+was)
	case onerun.DeliveredKept:
		kept := out
		kept.Error = onerun.CutError(out.Error)
		a.Late = &kept
		s.event(now, onerun.EventLateOutcome, r.Run, onerun.Who{}, onerun.MayHaveRunTwice)
	}
	d.Run = s.look(r, now)
	return d, nil
}

// decided reports whether a person has decided about a run since an attempt began.
func (s *Store) decided(runID string, attempt int) bool {
	for _, a := range s.approvals {
		if a.RunID == runID && a.Attempt >= attempt {
			return true
		}
	}
	return false // a run that was resolved differs from its attempt, or that was closed by the operator
}
