package filelock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

// excl is an X.excl, or a mark, as it was found.
type excl struct {
	file       // its descriptor is closed, but in openExcl's result
	note *Note // nil: unreadable
	why  error // why it is unreadable
}

// identity is what a file says of its owner, or, of one that says nothing, its inode's
// number. Marks are named by it.
func (x *excl) identity() string {
	if x.note != nil {
		return x.note.Owner
	}
	return "i" + strconv.FormatUint(x.id.ino, 10) // no owner id has an "i"
}

// publish makes X.excl, and takes over one whose owner is proven dead.
func (l *Lock) publish() (*Held, error) {
	d, name := l.dir, l.base+exclSuffix
	private := ""
	defer func() {
		if private != "" {
			_ = d.unlink(private) // a later sweep does it otherwise
		}
	}()
	for try := 1; ; try++ {
		if private == "" {
			var err error
			if private, err = l.makePrivate(&l.excl, l.note); err != nil {
				return nil, err
			}
		}
		err := d.link(private, name)
		if errors.Is(err, unix.EEXIST) && l.linked() {
			err = nil
		}
		switch {
		case err == nil:
			l.published = true
			d.step("publish: linked")
			return nil, nil
		case errors.Is(err, unix.ENOENT) && try < vanishTries: // somebody empties the directory
			closeFD(&l.excl.fd)
			private = ""
			continue
		case !errors.Is(err, unix.EEXIST):
			return nil, d.fail("lock file", name, err)
		}
		x, held, err := l.judgeExcl(name)
		if held != nil || err != nil {
			return held, err
		}
		if x == nil { // gone meanwhile
			continue
		}
		if err := l.succeed(x.note); err != nil {
			return nil, err
		}
		marked, held, err := l.mark(name, x.identity(), private)
		if held != nil || err != nil {
			return held, err
		}
		if !marked { // somebody else was faster
			continue
		}
		if err := d.rename(private, name); err != nil {
			_ = d.unlink(markName(name, x.identity())) // we live, so it would bar everybody
			return nil, d.fail("lock file", name, err)
		}
		private, l.published = "", true
		d.step("takeover: renamed")
		// If that fails, the mark is about a file that is gone, and bars nobody.
		_ = d.unlink(markName(name, x.identity()))
		d.step("takeover: mark removed")
		d.sweep()
		return nil, nil
	}
}

// linked asks whether a link(2) that failed was made nevertheless: over a network the
// reply can be lost, and the repeated request then finds our own link (open(2), O_EXCL).
func (l *Lock) linked() bool {
	var st unix.Stat_t
	if unix.Fstat(l.excl.fd, &st) != nil || st.Nlink < 2 {
		return false
	}
	same, err := l.dir.names(l.base+exclSuffix, l.excl.id)
	return err == nil && same
}

// clearWay is mode flock's look at X.excl: it refuses while one stands, and removes one
// whose owner is proven dead.
func (l *Lock) clearWay() (*Held, error) {
	d, name := l.dir, l.base+exclSuffix
	for {
		x, held, err := l.judgeExcl(name)
		if x == nil || held != nil || err != nil {
			return held, err
		}
		if err := l.succeed(x.note); err != nil {
			return nil, err
		}
		_, held, err = l.removeExcl(name, x.identity())
		if held != nil || err != nil {
			return held, err
		}
		d.sweep()
	}
}

// removeExcl removes the file that owner left, by the same steps as a takeover. removed
// is false where somebody else was faster.
func (l *Lock) removeExcl(name, owner string) (removed bool, held *Held, err error) {
	d := l.dir
	var f file
	note := l.note
	note.State, note.Left = StateInProcess, nil // what is at work is this process alone
	private, err := l.makePrivate(&f, note)
	if err != nil {
		return false, nil, err
	}
	closeFD(&f.fd)
	defer func() { _ = d.unlink(private) }() // a later sweep does it otherwise
	marked, held, err := l.mark(name, owner, private)
	if !marked || held != nil || err != nil {
		return false, held, err
	}
	err = d.remove(name)
	d.step("takeover: removed")
	_ = d.unlink(markName(name, owner)) // if that fails, it is about a file that is gone
	d.step("takeover: mark removed")
	return true, nil, d.fail("remove lock file", name, err)
}

// judgeExcl reads X.excl. All nil: there is none. A *Held: it stands. Else its owner is
// dead, and it may be replaced or removed.
func (l *Lock) judgeExcl(name string) (*excl, *Held, error) {
	x, err := l.dir.readExcl(name)
	if x == nil || err != nil {
		return nil, nil, err
	}
	held := l.dir.standing(name, x, l.lock.fd >= 0)
	if held == nil {
		l.dir.step("takeover: owner judged dead")
	}
	return x, held, nil
}

