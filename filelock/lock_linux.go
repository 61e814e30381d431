package filelock

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

// Lock is a lock that is held, by this process and by every process that inherited its
// Descriptors. It is not given back by the garbage collector: only by Release, or by
// the end of those processes. Its methods may be called concurrently.
type Lock struct {
	Path string // the file that names the owner: X.lock, or X.excl in mode create

	Previous           *Note   // the note of the last owner; nil: none, or unreadable
	PreviousUnreadable bool    // something stands in the lock file, but it is no note
	Verdict            Verdict // about the work of Previous

	// Left is an outcome from before Previous that nobody has taken up yet; nil: none.
	// It comes about only without flock, when an owner that took over died before it
	// wrote its first note.
	Left *Left

	dir   *Dir
	req   Request
	base  string
	fresh bool // X.lock was made by this acquisition, and nothing was written to it yet

	mu        sync.Mutex
	note      Note // as written, or as it would be
	lock      file // X.lock, flocked; not open where there is no flock
	held      file // .held, with this lock's byte; not open where there are no such locks
	excl      file // mode create: the file that was published as X.excl
	written   bool // the caller's note stands in the files
	adopted   bool // inherited: another process made the lock
	released  bool
	force     bool // an operator's word stands for a missing proof
	published bool // the file excl has the name X.excl
}

// file is a descriptor and what is known of its inode. It is a number, no *os.File:
// that would be closed by the garbage collector, and the lock with it, when nobody
// uses it for a while.
type file struct {
	fd   int
	id   fileID
	size int64
	room bool // what is written first takes the blocks of a whole note
}

func none() file { return file{fd: -1} }

func (f *file) saw(st *unix.Stat_t) {
	f.id, f.size = idOf(st), st.Size
	// With blocks as large as a note, its first byte takes all that it will ever need. To ask for it costs more than
	// all the rest: it makes the file system choose a place on the disk, for a file that may be gone before it is written.
	f.room = st.Blksize >= noteMax || st.Blocks*512 >= noteMax
}

// padExcl is the unit of an .excl's size. With the same size, replacing a note changes
// one block and nothing else, so a host that loses power leaves the old or the new one.
const padExcl = 1024

// put replaces the text of a lock file by one write(2). Readers may see it half done,
// and look again; a kill can't stop it there.
func (f *file) put(text []byte) error {
	if !f.room {
		// So that no later note of this run meets a full disk. Not every file system can.
		err := again(func() error { return unix.Fallocate(f.fd, unix.FALLOC_FL_KEEP_SIZE, 0, noteMax) })
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EIO) || errors.Is(err, unix.EFBIG) {
			return err
		}
		f.room = true
	}
	if len(text) > 1 && f.size <= noteMax {
		text = padTo(text, int(f.size)) // spares shortening the file for a word that is one letter shorter
	}
	var n int
	err := again(func() (err error) { n, err = unix.Pwrite(f.fd, text, 0); return err })
	if err == nil && n < len(text) {
		err = unix.ENOSPC
		if limit, limited := SizeLimit(); limited && limit < uint64(len(text)) {
			err = unix.EFBIG
		}
	}
	if err != nil {
		return err
	}
	if f.size > int64(len(text)) {
		if err := again(func() error { return unix.Ftruncate(f.fd, int64(len(text))) }); err != nil {
			return err
		}
	}
	f.size = int64(len(text))
	return nil
}

// Write notes who holds the lock and for what. What n leaves empty of kind, name,
// namespace, owner, version label, start, worker and state (starting) is filled in.
//
// From then on the note has its room on the disk. When there is none (ErrIO), the file
// is as it was before, or gone if this acquisition made it; the lock is held still.
func (l *Lock) Write(n Note) error {
	return l.change(func(old *Note) error {
		b := *old
		n.Kind, n.Name, n.Namespace = b.Kind, b.Name, b.Namespace
		n.Owner, n.Flock, n.UID = b.Owner, b.Flock, b.UID
		n.Released, n.Left = false, nil
		if n.VersionLabel == "" {
			n.VersionLabel = b.VersionLabel
		}
		if n.StartedAt.IsZero() {
			n.StartedAt = b.StartedAt
		}
		if n.PID == 0 {
			n.setWorker(b.Worker())
		}
		if n.State == "" {
			n.State = StateStarting
		}
		*old = n
		l.written = true
		return nil
	})
}

