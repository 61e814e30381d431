package mysql

import (
	"context"
	"fmt"

	"github.com/onerun-dev/onerun"
)

// Report implements onerun.Claimer, in one round trip. The rows are written in the order of a
// claim's, so that nobody waits crosswise.
func (s *Store) Report(ctx context.Context, l onerun.Lease, p onerun.Progress) error {
	if l.RunID == "" {
		return fmt.Errorf("%w: a lock alone has no progress", onerun.ErrUsage)
	}
	const set = " SET processed = COALESCE(?, processed), failed = COALESCE(?, failed) "
	b := &batch{}
	b.add(begin)
	b.add("UPDATE onerun_run"+set+`WHERE run_id = ? AND attempt = ? AND namespace = ? AND "lock" = ? AND status = 'RUNNING' AND EXISTS (
		SELECT 1 FROM onerun_attempt a WHERE a.run_id = ? AND a.attempt = ? AND a.owner = ? AND a.token = ? AND a.status = 'RUNNING')`,
		p.Processed, p.Failed, l.RunID, l.Attempt, l.Namespace, l.Lock, l.RunID, l.Attempt, l.Owner, l.Token)
	b.add("UPDATE onerun_attempt"+set+"WHERE run_id = ? AND attempt = ? AND owner = ? AND status = 'RUNNING' AND ROW_COUNT() = 1",
		p.Processed, p.Failed, l.RunID, l.Attempt, l.Owner)
	if p.Output != nil {
		addOutput(b, l, *p.Output)
	}
	b.add("SELECT ROW_COUNT()")
	b.add(commit)
	var n int64
	if err := s.once(ctx, func(t *tx) error { return t.row(b.text.String(), b.args...).Scan(&n) }); err != nil {
		return s.explain("report progress", err)
	}
	if n < 1 {
		return fmt.Errorf("%w: the run was closed by somebody else", onerun.ErrLost)
	}
	return nil
}

// Output implements onerun.Ledger.
func (s *Store) Output(ctx context.Context, namespace, runID string, attempt int) (onerun.Output, error) {
	var o onerun.Output
	err := s.read(ctx, "read an output", func(t *tx) error {
		var at int64
		err := t.row(`SELECT o.at, o.bytes_total, o.truncated, o.text FROM onerun_output o
			JOIN onerun_run r ON r.run_id = o.run_id WHERE o.run_id = ? AND o.attempt = ? AND r.namespace = ?`, runID, attempt, namespace).
			Scan(&at, &o.Total, &o.Truncated, &o.Text)
		if noRows(err) {
			return fmt.Errorf("output of attempt %d of run %s: %w", attempt, runID, onerun.ErrNotFound)
		}
		o.At = fromMicros(&at)
		return err
	})
	return o, err
}
