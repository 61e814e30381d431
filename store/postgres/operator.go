package postgres

import (
	"context"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// Event implements sqlledger.Journal.
func (t *tx) Event(e onerun.Event, r onerun.Run) error {
	return t.exec("SELECT onerun_journal(onerun_at($1), $2, $3, $4, $5, $6, $7, $8, $9, $10)",
		micros(t.now), e.Name, r.Namespace, r.Job, r.Key(), r.RunID, e.By, e.Terminal, e.Reason, e.Detail)
}

// Resolve implements onerun.Operator.
func (s *Store) Resolve(ctx context.Context, q onerun.Resolution) (onerun.Run, error) {
	return sqlledger.Resolve(ctx, s.write, q)
}

// RunIDOf implements sqlledger.Runs.
func (t *tx) RunIDOf(namespace, key string) (id string, err error) {
	err = t.row("SELECT run_id FROM onerun_run WHERE namespace = $1 AND key = $2", namespace, key).Scan(&id)
	if noRows(err) {
		err = nil
	}
	return id, err
}

// MakeSkipped implements sqlledger.Resolver.
func (t *tx) MakeSkipped(id string, q onerun.Resolution) (bool, error) {
	n, err := t.changed(`INSERT INTO onerun_run (run_id, namespace, job, partition, key, business_date, lock, status, attempt, started_at, finished_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, 'SKIPPED', 0, onerun_at($8), onerun_at($8)) ON CONFLICT (namespace, key) WHERE key IS NOT NULL DO NOTHING`,
		id, q.Namespace, q.Job, q.Partition, onerun.MakeKey(q.Job, q.Partition), null(q.BusinessDate), onerun.JobLock(q.Job), micros(t.now))
	return n != 0, err
}

// ResolveRun implements sqlledger.RunCloser.
func (t *tx) ResolveRun(r onerun.Run, as onerun.Status, reason onerun.Reason) (bool, error) {
	n, err := t.changed(`UPDATE onerun_run SET status = $4, reason = $5, next_retry_at = NULL,
		finished_at = CASE status WHEN 'RUNNING' THEN onerun_at($6) ELSE finished_at END
		WHERE run_id = $1 AND status = $2 AND attempt = $3`, r.RunID, r.Status, r.Attempt, as, null(string(reason)), micros(t.now))
	return n == 1, err
}

// ResolveAttempt implements sqlledger.RunCloser.
func (t *tx) ResolveAttempt(r onerun.Run, as onerun.Status, reason onerun.Reason) (bool, error) {
	n, err := t.changed(`UPDATE onerun_attempt SET status = $4, reason = $5, finished_at = onerun_at($6), closed_by = 'operator'
		WHERE run_id = $1 AND attempt = $2 AND owner = $3 AND status = 'RUNNING'`, r.RunID, r.Attempt, r.Owner, as, null(string(reason)), micros(t.now))
	return n == 1, err
}

// FreeLock implements sqlledger.RunCloser.
func (t *tx) FreeLock(namespace string, lock onerun.LockName, owner string) error {
	return t.exec("SELECT onerun_free($1, $2, $3)", namespace, lock, owner)
}

// RunByID implements sqlledger.Runs.
func (t *tx) RunByID(id string) (onerun.Run, error) {
	r, err := t.RunOf(id)
	if err == nil && r == nil {
		err = errAgain
	}
	if err != nil {
		return onerun.Run{}, err
	}
	return r.Seen(), nil
}

// Stop implements onerun.Operator.
func (s *Store) Stop(ctx context.Context, q onerun.StopRequest) error {
	return sqlledger.Stop(ctx, s.write, q)
}

// AskToStop implements sqlledger.Stopper.
func (t *tx) AskToStop(r onerun.Run, words string) (bool, error) {
	n, err := t.changed("UPDATE onerun_lock SET stop = $4 WHERE namespace = $1 AND lock = $2 AND owner = $3", r.Namespace, r.Lock, r.Owner, words)
	return n == 1, err
}

// Pause implements onerun.Operator.
func (s *Store) Pause(ctx context.Context, q onerun.PauseRequest) error {
	return sqlledger.Pause(ctx, s.write, q)
}

// Pause implements sqlledger.Pauser.
func (t *tx) Pause(q onerun.PauseRequest) (bool, error) {
	n, err := t.changed(`INSERT INTO onerun_job AS j (namespace, job, paused_at, paused_by, pause_reason) VALUES ($1, $2, onerun_at($3), $4, $5)
		ON CONFLICT (namespace, job) DO UPDATE SET paused_at = excluded.paused_at, paused_by = excluded.paused_by, pause_reason = excluded.pause_reason
		WHERE j.paused_at IS NULL`, q.Namespace, q.Job, micros(t.now), q.By, q.Reason)
	return n != 0, err
}

// PausedBy implements sqlledger.Pauser.
func (t *tx) PausedBy(q onerun.PauseRequest) (by, reason string, err error) {
	err = t.row("SELECT coalesce(paused_by, ''), coalesce(pause_reason, '') FROM onerun_job WHERE namespace = $1 AND job = $2", q.Namespace, q.Job).Scan(&by, &reason)
	return by, reason, err
}

// Resume implements onerun.Operator.
func (s *Store) Resume(ctx context.Context, q onerun.PauseRequest) error {
	return sqlledger.Resume(ctx, s.write, q)
}

// Resume implements sqlledger.Pauser.
func (t *tx) Resume(q onerun.PauseRequest) (bool, error) {
	n, err := t.changed(`UPDATE onerun_job SET paused_at = NULL, paused_by = NULL, pause_reason = NULL
		WHERE namespace = $1 AND job = $2 AND paused_at IS NOT NULL`, q.Namespace, q.Job)
	return n != 0, err
}

// RecordUnlock implements onerun.UnlockRecorder.
func (s *Store) RecordUnlock(ctx context.Context, u onerun.UnlockRequest) error {
	return sqlledger.RecordUnlock(ctx, s.write, u)
}
