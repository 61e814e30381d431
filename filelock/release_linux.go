package filelock

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Release gives the lock back, for this process and all that share it. Further calls do
// nothing. A note that was not cleared stays for the next owner to judge.
//
// The order is X.excl, the byte range, then the flock: whoever has the flock finds the
// range free, unless the lock file was deleted under a holder. X.lock of a job or a name
// is never unlinked; that of a key is, but only while its flock is held, and only when
// no note is left in it.
//
// An error says that a file could not be removed; the lock is free nevertheless, but for
// an X.excl that stands.
func (l *Lock) Release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return nil
	}
	var failed error
	if l.excl.fd >= 0 {
		failed = l.withdraw()
	}
	if l.held.fd >= 0 {
		l.freeRange()
		l.dir.step("release: range freed")
	}
	l.dropStop()
	if l.lock.fd >= 0 {
		failed = errors.Join(failed, l.dropKey())
		l.freeLocks()
		l.dir.step("release: flock freed")
	}
	l.released = true
	l.dir.release()
	return failed
}

// dropKey unlinks X.lock of a key, since there is no end to keys.
func (l *Lock) dropKey() error {
	name := l.base + lockSuffix
	if l.req.Lock.Kind() != "key" || l.lock.size > 1 {
		return nil
	}
	same, err := l.dir.names(name, l.lock.id)
	if same {
		err = l.dir.remove(name)
		l.dir.step("release: .lock of the key unlinked")
	}
	return l.dir.fail("remove lock file", name, err)
}

// dropFresh unlinks a lock file that this acquisition made and has no use for. The
// flock is held; whoever waits for it finds that the name is gone, and starts again.
func (l *Lock) dropFresh() {
	if !l.fresh || l.lock.fd < 0 {
		return
	}
	l.fresh = false
	if same, err := l.dir.names(l.base+lockSuffix, l.lock.id); err == nil && same {
		_ = l.dir.unlink(l.base + lockSuffix) // an empty lock file does no harm
	}
}

// freeLocks frees layers 2 and 1, in this order. It says so to the kernel before it
// closes them: a child that some other thread is just forking has duplicates until it
// executes, and with them the locks would last.
func (l *Lock) freeLocks() {
	l.freeRange()
	unlock(&l.lock.fd)
}

func (l *Lock) freeRange() {
	if l.held.fd < 0 {
		return
	}
	all := unix.Flock_t{Type: unix.F_UNLCK}                                                        // from 0 to the end
	_ = again(func() error { return unix.FcntlFlock(uintptr(l.held.fd), unix.F_OFD_SETLK, &all) }) // closing it does the same
	closeFD(&l.held.fd)
}

// unlock frees a flock and closes its descriptor.
func unlock(fd *int) {
	if *fd >= 0 {
		_ = again(func() error { return unix.Flock(*fd, unix.LOCK_UN) }) // closing it does the same
	}
	closeFD(fd)
}

// abandon undoes an acquisition that was not completed.
func (l *Lock) abandon() {
	if l.published {
		_ = l.withdraw() // what made us give up says more
	}
	closeFD(&l.excl.fd)
	l.dropFresh()
	l.freeLocks()
	l.released = true
	l.dir.release()
}