// standing says whether an X.excl stands; nil: its owner is dead. free tells that the
// lock's flock is free, which proves something only about an owner that held it.
func (d *Dir) standing(name string, x *excl, free bool) *Held {
	path := d.path + "/" + name
	if x.note == nil {
		return &Held{
			Path: path, Liveness: onerun.Unknown, Unreadable: true,
			Evidence: "the lock file can't be read: " + x.why.Error(),
		}
	}
	v := d.work(*x.note, free && x.note.Flock, true)
	if v.Liveness == onerun.Dead {
		return nil
	}
	return &Held{Path: path, Note: x.note, Liveness: v.Liveness, Evidence: v.Evidence}
}

// succeed makes the dead owner of an X.excl the previous one. Its note, which the file
// loses now, is kept until the caller has taken it up: in X.lock, or without flock as
// far as it tells an outcome, in our own X.excl.
func (l *Lock) succeed(dead *Note) error {
	if l.lock.fd < 0 {
		l.Previous, l.Verdict, l.Left = dead, l.dir.work(*dead, false, false), nil
		if dead.Outcome == nil {
			l.Left = dead.Left
		}
		return l.carry(dead.left())
	}
	if l.Previous != nil && l.Previous.Owner != dead.Owner {
		// Owners with and without flock took turns here. The note in X.lock stays there until Write.
		l.Left = dead.left()
		return l.carry(l.Left)
	}
	if l.Previous == nil {
		if dead.RunID != "" || dead.left() != nil {
			text, err := dead.encode()
			if err == nil {
				err = l.lock.put(text)
			}
			if err != nil {
				return l.dir.fail("lock file", l.base+lockSuffix, err)
			}
			l.fresh = false
			l.dir.step("takeover: note kept")
		}
		l.Previous, l.PreviousUnreadable = dead, false
	}
	l.Verdict = l.dir.work(*l.Previous, true, false)
	return nil
}

// carry puts what an earlier owner left into our own note, before that becomes X.excl.
func (l *Lock) carry(left *Left) error {
	if l.excl.fd < 0 || left == nil && l.note.Left == nil {
		return nil
	}
	l.note.Left = left
	text, err := l.note.encode()
	if err == nil {
		err = l.excl.put(pad(text))
	}
	if err == nil {
		err = again(func() error { return unix.Fsync(l.excl.fd) })
	}
	return l.dir.fail("lock file", l.base+exclSuffix, err)
}

// makePrivate writes a note to a new file under a name that nobody else uses, and onto
// the disk: whoever sees it under another name later, sees all of it, even after a loss
// of power. The file's descriptor is f's.
func (l *Lock) makePrivate(f *file, n Note) (name string, err error) {
	d := l.dir
	name = l.base + exclSuffix + newInfix + onerun.NewID()
	text, err := n.encode()
	if err != nil {
		return "", refuse(onerun.ErrInternal, "lock file", l.Path, err.Error(), "")
	}
	*f = none()
	if f.fd, err = d.createOpen(name); err != nil {
		return "", d.fail("lock file", name, err)
	}
	d.step("private: made")
	var st unix.Stat_t
	if err = unix.Fstat(f.fd, &st); err == nil {
		f.saw(&st)
		err = f.put(pad(text))
	}
	if err == nil {
		err = again(func() error { return unix.Fsync(f.fd) })
	}
	if err != nil {
		closeFD(&f.fd)
		_ = d.unlink(name)
		return "", d.fail("write lock file", name, err)
	}
	d.step("private: written")
	return name, nil
}

// readTries is how often a file that can't be understood is read: its owner may be just
// replacing its text.
const readTries = 4

// readExcl reads X.excl, or a mark; nil if there is none.
func (d *Dir) readExcl(name string) (*excl, error) {
	x, err := d.openExcl(name)
	if x != nil {
		closeFD(&x.fd)
	}
	return x, err
}

// openExcl is readExcl for somebody who needs the inode not to be used again.
func (d *Dir) openExcl(name string) (*excl, error) {
	fd, err := d.open(name, unix.O_RDONLY, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, d.fail("lock file", name, err)
	}
	x := &excl{file: file{fd: fd}}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		x.saw(&st)
		err = d.regular(name, &st, false)
	}
	if err == nil {
		x.note, x.why = readNote(fd)
		if x.note == nil && !errors.Is(x.why, errEmpty) && !errors.Is(x.why, errNote) {
			err = x.why
		}
	}
	if err != nil {
		closeFD(&x.fd)
		return nil, d.fail("lock file", name, err)
	}
	return x, nil
}

