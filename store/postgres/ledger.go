package postgres

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
	return sqlledger.SeenOrNil(sqlledger.One(t.runs("WHERE namespace = $1 AND run_id = $2", namespace, runID)))
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
		events, err = t.events("WHERE namespace = $1 AND job = $2 AND run_id IS NULL AND chain = $3", namespace, job, sqlledger.OperatorsChain)
		return err
	})
	return events, err
}

// Jobs implements onerun.Ledger.
func (s *Store) Jobs(ctx context.Context, namespace string) (jobs []onerun.JobState, err error) {
	err = s.read(ctx, "read the jobs", func(t *tx) (err error) {
		jobs, err = sqlledger.Jobs(t.each, fromMicros, `SELECT job, onerun_us(paused_at), coalesce(paused_by, ''), coalesce(pause_reason, '') FROM onerun_job
			WHERE namespace = $1 AND paused_at IS NOT NULL ORDER BY job`, namespace)
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
	return t.runs("WHERE namespace = $1 AND status = 'RUNNING'", namespace)
}
