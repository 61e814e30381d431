package mysql

import (
	"context"
	"strings"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// Explain implements onerun.Ledger: it judges as a claim would, by the library's own table,
// from what can be seen without taking a lock or changing a row.
func (s *Store) Explain(ctx context.Context, c onerun.Claim) (*onerun.Refusal, error) {
	return s.ExplainKnowing(ctx, c, onerun.HostKnowledge{})
}

// ExplainKnowing implements onerun.HostClaimer.
func (s *Store) ExplainKnowing(ctx context.Context, c onerun.Claim, k onerun.HostKnowledge) (*onerun.Refusal, error) {
	if c.Order != onerun.OrderAny {
		return nil, noOrder(c.Order)
	}
	var refused *onerun.Refusal
	err := s.read(ctx, "explain", func(t *tx) error {
		refused = nil
		st, err := sqlledger.ReadState(t, c)
		if err == nil {
			err = t.vanished(c, st)
		}
		if err != nil {
			return err
		}
		st.Foresee(k, t.now)
		f := st.Facts(t.now)
		st.Know(&f, k, deadOwner)
		if v := onerun.Decide(f); v.Reason != "" {
			refused = sqlledger.Refusal(c, v, t.now)
		}
		return nil
	})
	return refused, err
}

// RunOfKey implements sqlledger.StateReader.
func (t *tx) RunOfKey(namespace, key string) (*sqlledger.RunRow, error) {
	return sqlledger.One(t.runs(`WHERE r.namespace = ? AND r."key" = ?`, namespace, key))
}

// RunOf implements sqlledger.StateReader.
func (t *tx) RunOf(runID string) (*sqlledger.RunRow, error) {
	return sqlledger.One(t.runs("WHERE r.run_id = ?", runID))
}

// HeldOf implements sqlledger.StateReader.
func (t *tx) HeldOf(namespace string, locks ...onerun.LockName) ([]*sqlledger.LockRow, error) {
	where, args := "WHERE namespace = ?", []any{namespace}
	if len(locks) > 0 {
		where += ` AND "lock" IN (?` + strings.Repeat(", ?", len(locks)-1) + ")"
	}
	for _, l := range locks {
		args = append(args, l)
	}
	return sqlledger.Rows(t.each, func(scan func(...any) error) (*sqlledger.LockRow, error) {
		l := &sqlledger.LockRow{}
		err := scan(&l.Name, &l.Owner, &l.RunID, &l.Attempt, &l.Token, &l.Mode, &l.Expires, &l.Acquired, &l.WorkerID, &l.Worker.Host, &l.Worker.PID, &l.Fenced)
		return l, err
	}, `SELECT "lock", owner, COALESCE(run_id, ''), COALESCE(attempt, 0), token, COALESCE(on_crash, ''), expires_at, acquired_at, worker_id, host, pid, fenced
		FROM onerun_lock `+where+" AND owner IS NOT NULL ORDER BY 1", args...)
}

// PausedOf implements sqlledger.StateReader.
func (t *tx) PausedOf(namespace, job string) (*onerun.JobState, error) {
	p := onerun.JobState{Namespace: namespace, Job: job}
	var at *int64
	err := t.row("SELECT paused_at, paused_by, pause_reason FROM onerun_job WHERE namespace = ? AND job = ? AND paused_at IS NOT NULL",
		namespace, job).Scan(&at, &p.PausedBy, &p.Reason)
	p.PausedAt = fromMicros(at)
	return sqlledger.Maybe(p, err, noRows)
}

// vanished finds who has a lock whose row was deleted under a RUNNING run: a claim would put it
// back.
func (t *tx) vanished(c onerun.Claim, st *sqlledger.State) error {
	if st.Lock != nil {
		return nil
	}
	found, err := t.runs("WHERE r.namespace = ? AND r.running_lock = ?", c.Namespace, c.Lock)
	if err == nil && len(found) == 1 {
		r := found[0]
		st.Holder, st.Lock = r, &sqlledger.LockRow{Name: string(c.Lock), Owner: r.Owner, RunID: r.RunID, Attempt: r.Attempt, Token: r.Token, Mode: r.OnCrash}
	}
	return err
}
