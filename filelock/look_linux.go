package filelock

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

// State is one lock as it was seen.
type State struct {
	Namespace string          // as far as known: from the question, else from the note
	Lock      onerun.LockName // likewise; from a note, a key without its partition
	Path      string          // the file that Note stands in, or would
	Mode      onerun.LockMode // create: an X.excl is there
	Held      bool            // nobody else could start now
	Note      *Note           // of the holder, or what the last owner left; nil: none, or unreadable

	Unreadable bool    // something stands in the file, but it is no note
	Deleted    bool    // Held, although X.lock is missing: deleted under its holder
	Verdict    Verdict // Held: about the holder; else about the work of Note, as in Lock
}

// Look tells the state of a lock, held or free, without taking anything that a start
// might want in that instant: it asks the kernel who bars the lock's byte of .held
// (F_OFD_GETLK, fcntl(2)), which sees holders in every pid namespace. A lock that is
// just being taken or given back may look either way.
//
// Errors: onerun.ErrUsage for a malformed name; else a *onerun.StoreError as of Acquire.
func (d *Dir) Look(namespace string, lock onerun.LockName) (State, error) {
	ns, lock, err := canonical(namespace, lock)
	if err != nil {
		return State{}, err
	}
	if d.absent() {
		return State{Namespace: ns, Lock: lock, Mode: onerun.LockFlock, Path: d.path + "/" + fileName(ns, lock) + lockSuffix}, nil
	}
	if err := d.retain(); err != nil {
		return State{}, err
	}
	defer d.release()
	s, err := d.look(fileName(ns, lock))
	s.Namespace, s.Lock = ns, lock
	return s, err
}

// List looks at every lock that has a file in the directory, in the order of their
// file names. Free locks without a note are among them, and what can't be a lock file (a
// link, a FIFO) or be read by this account: Unreadable, with the reason. It also removes
// what dead processes left of takeovers, unless the directory was opened for looking.
func (d *Dir) List() ([]State, error) {
	if d.absent() {
		return nil, nil
	}
	if err := d.retain(); err != nil {
		return nil, err
	}
	defer d.release()
	names, err := d.files()
	if err != nil {
		return nil, d.fail("lock directory", "", err)
	}
	if !d.opt.Looking {
		d.sweep()
	}
	var bases []string
	for _, name := range names {
		base, ok := strings.CutSuffix(name, lockSuffix)
		if !ok {
			base, ok = strings.CutSuffix(name, exclSuffix)
		}
		if _, _, err := d.offsets(base); ok && err == nil {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	var states []State
	for _, base := range slices.Compact(bases) {
		s, err := d.peek(base)
		if err != nil {
			return nil, err
		}
		states = append(states, s)
	}
	return states, nil
}

// Foreign lists the files of the directory that are none of its own making, by the form
// of their names: sorted, without the directory.
func (d *Dir) Foreign() ([]string, error) {
	if d.absent() {
		return nil, nil
	}
	if err := d.retain(); err != nil {
		return nil, err
	}
	defer d.release()
	names, err := d.files()
	if err != nil {
		return nil, d.fail("lock directory", "", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		if name == heldName || strings.HasPrefix(name, heldName+newInfix) {
			return true
		}
		if _, _, _, spool := splitSpool(name); spool {
			return true
		}
		for _, infix := range []string{markInfix, newInfix} {
			name, _, _ = strings.Cut(name, infix)
		}
		for _, suffix := range []string{lockSuffix, exclSuffix, stopSuffix, queueSuffix} {
			if base, ok := strings.CutSuffix(name, suffix); ok {
				_, _, err := d.offsets(base)
				return err == nil
			}
		}
		return false
	})
	slices.Sort(names)
	return names, nil
}

// look looks at one lock by its file name.
func (d *Dir) look(base string) (State, error) {
	s := State{Mode: onerun.LockFlock, Path: d.path + "/" + base + lockSuffix}
	lock, err := d.readExcl(base + lockSuffix) // any lock file is read so
	if err != nil {
		return s, err
	}
	if lock != nil {
		s.Note = lock.note
		s.Unreadable = lock.note == nil && !errors.Is(lock.why, errEmpty)
	}
	held, err := d.locked(base, lock)
	if err != nil {
		return s, err
	}
	s.Held, s.Deleted = held, held && lock == nil
	x, err := d.readExcl(base + exclSuffix)
	if err != nil {
		s.Path = d.path + "/" + base + exclSuffix
		return s, err
	}
	if x != nil {
		s.Mode, s.Path = onerun.LockCreate, d.path+"/"+base+exclSuffix
		if s.Note == nil || s.Note.Owner != x.identity() {
			s.Note = x.note
		}
		s.Unreadable = x.note == nil
		if standing := d.standing(base+exclSuffix, x, !held && lock != nil); standing != nil {
			s.Held = true
			s.Verdict = Verdict{Liveness: standing.Liveness, Evidence: standing.Evidence}
		}
	}
	if s.Note != nil {
		s.Namespace, s.Lock = s.Note.Namespace, s.Note.LockName()
	}
	switch {
	case held:
		s.Verdict = Verdict{Liveness: onerun.Alive, Evidence: "its lock is held by a running process"}
		if s.Deleted {
			s.Verdict.Evidence += ", under which the lock file was deleted"
		}
		if s.Note != nil {
			s.Verdict.Evidence += leftBehind(*s.Note)
		}
	case s.Held: // by X.excl
	case s.Note != nil:
		s.Verdict = d.work(*s.Note, true, false)
	case s.Unreadable:
		s.Verdict = unknown("the note in the lock file can't be read")
	}
	return s, nil
}

// Peek is Look for a listing, to which a file that is none, or is closed to this account,
// is Unreadable as it is to List. A start would report it as an error.
func (d *Dir) Peek(namespace string, lock onerun.LockName) (State, error) {
	ns, lock, err := canonical(namespace, lock)
	if err != nil {
		return State{}, err
	}
	if err := d.retain(); err != nil {
		return State{}, err
	}
	defer d.release()
	if d.absent() {
		return State{Namespace: ns, Lock: lock, Mode: onerun.LockFlock, Path: d.path + "/" + fileName(ns, lock) + lockSuffix}, nil
	}
	s, err := d.peek(fileName(ns, lock))
	s.Namespace, s.Lock = ns, lock
	return s, err
}

// peek is look, but that one file that can't be looked at, which anybody who may write here
// can make, doesn't hide all the others. A disk that fails is an error still.
func (d *Dir) peek(base string) (State, error) {
	s, err := d.look(base)
	if !errors.Is(err, onerun.ErrCreate) && !errors.Is(err, onerun.ErrPermission) {
		return s, err
	}
	s = State{Mode: onerun.LockFlock, Path: s.Path, Unreadable: true, Verdict: unknown(err.Error())}
	if strings.HasSuffix(s.Path, exclSuffix) {
		s.Mode = onerun.LockCreate
	}
	if held, known, e := d.rangeHeld(base); e == nil && known && held {
		s.Held, s.Verdict = true, Verdict{Liveness: onerun.Alive, Evidence: "its lock is held by a running process; " + err.Error()}
	}
	return s, nil
}

// locked reports whether a process holds the lock by layer 2, or where that doesn't
// exist by layer 1.
func (d *Dir) locked(base string, lock *excl) (bool, error) {
	held, known, err := d.rangeHeld(base)
	if known || err != nil || lock == nil {
		return held, err
	}
	return flockListed(lock.id.ino)
}

// flockListed looks for a flock on an inode in /proc/locks (proc_locks(5)). The device
// is not compared, since stat(2) and this list name it differently on some file systems;
// and a holder in another pid namespace may not be listed. It is only for looking.
func flockListed(ino uint64) (bool, error) {
	text, err := readLocks()
	if err != nil {
		return false, storeError("list of file locks", "/proc/locks", err)
	}
	return flockIn(text, ino), nil
}

func flockIn(text []byte, ino uint64) bool {
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		if len(f) == 8 && string(f[1]) == "FLOCK" && bytes.HasSuffix(f[5], fmt.Appendf(nil, ":%d", ino)) {
			return true
		}
	}
	return false
}

// files lists the directory.
func (d *Dir) files() ([]string, error) {
	fd, err := d.open(".", unix.O_RDONLY|unix.O_DIRECTORY, 0) // an O_PATH descriptor can't be read
	if err != nil {
		return nil, err
	}
	defer closeFD(&fd)
	return readNames(fd)
}
