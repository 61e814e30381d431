package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// The spool of this store is the lock files: an end is noted there before the ledger is
// asked, in room that was taken before the job started. When the ledger can't be told,
// .held is marked, and every claim that finds the mark delivers what waits.

// Deliver implements onerun.Claimer.
func (s *Store) Deliver(ctx context.Context, l onerun.Lease, out onerun.Outcome) (onerun.Delivery, error) {
	if out.Status != onerun.Succeeded && out.Status != onerun.Failed && out.Status != onerun.Skipped {
		return onerun.Delivery{}, fmt.Errorf("%w: a run can't end as %q", onerun.ErrUsage, out.Status)
	}
	var d onerun.Delivery
	err := s.write(ctx, "deliver an end", func(t *tx) (err error) {
		d, err = sqlledger.DeliverIn(t, l, out)
		return err
	})
	return d, err
}

// ToDeliver implements sqlledger.Deliverer.
func (t *tx) ToDeliver(l onerun.Lease) (onerun.Run, error) {
	r, err := t.runIn(l.Namespace, l.RunID)
	if err == nil && r == nil {
		err = errVanished
	}
	if err != nil {
		return onerun.Run{}, err
	}
	return r.Run, nil
}

// Decided implements sqlledger.Deliverer.
func (t *tx) Decided(runID string, attempt int) (decided bool, err error) {
	err = t.row("SELECT EXISTS (SELECT 1 FROM onerun_approval WHERE run_id = ?1 AND attempt >= ?2)", runID, attempt).Scan(&decided)
	return decided, err
}

// End implements sqlledger.Deliverer.
func (t *tx) End(run onerun.Run, was onerun.Status, l onerun.Lease, out onerun.Outcome) error {
	run.Attempt, run.Owner = l.Attempt, l.Owner
	return t.endOf(run, was, out, onerun.ByOwner)
}

// KeepLate implements sqlledger.Deliverer.
func (t *tx) KeepLate(l onerun.Lease, out onerun.Outcome) error {
	if t.lazy {
		return errLazy
	}
	out.Error = onerun.CutError(out.Error)
	text, err := json.Marshal(filelock.NewOutcome(out))
	if err == nil {
		err = t.exec("UPDATE onerun_attempt SET late = ?3 WHERE run_id = ?1 AND attempt = ?2", l.RunID, l.Attempt, string(text))
	}
	return err
}

// RunAfter implements sqlledger.Deliverer.
func (t *tx) RunAfter(runID string) (onerun.Run, error) { return t.RunByID(runID) }

// lateEnds delivers the ends that a lock file holds of runs that are not RUNNING any
// more: those that were closed while nobody could see the file. It reports whether the
// ledger knows the run that the file's note names.
func (t *tx) lateEnds(st *settled, v view) (known bool, err error) {
	n := v.note
	if err := t.row("SELECT EXISTS (SELECT 1 FROM onerun_run WHERE run_id = ?1) OR EXISTS (SELECT 1 FROM onerun_tombstone WHERE run_id = ?1)",
		n.RunID).Scan(&known); err != nil || !known {
		return known, err
	}
	for _, l := range v.ends() {
		lease := onerun.Lease{Namespace: n.Namespace, RunID: l.RunID, Attempt: l.Attempt, Owner: l.Owner}
		var open bool
		err := t.row("SELECT EXISTS (SELECT 1 FROM onerun_attempt WHERE run_id = ?1 AND attempt = ?2 AND owner = ?3 AND status <> 'RUNNING')",
			l.RunID, l.Attempt, l.Owner).Scan(&open)
		if err != nil {
			return known, err
		}
		if !open { // it is closed by closeDead, or is of another ledger
			continue
		}
		d, err := sqlledger.DeliverIn(t, lease, l.Outcome.Outcome())
		if err != nil {
			return known, err
		}
		if d.Kind == onerun.DeliveredBefore {
			continue
		}
		st.delivered = append(st.delivered, d)
		if st.run != nil && st.run.RunID == l.RunID { // decide on what it is now
			if st.run, err = t.runByID(l.RunID); err != nil {
				return known, err
			}
		}
	}
	return known, nil
}

// ends are the ends that a lock file holds.
func (v view) ends() []filelock.Left {
	var out []filelock.Left
	if n := v.note; n != nil {
		if n.Outcome != nil && n.RunID != "" && !n.Unclaimed {
			out = append(out, filelock.Left{Owner: n.Owner, RunID: n.RunID, Attempt: n.Attempt, Token: n.Token, Outcome: *n.Outcome})
		}
		if n.Left != nil && v.left == nil {
			out = append(out, *n.Left)
		}
	}
	if v.left != nil {
		out = append(out, *v.left)
	}
	return out
}

// waiting is an end that a lock file holds and the ledger may lack.
type waiting struct {
	run  *runRow
	left filelock.Left
	dir  *filelock.Dir
	lock onerun.LockName
	path string
}

// waitingEnds finds the ends of RUNNING runs whose owners don't hold their locks any
// more; trying says that an owner holds its lock, and the end that it tries to record.
// With all it looks into every lock file of this store's directory as well.
func (s *Store) waitingEnds(ctx context.Context, all bool) (found []waiting, trying bool, err error) {
	var files []filelock.State
	if all {
		if files, err = s.dir.List(); err != nil {
			return nil, false, err
		}
	}
	err = s.read(ctx, "look for ends that wait", func(t *tx) error {
		found, trying = nil, false
		running, err := t.runs("WHERE r.status = 'RUNNING'")
		if err != nil {
			return err
		}
		for _, r := range running {
			dir, err := s.dirOf(r)
			if err != nil {
				continue // its directory is not there now
			}
			st, err := dir.Look(r.Namespace, r.Lock)
			if err != nil {
				continue
			}
			left := endOf(viewOfState(st), r)
			switch {
			case left == nil:
			case st.Held: // its owner tries, and may yet die of it
				trying = true
			default:
				found = append(found, waiting{r, *left, dir, r.Lock, st.Path})
			}
		}
		for _, f := range files {
			if f.Held {
				continue
			}
			for _, left := range viewOfState(f).ends() {
				w, err := t.closedOtherwise(left)
				if err != nil {
					return err
				}
				if w != nil {
					w.dir, w.path = s.dir, f.Path
					found = append(found, *w)
				}
			}
		}
		return nil
	})
	return found, trying, err
}

// endOf is the end of a RUNNING run that a lock file holds.
func endOf(v view, r *runRow) *filelock.Left {
	for _, l := range v.ends() {
		if l.RunID == r.RunID && l.Attempt == r.Attempt && l.Owner == r.Owner {
			return &l
		}
	}
	return nil
}

// closedOtherwise finds the attempt that an end is of, if the ledger closed it with
// another end; nil: it has this one, or knows nothing of it.
func (t *tx) closedOtherwise(left filelock.Left) (*waiting, error) {
	var lock onerun.LockName
	var late string
	err := t.row(`SELECT lock, coalesce(late, '') FROM onerun_attempt WHERE run_id = ?1 AND attempt = ?2 AND owner = ?3 AND status <> 'RUNNING'
		AND NOT (status = ?4 AND coalesce(reason, '') = ?5 AND closed_by IS NULL)`,
		left.RunID, left.Attempt, left.Owner, left.Outcome.Status, left.Outcome.Reason).Scan(&lock, &late)
	if noRows(err) || err == nil && late != "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := t.runByID(left.RunID)
	return &waiting{run: r, left: left, lock: lock}, err
}

