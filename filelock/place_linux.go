package filelock

import (
	"context"
	"errors"
	"math"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

// Place is a place in the line for a lock: for those who want it first come, first served.
// Whoever has none needs no line, and may be served before all that stand in it. It is for
// one goroutine.
//
// X.queue has no content: a place is an open file description lock (fcntl(2)) on the byte
// of its number, one more than the greatest that anybody else has. So the kernel gives a
// place back whose owner dies, nothing is ever left to be judged, and no step between two
// of these leaves the line closed to others.
//
// Whoever comes after a place was taken finds it, and gets a greater number: between
// looking and taking, numbers can become free, but what was there before is still there. The
// first is who has a read lock on all lower bytes, which it keeps while it has the place: so
// there is one first, and nobody can take a lower number any more.
type Place struct {
	dir    *Dir
	base   string
	file   file
	number int64
	key    bool
}

// Queue takes the place after all others in the line for a lock. It lasts until Leave, or
// until this process ends, whatever it does meanwhile: one that is stopped by a signal
// keeps its place.
//
// Errors: ctx.Err() when ctx ends first; else as of Acquire; ErrCreate too where the file
// system has no open file description locks.
func (d *Dir) Queue(ctx context.Context, namespace string, lock onerun.LockName) (*Place, error) {
	ns, lock, err := canonical(namespace, lock)
	if err != nil {
		return nil, err
	}
	if d.opt.Looking {
		return nil, refuse(onerun.ErrInternal, "lock directory", d.path, "was opened to look at it alone", "")
	}
	if err := d.retain(); err != nil {
		return nil, err
	}
	p := &Place{dir: d, base: fileName(ns, lock), file: none(), key: lock.Kind() == "key"}
	if err := p.take(ctx); err != nil {
		p.free()
		d.release()
		return nil, err
	}
	return p, nil
}

func (p *Place) name() string { return p.base + queueSuffix }

// take takes a number in the file that has the name now: it may be deleted, and made again,
// between being opened and the number.
func (p *Place) take(ctx context.Context) error {
	for {
		err := p.open()
		for err == nil && p.number == 0 {
			err = p.tryNumber(ctx)
		}
		if err == nil {
			var same bool
			if same, err = p.dir.names(p.name(), p.file.id); same {
				p.dir.step("queue: place taken")
				return nil
			}
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case unsupported(err):
			return p.dir.noLine()
		case err != nil && !errors.Is(err, errRemoved):
			return p.dir.fail("lock file", p.name(), err)
		}
		p.free()
		if err := sleep(ctx, rangePause); err != nil {
			return err
		}
	}
}

func (d *Dir) noLine() error {
	return refuse(onerun.ErrCreate, "lock directory", d.path, "its file system has no open file description locks (fcntl(2)), without which there is no order",
		"leave out --order fifo, or choose another directory with --lock-dir")
}

func (p *Place) open() error {
	if p.dir.opt.noRange {
		return unix.ENOSYS
	}
	fd, _, err := p.dir.openOrCreate(p.name())
	if err != nil {
		return err
	}
	p.file.fd = fd
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	p.file.saw(&st)
	return p.dir.regular(p.name(), &st, true)
}

// errRemoved: somebody is just removing the file, see Leave.
var errRemoved = errors.New("the file is being removed")

// tryNumber takes the number after the last, if nobody else does in that moment.
func (p *Place) tryNumber(ctx context.Context) error {
	last := int64(0)
	for {
		lk, err := taken(p.file.fd, last+1, math.MaxInt64)
		switch {
		case err != nil:
			return err
		case lk == nil:
			p.dir.step("queue: last place seen")
			err := p.set(unix.F_WRLCK, last+1, 1)
			if err == nil {
				p.number = last + 1
			} else if errors.Is(err, unix.EAGAIN) {
				err = sleep(ctx, rangePause)
			}
			return err
		case lk.Len == 0:
			return errRemoved
		}
		last = lk.Start
	}
}

// set locks bytes of the file, without waiting; a length of 0 reaches to its end.
func (p *Place) set(kind int16, start, length int64) error {
	lk := unix.Flock_t{Type: kind, Start: start, Len: length}
	return again(func() error { return unix.FcntlFlock(uintptr(p.file.fd), unix.F_OFD_SETLK, &lk) })
}

// first reports whether all earlier places were given back. Once they are, it stays so.
func (p *Place) first() (bool, error) {
	err := p.set(unix.F_RDLCK, 0, p.number)
	if errors.Is(err, unix.EAGAIN) {
		return false, nil
	}
	return err == nil, p.dir.fail("lock file", p.name(), err)
}

// wait blocks until first. A thread that waits in fcntl(2) can't be called back, so when
// ctx ends it is left behind with a descriptor of its own; the place is given up then.
func (p *Place) wait(ctx context.Context) error {
	if first, err := p.first(); first || err != nil {
		return err
	}
	var fd int
	err := again(func() (err error) {
		fd, err = unix.FcntlInt(uintptr(p.file.fd), unix.F_DUPFD_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return p.dir.fail("lock file", p.name(), err)
	}
	lk := unix.Flock_t{Type: unix.F_RDLCK, Len: p.number}
	got := make(chan error, 1)
	go func() {
		err := again(func() error { return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLKW, &lk) })
		closeFD(&fd) // the last one of a place that was given up: nothing of it is left then
		got <- err
	}()
	select {
	case err := <-got:
		return p.dir.fail("lock file", p.name(), err)
	case <-ctx.Done():
		p.free()
		return ctx.Err()
	}
}

// Leave gives the place back. Further calls do nothing.
//
// X.queue of a job or a name stays. That of a key, since there is no end to keys, goes with
// the last place: when all bytes of it could be locked, so that nobody stands in it or can
// take a place before its name is gone. Whoever has opened it by then finds in take that it
// is.
func (p *Place) Leave() {
	if p.base == "" {
		return
	}
	if p.key && p.number > 0 && p.set(unix.F_WRLCK, 0, 0) == nil {
		if same, err := p.dir.names(p.name(), p.file.id); same && err == nil {
			_ = p.dir.unlink(p.name()) // an empty file does no harm
			p.dir.step("queue: file of the key unlinked")
		}
	}
	p.free()
	p.base = ""
	p.dir.release()
}

// Left reports whether the place was given back, by Leave or because a wait for the lock
// was given up.
func (p *Place) Left() bool { return p.number == 0 }

// free gives back all that is locked. It says so to the kernel before it closes: see
// freeLocks.
func (p *Place) free() {
	if p.file.fd >= 0 {
		_ = p.set(unix.F_UNLCK, 0, 0)
	}
	closeFD(&p.file.fd)
	p.number = 0
}
