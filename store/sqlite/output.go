package sqlite

import (
	"context"
	_ "embed" // queries
	"errors"
	"fmt"

	"github.com/onerun-dev/onerun"
)

//go:embed sql/keep_output.sql
var sqlKeepOutput string

// keepOutput keeps what an attempt printed.
func (t *tx) keepOutput(runID string, attempt int, o onerun.Output) error {
	o = o.Cleaned()
	if o.Text == "" {
		return nil
	}
	return t.exec(sqlKeepOutput, runID, attempt, t.now.UnixMicro(), o.Total, o.Truncated, []byte(o.Text))
}

// hadNoRoom reports whether an end could perhaps be recorded if it were shorter: whatever
// it was that the database refused, but not that it is busy, or that the end comes too late.
func hadNoRoom(err error) bool {
	return errors.Is(err, onerun.ErrIO) || errors.Is(err, onerun.ErrInternal)
}

// Output implements onerun.Ledger.
func (s *Store) Output(ctx context.Context, namespace, runID string, attempt int) (onerun.Output, error) {
	var o onerun.Output
	err := s.read(ctx, "read an output", func(t *tx) error {
		var at int64
		var text []byte
		err := t.row(`SELECT at, bytes_total, truncated, text FROM onerun_output o WHERE run_id = ?1 AND attempt = ?2
			AND EXISTS (SELECT 1 FROM onerun_run r WHERE r.run_id = o.run_id AND r.namespace = ?3)`, runID, attempt, namespace).
			Scan(&at, &o.Total, &o.Truncated, &text)
		if noRows(err) {
			return fmt.Errorf("output of attempt %d of run %s: %w", attempt, runID, onerun.ErrNotFound)
		}
		o.At, o.Text = fromMicros(&at), string(text)
		return err
	})
	return o, err
}
