package postgres

import (
	"cmp"
	"context"
	_ "embed" // queries
	"fmt"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

//go:embed sql/unclaimed_attempt.sql
var sqlUnclaimedAttempt string

// DeliverUnclaimed implements onerun.UnclaimedKeeper. The run is over, so it wants no lock;
// what it changes it takes in hand in the order of a claim: the row of a lock, if somebody
// could be at work under it, then the run's. Where there is no run yet, the index of keys
// lets one of several make it.
func (s *Store) DeliverUnclaimed(ctx context.Context, c onerun.Claim, started time.Time, o onerun.Outcome) (onerun.Delivery, error) {
	c.Order = onerun.OrderAny // it waited for nobody
	if err := check(c); err != nil {
		return onerun.Delivery{}, err
	}
	return sqlledger.DeliverUnclaimed(ctx, s.write, refusedText, c, started, o, s.worker(c.WorkerLabel))
}

// GrantedTo implements sqlledger.Unclaimer.
func (t *tx) GrantedTo(runID, owner string) (attempt int, token int64, ok bool, err error) {
	err = t.row("SELECT attempt, token FROM onerun_attempt WHERE run_id = $1 AND owner = $2 AND token IS NOT NULL", runID, owner).Scan(&attempt, &token)
	if noRows(err) {
		return 0, 0, false, nil
	}
	return attempt, token, true, err
}

// LastOf implements sqlledger.Unclaimer.
func (t *tx) LastOf(runID, owner string) (attempt int, err error) {
	err = t.row("SELECT coalesce(max(attempt), 0) FROM onerun_attempt WHERE run_id = $1 AND owner = $2", runID, owner).Scan(&attempt)
	return attempt, err
}

// DeliveredBefore implements sqlledger.Unclaimer.
func (t *tx) DeliveredBefore(runID, mark string) (yes bool, err error) {
	err = t.row("SELECT EXISTS (SELECT 1 FROM onerun_event WHERE run_id = $1 AND event = $2 AND starts_with(detail, $3))",
		runID, onerun.EventLateOutcome, mark).Scan(&yes)
	return yes, err
}

// ClosedByOperator implements sqlledger.Unclaimer.
func (t *tx) ClosedByOperator(runID string, attempt int) (closed bool, err error) {
	err = t.row("SELECT EXISTS (SELECT 1 FROM onerun_attempt WHERE run_id = $1 AND attempt = $2 AND closed_by = $3)", runID, attempt, onerun.ByOperator).Scan(&closed)
	return closed, err
}

// WantLock implements sqlledger.Unclaimer.
func (t *tx) WantLock(namespace string, lock onerun.LockName) error {
	err := t.exec("INSERT INTO onerun_lock (namespace, lock, token) VALUES ($1, $2, 0) ON CONFLICT DO NOTHING", namespace, lock)
	if err == nil {
		err = t.exec("SELECT 1 FROM onerun_lock WHERE namespace = $1 AND lock = $2 FOR UPDATE", namespace, lock)
	}
	return err
}

// DropLock implements sqlledger.Unclaimer.
func (t *tx) DropLock(namespace string, lock onerun.LockName) error {
	return t.exec("DELETE FROM onerun_lock WHERE namespace = $1 AND lock = $2 AND owner IS NULL AND token = 0", namespace, lock)
}

// MakeRun implements sqlledger.Unclaimer.
func (t *tx) MakeRun(u sqlledger.Unclaimed) (bool, error) {
	n, err := t.changed(`INSERT INTO onerun_run (run_id, namespace, job, partition, key, business_date, lock, status, attempt, scheduled_at, started_at, finished_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, 'FAILED', 0, onerun_at($8), onerun_at($9), onerun_at($9)) ON CONFLICT DO NOTHING`,
		u.RunID, u.Namespace, u.Job, null(u.Partition), null(u.Key()), null(u.BusinessDate), u.Lock, micros(u.ScheduledAt), micros(u.Started))
	return n != 0, err
}

// AddAttempt implements sqlledger.Unclaimer.
func (t *tx) AddAttempt(u sqlledger.Unclaimed, r *sqlledger.RunRow, number int) error {
	labels, err := encode(labels(u.Labels))
	if err != nil {
		return fmt.Errorf("%w: the labels can't be kept: %w", onerun.ErrUsage, err)
	}
	err = t.exec(`UPDATE onerun_run
		SET attempt = $2, lock = $3, started_at = onerun_at($4), token = NULL, worker_id = $5, host = $6, pid = NULL, stale_after = $7, version_label = $8,
			labels = nullif($9::jsonb, 'null'), processed = NULL, failed = NULL
		WHERE run_id = $1`,
		r.RunID, number, u.Lock, micros(u.Started), null(u.Worker.Label), null(u.Worker.Host), null(u.StaleAfter.Microseconds()), null(u.VersionLabel), labels)
	if err == nil {
		err = t.exec(sqlUnclaimedAttempt, r.RunID, number, u.Owner, u.Lock, null(u.Worker.Label), null(u.Worker.Host), null(u.Worker.Machine), u.InProcess,
			sqlledger.CeilMicros(cmp.Or(u.TTL, onerun.DefaultTTL)), cmp.Or(u.OnCrash, onerun.CrashAuto), u.TwoPeople, null(u.StaleAfter.Microseconds()),
			sqlledger.Within(u.Retries), u.BackoffMin.Microseconds(), u.BackoffMax.Microseconds(), u.RetryLost, micros(u.Started))
	}
	return err
}
