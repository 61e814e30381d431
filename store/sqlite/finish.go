package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// Heartbeat implements onerun.Claimer. There is no lease to extend: it says whether
// the run is still this owner's.
func (s *Store) Heartbeat(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
	h := s.Holding(l.Owner)
	if h == nil || h.Lease != l {
		return onerun.Beat{}, fmt.Errorf("%w: this process doesn't hold %s", onerun.ErrLost, l.Lock)
	}
	beat := onerun.Beat{Now: time.Now()}
	if l.RunID == "" {
		return beat, nil
	}
	alive := func(t *tx) error {
		var n int
		err := t.row("SELECT count(*) FROM onerun_attempt WHERE run_id = ?1 AND attempt = ?2 AND owner = ?3 AND status = 'RUNNING'", l.RunID, l.Attempt, l.Owner).Scan(&n)
		if err == nil && n == 0 {
			err = fmt.Errorf("%w: the run was closed by somebody else", onerun.ErrLost)
		}
		return err
	}
	err := s.with(ctx, true, func(d *db) error { return d.read(ctx, "heartbeat", alive) })
	return beat, err
}

// Finish implements onerun.Claimer. The outcome is noted in the lock file, in room
// that was allocated before the job started, then told to the ledger. Whatever fails
// or dies in between, the next claim on this host finds the note.
func (s *Store) Finish(ctx context.Context, l onerun.Lease, out onerun.Outcome) error {
	h := s.Holding(l.Owner)
	if h != nil && (h.Lease.Lock != l.Lock || h.Lease.Token != l.Token || h.Lease.Attempt != l.Attempt || h.Lease.RunID != l.RunID || h.Lease.Namespace != l.Namespace) {
		return fmt.Errorf("%w: this process holds another lease", onerun.ErrLost)
	}
	if l.RunID == "" {
		if h != nil {
			s.letGo(h)
		}
		return nil
	}
	if out.Status != onerun.Succeeded && out.Status != onerun.Failed && out.Status != onerun.Skipped {
		return fmt.Errorf("%w: a run can't end as %q", onerun.ErrUsage, out.Status)
	}
	var noted error
	if h != nil {
		s.step("note the outcome")
		noted = h.Lock.SetOutcome(filelock.NewOutcome(out)) // a failure matters only if the ledger fails too
	}
	s.step("record the outcome")
	record := func(t *tx) error {
		err := t.end(onerun.Run{
			RunID: l.RunID, Namespace: l.Namespace, Lock: l.Lock, Attempt: l.Attempt, Execution: onerun.Execution{Owner: l.Owner, Token: l.Token},
		}, out, onerun.ByOwner)
		if errors.Is(err, onerun.ErrLost) {
			return t.recorded(l, out)
		}
		return err
	}
	slow := time.AfterFunc(slowRecord, s.markWaiting)
	err := s.with(ctx, true, func(d *db) error { return d.write(ctx, "finish", record) })
	if out.Output != nil && hadNoRoom(err) { // the status is never lost for the sake of its text
		out.Output = nil
		err = s.with(ctx, true, func(d *db) error { return d.write(ctx, "finish", record) })
	}
	slow.Stop()
	if errors.Is(err, errVanished) && h != nil {
		s.Free(h) // with its note: should the ledger come back, the next claim records the end
		return err
	}
	if err != nil && !errors.Is(err, onerun.ErrLost) {
		if h != nil && noted == nil {
			noted = h.Lock.Sync() // the note is all there is: let it outlast a loss of power
			s.markWaiting()
		}
		return errors.Join(err, noted)
	}
	s.step("clear the note")
	if h != nil {
		s.letGo(h)
	}
	return err
}

// slowRecord is how long an end may take to be recorded before others are told that one
// waits: this process may be killed meanwhile.
const slowRecord = 100 * time.Millisecond

// markWaiting tells those who use these locks, and those who use the store's usual ones,
// that an end waits.
func (s *Store) markWaiting() {
	for _, d := range s.waitingDirs() {
		d.SetWaiting()
	}
}

// recorded tells a finish that was done before (its reply was lost) from one that
// comes too late.
func (t *tx) recorded(l onerun.Lease, out onerun.Outcome) error {
	var status onerun.Status
	var reason onerun.Reason
	err := t.row("SELECT status, coalesce(reason, '') FROM onerun_attempt WHERE run_id = ?1 AND attempt = ?2 AND owner = ?3 AND token = ?4",
		l.RunID, l.Attempt, l.Owner, l.Token).Scan(&status, &reason)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return errVanished
	case err != nil:
		return err
	case status == out.Status && reason == out.Reason:
		return nil
	}
	return fmt.Errorf("%w: the attempt is %s already", onerun.ErrLost, status)
}
