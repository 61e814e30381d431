package sqlite

import (
	"context"
	"fmt"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// Stop implements onerun.Operator. The owner may be another account's process, which no
// signal of ours reaches, so the request is a file beside the lock, at which every owner
// looks once a second.
func (s *Store) Stop(ctx context.Context, q onerun.StopRequest) error {
	var dir *filelock.Dir
	var run *runRow
	err := s.write(ctx, "stop", func(t *tx) error {
		found, err := t.runs("WHERE r.namespace = ?1 AND r.run_id = ?2", q.Namespace, q.RunID)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("run %s: %w", q.RunID, onerun.ErrNotFound)
		}
		run = found[0]
		if onerun.Expected(run.Run) != q.Expect {
			return changed(run.Run)
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
		return t.event(decision(onerun.EventStopRequested, q.Who, ""), run.Run)
	})
	if err != nil {
		return err
	}
	return dir.RequestStop(run.Namespace, run.Lock, run.Owner, q.By+": "+q.Reason)
}

// StopRequested implements onerun.StopWatcher.
func (s *Store) StopRequested(l onerun.Lease) string {
	h := s.holding(l.Owner)
	if h == nil {
		return ""
	}
	return h.lock.StopRequested()
}