// SetForking notes that the job is about to be started: StateForking. Before, a wrapper
// that died has started nothing; from here on the job may have run, and ended, unseen.
func (l *Lock) SetForking() error {
	return l.changeWritten(func(n *Note) { n.State = StateForking })
}

// SetGroup notes the job's process group, by its leader, right after the fork: StateRunning.
func (l *Lock) SetGroup(pid int, startTicks uint64) error {
	return l.changeWritten(func(n *Note) {
		n.State, n.Group, n.GroupStartTicks = StateRunning, pid, startTicks
	})
}

// SetGuard notes a guard process. Where there is a flock it needs none, since the guard
// shares that; without one, nothing else shows that the guard still works.
func (l *Lock) SetGuard(pid int, startTicks uint64) error {
	return l.changeWritten(func(n *Note) { n.Guard, n.GuardStartTicks = pid, startTicks })
}

// SetSkip notes that the work has said that there is nothing to do, and why.
func (l *Lock) SetSkip(why string) error {
	return l.changeWritten(func(n *Note) { n.Skip = &why })
}

// SetOutcome notes what became of the work: StateEnded. It overwrites blocks that Write
// took, so a full disk doesn't stop it (a file system that never overwrites, such as
// btrfs, may still). It doesn't wait for the disk; see Sync.
func (l *Lock) SetOutcome(o Outcome) error {
	return l.changeWritten(func(n *Note) { n.State, n.Outcome = StateEnded, &o })
}

func (l *Lock) changeWritten(f func(*Note)) error {
	return l.change(func(n *Note) error {
		if !l.written {
			return refuse(onerun.ErrInternal, "lock file", l.Path, "no note was written yet", "")
		}
		f(n)
		return nil
	})
}

// change makes a new note of the old one and writes it to the lock's files.
func (l *Lock) change(f func(*Note) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return errReleased(l.Path)
	}
	next := l.note
	written := l.written
	err := f(&next)
	if err == nil {
		err = l.putNote(next)
	}
	if err != nil {
		l.written = written
		return err
	}
	l.note = next
	return nil
}

func errReleased(path string) error {
	return refuse(onerun.ErrLost, "lock file", path, "the lock was given back already", "")
}

// putNote writes X.lock before X.excl: after a kill in between, who looks at X.excl alone
// sees the earlier state, which asks for more proof, not for less.
func (l *Lock) putNote(n Note) error {
	text, err := n.encode()
	if err != nil {
		return refuse(onerun.ErrInternal, "lock file", l.Path, err.Error(), "")
	}
	if l.lock.fd >= 0 {
		if err := l.lock.put(text); err != nil {
			l.undo()
			return l.dir.fail("write lock file", l.base+lockSuffix, err)
		}
		l.fresh = false
		l.dir.step("write: " + n.State + " in .lock")
	}
	if l.excl.fd >= 0 {
		if err := l.excl.put(pad(text)); err != nil {
			return l.dir.fail("write lock file", l.base+exclSuffix, err)
		}
		l.dir.step("write: " + n.State + " in .excl")
	}
	return nil
}

// undo leaves nothing of a note that could not be written whole.
func (l *Lock) undo() {
	if l.fresh {
		l.dropFresh()
	} else if !l.written && l.Previous == nil && !l.PreviousUnreadable && l.lock.size == 0 {
		_ = unix.Ftruncate(l.lock.fd, 0) // the error that led here is the one to report
	}
}

// pad brings the text of a note to a multiple of padExcl.
func pad(text []byte) []byte { return padTo(text, (len(text)+padExcl-1)/padExcl*padExcl) }

// padTo lengthens a text that ends in a line feed, if it is shorter. To JSON, spaces are
// nothing.
func padTo(text []byte, size int) []byte {
	if n := size - len(text); n > 0 {
		text = slices.Concat(text[:len(text)-1], bytes.Repeat([]byte{' '}, n), []byte{'\n'}) // text is the caller's
	}
	return text
}

// Sync waits until the note is on the disk. It is needed where an outcome must outlast a
// loss of power, because the ledger could not be told.
func (l *Lock) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return errReleased(l.Path)
	}
	for _, f := range []file{l.lock, l.excl} {
		if f.fd < 0 {
			continue
		}
		if err := again(func() error { return unix.Fdatasync(f.fd) }); err != nil {
			return storeError("lock file", l.Path, err)
		}
	}
	return nil
}