// readNote reads the note in an open file, which its owner may be writing right now.
func readNote(fd int) (*Note, error) {
	for try := 1; ; try++ {
		b, err := readHead(fd)
		if err != nil {
			return nil, err
		}
		note, err := parseNote(b)
		cleared := errors.Is(err, errEmpty) && len(b) > 0 // on purpose: there is nothing to wait for
		if err == nil || cleared || try == readTries {
			return note, err
		}
		time.Sleep(time.Millisecond)
	}
}

func markName(name, owner string) string { return name + markInfix + owner }

// maxMarks bounds how many dead takers can lie on top of each other: each needs a kill
// between two of the same few steps.
const maxMarks = 4

// mark wins the right to replace or remove the file that owner left at name: a link of
// the private file to the name that is made of the two. marked is false, with nothing
// left behind, when name doesn't stand for owner's file any more.
//
// The rule that everything rests on: no process but the one whose private file is the
// mark replaces or removes the file, the owner itself included (see withdraw). A mark
// left by a process that died is taken over by the same steps: it is a file that names
// its maker, like X.excl itself, and its own mark has its name and ".take-" once more.
func (l *Lock) mark(name, owner, private string) (marked bool, held *Held, err error) {
	d, m := l.dir, markName(name, owner)
	if strings.Count(m, markInfix) > maxMarks {
		if l.force { // all that name's maker can do is what it has done: it is dead, or an operator says so
			return false, nil, d.fail("remove lock file", name, d.remove(name))
		}
		return false, &Held{
			Path: d.path + "/" + name, Liveness: onerun.Unknown,
			Evidence: fmt.Sprintf("%d processes in a row died while they took the lock over", maxMarks),
		}, nil
	}
	for {
		err := d.link(private, m)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EEXIST) {
			return false, nil, d.fail("lock file", m, err)
		}
		won, held, err := l.takeMark(m, private)
		if held != nil || err != nil {
			return false, held, err
		}
		if won {
			break
		}
	}
	d.step("takeover: marked")
	// Only now is it certain that the file stays what it is. Between the judgement and the mark, another process may
	// have taken it over from the same dead owner, released it, and a third one made a new lock.
	x, err := d.readExcl(name)
	if err == nil && x != nil && x.identity() == owner {
		d.step("takeover: read again")
		return true, nil, nil
	}
	_ = d.unlink(m) // it is about a file that is gone, so it means nothing any more
	return false, nil, err
}

// takeMark takes over the mark m of a process that died. won is false when it is gone or
// another's meanwhile.
func (l *Lock) takeMark(m, private string) (won bool, held *Held, err error) {
	d := l.dir
	x, err := d.readExcl(m)
	if x == nil || err != nil {
		return false, nil, err
	}
	if held := l.acting(m, x); held != nil {
		return false, held, nil
	}
	d.step("takeover: marker judged dead")
	marked, held, err := l.mark(m, x.identity(), private)
	if !marked || held != nil || err != nil {
		return false, held, err
	}
	// private is needed once more, so a second name of it becomes the mark
	spare := l.base + exclSuffix + newInfix + onerun.NewID()
	if err = d.link(private, spare); err == nil {
		d.step("takeover: spare linked")
		if err = d.rename(spare, m); err != nil {
			_ = d.unlink(spare)
		}
	}
	d.step("takeover: mark renamed")
	_ = d.unlink(markName(m, x.identity())) // about a file that is gone, or barring until we end
	d.step("takeover: mark's mark removed")
	return err == nil, nil, d.fail("lock file", m, err)
}

// acting says whether the maker of a mark may still be at work; nil: it is not.
func (l *Lock) acting(m string, x *excl) *Held {
	h := &Held{Path: l.dir.path + "/" + m, Note: x.note, Liveness: onerun.Unknown}
	if x.note == nil {
		h.Unreadable = true
		h.Evidence = "the mark of a takeover can't be read: " + x.why.Error()
	} else {
		if l.lock.fd >= 0 && x.note.Flock && x.note.Boot != "" && x.note.Boot == thisWorker().Boot {
			return nil // it worked with the flock of this kernel in hand, and we have that now
		}
		v := l.dir.maker(*x.note)
		h.Liveness, h.Evidence = v.Liveness, "it is being taken over; "+v.Evidence
	}
	if h.Liveness == onerun.Dead || h.Liveness == onerun.Unknown && l.force {
		return nil
	}
	return h
}
