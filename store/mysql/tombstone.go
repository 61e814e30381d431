package mysql

import (
	"cmp"
	"strings"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

const tombColumns = `SELECT run_id, namespace, job, "partition", COALESCE(business_date, ''), "lock", status, attempt, token, two_people, on_crash,
	scheduled_at, started_at, finished_at, pruned_at FROM onerun_tombstone `

func scanTomb(scan func(...any) error) (onerun.Run, error) {
	return sqlledger.Tomb(scan, fromMicros)
}

// TombstoneOf implements sqlledger.Runs.
func (t *tx) TombstoneOf(namespace, key, runID string) (*onerun.Run, error) {
	where, arg := `WHERE namespace = ? AND "key" = ?`, key
	if runID != "" {
		where, arg = "WHERE namespace = ? AND run_id = ?", runID
	}
	r, err := scanTomb(t.row(tombColumns+where, namespace, arg).Scan)
	return sqlledger.Maybe(r, err, noRows)
}

// Revive implements sqlledger.Approver: a run is made of a tombstone again with its key, its run id
// and the number of its attempts. What the attempts said is gone.
func (t *tx) Revive(r onerun.Run) error {
	if err := t.keepTokens(r.Namespace, r.Key()); err != nil {
		return err
	}
	n, err := t.changed(`DELETE FROM onerun_tombstone WHERE namespace = ? AND "key" = ? AND run_id = ?`, r.Namespace, r.Key(), r.RunID)
	if err == nil && n == 0 { // somebody else was faster
		err = sqlledger.Changed(r)
	}
	if err != nil {
		return err
	}
	err = t.exec(`INSERT INTO onerun_run (run_id, namespace, job, "partition", "key", business_date, "lock", status, attempt, scheduled_at, started_at, finished_at, token)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.RunID, r.Namespace, r.Job, r.Partition, r.Key(), null(r.BusinessDate), r.Lock, r.Status, r.Attempt,
		micros(r.ScheduledAt), micros(r.StartedAt), micros(r.FinishedAt), r.Token)
	if err == nil && r.Attempt > 0 {
		// The last attempt carries what is known of all: its owner and worker are nobody's any more.
		err = t.exec(`INSERT INTO onerun_attempt (run_id, attempt, status, owner, token, "lock", ttl, on_crash, two_people, retries, backoff_min,
				backoff_max, retry_lost, started_at, finished_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, false, ?, ?)`,
			r.RunID, r.Attempt, r.Status, onerun.NewID(), r.Token, r.Lock, onerun.DefaultTTL.Microseconds(),
			cmp.Or(r.OnCrash, onerun.CrashAuto), r.TwoPeople, micros(r.StartedAt), micros(r.FinishedAt))
	}
	return err
}

// keepTokens gives locks the tokens back that only tombstones know: the next owner's has to be
// larger, whatever the clock says.
func (t *tx) keepTokens(namespace string, keys ...string) error {
	args := []any{namespace}
	for _, k := range keys {
		args = append(args, k)
	}
	return t.exec(`INSERT INTO onerun_lock (namespace, "lock", token)
		SELECT t.namespace, t."lock", MAX(t.token) FROM onerun_tombstone t WHERE t.namespace = ? AND t."key" IN (`+places(len(keys))+`)
		GROUP BY t.namespace, t."lock" ORDER BY t.namespace, t."lock"
		ON DUPLICATE KEY UPDATE token = GREATEST(onerun_lock.token, VALUES(token))`, args...)
}

// places are n places for arguments, in a list.
func places(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }
