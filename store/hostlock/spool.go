package hostlock

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// The spool of this host is its lock files: an end is noted there before the store is
// asked. When the store can't be told, .held is marked, and every claim that finds the
// mark delivers what waits.

// waiting is an end that a lock file holds, of a run that the store knows.
type waiting struct {
	left filelock.Left
	file filelock.State
	run  onerun.Run
}

func (w waiting) lease() onerun.Lease {
	return onerun.Lease{
		Namespace: w.run.Namespace, Lock: w.run.Lock, RunID: w.left.RunID, Attempt: w.left.Attempt, Owner: w.left.Owner, Token: w.left.Token,
	}
}

// waitingEnds finds the ends that nobody tries to record; trying says that an owner still
// does. Ends of runs that this store doesn't know are another's; those that a spool file holds too
// are delivered from there.
func (s *Store) waitingEnds(ctx context.Context) (found []waiting, trying bool, err error) {
	files, err := s.dir.List()
	if err != nil {
		return nil, false, err
	}
	spooled, err := s.dir.Spooled()
	if err != nil {
		return nil, false, err
	}
	for _, f := range files {
		for _, left := range endsOf(f.Note, nil) {
			if f.Held {
				trying = true
				continue
			}
			if slices.ContainsFunc(spooled, func(w filelock.Spooled) bool { return s.ours(w) && w.Owner == left.Owner && w.Outcome != nil }) {
				continue
			}
			runs, err := s.Remote.Runs(ctx, onerun.Query{Namespace: f.Namespace, RunID: left.RunID})
			if err != nil {
				return nil, false, err
			}
			if len(runs) == 1 {
				found = append(found, waiting{left, f, runs[0]})
			}
		}
	}
	return found, trying, nil
}

// Spooled implements onerun.Spooler.
func (s *Store) Spooled(ctx context.Context) ([]onerun.Spooled, error) {
	found, _, err := s.waitingEnds(ctx)
	var out []onerun.Spooled
	for _, w := range found {
		out = append(out, onerun.Spooled{
			Namespace: w.run.Namespace, RunID: w.left.RunID, Attempt: w.left.Attempt, Job: w.run.Job, Path: w.file.Path, Outcome: w.left.Outcome.Outcome(),
		})
	}
	unclaimed, e := s.spooledUnclaimed()
	return append(out, unclaimed...), errors.Join(err, e)
}

// Flush implements onerun.Spooler.
func (s *Store) Flush(ctx context.Context) ([]onerun.Delivery, error) { return s.flush(ctx, true) }

func (s *Store) flush(ctx context.Context, all bool) ([]onerun.Delivery, error) {
	mark := s.dir.Waiting()
	found, failed, err := s.waitingEnds(ctx)
	if err != nil {
		return nil, err
	}
	var out []onerun.Delivery
	for _, w := range found {
		d, err := s.deliverOne(ctx, w)
		if d.Err = err; err != nil {
			failed = true
		}
		if d.Run.RunID == "" {
			d.Run = w.run
		}
		out = append(out, d)
	}
	unclaimed, left, err := s.flushUnclaimed(ctx, all)
	if !failed && !left && err == nil {
		s.dir.Delivered(mark)
	}
	return append(out, unclaimed...), err
}

// lock is the lock that the end's file is of; "": it can't be told. A key's lock file doesn't
// tell its partition.
func (w waiting) lock() onerun.LockName {
	for _, lock := range []onerun.LockName{w.file.Lock, w.run.Lock, onerun.KeyLock(w.run.Key())} {
		name := filelock.FileName(w.run.Namespace, lock)
		if base := filepath.Base(w.file.Path); strings.TrimSuffix(base, filepath.Ext(base)) == name {
			return lock
		}
	}
	return ""
}

// deliverOne delivers an end, with the lock in hand, to clear it from the file. What isn't
// cleared is found again, and known to be recorded.
func (s *Store) deliverOne(ctx context.Context, w waiting) (onerun.Delivery, error) {
	var lock *filelock.Lock
	if name := w.lock(); name != "" {
		got, held, err := s.dir.Acquire(ctx, filelock.Request{Namespace: w.run.Namespace, Lock: name, Owner: onerun.NewID(), Job: w.run.Job})
		if err != nil {
			return onerun.Delivery{}, err
		}
		if held == nil {
			lock = got
			defer func() { _ = lock.Release() }()
		}
	}
	d, err := s.Remote.Deliver(ctx, w.lease(), w.left.Outcome.Outcome())
	if err == nil && lock != nil {
		if ends := endsOf(lock.Previous, lock.Left); len(ends) == 1 && ends[0].Owner == w.left.Owner {
			_ = lock.Clear()
		}
	}
	return d, err
}

// deliver delivers an end from a lock file that is in hand.
func (s *Store) deliver(ctx context.Context, namespace string, lock onerun.LockName, l filelock.Left) (onerun.Delivery, error) {
	lease := onerun.Lease{Namespace: namespace, Lock: lock, RunID: l.RunID, Attempt: l.Attempt, Owner: l.Owner, Token: l.Token}
	return s.Remote.Deliver(ctx, lease, l.Outcome.Outcome())
}

// deliverWaiting delivers what waits on this host before a claim, if .held is marked. It
// is no concern of the claim's when that fails: its own key is settled with the lock in
// hand, or the claim fails too. What has gathered in a long outage doesn't use up the claim's
// time: the rest is for the next one.
func (s *Store) deliverWaiting(ctx context.Context) (done []onerun.Delivery) {
	if s.dir.Waiting() == s.dir.DeliveredUntil() {
		return nil
	}
	limit := betweenSteps
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	all, _ := s.flush(ctx, false)
	for _, d := range all {
		if d.Err == nil && d.Kind != onerun.DeliveredBefore {
			done = append(done, d)
		}
	}
	return done
}
