package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// Explain implements onerun.Ledger: it judges as a claim would, from what can be
// seen without taking the lock or changing a row.
func (s *Store) Explain(ctx context.Context, c onerun.Claim) (*onerun.Refusal, error) {
	look, err := s.look(c.Namespace, c.Lock)
	if err != nil {
		return nil, err
	}
	var line *filelock.Held
	if c.Order == onerun.OrderFIFO {
		if line, err = s.dir.Line(c.Namespace, c.Lock); err != nil {
			return nil, err
		}
	}
	var refused *onerun.Refusal
	err = s.read(ctx, "explain", func(t *tx) error {
		refused = nil
		st, err := t.state(c)
		if err != nil {
			return err
		}
		if st.holder != nil {
			if !s.usedHere(st.holder) {
				if look, err = s.lookAt(st.holder); err != nil {
					return err
				}
			}
			st.fate = look.fateOf(st.holder)
			if err := t.foresee(st, st.holder, st.fate); err != nil {
				return err
			}
		} else if look.held {
			h := holderOf(look.path, look.note, look.fate().evidence)
			st.leftover, st.fate = &h, look.fate()
		} else if err := t.leftBehind(st, look); err != nil {
			return err
		}
		if r := st.run; r != nil && r.Status == onerun.Running {
			st.runFate = st.fate
			if r.Lock != c.Lock {
				other, err := s.lookAt(r)
				if err != nil {
					return err
				}
				st.runFate = other.fateOf(r)
				if err := t.foresee(st, st.run, st.runFate); err != nil {
					return err
				}
			}
		}
		f := st.facts(t.now)
		v := onerun.Decide(f)
		if v.Reason == "" && line != nil {
			h := holderOf(line.Path, line.Note, line.Evidence)
			f.LockHolder = &h
			v = onerun.Decide(f)
		}
		if v.Reason != "" {
			refused = refusal(c, v, t.now)
		}
		return nil
	})
	return refused, err
}

// foresee does to a dead run what closeDead would, without writing it down.
func (t *tx) foresee(st *settled, r *runRow, f fate) error {
	out := f.end(r.OnCrash)
	if out == nil {
		return nil
	}
	ended := *r
	ended.Status, ended.Reason, ended.Evidence, ended.FinishedAt = out.Status, out.Reason, f.evidence, t.now
	switch {
	case out.Status != onerun.Failed || r.Partition == "":
	case f.void:
		ended.NextRetryAt = t.now
	default:
		var p onerun.Policy
		var least, most int64
		var failures int
		err := t.row(`SELECT retries, backoff_min, backoff_max, retry_lost,
			(SELECT count(*) FROM onerun_attempt f WHERE f.run_id = ?1 AND f.status = 'FAILED' AND f.void = 0)
			FROM onerun_attempt WHERE run_id = ?1 AND attempt = ?2`, r.RunID, r.Attempt).Scan(&p.Retries, &least, &most, &p.RetryLost, &failures)
		if err != nil {
			return err
		}
		p.BackoffMin, p.BackoffMax = time.Duration(least)*time.Microsecond, time.Duration(most)*time.Microsecond
		ended.NextRetryAt, _ = p.NextRetry(t.now, failures+1, out.Reason, 0)
	}
	if st.run != nil && st.run.RunID == ended.RunID {
		st.run, st.runFate = &ended, fate{}
	}
	if st.holder != nil && st.holder.RunID == ended.RunID {
		st.holder, st.fate = nil, fate{}
	}
	return nil
}

func (s *Store) look(namespace string, lock onerun.LockName) (view, error) {
	st, err := s.dir.Look(namespace, lock)
	if err != nil {
		return view{}, err
	}
	return viewOfState(st), nil
}

func viewOfState(st filelock.State) view {
	return view{
		held: st.Held, unreadable: st.Held && st.Unreadable && st.Mode == onerun.LockCreate, path: st.Path,
		note: st.Note, liveness: st.Verdict.Liveness, void: st.Verdict.Void, evidence: st.Verdict.Evidence,
	}
}

// How often a run was refused. With all reasons named, the second is a few look-ups and no
// walk over the job's skips.
const (
	sqlSkipsOfKey    = "SELECT coalesce(sum(count), 0) FROM onerun_skip WHERE namespace = ?1 AND job = ?2 AND key = ?3"
	sqlSkipsOfHolder = sqlSkipsOfKey + " AND reason IN ('running', 'locked', 'stale') AND holder = ?4"
)

