package sqlite

import (
	"context"
	"fmt"

	"github.com/onerun-dev/onerun"
)

// Report implements onerun.Claimer. It doesn't wait for the disk: the numbers are written
// again with the end.
func (s *Store) Report(ctx context.Context, l onerun.Lease, p onerun.Progress) error {
	if l.RunID == "" {
		return fmt.Errorf("%w: a lock alone has no progress", onerun.ErrUsage)
	}
	return s.with(ctx, true, func(d *db) error {
		return d.lightly(ctx, "report progress", func(t *tx) error {
			n, err := t.changed(`UPDATE onerun_attempt SET processed = coalesce(?5, processed), failed = coalesce(?6, failed)
				WHERE run_id = ?1 AND attempt = ?2 AND owner = ?3 AND token = ?4 AND status = 'RUNNING'`,
				l.RunID, l.Attempt, l.Owner, l.Token, p.Processed, p.Failed)
			if err == nil && n == 0 {
				err = fmt.Errorf("%w: the run was closed by somebody else", onerun.ErrLost)
			}
			if err == nil && (p.Processed != nil || p.Failed != nil) {
				err = t.exec("UPDATE onerun_run SET processed = coalesce(?3, processed), failed = coalesce(?4, failed) WHERE run_id = ?1 AND attempt = ?2",
					l.RunID, l.Attempt, p.Processed, p.Failed)
			}
			if err == nil && p.Output != nil {
				err = t.keepOutput(l.RunID, l.Attempt, *p.Output)
			}
			return err
		})
	})
}
