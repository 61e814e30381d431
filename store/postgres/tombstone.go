package postgres

import (
	"cmp"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

const tombColumns = `SELECT run_id, namespace, job, partition, coalesce(business_date, ''), lock, status, attempt, token, two_people, on_crash,
	onerun_us(scheduled_at), onerun_us(started_at), onerun_us(finished_at), onerun_us(pruned_at) FROM onerun_tombstone `

func scanTomb(scan func(...any) error) (onerun.Run, error) {
	return sqlledger.Tomb(scan, fromMicros)
}

// TombstoneOf implements sqlledger.Runs.
func (t *tx) TombstoneOf(namespace, key, runID string) (*onerun.Run, error) {
	where, arg := "WHERE namespace = $1 AND key = $2", key
	if runID != "" {
		where, arg = "WHERE namespace = $1 AND run_id = $2", runID
	}
	r, err := scanTomb(t.row(tombColumns+where, namespace, arg).Scan)
	return sqlledger.Maybe(r, err, noRows)
}

// Revive implements sqlledger.Approver: a run is made of a tombstone again with its key, its run id
// and the number of its attempts. What the attempts said is gone.
func (t *tx) Revive(r onerun.Run) error {
	if err := t.exec("SELECT onerun_keep_tokens($1, $2)", r.Namespace, []string{r.Key()}); err != nil {
		return err
	}
	n, err := t.changed("DELETE FROM onerun_tombstone WHERE namespace = $1 AND key = $2 AND run_id = $3", r.Namespace, r.Key(), r.RunID)
	if err == nil && n == 0 { // somebody else was faster
		err = sqlledger.Changed(r)
	}
	if err != nil {
		return err
	}
	err = t.exec(`INSERT INTO onerun_run (run_id, namespace, job, partition, key, business_date, lock, status, attempt, scheduled_at, started_at, finished_at, token)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, onerun_at($10), onerun_at($11), onerun_at($12), $13)`,
		r.RunID, r.Namespace, r.Job, r.Partition, r.Key(), null(r.BusinessDate), r.Lock, r.Status, r.Attempt,
		micros(r.ScheduledAt), micros(r.StartedAt), micros(r.FinishedAt), r.Token)
	if err == nil && r.Attempt > 0 {
		// The last attempt carries what is known of all: its owner and worker are nobody's any more.
		err = t.exec(`INSERT INTO onerun_attempt (run_id, attempt, status, owner, token, lock, ttl, on_crash, two_people, retries, backoff_min,
				backoff_max, retry_lost, started_at, finished_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, 0, 0, false, onerun_at($10), onerun_at($11))`,
			r.RunID, r.Attempt, r.Status, onerun.NewID(), r.Token, r.Lock, onerun.DefaultTTL.Microseconds(),
			cmp.Or(r.OnCrash, onerun.CrashAuto), r.TwoPeople, micros(r.StartedAt), micros(r.FinishedAt))
	}
	return err
}

func noRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }
