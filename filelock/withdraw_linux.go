package filelock

import (
	"context"
	"errors"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

// withdraw removes our X.excl, if it is still ours. Somebody may have removed it on an
// operator's word, and a third process may have its own there now. So we need the mark
// like everybody else; being the owner, we don't have to make a file for it.
func (l *Lock) withdraw() error {
	d, name := l.dir, l.base+exclSuffix
	defer closeFD(&l.excl.fd)
	if !l.published {
		return nil
	}
	l.published = false
	if l.lock.fd < 0 && l.written && l.note.State == StateEnded {
		return l.leave()
	}
	fail := func(err error) error { return d.fail("remove lock file", name, err) }
	if l.adopted {
		return fail(l.withdrawMarked(name))
	}
	m := markName(name, l.ownIdentity())
	for range ownMarkTries {
		same, err := d.names(name, l.excl.id)
		if !same || err != nil {
			return fail(err)
		}
		err = d.link(name, m)
		switch {
		case err == nil:
			if done, err := l.withdrawLinked(name, m); done || err != nil {
				return fail(err)
			}
		case errors.Is(err, unix.ENOENT): // X.excl is gone
			return nil
		case errors.Is(err, unix.EEXIST): // an operator's unlock is at it
			_ = sleep(context.Background(), ownMarkPause)
		default:
			return fail(err)
		}
	}
	return refuse(onerun.ErrIO, "remove lock file", d.path+"/"+name, "another process is removing it", "if it stays: onerun unlock")
}

// ownIdentity is what others take our X.excl for. Somebody may have written into it.
func (l *Lock) ownIdentity() string {
	x := excl{file: l.excl}
	x.note, _ = readNote(l.excl.fd)
	return x.identity()
}

const (
	ownMarkTries = 100
	ownMarkPause = 10 * time.Millisecond
)

// withdrawLinked unlinks X.excl with the mark m set, which is a link of what X.excl was
// then. done is false when that was not ours, or somebody deleted the mark.
func (l *Lock) withdrawLinked(name, m string) (done bool, err error) {
	d := l.dir
	d.step("release: marked")
	done, err = d.names(m, l.excl.id)
	if done {
		// X.excl was ours when it was linked, and from then on nobody else may touch it.
		err = d.remove(name)
		d.step("release: .excl unlinked")
	}
	if e := d.remove(m); err == nil {
		err = e
	}
	d.step("release: mark removed")
	return done, err
}

// withdrawMarked is the same for a guard: the file names the wrapper, so it can't be the
// mark of this process, which others would take for dead.
func (l *Lock) withdrawMarked(name string) error {
	same, err := l.dir.names(name, l.excl.id)
	if !same || err != nil {
		return err
	}
	l.note.setWorker(thisWorker())
	_, held, err := l.removeExcl(name, l.ownIdentity())
	if held != nil && err == nil {
		err = errors.New(held.Evidence)
	}
	return err
}

// leave lets X.excl stand, because without a flock it is the one place where the outcome
// is kept until somebody takes it up; and says in it that the lock itself is free.
func (l *Lock) leave() error {
	l.note.Released = true
	text, err := l.note.encode()
	if err == nil {
		err = l.excl.put(pad(text))
	}
	l.dir.step("release: outcome left")
	return l.dir.fail("lock file", l.base+exclSuffix, err)
}

// sweepAge is how old a private file without a readable note must be to be garbage: its
// maker was killed before it wrote. If it lives after all, its link(2) fails.
const sweepAge = time.Hour

// sweep removes the private files and marks that dead processes left. It is called where
// something was taken over, and when the directory is listed.
//
// A private file may go when its maker is dead; nobody else knows its name. A mark may
// go when its maker is dead and the file that it is about names another owner, or is
// gone: no file ever names that dead owner again, so the mark bars and allows nothing.
func (d *Dir) sweep() {
	names, err := d.files()
	if err != nil {
		return // it is only tidying
	}
	for _, name := range names {
		switch i := strings.LastIndex(name, markInfix); {
		case i >= 0 && strings.Contains(name, exclSuffix+markInfix):
			d.sweepMark(name, name[:i], name[i+len(markInfix):])
		case strings.Contains(name, exclSuffix+newInfix), strings.Contains(name, lockSuffix+newInfix), strings.Contains(name, queueSuffix+newInfix), strings.HasPrefix(name, heldName+newInfix), isPrivateSpool(name):
			d.sweepPrivate(name)
		}
	}
}

func (d *Dir) sweepPrivate(name string) {
	x, err := d.readExcl(name)
	if x == nil || err != nil {
		return
	}
	if x.note == nil {
		var st unix.Stat_t
		if unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || time.Since(time.Unix(st.Mtim.Unix())) < sweepAge {
			return
		}
	} else if d.maker(*x.note).Liveness != onerun.Dead {
		return
	}
	_ = d.unlink(name)
}

func (d *Dir) sweepMark(name, about, owner string) {
	x, err := d.readExcl(name)
	if x == nil || x.note == nil || err != nil || d.maker(*x.note).Liveness != onerun.Dead {
		return
	}
	at, err := d.readExcl(about)
	if err != nil || at != nil && at.identity() == owner {
		return
	}
	_ = d.unlink(name)
}
