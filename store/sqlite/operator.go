package sqlite

import (
	"context"
	"crypto/sha256"
	_ "embed" // queries
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

//go:embed sql/insert_event.sql
var sqlInsertEvent string

// Event implements sqlledger.Journal. An event's hash covers the hash before it in the chain.
func (t *tx) Event(e onerun.Event, r onerun.Run) error {
	chain := r.RunID
	if e.By != "" {
		chain = sqlledger.OperatorsChain
	}
	var last string
	err := t.row("SELECT hash FROM onerun_event WHERE chain = ?1 ORDER BY id DESC LIMIT 1", chain).Scan(&last)
	if err != nil && !noRows(err) {
		return err
	}
	e.At, e.Job, e.Key, e.RunID = t.now, r.Job, r.Key(), r.RunID
	hash, err := link(last, r.Namespace, e)
	if err != nil {
		return err
	}
	return t.exec(sqlInsertEvent, t.now.UnixMicro(), e.Name, r.Namespace, r.Job, null(r.Key()), null(r.RunID), null(e.By),
		null(e.Reason), null(e.Detail), chain, hash, null(e.Terminal))
}

// link is the hash of an event: SHA-256, in hexadecimal, over a JSON array of the hash
// before it in its chain and of its own fields. A terminal is the eleventh, where there
// is one: version 1 of the schema knew none.
func link(last, namespace string, e onerun.Event) (string, error) {
	fields := []any{last, e.At.UnixMicro(), e.Name, namespace, e.Job, e.Key, e.RunID, e.By, e.Reason, e.Detail}
	if e.Terminal != "" {
		fields = append(fields, e.Terminal)
	}
	content, err := json.Marshal(fields)
	if err != nil {
		return "", err
	}
	hash := sha256.Sum256(content)
	return hex.EncodeToString(hash[:]), nil
}

// Resolve implements onerun.Operator.
func (s *Store) Resolve(ctx context.Context, q onerun.Resolution) (onerun.Run, error) {
	var run onerun.Run
	err := s.write(ctx, "resolve", func(t *tx) error {
		where, args := "WHERE r.namespace = ?1 AND r.run_id = ?2", []any{q.Namespace, q.RunID}
		if q.RunID == "" {
			where, args = "WHERE r.namespace = ?1 AND r.key = ?2", []any{q.Namespace, onerun.MakeKey(q.Job, q.Partition)}
		}
		found, err := t.runs(where, args...)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			run, err = t.cancelInAdvance(q)
			return err
		}
		r := found[0]
		if err := sqlledger.Expect(r.Run, q.Expect); err != nil {
			return err
		}
		over := false
		if r.Status == onerun.Running {
			v, release, err := s.tryLockOf(t.ctx, r)
			if err != nil {
				return err
			}
			defer release()
			f := v.fateOf(r)
			if f.outcome != nil {
				return &onerun.StateError{Why: fmt.Sprintf("%s has ended (%s), and its next start records that, or: onerun flush; there is nothing to resolve", r.Name(), f.outcome.Status)}
			}
			over, r.Evidence = f.liveness == onerun.Dead || f.decidable, f.evidence
		}
		if err := onerun.ResolveAllowed(&r.Run, q.As, over); err != nil {
			return err
		}
		if run, err = sqlledger.CloseAs(t, r.Run, q.As, onerun.ReasonOwnerDied); err != nil {
			return err
		}
		return t.Event(sqlledger.Resolved(q, r.Status), run)
	})
	return run, err
}

func (t *tx) cancelInAdvance(q onerun.Resolution) (onerun.Run, error) {
	if tomb, err := t.TombstoneOf(q.Namespace, onerun.MakeKey(q.Job, q.Partition), q.RunID); err != nil {
		return onerun.Run{}, err
	} else if tomb != nil {
		return onerun.Run{}, onerun.ResolveAllowed(tomb, q.As, false)
	}
	if err := sqlledger.CancelAllowed(q); err != nil {
		return onerun.Run{}, err
	}
	id := onerun.NewRunID(t.now)
	err := t.exec(sqlInsertRun, id, q.Namespace, q.Job, q.Partition, onerun.MakeKey(q.Job, q.Partition), null(q.BusinessDate), onerun.JobLock(q.Job),
		onerun.Skipped, 0, nil, t.now.UnixMicro(), t.now.UnixMicro(), nil, nil, nil, nil, nil, nil, nil)
	if err != nil {
		return onerun.Run{}, err
	}
	run, err := t.RunByID(id)
	if err != nil {
		return onerun.Run{}, err
	}
	return run, t.Event(sqlledger.CancelledInAdvance(q), run)
}