// Spooled implements onerun.Spooler.
func (s *Store) Spooled(ctx context.Context) ([]onerun.Spooled, error) {
	found, _, err := s.waitingEnds(ctx, true)
	var out []onerun.Spooled
	for _, w := range found {
		out = append(out, onerun.Spooled{
			Namespace: w.run.Namespace, RunID: w.left.RunID, Attempt: w.left.Attempt, Job: w.run.Job, Path: w.path, Outcome: w.left.Outcome.Outcome(),
		})
	}
	return out, err
}

// Flush implements onerun.Spooler.
func (s *Store) Flush(ctx context.Context) ([]onerun.Delivery, error) { return s.flush(ctx, true) }

func (s *Store) flush(ctx context.Context, all bool) ([]onerun.Delivery, error) {
	dirs := s.waitingDirs()
	marks := make([]uint64, len(dirs))
	for i, d := range dirs {
		marks[i] = d.Waiting()
	}
	found, failed, err := s.waitingEnds(ctx, all)
	if err != nil {
		return nil, err
	}
	var out []onerun.Delivery
	for _, w := range found {
		d, err := s.deliverOne(ctx, w)
		if errors.Is(err, errInUse) {
			failed = true
			continue
		}
		d.Err = err
		failed = failed || err != nil
		if d.Run.RunID == "" {
			d.Run = w.run.Run
		}
		out = append(out, d)
	}
	if !failed {
		for i, d := range dirs {
			d.Delivered(marks[i])
		}
	}
	return out, nil
}

// waitingDirs are the lock directories whose marks say that an end may wait: this one, and
// the store's usual one, at which everybody looks.
func (s *Store) waitingDirs() []*filelock.Dir {
	usual := onePath(filepath.Join(filepath.Dir(s.path), LocksName))
	if usual == s.lockDir {
		return []*filelock.Dir{s.dir}
	}
	d, err := s.dirOf(&runRow{lockDir: usual})
	if err != nil {
		return []*filelock.Dir{s.dir}
	}
	return []*filelock.Dir{s.dir, d}
}

// errInUse: somebody has the lock, and settles what its file holds.
var errInUse = errors.New("the lock is in use")

// deliverOne delivers an end with the lock in hand, and clears it from the file.
func (s *Store) deliverOne(ctx context.Context, w waiting) (onerun.Delivery, error) {
	lock, held, err := w.dir.Acquire(ctx, filelock.Request{
		Namespace: w.run.Namespace, Lock: w.lock, Mode: onerun.LockFlock, Owner: onerun.NewID(), Job: w.run.Job,
	})
	switch {
	case err != nil:
		return onerun.Delivery{}, err
	case held != nil:
		return onerun.Delivery{}, errInUse
	}
	defer func() { _ = lock.Release() }()
	for _, l := range viewOf(lock).ends() {
		if l.RunID != w.left.RunID || l.Attempt != w.left.Attempt || l.Owner != w.left.Owner {
			continue
		}
		lease := onerun.Lease{Namespace: w.run.Namespace, Lock: w.lock, RunID: l.RunID, Attempt: l.Attempt, Owner: l.Owner, Token: l.Token}
		d, err := s.Deliver(ctx, lease, l.Outcome.Outcome())
		if err == nil && len(viewOf(lock).ends()) == 1 {
			_ = lock.Clear() // else it is found again, and known to be recorded
		}
		return d, err
	}
	return onerun.Delivery{}, errInUse // somebody was faster
}

// deliverWaiting delivers what waits on this host before a claim, if .held is marked. It
// is no concern of the claim's when that fails: its own key is settled with the lock in
// hand, or the claim fails too.
func (s *Store) deliverWaiting(ctx context.Context) (done []onerun.Delivery) {
	if !slices.ContainsFunc(s.waitingDirs(), func(d *filelock.Dir) bool { return d.Waiting() != d.DeliveredUntil() }) {
		return nil
	}
	all, _ := s.flush(ctx, false)
	for _, d := range all {
		if d.Err == nil && d.Kind != onerun.DeliveredBefore {
			done = append(done, d)
		}
	}
	return done
}
