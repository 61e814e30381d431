package sqlite

import (
	"cmp"
	"database/sql"
	"errors"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

const tombColumns = `SELECT run_id, namespace, job, partition, coalesce(business_date, ''), lock, status, attempt, token, two_people, on_crash,
	scheduled_at, started_at, finished_at, pruned_at FROM onerun_tombstone `

func scanTomb(scan func(...any) error) (onerun.Run, error) {
	return sqlledger.Tomb(scan, fromMicros)
}

// tombstone reads one that is known to be there.
func (t *tx) tombstone(namespace, runID string) (onerun.Run, error) {
	r, err := t.TombstoneOf(namespace, "", runID)
	if err == nil && r == nil {
		err = errChanged
	}
	if err != nil {
		return onerun.Run{}, err
	}
	return *r, nil
}

// TombstoneOf implements sqlledger.Approver.
func (t *tx) TombstoneOf(namespace, key, runID string) (*onerun.Run, error) {
	where, arg := "WHERE namespace = ?1 AND key = ?2", key
	if runID != "" {
		where, arg = "WHERE namespace = ?1 AND run_id = ?2", runID
	}
	r, err := scanTomb(t.row(tombColumns+where, namespace, arg).Scan)
	return sqlledger.Maybe(r, err, noRows)
}

// Revive implements sqlledger.Approver: a run is made of a tombstone again with its key, its run id
// and the number of its attempts. What the attempts said is gone.
func (t *tx) Revive(r onerun.Run) error {
	err := t.keepToken(r.Namespace, r.Key())
	if err == nil { // first: nothing is inserted beside a tombstone
		err = t.exec("DELETE FROM onerun_tombstone WHERE namespace = ?1 AND key = ?2", r.Namespace, r.Key())
	}
	if err != nil {
		return err
	}
	err = t.exec(sqlInsertRun, r.RunID, r.Namespace, r.Job, r.Partition, r.Key(), null(r.BusinessDate), r.Lock, r.Status, r.Attempt,
		micros(r.ScheduledAt), r.StartedAt.UnixMicro(), micros(r.FinishedAt), r.Token, nil, nil, nil, nil, nil, nil)
	if err == nil && r.Attempt > 0 {
		// The last attempt carries what is known of all: its owner and worker are nobody's any more.
		err = t.exec(sqlInsertAttempt, r.RunID, r.Attempt, onerun.NewID(), r.Token, r.Lock, "", nil, nil, nil, nil, 0, 0, 0, 0, false,
			cmp.Or(r.OnCrash, onerun.CrashAuto), nil, 0, 0, 0, false, r.StartedAt.UnixMicro(), r.TwoPeople)
		if err == nil {
			err = t.exec("UPDATE onerun_attempt SET status = ?3, finished_at = ?4 WHERE run_id = ?1 AND attempt = ?2", r.RunID, r.Attempt, r.Status, micros(r.FinishedAt))
		}
	}
	return err
}

// keepToken gives a lock the token back that only a tombstone knows: the next owner's
// has to be larger, whatever the clock says.
func (t *tx) keepToken(namespace, key string) error {
	return t.exec(`INSERT INTO onerun_lock (namespace, lock, token) SELECT namespace, lock, token FROM onerun_tombstone
		WHERE namespace = ?1 AND key = ?2 ON CONFLICT (namespace, lock) DO UPDATE SET token = max(token, excluded.token)`, namespace, key)
}

func noRows(err error) bool { return errors.Is(err, sql.ErrNoRows) }
