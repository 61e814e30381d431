package postgres

import (
	"cmp"
	"context"
	_ "embed" // queries

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

//go:embed sql/count_skip.sql
var sqlCountSkip string

// Explain implements onerun.Ledger: it judges as a claim would, by the library's own table,
// from what can be seen without taking a lock or changing a row.
func (s *Store) Explain(ctx context.Context, c onerun.Claim) (*onerun.Refusal, error) {
	return s.ExplainKnowing(ctx, c, onerun.HostKnowledge{})
}

// ExplainKnowing implements onerun.HostClaimer.
func (s *Store) ExplainKnowing(ctx context.Context, c onerun.Claim, k onerun.HostKnowledge) (*onerun.Refusal, error) {
	if err := checkOrder(c.Order); err != nil {
		return nil, err
	}
	var refused *onerun.Refusal
	err := s.read(ctx, "explain", func(t *tx) error {
		refused = nil
		st, err := t.state(c)
		if err != nil {
			return err
		}
		st.Foresee(k, t.now)
		f := st.Facts(t.now)
		st.Know(&f, k, sqlledger.DeadOwner)
		if v := onerun.Decide(f); v.Reason != "" {
			refused = sqlledger.Refusal(c, v, t.now)
		}
		return nil
	})
	return refused, err
}

// state reads what a claim is decided on.
func (t *tx) state(c onerun.Claim) (*sqlledger.State, error) {
	st, err := sqlledger.ReadState(t, c)
	if err == nil && c.Order == onerun.OrderFIFO {
		st.First, err = t.firstInLine(c)
	}
	if err != nil {
		return nil, err
	}
	return st, nil
}

// RunOfKey implements sqlledger.StateReader.
func (t *tx) RunOfKey(namespace, key string) (*sqlledger.RunRow, error) {
	return sqlledger.One(t.runs("WHERE namespace = $1 AND key = $2", namespace, key))
}

// RunOf implements sqlledger.StateReader.
func (t *tx) RunOf(runID string) (*sqlledger.RunRow, error) {
	return sqlledger.One(t.runs("WHERE run_id = $1", runID))
}

// HeldOf implements sqlledger.StateReader.
func (t *tx) HeldOf(namespace string, locks ...onerun.LockName) ([]*sqlledger.LockRow, error) {
	where, args := "WHERE namespace = $1", []any{namespace}
	if len(locks) > 0 {
		names := make([]string, len(locks))
		for i, l := range locks {
			names[i] = string(l)
		}
		where, args = where+" AND lock = ANY ($2)", append(args, names)
	}
	return sqlledger.Rows(t.each, func(scan func(...any) error) (*sqlledger.LockRow, error) {
		l := &sqlledger.LockRow{}
		var mode string
		err := scan(&l.Name, &l.Owner, &l.RunID, &l.Token, &mode, &l.Expires, &l.Acquired, &l.WorkerID, &l.Worker.Host, &l.Worker.PID)
		l.Mode = onerun.OnCrash(mode)
		return l, err
	}, `SELECT lock, owner, coalesce(run_id, ''), token, coalesce(on_crash, ''), onerun_us(expires_at), onerun_us(acquired_at), worker_id, host, pid
		FROM onerun_lock `+where+" AND owner IS NOT NULL ORDER BY lock", args...)
}

// PausedOf implements sqlledger.StateReader.
func (t *tx) PausedOf(namespace, job string) (*onerun.JobState, error) {
	p := onerun.JobState{Namespace: namespace, Job: job}
	var at *int64
	err := t.row("SELECT onerun_us(paused_at), paused_by, pause_reason FROM onerun_job WHERE namespace = $1 AND job = $2 AND paused_at IS NOT NULL",
		namespace, job).Scan(&at, &p.PausedBy, &p.Reason)
	p.PausedAt = fromMicros(at)
	return sqlledger.Maybe(p, err, noRows)
}

// busy answers a claim that waited in vain for the row of a lock: somebody has it in hand
// for long, such as a transaction that has made sure of its lease and is about to commit.
// Whoever holds the lock stands in the way then, whether its lease is over or not; if nobody does any
// more, the transaction itself.
func (s *Store) busy(ctx context.Context, c onerun.Claim, k onerun.HostKnowledge, waited error) error {
	var refused *onerun.Refusal
	err := s.write(ctx, "claim", func(t *tx) error {
		refused = nil
		st, err := t.state(c)
		if err != nil {
			return err
		}
		if st.Lock != nil && st.Lock.Owner == c.Owner { // its own grant, whose reply was lost: it asks again
			return waited
		}
		f := st.Facts(t.now)
		f.RunStale, f.LockStale = false, false
		st.Hold(&f, k)
		v := onerun.Decide(f)
		if v.Reason == "" {
			fenced, err := t.fenced(c.Namespace, c.Lock)
			if err != nil || !fenced {
				return cmp.Or(err, waited)
			}
			f.LockHolder = &onerun.Holder{Name: c.Lock.Name(), Detail: "a transaction that was sure of this lock isn't over"}
			v = onerun.Decide(f)
		}
		refused = sqlledger.Refusal(c, v, t.now)
		if c.Job == "" || c.Asking && (v.Reason == onerun.RefusedRunning || v.Reason == onerun.RefusedLocked) {
			return nil
		}
		return t.row(sqlCountSkip, c.Namespace, c.Job, c.Key(), v.Reason, v.Holder.ID(), v.Holder.String(), micros(t.now)).Scan(&refused.Count)
	})
	if err != nil {
		return err
	}
	return refused
}

// fenced reports whether it is a transaction that made sure of its lease, and nothing else, that has the row of a
// lock in hand: then a change of it can pass, and a claim can't.
func (t *tx) fenced(namespace string, lock onerun.LockName) (bool, error) {
	free, err := t.inHand(namespace, lock, "FOR UPDATE")
	if err != nil || free {
		return false, err
	}
	return t.inHand(namespace, lock, "FOR NO KEY UPDATE")
}

// inHand takes the row of a lock in hand, unless that is to be waited for.
func (t *tx) inHand(namespace string, lock onerun.LockName, how string) (bool, error) {
	err := t.row("SELECT true FROM onerun_lock WHERE namespace = $1 AND lock = $2 "+how+" SKIP LOCKED", namespace, lock).Scan(new(bool))
	if noRows(err) {
		return false, nil
	}
	return err == nil, err
}