// complete adds what is found out about a run when it is read: how often it was
// refused, and whether a RUNNING one is alive and on time.
func (s *Store) complete(t *tx, r *runRow) error {
	query, args := sqlSkipsOfKey, []any{r.Namespace, r.Job, r.Key()}
	if r.Partition == "" {
		query, args = sqlSkipsOfHolder, append(args, r.Run.Holder().ID())
	}
	if err := t.row(query, args...).Scan(&r.Skips); err != nil || r.Status != onerun.Running {
		return err
	}
	look, err := s.peekAt(r)
	if err != nil {
		return err
	}
	f := look.fateOf(r)
	r.Liveness, r.Evidence, r.Stale = f.liveness, f.evidence, f.blocks()
	limit := r.StaleAfter
	if limit == 0 {
		if limit, err = t.usualLimit(r.Run); err != nil {
			return err
		}
		r.StaleAfter = limit
	}
	if age := t.now.Sub(r.StartedAt); age > limit {
		r.Stale = true
		r.Evidence += fmt.Sprintf("; RUNNING for %s, over its stale-after of %s", age.Round(time.Second), limit)
	}
	return nil
}

// Detail implements onerun.Ledger.
func (s *Store) Detail(ctx context.Context, namespace, runID string) (onerun.Detail, error) {
	read := func(ctx context.Context, what string, f func(detailTx) error) error {
		return s.read(ctx, what, func(t *tx) error { return f(detailTx{t, s}) })
	}
	return sqlledger.Detail(ctx, read, namespace, runID)
}

// detailTx is a transaction that knows where to look for a run's owner.
type detailTx struct {
	*tx
	s *Store
}

// RunIn implements sqlledger.DetailReader.
func (t detailTx) RunIn(namespace, runID string) (*onerun.Run, error) {
	r, err := t.runIn(namespace, runID)
	if r == nil || err != nil {
		return nil, err
	}
	return &r.Run, t.s.complete(t.tx, r)
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
		events, err = t.decisions(namespace, job)
		return err
	})
	return events, err
}

// Jobs implements onerun.Ledger.
func (s *Store) Jobs(ctx context.Context, namespace string) ([]onerun.JobState, error) {
	var jobs []onerun.JobState
	err := s.read(ctx, "read the jobs", func(t *tx) (err error) {
		jobs, err = sqlledger.Jobs(t.each, fromMicros,
			"SELECT job, paused_at, coalesce(paused_by, ''), coalesce(pause_reason, '') FROM onerun_job WHERE namespace = ?1 AND paused_at IS NOT NULL ORDER BY job", namespace)
		return err
	})
	return jobs, err
}

// Locks implements onerun.Ledger: every lock that a RUNNING run has in the ledger,
// or whose file is held or names somebody.
func (s *Store) Locks(ctx context.Context, namespace string) ([]onerun.LockState, error) {
	listed, err := s.dir.List()
	if err != nil {
		return nil, err
	}
	files := map[string]filelock.State{} // by their path without the suffix
	for _, f := range listed {
		files[base(f.Path)] = f
	}
	var locks []onerun.LockState
	err = s.read(ctx, "read the locks", func(t *tx) error {
		locks = nil
		running, err := t.runs("WHERE r.namespace = ?1 AND r.status = 'RUNNING' ORDER BY r.lock", namespace)
		if err != nil {
			return err
		}
		ran := map[string]bool{}
		for _, r := range running {
			if err := s.complete(t, r); err != nil {
				return err
			}
			run, path, mode := r.Run, s.lockPath(namespace, r.Lock), onerun.LockFlock
			if !s.usedHere(r) {
				path = filepath.Join(r.lockDir, filepath.Base(path))
			}
			ran[base(path)] = true
			if f, ok := files[base(path)]; ok {
				path, mode = f.Path, f.Mode
			}
			locks = append(locks, onerun.LockState{
				Namespace: namespace, Lock: r.Lock, Path: path, Mode: mode, Token: r.Token,
				Run: &run, Holder: run.Holder(), Liveness: run.Liveness, Evidence: run.Evidence,
			})
		}
		for _, f := range listed {
			if l, ok := lockOfFile(namespace, f); ok && !ran[base(f.Path)] {
				locks = append(locks, l)
			}
		}
		return nil
	})
	return locks, err
}

// base is what the files of one lock have in common.
func base(path string) string { return strings.TrimSuffix(path, filepath.Ext(path)) }

// lockOfFile describes a lock file that no RUNNING run of the ledger explains.
func lockOfFile(namespace string, f filelock.State) (onerun.LockState, bool) {
	v := viewOfState(f)
	n := v.note
	switch {
	case n == nil && !v.held && !f.Unreadable,
		n != nil && n.Namespace != namespace,
		n != nil && !v.held && (n.RunID != "" || v.liveness == onerun.Dead):
		return onerun.LockState{}, false
	}
	l := onerun.LockState{Namespace: namespace, Path: f.Path, Mode: f.Mode, Holder: holderOf(f.Path, n, v.evidence)}
	fate := v.fate()
	l.Liveness, l.Evidence = fate.liveness, fate.evidence
	if n != nil {
		l.Lock, l.Token = n.LockName(), n.Token
	}
	return l, true
}
