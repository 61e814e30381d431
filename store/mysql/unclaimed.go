package mysql

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

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
	err = t.row("SELECT attempt, token FROM onerun_attempt WHERE run_id = ? AND owner = ? AND token > 0", runID, owner).Scan(&attempt, &token)
	if noRows(err) {
		return 0, 0, false, nil
	}
	return attempt, token, true, err
}

// LastOf implements sqlledger.Unclaimer.
func (t *tx) LastOf(runID, owner string) (attempt int, err error) {
	err = t.row("SELECT coalesce(max(attempt), 0) FROM onerun_attempt WHERE run_id = ? AND owner = ?", runID, owner).Scan(&attempt)
	return attempt, err
}

// DeliveredBefore implements sqlledger.Unclaimer.
func (t *tx) DeliveredBefore(runID, mark string) (yes bool, err error) {
	err = t.row("SELECT EXISTS (SELECT 1 FROM onerun_event WHERE run_id = ? AND event = ? AND LEFT(detail, CHAR_LENGTH(?)) = ?)",
		runID, onerun.EventLateOutcome, mark, mark).Scan(&yes)
	return yes, err
}

// ClosedByOperator implements sqlledger.Unclaimer.
func (t *tx) ClosedByOperator(runID string, attempt int) (closed bool, err error) {
	err = t.row("SELECT EXISTS (SELECT 1 FROM onerun_attempt WHERE run_id = ? AND attempt = ? AND closed_by = ?)", runID, attempt, onerun.ByOperator).Scan(&closed)
	return closed, err
}

// WantLock implements sqlledger.Unclaimer.
func (t *tx) WantLock(namespace string, lock onerun.LockName) error {
	return t.exec(sqlWantLock, namespace, lock)
}

// DropLock implements sqlledger.Unclaimer.
func (t *tx) DropLock(namespace string, lock onerun.LockName) error {
	return t.exec(`DELETE FROM onerun_lock WHERE namespace = ? AND "lock" = ? AND owner IS NULL AND token = 0`, namespace, lock)
}

// MakeRun implements sqlledger.Unclaimer.
func (t *tx) MakeRun(u sqlledger.Unclaimed) (bool, error) {
	err := t.exec(`INSERT INTO onerun_run (run_id, namespace, job, "partition", "key", business_date, "lock", status, attempt, scheduled_at, started_at, finished_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, 'FAILED', 0, ?, ?, ?)`,
		u.RunID, u.Namespace, u.Job, null(u.Partition), null(u.Key()), null(u.BusinessDate), u.Lock, micros(u.ScheduledAt), micros(u.Started), micros(u.Started))
	if code(err) == errDuplicate {
		return false, nil
	}
	return true, err
}

// AddAttempt implements sqlledger.Unclaimer.
func (t *tx) AddAttempt(u sqlledger.Unclaimed, r *sqlledger.RunRow, number int) error {
	var labels *string
	if len(u.Labels) > 0 {
		text, err := encode(u.Labels)
		if err != nil {
			return fmt.Errorf("%w: the labels can't be kept: %w", onerun.ErrUsage, err)
		}
		labels = &text
	}
	stale := null(u.StaleAfter.Microseconds())
	twoPeople := u.TwoPeople || r.TwoPeople // what was once asked of its reruns stays
	err := t.exec(`UPDATE onerun_run SET attempt = ?, "lock" = ?, started_at = ?, token = NULL, worker_id = ?, host = ?, pid = NULL, stale_after = ?, version_label = ?,
			labels = ?, processed = NULL, failed = NULL WHERE run_id = ?`,
		number, u.Lock, micros(u.Started), null(u.Worker.Label), null(u.Worker.Host), stale, null(u.VersionLabel), labels, r.RunID)
	if err == nil {
		// It had neither lease nor token, and its owner is nobody's any more.
		err = t.exec(`INSERT INTO onerun_attempt (run_id, attempt, status, owner, token, "lock", worker_id, host, machine, in_process, ttl, on_crash, two_people,
				stale_after, retries, backoff_min, backoff_max, retry_lost, started_at) VALUES (?, ?, 'FAILED', ?, 0, `+places(14)+")",
			r.RunID, number, u.Owner, u.Lock, null(u.Worker.Label), null(u.Worker.Host), null(u.Worker.Machine), u.InProcess,
			sqlledger.CeilMicros(cmp.Or(u.TTL, onerun.DefaultTTL)), cmp.Or(u.OnCrash, onerun.CrashAuto), twoPeople, stale,
			sqlledger.Within(u.Retries), u.BackoffMin.Microseconds(), u.BackoffMax.Microseconds(), u.RetryLost, micros(u.Started))
	}
	return err
}
