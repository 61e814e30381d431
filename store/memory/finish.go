package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/onerun-dev/onerun"
)

// Heartbeat implements onerun.Claimer.
func (s *Store) Heartbeat(ctx context.Context, lease onerun.Lease) (onerun.Beat, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return onerun.Beat{}, err
	}
	defer s.mu.Unlock()
	l := s.lockOf(lease.Namespace, lease.Lock)
	if !s.rules.BeatOwns(l.lease, lease) {
		return onerun.Beat{}, lost(l)
	}
	l.expires = s.rules.Expires(now, l.expires, lease.TTL)
	if r := l.run; r != nil {
		r.LeaseExpiresAt = l.expires
		r.attempts[len(r.attempts)-1].LeaseExpiresAt = l.expires
	}
	return onerun.Beat{Now: now, Stop: l.stop}, nil
}

// Finish implements onerun.Claimer.
func (s *Store) Finish(ctx context.Context, lease onerun.Lease, out onerun.Outcome) error {
	now, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if s := out.Status; lease.RunID != "" && s != onerun.Succeeded && s != onerun.Failed && s != onerun.Skipped {
		return fmt.Errorf("%w: an attempt can't end as %q", onerun.ErrUsage, s)
	}
	l := s.lockOf(lease.Namespace, lease.Lock)
	if !s.rules.FinishOwns(l.lease, lease) {
		if s.recorded(lease, l, out) {
			return nil
		}
		return lost(l)
	}
	if r := s.runs[lease.RunID]; r != nil {
		s.close(r, out, onerun.ByOwner, now)
	}
	s.free(l)
	return nil
}

// recorded reports whether a finish has been done already: its reply was lost.
func (s *Store) recorded(lease onerun.Lease, l *lock, out onerun.Outcome) bool {
	if lease.RunID == "" {
		return l.lease.Owner == "" && l.token == lease.Token
	}
	r := s.runs[lease.RunID]
	if r == nil {
		return false
	}
	for _, a := range r.attempts {
		if a.Owner == lease.Owner && a.Number == lease.Attempt {
			return a.Status == out.Status && a.Reason == out.Reason
		}
	}
	return false
}

func lost(l *lock) error {
	if l.lease.Owner == "" {
		return fmt.Errorf("%w: the lock has no owner any more", onerun.ErrLost)
	}
	return fmt.Errorf("%w: the lock has a new owner with token %d", onerun.ErrLost, l.lease.Token)
}

// close ends the last attempt of a run, and reckons its next retry by the policy
// of the attempt's own owner.
func (s *Store) close(r *record, out onerun.Outcome, by onerun.ClosedBy, now time.Time) {
	r.Status, r.Reason, r.ExitCode, r.Signal = out.Status, out.Reason, out.ExitCode, out.Signal
	r.Error = onerun.CutError(out.Error)
	r.count(out.Processed, out.Failed)
	r.FinishedAt, r.LeaseExpiresAt, r.NextRetryAt = out.FinishedAt, time.Time{}, time.Time{}
	if r.FinishedAt.IsZero() {
		r.FinishedAt = now
	}
	if n := len(r.attempts); n > 0 {
		r.keepOutput(r.attempts[n-1].Number, out.Output, now)
		r.attempts[n-1].Status, r.attempts[n-1].Void, r.attempts[n-1].Execution = r.Status, out.Void, r.Execution
		r.attempts[n-1].ClosedBy = by
	}
	if r.Status != onerun.Failed || r.Partition == "" {
		return
	}
	if out.Void { // it never started, so it may start at once
		r.NextRetryAt = now
		return
	}
	failures := 0
	for _, a := range r.attempts {
		if a.Status == onerun.Failed && !a.Void {
			failures++
		}
	}
	if at, ok := s.rules.Retry(r.policy, now, failures, r.Reason); ok {
		r.NextRetryAt = at
	}
}
