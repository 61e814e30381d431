package filelock

import (
	"context"
	"fmt"
	"time"

	"github.com/onerun-dev/onerun"
)

// Unlock removes an X.excl that nobody can prove dead, on the word of an operator that
// its owner is gone.
//
// It goes the way of a takeover, so that it can't hit a lock that a third process has
// just made:
//
//  1. take the flock and the range, where there are such: no process of this host is
//     then between publishing and releasing
//  2. read X.excl; refuse if its owner is proven alive; keep the file open, so that its
//     inode can't become another file's
//  3. set the mark X.excl.take-OWNER, or take-INODE for a file that names nobody
//  4. read X.excl again: the same owner, or the same inode, else remove the mark and refuse
//  5. unlink it, remove the mark
//
// From 4 on no other process removes or replaces the file, its owner included, should it
// live after all: all of them need the same mark. So what 5 unlinks is what 4 read. A mark
// of somebody about whom nothing can be proven doesn't stop an operator's word.
//
// Errors: onerun.ErrNotFound when there is no X.excl; onerun.ErrState when its owner
// lives, somebody holds the lock, or it was taken over meanwhile; else as of Acquire.
func (d *Dir) Unlock(namespace string, lock onerun.LockName) error {
	mode := onerun.LockCreate
	l, err := d.newLock(Request{Namespace: namespace, Lock: lock, Mode: mode, Owner: onerun.NewID()})
	if err != nil {
		return err
	}
	defer l.abandon()
	name := l.base + exclSuffix
	// a first look spares making an X.lock for a name that was mistyped
	if x, err := d.readExcl(name); err != nil || x == nil {
		return orNotFound(err, l.Path)
	}
	if !d.opt.NoFlock {
		held, err := l.takeLocks(context.Background())
		if err != nil {
			return err
		}
		if held != nil {
			return &onerun.StateError{Why: fmt.Sprintf("%s is held by a running process (%s)", lock, held.Evidence)}
		}
	}
	l.note.Flock = l.lock.fd >= 0
	x, err := d.openExcl(name)
	if err != nil || x == nil {
		return orNotFound(err, l.Path)
	}
	defer closeFD(&x.fd)
	if held := d.standing(name, x, l.note.Flock); held != nil && held.Liveness == onerun.Alive {
		return &onerun.StateError{Why: fmt.Sprintf("the owner of %s is alive (%s)", lock, held.Evidence)}
	}
	d.step("unlock: judged")
	removed, held, err := l.removeInsisting(name, x.identity())
	switch {
	case err != nil:
		return err
	case held != nil:
		return &onerun.StateError{Why: fmt.Sprintf("%s: %s", lock, held.Evidence)}
	case !removed:
		return &onerun.StateError{Why: fmt.Sprintf("%s changed hands meanwhile; look again", lock)}
	}
	d.sweep()
	return nil
}

const (
	unlockTries = 10
	unlockPause = 100 * time.Millisecond
)

// removeInsisting removes the file that owner left. The mark of a process about which
// nothing can be proven is respected for a second, in which it would be gone if that
// process lived: a mark stands for a few system calls. After that the operator's word
// stands for the proof.
func (l *Lock) removeInsisting(name, owner string) (removed bool, held *Held, err error) {
	for try := range unlockTries + 1 {
		l.force = try == unlockTries
		removed, held, err = l.removeExcl(name, owner)
		if err != nil || held == nil || held.Liveness == onerun.Alive {
			break
		}
		_ = sleep(context.Background(), unlockPause)
	}
	return removed, held, err
}

func orNotFound(err error, path string) error {
	if err != nil {
		return err
	}
	return &onerun.StoreError{Kind: onerun.ErrNotFound, What: "lock file", Path: path, Err: onerun.ErrNotFound}
}
