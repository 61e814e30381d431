package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/onerun-dev/onerun"
)

// keepOutput keeps what an attempt printed.
func (r *record) keepOutput(attempt int, out *onerun.Output, now time.Time) {
	if out == nil {
		return
	}
	o := out.Cleaned()
	if o.Text == "" {
		return
	}
	o.At = now
	if r.outputs == nil {
		r.outputs = map[int]onerun.Output{}
	}
	r.outputs[attempt] = o
}

// Output implements onerun.Ledger.
func (s *Store) Output(ctx context.Context, namespace, runID string, attempt int) (onerun.Output, error) {
	if _, err := s.enter(ctx); err != nil {
		return onerun.Output{}, err
	}
	defer s.mu.Unlock()
	r := s.runs[runID]
	if r == nil || r.Namespace != namespace || r.outputs[attempt].Text == "" {
		return onerun.Output{}, fmt.Errorf("output of attempt %d of run %s: %w", attempt, runID, onerun.ErrNotFound)
	}
	return r.outputs[attempt], nil
}
