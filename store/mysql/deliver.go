package mysql

import (
	"context"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// Deliver implements onerun.Claimer.
func (s *Store) Deliver(ctx context.Context, l onerun.Lease, o onerun.Outcome) (onerun.Delivery, error) {
	return sqlledger.Deliver(ctx, s.write, refusedText, l, o)
}

// ToDeliver implements sqlledger.Deliverer.
func (t *tx) ToDeliver(l onerun.Lease) (onerun.Run, error) { return sqlledger.RunToDeliver(t, l) }

// Decided implements sqlledger.Deliverer.
func (t *tx) Decided(runID string, attempt int) (decided bool, err error) {
	err = t.row("SELECT EXISTS (SELECT 1 FROM onerun_approval WHERE run_id = ? AND attempt >= ?)", runID, attempt).Scan(&decided)
	return decided, err
}

// RunAfter implements sqlledger.Deliverer.
func (t *tx) RunAfter(runID string) (onerun.Run, error) { return sqlledger.SeenOrNone(t.RunOf(runID)) }

// InHand implements sqlledger.Runs.
func (t *tx) InHand(namespace, runID string) (*sqlledger.RunRow, error) {
	var lock onerun.LockName
	err := t.row(`SELECT "lock" FROM onerun_run WHERE namespace = ? AND run_id = ? AND status = 'RUNNING'`, namespace, runID).Scan(&lock)
	if err == nil {
		err = t.exec(sqlTakeLock, namespace, lock)
	}
	if err == nil || noRows(err) {
		err = t.exec("UPDATE onerun_run SET attempt = attempt WHERE namespace = ? AND run_id = ?", namespace, runID)
	}
	if err == nil {
		err = t.Tick()
	}
	if err != nil {
		return nil, err
	}
	found, err := t.runs("WHERE r.namespace = ? AND r.run_id = ?", namespace, runID)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	if r := found[0]; r.Status == onerun.Running && r.Lock != lock {
		return nil, errAgain // it began meanwhile, under a lock that isn't in hand
	}
	return found[0], nil
}

// End implements sqlledger.Deliverer.
func (t *tx) End(run onerun.Run, was onerun.Status, l onerun.Lease, o onerun.Outcome) error {
	done, err := t.close(l, was, o, onerun.ByOwner)
	if err == nil && !done {
		err = errAgain
	}
	if err == nil {
		err = t.FreeLock(run.Namespace, run.Lock, l.Owner)
	}
	if err == nil && o.Output != nil {
		err = t.keepOutput(l, *o.Output)
	}
	return err
}

func (t *tx) keepOutput(l onerun.Lease, o onerun.Output) error {
	b := &batch{}
	b.add("UPDATE onerun_attempt SET attempt = attempt WHERE run_id = ? AND attempt = ?", l.RunID, l.Attempt)
	addOutput(b, l, o)
	return t.run(b)
}

// KeepLate implements sqlledger.Deliverer.
func (t *tx) KeepLate(l onerun.Lease, o onerun.Outcome) error {
	text, err := encode(outcomeOf(o))
	if err != nil {
		return err
	}
	return t.exec("UPDATE onerun_attempt SET late = ? WHERE run_id = ? AND attempt = ?", text, l.RunID, l.Attempt)
}
