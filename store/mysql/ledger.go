package mysql

import (
	"context"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// Detail implements onerun.Ledger.
func (s *Store) Detail(ctx context.Context, namespace, runID string) (onerun.Detail, error) {
	return sqlledger.Detail(ctx, s.read, namespace, runID)
}

// RunIn implements sqlledger.DetailReader.
func (t *tx) RunIn(namespace, runID string) (*onerun.Run, error) {
	return sqlledger.SeenOrNil(sqlledger.One(t.runs("WHERE r.namespace = ? AND r.run_id = ?", namespace, runID)))
}

// Skips implements onerun.Ledger.
func (s *Store) Skips(ctx context.Context, namespace, job, partition string) (skips []onerun.Skip, err error) {
	err = s.read(ctx, "read the skips", func(t *tx) (err error) {
		skips, err = t.Skips(namespace, job, onerun.MakeKey(job, partition))
		return err
	})
	return skips, err
}

// Decisions implements onerun.Ledger.
func (s *Store) Decisions(ctx context.Context, namespace, job string) (events []onerun.Event, err error) {
	err = s.read(ctx, "read the decisions", func(t *tx) (err error) {
		events, err = t.events("WHERE namespace = ? AND job = ? AND run_id IS NULL AND chain = ?", namespace, job, sqlledger.OperatorsChain)
		return err
	})
	return events, err
}

// Jobs implements onerun.Ledger.
func (s *Store) Jobs(ctx context.Context, namespace string) (jobs []onerun.JobState, err error) {
	err = s.read(ctx, "read the jobs", func(t *tx) (err error) {
		jobs, err = sqlledger.Jobs(t.each, fromMicros, `SELECT job, paused_at, COALESCE(paused_by, ''), COALESCE(pause_reason, '') FROM onerun_job
			WHERE namespace = ? AND paused_at IS NOT NULL ORDER BY job`, namespace)
		return err
	})
	return jobs, err
}

// Locks implements onerun.Ledger.
func (s *Store) Locks(ctx context.Context, namespace string) ([]onerun.LockState, error) {
	return sqlledger.Locks(ctx, s.read, namespace)
}

// Running implements sqlledger.LockReader.
func (t *tx) Running(namespace string) ([]*sqlledger.RunRow, error) {
	return t.runs("WHERE r.namespace = ? AND r.status = 'RUNNING'", namespace)
}
