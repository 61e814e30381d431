package filelock

import (
	"errors"
	"fmt"
	"sync"

	"github.com/onerun-dev/onerun"
)

// Holding is a lock in the hands of this process, for a lease.
type Holding struct {
	Lock  *Lock
	Lease onerun.Lease
	Mode  onerun.LockMode

	// Of a run that is executed without a claim; nil: it has one.
	Spool   *Spool
	Spooled Spooled
	Noted   bool // its end stands in the spool

	// Granted is what the store would have to be told of the run, should it have forgotten the
	// claim; nil: that isn't known, or it has none.
	Granted   *Unclaimed
	Kept      bool // this process has spooled it, with the end
	Inherited bool // another process may have
}

// Holdings are the locks that a store's process holds, by the owner ids of their leases. A store
// that embeds them has the optional abilities of one with lock files: onerun.Noter, LockWatcher
// and StopWatcher.
type Holdings struct {
	dir  *Dir
	hook func(step string)

	mu   sync.Mutex
	held map[string]*Holding
}

// NewHoldings makes holdings of locks in a directory. hook is called before each step that
// somebody could die at, with its name.
func NewHoldings(dir *Dir, hook func(step string)) *Holdings {
	return &Holdings{dir: dir, hook: hook, held: map[string]*Holding{}}
}

// Hold keeps a lock.
func (hs *Holdings) Hold(h *Holding) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.held[h.Lease.Owner] = h
}

// Holding is what this process holds for an owner; nil: nothing. A store that only looks has
// no Holdings.
func (hs *Holdings) Holding(owner string) *Holding {
	if hs == nil {
		return nil
	}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return hs.held[owner]
}

// Mine is Holding for an owner who must hold its lock.
//
// Errors: onerun.ErrLost.
func (hs *Holdings) Mine(l onerun.Lease) (*Holding, error) {
	if h := hs.Holding(l.Owner); h != nil {
		return h, nil
	}
	return nil, fmt.Errorf("%w: this process doesn't hold %s", onerun.ErrLost, l.Lock)
}

// Free frees the lock of a holding, and leaves its note.
func (hs *Holdings) Free(h *Holding) {
	hs.mu.Lock()
	delete(hs.held, h.Lease.Owner)
	hs.mu.Unlock()
	if h.Spool != nil {
		h.Spool.Close()
	}
	hs.hook("free the lock")
	_ = h.Lock.Release()
}

// NoteStart implements onerun.Noter.
func (hs *Holdings) NoteStart(l onerun.Lease) error {
	h, err := hs.Mine(l)
	if err != nil {
		return err
	}
	hs.hook("note the start")
	return h.Lock.SetForking()
}

// NoteGroup implements onerun.Noter.
func (hs *Holdings) NoteGroup(l onerun.Lease, pid int, startTicks uint64) error {
	h, err := hs.Mine(l)
	if err != nil {
		return err
	}
	hs.hook("note the group")
	return h.Lock.SetGroup(pid, startTicks)
}

// NoteSkip implements onerun.EndNoter.
func (hs *Holdings) NoteSkip(l onerun.Lease, why string) error {
	h, err := hs.Mine(l)
	if err != nil {
		return err
	}
	return h.Lock.SetSkip(why)
}

// NoteEnd implements onerun.EndNoter: the end is on the disk when it returns. A lock alone has
// none to record.
func (hs *Holdings) NoteEnd(l onerun.Lease, out onerun.Outcome) error {
	h, err := hs.Mine(l)
	if err != nil || l.RunID == "" {
		return err
	}
	err = h.Lock.SetOutcome(NewOutcome(out))
	return errors.Join(err, h.Lock.Sync())
}

// LockDeleted implements onerun.LockWatcher.
func (hs *Holdings) LockDeleted(l onerun.Lease) bool {
	h := hs.Holding(l.Owner)
	return h != nil && h.Lock.Deleted()
}

// StopRequested implements onerun.StopWatcher.
func (hs *Holdings) StopRequested(l onerun.Lease) string {
	h := hs.Holding(l.Owner)
	if h == nil {
		return ""
	}
	return h.Lock.StopRequested()
}

// SharedLock gives what a guard needs to share the lock of a lease that this process holds:
// the descriptors, for Inherit in this order, and where the lock is. They stay this
// process's; none means that it holds no such lock.
func (hs *Holdings) SharedLock(l onerun.Lease) (files []int, lockDir string, mode onerun.LockMode) {
	h := hs.Holding(l.Owner)
	if h == nil {
		return nil, "", ""
	}
	return h.Lock.Descriptors(), hs.dir.path, h.Mode
}

// Granted is what the store would have to be told of a run that has a claim, for the process that
// inherits the lock; nil: nothing is known.
func (hs *Holdings) Granted(l onerun.Lease) *Unclaimed {
	if h := hs.Holding(l.Owner); h != nil {
		return h.Granted
	}
	return nil
}

// SetGranted is for the process that has inherited the lock: what Granted gave in the one that
// had it. That one may have spooled it.
func (hs *Holdings) SetGranted(l onerun.Lease, u *Unclaimed) {
	if h := hs.Holding(l.Owner); h != nil {
		h.Granted, h.Inherited = u, true
	}
}

// Inherit makes this process a holder of a lease whose lock's descriptors it was started
// with. noted is the end that stands in the lock file already, if one does; skip, why the work
// has said that there is nothing to do, if it has.
//
// Errors: onerun.ErrLost when the lock file doesn't name the lease any more: its end is
// recorded.
func (hs *Holdings) Inherit(l onerun.Lease, mode onerun.LockMode, job string, files []int) (noted *onerun.Outcome, skip *string, err error) {
	lock, note, err := hs.dir.Inherit(Request{Namespace: l.Namespace, Lock: l.Lock, Mode: mode, Owner: l.Owner, Job: job}, files)
	if err != nil {
		return nil, nil, err
	}
	hs.Hold(&Holding{Lock: lock, Lease: l, Mode: mode})
	if note.Outcome != nil && note.RunID == l.RunID && note.Attempt == l.Attempt {
		out := note.Outcome.Outcome()
		noted = &out
	}
	return noted, note.Skip, nil
}
