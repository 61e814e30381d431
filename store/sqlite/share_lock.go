package sqlite

import (
	"errors"
	"fmt"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// SharedLock gives what a guard needs to share the lock of a lease that this process holds:
// the descriptors, for Inherit in this order, and where the lock is. They stay this
// process's; none means that it holds no such lock.
func (s *Store) SharedLock(l onerun.Lease) (files []int, lockDir string, mode onerun.LockMode) {
	h := s.holding(l.Owner)
	if h == nil {
		return nil, "", ""
	}
	return h.lock.Descriptors(), s.lockDir, h.mode
}

// Inherit makes this process a holder of a lease whose lock's descriptors it was started
// with. noted is the end that stands in the lock file already, if one does.
//
// Errors: onerun.ErrLost when the lock file doesn't name the lease any more: its end is
// recorded.
func (s *Store) Inherit(l onerun.Lease, mode onerun.LockMode, job string, files []int) (noted *onerun.Outcome, err error) {
	lock, note, err := s.dir.Inherit(filelock.Request{Namespace: l.Namespace, Lock: l.Lock, Mode: mode, Owner: l.Owner, Job: job}, files)
	if err != nil {
		return nil, err
	}
	s.hold(&holding{lock: lock, lease: l, mode: mode})
	if note.Outcome != nil && note.RunID == l.RunID && note.Attempt == l.Attempt {
		out := note.Outcome.Outcome()
		noted = &out
	}
	return noted, nil
}

// NoteEnd notes the end of a lease's attempt in the lock file, before the ledger is told by
// Finish.
func (s *Store) NoteEnd(l onerun.Lease, out onerun.Outcome) error {
	h := s.holding(l.Owner)
	if h == nil {
		return fmt.Errorf("%w: this process doesn't hold %s", onerun.ErrLost, l.Lock)
	}
	if l.RunID == "" { // a lock alone has no end to record
		return nil
	}
	err := h.lock.SetOutcome(filelock.NewOutcome(out))
	return errors.Join(err, h.lock.Sync())
}
