package filelock

import (
	"context"
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

// Queued says how many stand in the line for a lock. It takes nothing.
func (d *Dir) Queued(namespace string, lock onerun.LockName) (int, error) {
	ns, lock, err := canonical(namespace, lock)
	if err != nil || d.absent() {
		return 0, err
	}
	if err := d.retain(); err != nil {
		return 0, err
	}
	defer d.release()
	return d.queued(fileName(ns, lock))
}

// Line says who is in the way of one who has no place, when somebody stands in the line for
// a lock; else nil. It takes nothing.
func (d *Dir) Line(namespace string, lock onerun.LockName) (*Held, error) {
	n, err := d.Queued(namespace, lock)
	if n == 0 || err != nil {
		return nil, err
	}
	return d.behind(FileName(namespace, lock), n)
}

func (d *Dir) queued(base string) (int, error) {
	name := base + queueSuffix
	fd, err := d.open(name, unix.O_RDONLY, 0)
	if errors.Is(err, unix.ENOENT) {
		return 0, nil
	}
	if err != nil {
		return 0, d.fail("lock file", name, err)
	}
	defer closeFD(&fd)
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil {
		err = d.regular(name, &st, false)
	}
	n := 0
	if err == nil {
		n, err = count(fd, 0, math.MaxInt64)
	}
	if unsupported(err) { // then nobody can have a place here
		return 0, nil
	}
	return n, d.fail("lock file", name, err)
}

// taken finds a number that somebody else has, of those from..to-1; nil: nobody has one.
// It is any of them, which one is the kernel's choice.
func taken(fd int, from, to int64) (*unix.Flock_t, error) {
	if from >= to {
		return nil, nil
	}
	// A read lock is asked for, since the one that the first in line has is in nobody's way.
	lk := unix.Flock_t{Type: unix.F_RDLCK, Start: from, Len: to - from}
	err := again(func() error { return unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &lk) })
	if err != nil || lk.Type == unix.F_UNLCK {
		return nil, err
	}
	return &lk, nil
}

// count counts the numbers from..to-1 that others have.
func count(fd int, from, to int64) (int, error) {
	n := 0
	for {
		lk, err := taken(fd, from, to)
		if lk == nil || err != nil {
			return n, err
		}
		before, err := count(fd, from, lk.Start)
		if err != nil {
			return n, err
		}
		n += before + 1
		if lk.Len == 0 { // being removed: whoever does that has the last place
			return n, nil
		}
		from = lk.Start + 1
	}
}

// inLine lets a lock be taken by who is the first in line, and by who has no place when
// nobody has one. Else it says who is in the way.
func (l *Lock) inLine(ctx context.Context) (*Held, error) {
	p := l.req.Place
	if p == nil {
		n, err := l.dir.queued(l.base)
		if n == 0 || err != nil {
			return nil, err
		}
		return l.dir.behind(l.base, n)
	}
	if p.base != l.base || p.number == 0 {
		return nil, refuse(onerun.ErrInternal, "lock file", l.Path, "the place in line was given back, or is one for another lock", "")
	}
	if l.req.Wait {
		return nil, p.wait(ctx)
	}
	first, err := p.first()
	if first || err != nil {
		return nil, err
	}
	n, err := count(p.file.fd, 0, p.number)
	if err != nil {
		return nil, p.dir.fail("lock file", p.name(), err)
	}
	return l.dir.behind(l.base, n)
}

// behind describes what n others in line wait for: the holder of the lock, if there is one
// just now.
func (d *Dir) behind(base string, n int) (*Held, error) {
	who := fmt.Sprintf("%d starts with --order fifo wait in line before this one", n)
	if n == 1 {
		who = "a start with --order fifo waits in line before this one"
	}
	s, err := d.look(base)
	if err != nil {
		return nil, err
	}
	if !s.Held {
		return &Held{Path: d.path + "/" + base + queueSuffix, Liveness: onerun.Alive, Evidence: who, Behind: true}, nil
	}
	return &Held{
		Path: s.Path, Note: s.Note, Liveness: s.Verdict.Liveness, Evidence: s.Verdict.Evidence + "; " + who,
		Unreadable: s.Mode == onerun.LockCreate && s.Unreadable, Behind: true,
	}, nil
}
