package sqlite

import (
	"context"
	"os"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// usedHere reports whether a run's claim used this store's lock directory, be it by
// another path: in a container, say, that has it mounted elsewhere.
func (s *Store) usedHere(r *runRow) bool {
	if r.lockDir == s.lockDir || r.lockDir == "" {
		return true
	}
	theirs, err := os.Stat(r.lockDir)
	if err != nil {
		return false
	}
	ours, err := os.Stat(s.lockDir)
	return err == nil && os.SameFile(theirs, ours)
}

// dirOf is the lock directory that a run's claim used, which may be another than this
// store's (--lock-dir). Proof of its death can only come from there.
func (s *Store) dirOf(r *runRow) (*filelock.Dir, error) {
	if s.usedHere(r) {
		return s.dir, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.otherDirs[r.lockDir]; d != nil {
		return d, nil
	}
	if _, err := os.Stat(r.lockDir); err != nil {
		return nil, err // opening it would make it
	}
	d, err := filelock.Open(r.lockDir, s.dirOptions())
	if err == nil {
		s.otherDirs[r.lockDir] = d
	}
	return d, err
}

// tryLockOf tries the lock of a RUNNING run, without waiting, to see what became of its
// owner. release gives it back. A lock directory that can't be opened shows nothing.
func (s *Store) tryLockOf(ctx context.Context, r *runRow) (v view, release func(), err error) {
	release = func() {}
	dir, err := s.dirOf(r)
	if err != nil {
		return view{}, release, nil
	}
	lock, held, err := dir.Acquire(ctx, filelock.Request{Namespace: r.Namespace, Lock: r.Lock, Mode: onerun.LockFlock, Owner: onerun.NewID(), Job: r.Job})
	switch {
	case err != nil:
		return view{}, release, err
	case held != nil:
		return view{held: true, liveness: held.Liveness, evidence: held.Evidence}, release, nil
	}
	return viewOf(lock), func() { _ = lock.Release() }, nil
}

// lookAt is tryLockOf without taking anything.
func (s *Store) lookAt(r *runRow) (view, error) {
	dir, err := s.dirOf(r)
	if err != nil {
		return view{}, nil
	}
	st, err := dir.Look(r.Namespace, r.Lock)
	return viewOfState(st), err
}

// peekAt is lookAt for a listing of many runs, of which one with a lock file that is none
// must not hide the others.
func (s *Store) peekAt(r *runRow) (view, error) {
	dir, err := s.dirOf(r)
	if err != nil {
		return view{}, nil
	}
	st, err := dir.Peek(r.Namespace, r.Lock)
	return viewOfState(st), err
}
