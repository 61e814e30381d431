package sqlite

import (
	"context"
	"fmt"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// Stop implements onerun.Operator. The owner may be another account's process, which no
// signal of ours reaches, so the request is a file beside the lock, at which every owner
// looks once a second.
func (s *Store) Stop(ctx context.Context, q onerun.StopRequest) error {
	var dir *filelock.Dir
	var run *runRow
	err := s.write(ctx, "stop", func(t *tx) error {
		var err error
		if run, err = t.runIn(q.Namespace, q.RunID); err != nil {
			return err
		}
		if run == nil {
			return fmt.Errorf("run %s: %w", q.RunID, onerun.ErrNotFound)
		}
		if err := sqlledger.Expect(run.Run, q.Expect); err != nil {
			return err
		}
		over := false
		if run.Status == onerun.Running {
			v, err := s.lookAt(run)
			if err != nil {
				return err
			}
			run.Evidence, over = v.fateOf(run).evidence, !v.held
		}
		if err := onerun.StopAllowed(run.Run, over); err != nil {
			return err
		}
		if dir, err = s.dirOf(run); err != nil {
			return err
		}
		return t.Event(sqlledger.StopRequested(q), run.Run)
	})
	if err != nil {
		return err
	}
	return dir.RequestStop(run.Namespace, run.Lock, run.Owner, q.By+": "+q.Reason)
}
