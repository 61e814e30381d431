package sqlite

import (
	"database/sql"
	_ "embed" // queries
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

//go:embed sql/run_columns.sql
var sqlRunColumns string

//go:embed sql/end_attempt.sql
var sqlEndAttempt string

//go:embed sql/end_run.sql
var sqlEndRun string

//go:embed sql/free_lock.sql
var sqlFreeLock string

// runRow is a run with what its judge needs to know.
type runRow struct {
	onerun.Run
	inProcess bool
	lockDir   string
}

// settled is what a claim finds after what was known has been settled.
type settled struct {
	run       *runRow // the run of the key
	runFate   fate
	holder    *runRow // the RUNNING run under the lock; may be run
	fate      fate
	leftover  *onerun.Holder // what `onerun lock` left running under the lock
	paused    *onerun.JobState
	approval  *onerun.Approval
	lastToken int64
	closed    []onerun.Run
	delivered []onerun.Delivery
}

// settle reads what a claim is about, and closes what is dead: the lock's holder,
// and the key's owner under another lock.
func (s *Store) settle(t *tx, c onerun.Claim, found view) (*settled, error) {
	st, err := t.state(c)
	if err != nil {
		return nil, err
	}
	if err := t.leftBehind(st, found); err != nil {
		return nil, err
	}
	if h := st.holder; h != nil {
		v := found
		if !s.usedHere(h) { // its lock file is not the one we hold
			other, release, err := s.tryLockOf(t.ctx, h)
			if err != nil {
				return nil, err
			}
			defer release()
			v = other
		}
		st.fate = v.fateOf(h)
		if err := t.closeDead(&st.holder, st.fate, st); err != nil {
			return nil, err
		}
	}
	if r := st.run; r != nil && r.Status == onerun.Running {
		if r.Lock == c.Lock {
			st.runFate = st.fate
			return st, nil
		}
		v, release, err := s.tryLockOf(t.ctx, r) // the key runs under another lock
		if err != nil {
			return nil, err
		}
		defer release()
		st.runFate = v.fateOf(r)
		if err := t.closeDead(&st.run, st.runFate, st); err != nil {
			return nil, err
		}
	}
	return st, nil
}

// leftBehind finds what the lock's last owner left that the ledger doesn't explain:
// processes of `onerun lock`, or a run of another ledger that uses the same lock files.
// A note of a run that this ledger has closed is ignored.
func (t *tx) leftBehind(st *settled, found view) error {
	n := found.note
	if n == nil {
		return nil
	}
	given := st.lastToken // by this ledger, under this lock
	st.lastToken = max(st.lastToken, n.Token)
	if found.held {
		return nil
	}
	f := found.fate()
	if n.RunID != "" {
		known, err := t.lateEnds(st, found)
		known = known || n.Token <= given && n.Ledger == "" && !n.Unclaimed // a run that was pruned
		if err != nil || known {
			return err
		}
		switch {
		case n.Unclaimed && n.Outcome != nil: // it stands in the spool of another store's as well
			return nil
		case n.Outcome != nil:
			f = fate{liveness: onerun.Unknown, stale: true, evidence: "the lock file holds the end of run " + n.RunID +
				" of another ledger, which doesn't have it yet: start that job once on its own store, or delete the file"}
		case f.liveness != onerun.Alive:
			return nil
		}
	}
	if f.liveness != onerun.Dead {
		h := holderOf("", n, f.evidence)
		st.leftover, st.fate = &h, f
	}
	return nil
}

// facts are what the claim table is applied to.
func (st *settled) facts(now time.Time) onerun.Facts {
	f := onerun.Facts{Now: now, Paused: st.paused, Approval: st.approval}
	if r := st.run; r != nil {
		run := r.Run
		run.Evidence = st.runFate.evidence
		f.Run, f.RunStale = &run, run.Status == onerun.Running && st.runFate.blocks()
	}
	switch h := st.holder; {
	case h != nil && (st.run == nil || h.RunID != st.run.RunID):
		h.Evidence = st.fate.evidence
		holder := h.Run.Holder()
		f.LockHolder, f.LockStale = &holder, st.fate.blocks()
	case st.leftover != nil:
		f.LockHolder, f.LockStale = st.leftover, st.fate.stale
	}
	return f
}

// blocks reports whether a run with this fate, not having been closed, waits for a
// person: its end is not proven, or its policy is manual.
func (f fate) blocks() bool { return f.stale || f.liveness == onerun.Dead }

// closeDead closes a RUNNING run if its fate allows it, and reads it again.
func (t *tx) closeDead(r **runRow, f fate, st *settled) error {
	run := *r
	out := f.end(run.OnCrash)
	if out == nil {
		return nil
	}
	by := onerun.ByMachine
	if f.outcome != nil {
		by = onerun.ByOwner
	}
	if err := t.end(run.Run, *out, by); err != nil {
		return err
	}
	closed, err := t.runByID(run.RunID)
	if err != nil {
		return err
	}
	closed.Evidence = f.evidence
	event := onerun.Event{Name: onerun.EventTakenOver, Detail: f.evidence}
	if f.outcome != nil {
		d := onerun.Delivery{Kind: onerun.DeliveredApplied, Attempt: run.Attempt, Outcome: *out, Run: closed.Run}
		st.delivered = append(st.delivered, d)
		event = onerun.Event{Name: onerun.EventLateOutcome, Detail: d.Words()}
	} else {
		st.closed = append(st.closed, closed.Run)
	}
	if err := t.Event(event, closed.Run); err != nil {
		return err
	}
	if st.run != nil && st.run.RunID == run.RunID {
		st.run, st.runFate = closed, fate{}
	}
	if st.holder != nil && st.holder.RunID == run.RunID {
		st.holder, st.fate = nil, fate{}
	}
	return nil
}

// errChanged can't happen: the transaction that read the row has the write lock.
var errChanged = &onerun.StoreError{Kind: onerun.ErrInternal, What: "a row changed inside the transaction that read it", Do: "please report this"}

// errLazy: the end of a run must be on the disk before anybody acts on it, such as by
// writing over the note that tells it.
var errLazy = errors.New("a run can't be closed in a transaction that doesn't wait for the disk")

// end closes a RUNNING attempt and its run, reckons the next retry by the policy of
// the attempt's own owner, and frees the lock in the ledger. It returns ErrLost
// when the attempt is not that owner's any more.
func (t *tx) end(r onerun.Run, out onerun.Outcome, by onerun.ClosedBy) error {
	return t.endOf(r, onerun.Running, out, by)
}

// endOf is end for an attempt that is expected to be in state was: RUNNING, or what a
// machine closed too early as FAILED.
func (t *tx) endOf(r onerun.Run, was onerun.Status, out onerun.Outcome, by onerun.ClosedBy) error {
	if t.lazy {
		return errLazy
	}
	finished := out.FinishedAt
	if finished.IsZero() {
		finished = t.now
	}
	var p onerun.Policy
	var bmin, bmax int64
	var keyed bool
	text := onerun.CutError(out.Error)
	err := t.row(sqlEndAttempt, r.RunID, r.Attempt, r.Owner, out.Status, null(out.Reason), out.ExitCode, null(out.Signal), null(text),
		out.Processed, out.Failed, finished.UnixMicro(), out.Void, was, null(by)).Scan(&p.Retries, &bmin, &bmax, &p.RetryLost, &keyed)
	if errors.Is(err, sql.ErrNoRows) {
		return onerun.ErrLost
	}
	if err != nil {
		return err
	}
	var retryAt time.Time
	switch {
	case out.Status != onerun.Failed || !keyed:
	case out.Void: // it never started, so it may start at once and costs no retry
		retryAt = t.now
	case p.Retries > 0:
		p.BackoffMin, p.BackoffMax = time.Duration(bmin)*time.Microsecond, time.Duration(bmax)*time.Microsecond
		var failures int
		if err := t.row("SELECT count(*) FROM onerun_attempt WHERE run_id = ?1 AND status = 'FAILED' AND void = 0", r.RunID).Scan(&failures); err != nil {
			return err
		}
		retryAt, _ = p.NextRetry(t.now, failures, out.Reason, rand.Float64())
	}
	n, err := t.changed(sqlEndRun, r.RunID, r.Attempt, out.Status, null(out.Reason), out.ExitCode, null(out.Signal), null(text),
		out.Processed, out.Failed, finished.UnixMicro(), micros(retryAt), was)
	if err == nil && n != 1 {
		err = errChanged
	}
	if err == nil {
		err = t.exec(sqlFreeLock, r.Namespace, r.Lock, r.Owner)
	}
	if err == nil && out.Output != nil {
		err = t.keepOutput(r.RunID, r.Attempt, *out.Output)
	}
	return err
}

// state reads what a claim is decided on.
func (t *tx) state(c onerun.Claim) (*settled, error) {
	st := &settled{}
	var token, paused *int64
	var own, buried, running *string
	err := t.row(sqlClaimState, c.Namespace, c.Lock, c.Key(), c.Job).Scan(&token, &own, &buried, &running, &paused)
	if err != nil {
		return nil, err
	}
	if token != nil {
		st.lastToken = *token
	}
	if own != nil {
		if st.run, err = t.runByID(*own); err != nil {
			return nil, err
		}
		if st.run.Status != onerun.Running {
			if st.approval, err = t.OpenApproval(*own); err != nil {
				return nil, err
			}
		}
	}
	if own == nil && buried != nil {
		tomb, err := t.tombstone(c.Namespace, *buried)
		if err != nil {
			return nil, err
		}
		st.run, st.runFate.evidence = &runRow{Run: tomb}, tomb.Evidence
	}
	switch {
	case running == nil:
	case own != nil && *running == *own:
		st.holder = st.run
	default:
		if st.holder, err = t.runByID(*running); err != nil {
			return nil, err
		}
	}
	if paused != nil {
		st.paused = &onerun.JobState{Namespace: c.Namespace, Job: c.Job, PausedAt: fromMicros(paused)}
		err = t.row("SELECT paused_by, pause_reason FROM onerun_job WHERE namespace = ?1 AND job = ?2", c.Namespace, c.Job).
			Scan(&st.paused.PausedBy, &st.paused.Reason)
	}
	return st, err
}

// runByID reads a run that is known to be there.
func (t *tx) runByID(id string) (*runRow, error) {
	found, err := t.runs("WHERE r.run_id = ?1", id)
	if err == nil && len(found) != 1 {
		err = errChanged
	}
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// RunByID implements sqlledger.RunCloser.
func (t *tx) RunByID(id string) (onerun.Run, error) {
	r, err := t.runByID(id)
	if err != nil {
		return onerun.Run{}, err
	}
	return r.Run, nil
}

// runIn reads a run of a namespace; nil: there is none.
func (t *tx) runIn(namespace, id string) (*runRow, error) {
	return sqlledger.One(t.runs("WHERE r.namespace = ?1 AND r.run_id = ?2", namespace, id))
}

// OpenApproval implements sqlledger.Approver.
func (t *tx) OpenApproval(runID string) (*onerun.Approval, error) {
	return sqlledger.Unspent(t.Approvals(runID))
}

// runs reads runs with their last attempts.
func (t *tx) runs(where string, args ...any) ([]*runRow, error) {
	var found []*runRow
	err := t.each(func(scan func(...any) error) error {
		r, err := scanRun(scan)
		found = append(found, r)
		return err
	}, sqlRunColumns+where, args...)
	return found, err
}

func scanRun(scan func(...any) error) (*runRow, error) {
	r := &runRow{}
	var scheduled, started, finished, retry, stale *int64
	var labels string
	var pidns, timens, ticks int64
	err := scan(&r.RunID, &r.Namespace, &r.Job, &r.Partition, &r.BusinessDate, &r.Lock, &r.Status,
		&r.Attempt, &scheduled, &started, &finished, &retry, &r.Token,
		&stale, &r.Reason, &r.ExitCode, &r.Signal, &r.Error,
		&r.Processed, &r.Execution.Failed, &r.VersionLabel, &labels,
		&r.Owner, &r.Worker.Label, &r.Worker.Host, &r.Worker.Machine, &r.Worker.Boot, &pidns, &timens,
		&r.Worker.PID, &ticks, &r.inProcess, &r.lockDir, &r.OnCrash, &r.TwoPeople)
	if err != nil {
		return nil, err
	}
	r.ScheduledAt, r.StartedAt, r.FinishedAt, r.NextRetryAt = fromMicros(scheduled), fromMicros(started), fromMicros(finished), fromMicros(retry)
	r.Worker.PIDNS, r.Worker.TimeNS, r.Worker.StartTicks = uint64(pidns), uint64(timens), uint64(ticks)
	r.Worker.Label = labelOf(r.Worker)
	if stale != nil {
		r.StaleAfter = time.Duration(*stale) * time.Microsecond
	}
	if labels != "" {
		err = json.Unmarshal([]byte(labels), &r.Labels)
	}
	return r, err
}

// labelOf undoes Worker.String: a worker id that is HOST/PID is no label.
func labelOf(w onerun.Worker) string {
	id := w.Label
	w.Label = ""
	if id == w.String() {
		return ""
	}
	return id
}
