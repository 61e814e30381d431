package postgres

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
	err = t.row("SELECT EXISTS (SELECT 1 FROM onerun_approval WHERE run_id = $1 AND attempt >= $2)", runID, attempt).Scan(&decided)
	return decided, err
}

// RunAfter implements sqlledger.Deliverer.
func (t *tx) RunAfter(runID string) (onerun.Run, error) { return sqlledger.SeenOrNone(t.RunOf(runID)) }

// InHand implements sqlledger.Runs.
func (t *tx) InHand(namespace, runID string) (*sqlledger.RunRow, error) {
	var lock string
	err := t.row("SELECT lock FROM onerun_run WHERE namespace = $1 AND run_id = $2 AND status = 'RUNNING'", namespace, runID).Scan(&lock)
	if err == nil {
		err = t.exec("SELECT 1 FROM onerun_lock WHERE namespace = $1 AND lock = $2 FOR UPDATE", namespace, lock)
	}
	if err == nil || noRows(err) {
		err = t.exec("SELECT 1 FROM onerun_run WHERE namespace = $1 AND run_id = $2 FOR UPDATE", namespace, runID)
	}
	if err == nil {
		err = t.Tick()
	}
	if err != nil {
		return nil, err
	}
	found, err := t.runs("WHERE namespace = $1 AND run_id = $2", namespace, runID)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	if r := found[0]; r.Status == onerun.Running && r.Lock != onerun.LockName(lock) {
		return nil, errAgain // it began meanwhile, under a lock that isn't in hand
	}
	return found[0], nil
}

// End implements sqlledger.Deliverer.
func (t *tx) End(run onerun.Run, was onerun.Status, l onerun.Lease, o onerun.Outcome) error {
	request, err := encode(outcomeOf(o))
	if err != nil {
		return err
	}
	var done bool
	err = t.row("SELECT onerun_close($1, $2, $3, $4, $5::jsonb, NULL, onerun_at($6))", l.RunID, l.Attempt, l.Owner, was, request, micros(t.now)).Scan(&done)
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
	row, text := outputOf(&o)
	if text == "" {
		return nil
	}
	request, err := encode(row)
	if err != nil {
		return err
	}
	return t.exec("SELECT onerun_keep_output($1, $2, $3::jsonb, $4, onerun_at($5))", l.RunID, l.Attempt, request, text, micros(t.now))
}

// KeepLate implements sqlledger.Deliverer.
func (t *tx) KeepLate(l onerun.Lease, o onerun.Outcome) error {
	text, err := encode(outcomeOf(o))
	if err != nil {
		return err
	}
	return t.exec("UPDATE onerun_attempt SET late = $3::jsonb WHERE run_id = $1 AND attempt = $2", l.RunID, l.Attempt, text)
}
