package mysql

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// Event implements sqlledger.Journal. What people decide is one chain, and whoever writes to it queues
// for its end, with everything else in hand; a run's own events are a chain each, whose end its
// row guards, or that of the lock that it holds, so that no claim and no finish ever queues there.
func (t *tx) Event(e onerun.Event, r onerun.Run) error {
	chain := r.RunID
	if e.By != "" {
		chain = sqlledger.OperatorsChain
		if err := t.exec("UPDATE onerun_chain SET chain = chain WHERE chain = ?", chain); err != nil {
			return err
		}
	}
	// A statement of its own: it sees what was committed while this one waited.
	var last string
	err := t.row("SELECT hash FROM onerun_event WHERE chain = ? ORDER BY id DESC LIMIT 1", chain).Scan(&last)
	if err != nil && !noRows(err) {
		return err
	}
	e.At, e.Namespace, e.Job, e.Key, e.RunID = t.now, r.Namespace, r.Job, r.Key(), r.RunID
	for _, text := range []*string{&e.By, &e.Terminal, &e.Reason, &e.Detail} {
		*text = sqlledger.Clean(*text) // as it is kept
	}
	hash, err := link(last, e)
	if err != nil {
		return err
	}
	return t.exec(`INSERT INTO onerun_event (at, event, namespace, job, "key", run_id, "by", terminal, reason, detail, chain, hash) VALUES (`+places(12)+")",
		micros(e.At), e.Name, e.Namespace, e.Job, null(e.Key), null(e.RunID), null(e.By), null(e.Terminal), null(e.Reason), null(e.Detail), chain, hash)
}

// link is the hash of an event: SHA-256, in hexadecimal, over a JSON array of the hash before it
// in its chain and of its own fields.
func link(last string, e onerun.Event) (string, error) {
	content, err := json.Marshal([]any{last, e.At.UnixMicro(), e.Name, e.Namespace, e.Job, e.Key, e.RunID, e.By, e.Terminal, e.Reason, e.Detail})
	if err != nil {
		return "", err
	}
	hash := sha256.Sum256(content)
	return hex.EncodeToString(hash[:]), nil
}

// Resolve implements onerun.Operator.
func (s *Store) Resolve(ctx context.Context, q onerun.Resolution) (onerun.Run, error) {
	return sqlledger.Resolve(ctx, s.write, q)
}

// RunIDOf implements sqlledger.Runs.
func (t *tx) RunIDOf(namespace, key string) (id string, err error) {
	err = t.row(`SELECT run_id FROM onerun_run WHERE namespace = ? AND "key" = ?`, namespace, key).Scan(&id)
	if noRows(err) {
		err = nil
	}
	return id, err
}

// MakeSkipped implements sqlledger.Resolver.
func (t *tx) MakeSkipped(id string, q onerun.Resolution) (bool, error) {
	err := t.exec(`INSERT INTO onerun_run (run_id, namespace, job, "partition", "key", business_date, "lock", status, attempt, started_at, finished_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, 'SKIPPED', 0, ?, ?)`,
		id, q.Namespace, q.Job, q.Partition, onerun.MakeKey(q.Job, q.Partition), null(q.BusinessDate), onerun.JobLock(q.Job), micros(t.now), micros(t.now))
	if duplicate(err, "onerun_run_key") {
		return false, nil
	}
	return true, err
}

// ResolveRun implements sqlledger.RunCloser.
func (t *tx) ResolveRun(r onerun.Run, as onerun.Status, reason onerun.Reason) (bool, error) {
	if r.Status == onerun.Running {
		if err := t.wantFence(r.Namespace, r.Lock, true); err != nil {
			return false, err
		}
	}
	n, err := t.changed(`UPDATE onerun_run SET finished_at = IF(status = 'RUNNING', ?, finished_at), status = ?, reason = ?, next_retry_at = NULL, running_lock = NULL
		WHERE run_id = ? AND status = ? AND attempt = ?`, micros(t.now), as, null(reason), r.RunID, r.Status, r.Attempt)
	return n == 1, err
}

// ResolveAttempt implements sqlledger.RunCloser.
func (t *tx) ResolveAttempt(r onerun.Run, as onerun.Status, reason onerun.Reason) (bool, error) {
	n, err := t.changed(`UPDATE onerun_attempt SET status = ?, running_run = NULL, reason = ?, finished_at = ?, closed_by = 'operator'
		WHERE run_id = ? AND attempt = ? AND owner = ? AND status = 'RUNNING'`, as, null(reason), micros(t.now), r.RunID, r.Attempt, r.Owner)
	return n == 1, err
}

// Stop implements onerun.Operator.
func (s *Store) Stop(ctx context.Context, q onerun.StopRequest) error {
	return sqlledger.Stop(ctx, s.write, q)
}

// AskToStop implements sqlledger.Stopper.
func (t *tx) AskToStop(r onerun.Run, words string) (bool, error) {
	n, err := t.changed(`UPDATE onerun_lock SET stop = ? WHERE namespace = ? AND "lock" = ? AND owner = ?`, words, r.Namespace, r.Lock, r.Owner)
	return n == 1, err
}

// Pause implements onerun.Operator.
func (s *Store) Pause(ctx context.Context, q onerun.PauseRequest) error {
	return sqlledger.Pause(ctx, s.write, q)
}

// Pause implements sqlledger.Pauser. The row is made, or taken in hand, first: two at once don't
// both find none.
func (t *tx) Pause(q onerun.PauseRequest) (bool, error) {
	err := t.exec("INSERT INTO onerun_job (namespace, job) VALUES (?, ?) ON DUPLICATE KEY UPDATE job = onerun_job.job", q.Namespace, q.Job)
	if err != nil {
		return false, err
	}
	n, err := t.changed("UPDATE onerun_job SET paused_at = ?, paused_by = ?, pause_reason = ? WHERE namespace = ? AND job = ? AND paused_at IS NULL",
		micros(t.now), q.By, q.Reason, q.Namespace, q.Job)
	return n != 0, err
}

// PausedBy implements sqlledger.Pauser.
func (t *tx) PausedBy(q onerun.PauseRequest) (by, reason string, err error) {
	err = t.row("SELECT coalesce(paused_by, ''), coalesce(pause_reason, '') FROM onerun_job WHERE namespace = ? AND job = ?", q.Namespace, q.Job).Scan(&by, &reason)
	return by, reason, err
}

// Resume implements onerun.Operator.
func (s *Store) Resume(ctx context.Context, q onerun.PauseRequest) error {
	return sqlledger.Resume(ctx, s.write, q)
}

// Resume implements sqlledger.Pauser.
func (t *tx) Resume(q onerun.PauseRequest) (bool, error) {
	n, err := t.changed(`UPDATE onerun_job SET paused_at = NULL, paused_by = NULL, pause_reason = NULL
		WHERE namespace = ? AND job = ? AND paused_at IS NOT NULL`, q.Namespace, q.Job)
	return n != 0, err
}

// RecordUnlock implements onerun.UnlockRecorder.
func (s *Store) RecordUnlock(ctx context.Context, u onerun.UnlockRequest) error {
	return sqlledger.RecordUnlock(ctx, s.write, u)
}
