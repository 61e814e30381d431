package memory

import (
	"context"
	"fmt"

	"github.com/onerun-dev/onerun"
)

// Report implements onerun.Claimer.
func (s *Store) Report(ctx context.Context, lease onerun.Lease, p onerun.Progress) error {
	now, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if lease.RunID == "" {
		return fmt.Errorf("%w: a lock alone has no progress", onerun.ErrUsage)
	}
	l := s.lockOf(lease.Namespace, lease.Lock)
	if !s.rules.ReportOwns(l.lease, lease) {
		return lost(l)
	}
	r := l.run
	r.count(p.Processed, p.Failed)
	last := &r.attempts[len(r.attempts)-1]
	last.Processed, last.Execution.Failed = r.Processed, r.Execution.Failed
	r.keepOutput(lease.Attempt, p.Output, now)
	return nil
}

// count takes counts over, as far as there are any.
func (r *record) count(processed, failed *int64) {
	if processed != nil {
		r.Processed = processed
	}
	if failed != nil {
		r.Execution.Failed = failed
	}
}
