package mysql

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// wantFence waits for whoever has made sure of a lock in a transaction of its own, if anybody has
// since it was granted, and keeps such away until this one ends. It is later then, and a lease
// that begins now begins now.
func (t *tx) wantFence(namespace string, lock onerun.LockName, fenced bool) error {
	if !fenced {
		return nil
	}
	if err := t.exec(`UPDATE onerun_fence SET namespace = namespace WHERE namespace = ? AND "lock" = ?`, namespace, lock); err != nil {
		return err
	}
	return t.Tick()
}

// settle frees a lock whose owner's claim is over, and closes the owner's run, unless the owner's
// own policy is manual; a start that came to nothing is closed whatever its policy. Who stands in
// the way on the claim's host is not dead, and keeps what it has. It returns the run as it is
// then; nil: none was closed.
func (t *tx) settle(namespace string, l *sqlledger.LockRow, k onerun.HostKnowledge) (*onerun.Run, error) {
	reason, evidence, d := l.Judged(k, t.now)
	if reason == "" {
		return nil, nil
	}
	if err := t.wantFence(namespace, onerun.LockName(l.Name), l.Fenced); err != nil {
		return nil, err
	}
	var closed *onerun.Run
	if l.RunID != "" {
		o := onerun.Outcome{Status: onerun.Failed, Reason: reason, Error: "its lease ran out", Void: d.Void}
		if reason == onerun.ReasonOwnerDied {
			o.Error = sqlledger.WordsOf(d)
		}
		done, err := t.close(onerun.Lease{RunID: l.RunID, Attempt: l.Attempt, Owner: l.Owner}, onerun.Running, o, onerun.ByMachine)
		if err != nil {
			return nil, err
		}
		if done {
			run, err := t.RunByID(l.RunID)
			if err == nil {
				run.Evidence = evidence
				err = t.Event(onerun.Event{Name: onerun.EventTakenOver, Reason: string(reason), Detail: evidence}, run)
			}
			if err != nil {
				return nil, err
			}
			closed = &run
		}
	}
	return closed, t.FreeLock(namespace, onerun.LockName(l.Name), l.Owner)
}

// dead reports whether one of the owners was closed by settle.
func dead(st *sqlledger.State, k onerun.HostKnowledge, now time.Time) bool {
	for _, l := range []*sqlledger.LockRow{st.Lock, st.Other} {
		if reason, _, _ := l.Judged(k, now); reason != "" {
			return true
		}
	}
	return false
}

// close ends an attempt and its run, if both are still in the state was and the attempt is that
// owner's. The next retry is reckoned by the policy of the attempt's own owner.
func (t *tx) close(l onerun.Lease, was onerun.Status, o onerun.Outcome, by onerun.ClosedBy) (bool, error) {
	var retry *int64
	if o.Status == onerun.Failed {
		at, err := t.nextRetry(&batch{}, l, was, o)
		if noRows(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		retry = micros(at)
	}
	b := &batch{}
	t.addEnd(b, l, was, o, by, retry, "TRUE")
	b.add("SELECT ROW_COUNT()")
	var n int64
	if err := t.row(b.text.String(), b.args...).Scan(&n); err != nil {
		return false, err
	}
	return n == 1, nil
}

// nextRetry is when the next execution after an attempt that FAILED is due; zero: there is none. It
// is asked for together with what else is in b.
func (t *tx) nextRetry(b *batch, l onerun.Lease, was onerun.Status, o onerun.Outcome) (time.Time, error) {
	var p onerun.Policy
	var us, least, most int64
	var keyed bool
	var failures int
	condition := ""
	if len(b.args) > 0 {
		condition = " AND ROW_COUNT() = 1"
	}
	b.add("SELECT "+now+`, a.retries, a.backoff_min, a.backoff_max, a.retry_lost, r."key" IS NOT NULL,
			(SELECT COUNT(*) FROM onerun_attempt f WHERE f.run_id = a.run_id AND f.status = 'FAILED' AND NOT f.void AND f.attempt <> a.attempt)
		FROM onerun_attempt a JOIN onerun_run r ON r.run_id = a.run_id
		WHERE a.run_id = ? AND a.attempt = ? AND a.owner = ? AND a.status = ?`+condition, l.RunID, l.Attempt, l.Owner, was)
	err := t.row(b.text.String(), b.args...).Scan(&us, &p.Retries, &least, &most, &p.RetryLost, &keyed, &failures)
	if err != nil {
		return time.Time{}, err
	}
	t.now, p.BackoffMin, p.BackoffMax = fromMicros(&us), sqlledger.Micro(least), sqlledger.Micro(most)
	switch {
	case !keyed:
		return time.Time{}, nil
	case o.Void: // it never started, so it may start at once and costs no retry
		return t.now, nil
	}
	at, _ := p.NextRetry(t.now, failures+1, o.Reason, rand.Float64())
	return at, nil
}

// addEnd adds the statements that end an attempt and its run. The run's row is written first, as
// everywhere: so nobody waits crosswise. condition is for the first; where it changes no row, none
// is changed, and ROW_COUNT() is 0 after the second.
func (t *tx) addEnd(b *batch, l onerun.Lease, was onerun.Status, o onerun.Outcome, by onerun.ClosedBy, retry *int64, condition string) {
	finished, at := now, micros(o.FinishedAt)
	args := func(more ...any) []any {
		all := []any{o.Status, null(o.Reason), sqlledger.ExitCode(o.ExitCode), null(o.Signal), null(onerun.CutError(o.Error)), o.Processed, o.Failed}
		if at != nil {
			all = append(all, at)
		} else if !t.now.IsZero() {
			all = append(all, micros(t.now))
		}
		return append(all, more...)
	}
	if at != nil || !t.now.IsZero() {
		finished = "?"
	}
	set := ` SET status = ?, reason = ?, exit_code = ?, "signal" = ?, error = ?, processed = COALESCE(?, processed), failed = COALESCE(?, failed), finished_at = ` + finished
	b.add("UPDATE onerun_run"+set+", running_lock = NULL, next_retry_at = ? WHERE run_id = ? AND attempt = ? AND status = ? AND "+condition,
		args(retry, l.RunID, l.Attempt, was)...)
	b.add("UPDATE onerun_attempt"+set+", running_run = NULL, void = ?, closed_by = ? WHERE run_id = ? AND attempt = ? AND owner = ? AND status = ? AND ROW_COUNT() = 1",
		args(o.Void, null(by), l.RunID, l.Attempt, l.Owner, was)...)
}

// sqlFree frees a lock, if it is still that owner's.
const sqlFree = `UPDATE onerun_lock SET owner = NULL, run_id = NULL, attempt = NULL, expires_at = NULL, ttl = NULL, on_crash = NULL, acquired_at = NULL,
	worker_id = NULL, host = NULL, pid = NULL, stop = NULL WHERE namespace = ? AND "lock" = ? AND owner = ?`

// FreeLock implements sqlledger.RunCloser.
func (t *tx) FreeLock(namespace string, lock onerun.LockName, owner string) error {
	return t.exec(sqlFree, namespace, lock, owner)
}

// RunByID implements sqlledger.Runs.
func (t *tx) RunByID(id string) (onerun.Run, error) {
	found, err := t.runs("WHERE r.run_id = ?", id)
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%w: %s", errAgain, id)
	}
	if err != nil {
		return onerun.Run{}, err
	}
	return found[0].Seen(), nil
}