// Clear takes the note away: the ledger has what it said. The file keeps one empty
// line, and with it its block on the disk.
func (l *Lock) Clear() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return errReleased(l.Path)
	}
	if l.lock.fd >= 0 && l.lock.size > 1 {
		if err := l.lock.put([]byte{'\n'}); err != nil {
			return storeError("clear lock file", l.Path, err)
		}
		l.dir.step("clear: .lock emptied")
	}
	l.written = false
	l.fresh = false
	l.note.Outcome = nil
	return nil
}

// Restore puts the note of the last owner back, as it was found: what was written since has
// come to nothing. Where none was found, it is as Clear.
func (l *Lock) Restore() error {
	if l.Previous == nil {
		return l.Clear()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return errReleased(l.Path)
	}
	if err := l.putNote(*l.Previous); err != nil {
		return err
	}
	l.written = false
	return nil
}

// Deleted reports whether somebody deleted or replaced the lock's files under us. The
// lock is held nevertheless, as long as one of them is left or /proc/locks can be read;
// but an operator should hear of it.
func (l *Lock) Deleted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return false
	}
	gone := func(f file, name string) bool {
		if f.fd < 0 {
			return false
		}
		same, err := l.dir.names(name, f.id)
		return err == nil && !same
	}
	return gone(l.lock, l.base+lockSuffix) || gone(l.held, heldName) || gone(l.excl, l.base+exclSuffix)
}

// Descriptors returns the descriptors that a guard must inherit to share the lock, for
// Inherit in this order. They stay this Lock's: don't close them, and don't wrap them in
// an *os.File, whose finalizer would.
func (l *Lock) Descriptors() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	var fds []int
	for _, f := range []file{l.lock, l.held, l.excl} {
		if f.fd >= 0 && !l.released {
			fds = append(fds, f.fd)
		}
	}
	return fds
}

// Inherit makes a Lock of descriptors that this process was started with: those that
// Descriptors returned in the process that made the lock, in the same order. r must say
// what that process asked for. The descriptors become the Lock's.
//
// It also returns the note as it stands in the file.
//
// Errors: onerun.ErrLost when the note doesn't name r.Owner (any more).
func (d *Dir) Inherit(r Request, fds []int) (*Lock, Note, error) {
	l, err := d.newLock(r)
	if err != nil {
		return nil, Note{}, err
	}
	l.adopted = true
	if err := l.inherit(fds); err != nil {
		d.release()
		return nil, Note{}, err
	}
	return l, l.note, nil
}

func (l *Lock) inherit(fds []int) error {
	fail := func(err error) error { return storeError("inherited lock", l.Path, err) }
	files := []*file{&l.lock, &l.held}
	if l.req.Mode == onerun.LockCreate && len(fds) > 0 {
		l.excl.fd, l.published = fds[len(fds)-1], true
		fds = fds[:len(fds)-1]
	}
	if len(fds) > len(files) || len(fds) == 0 && l.excl.fd < 0 {
		return refuse(onerun.ErrInternal, "inherited lock", l.Path, fmt.Sprintf("%d descriptors", len(fds)), "")
	}
	for i, fd := range fds {
		files[i].fd = fd
	}
	source := l.excl.fd
	for _, f := range []*file{&l.lock, &l.held, &l.excl} {
		if f.fd < 0 {
			continue
		}
		var st unix.Stat_t
		if err := unix.Fstat(f.fd, &st); err != nil {
			return fail(err)
		}
		f.saw(&st)
		unix.CloseOnExec(f.fd)
	}
	if l.lock.fd >= 0 {
		source = l.lock.fd
	}
	note, err := readNote(source)
	switch {
	case err == nil && note.Owner == l.req.Owner:
		l.note, l.written = *note, true
		return nil
	case err == nil, errors.Is(err, errEmpty):
		return refuse(onerun.ErrLost, "inherited lock", l.Path, "its note names another owner, or none", "")
	case errors.Is(err, errNote):
		return refuse(onerun.ErrIO, "inherited lock", l.Path, err.Error(), "")
	}
	return fail(err)
}