// ResolveRun implements sqlledger.RunCloser.
func (t *tx) ResolveRun(r onerun.Run, as onerun.Status, reason onerun.Reason) (bool, error) {
	n, err := t.changed(`UPDATE onerun_run SET status = ?4, reason = ?5, next_retry_at = NULL,
		finished_at = CASE status WHEN 'RUNNING' THEN ?6 ELSE finished_at END
		WHERE run_id = ?1 AND status = ?2 AND attempt = ?3`, r.RunID, r.Status, r.Attempt, as, null(reason), t.now.UnixMicro())
	return n == 1, err
}

// ResolveAttempt implements sqlledger.RunCloser.
func (t *tx) ResolveAttempt(r onerun.Run, as onerun.Status, reason onerun.Reason) (bool, error) {
	n, err := t.changed(`UPDATE onerun_attempt SET status = ?4, reason = ?5, finished_at = ?6, closed_by = 'operator'
		WHERE run_id = ?1 AND attempt = ?2 AND owner = ?3 AND status = 'RUNNING'`, r.RunID, r.Attempt, r.Owner, as, null(reason), t.now.UnixMicro())
	return n == 1, err
}

// FreeLock implements sqlledger.RunCloser.
func (t *tx) FreeLock(namespace string, lock onerun.LockName, owner string) error {
	return t.exec(sqlFreeLock, namespace, lock, owner)
}

// Again implements sqlledger.RunCloser.
func (t *tx) Again() error { return errChanged }

// Now implements sqlledger.Journal.
func (t *tx) Now() time.Time { return t.now }

// Pause implements onerun.Operator.
func (s *Store) Pause(ctx context.Context, q onerun.PauseRequest) error {
	return sqlledger.Pause(ctx, s.write, q)
}

// Pause implements sqlledger.Pauser.
func (t *tx) Pause(q onerun.PauseRequest) (bool, error) {
	n, err := t.changed(`INSERT INTO onerun_job (namespace, job, paused_at, paused_by, pause_reason) VALUES (?1, ?2, ?3, ?4, ?5)
		ON CONFLICT (namespace, job) DO UPDATE SET paused_at = excluded.paused_at, paused_by = excluded.paused_by, pause_reason = excluded.pause_reason
		WHERE paused_at IS NULL`, q.Namespace, q.Job, t.now.UnixMicro(), q.By, q.Reason)
	return n != 0, err
}

// PausedBy implements sqlledger.Pauser.
func (t *tx) PausedBy(q onerun.PauseRequest) (by, reason string, err error) {
	err = t.row("SELECT coalesce(paused_by, ''), coalesce(pause_reason, '') FROM onerun_job WHERE namespace = ?1 AND job = ?2", q.Namespace, q.Job).Scan(&by, &reason)
	return by, reason, err
}

// Resume implements onerun.Operator.
func (s *Store) Resume(ctx context.Context, q onerun.PauseRequest) error {
	return sqlledger.Resume(ctx, s.write, q)
}

// Resume implements sqlledger.Pauser.
func (t *tx) Resume(q onerun.PauseRequest) (bool, error) {
	n, err := t.changed(`UPDATE onerun_job SET paused_at = NULL, paused_by = NULL, pause_reason = NULL
		WHERE namespace = ?1 AND job = ?2 AND paused_at IS NOT NULL`, q.Namespace, q.Job)
	return n != 0, err
}

// forget clears what is noted in a lock file that nobody holds, of a holder that had no
// run: `onerun lock` in a container that is gone, say. notFound is the answer when there
// is nothing to clear.
func (s *Store) forget(ctx context.Context, namespace string, lock onerun.LockName, notFound error) error {
	l, held, err := s.dir.Acquire(ctx, filelock.Request{Namespace: namespace, Lock: lock, Owner: onerun.NewID()})
	if err != nil {
		return err
	}
	if held != nil {
		return &onerun.StateError{Why: string(lock) + " is held: " + held.Evidence}
	}
	defer func() { _ = l.Release() }()
	n := l.Previous
	switch {
	case n == nil, l.Verdict.Liveness == onerun.Dead: // nothing is in the way
		return notFound
	case n.RunID != "":
		return &onerun.StateError{Why: fmt.Sprintf("%s was last held by run %s: look at that with onerun show, and close it with onerun resolve", lock, n.RunID)}
	case l.Verdict.Liveness == onerun.Alive:
		return &onerun.StateError{Why: string(lock) + " is in use: " + l.Verdict.Evidence}
	}
	return l.Clear()
}

// Unlock implements onerun.Unlocker.
func (s *Store) Unlock(ctx context.Context, u onerun.UnlockRequest) error {
	err := s.dir.Unlock(u.Namespace, u.Lock)
	if errors.Is(err, onerun.ErrNotFound) {
		err = s.forget(ctx, u.Namespace, u.Lock, err)
	}
	if err != nil {
		return err
	}
	return sqlledger.RecordUnlock(ctx, s.write, u)
}
