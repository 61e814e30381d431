package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

// Request says which lock is wanted, by whom and how.
type Request struct {
	Namespace    string
	Lock         onerun.LockName
	Mode         onerun.LockMode // "": flock
	Owner        string          // random id of this acquisition, see onerun.NewID
	Job          string          // of a key lock: the name that its note shows; "": the key's job
	VersionLabel string
	Wait         bool // block until the lock is free

	// InLine is for first come, first served: the lock is had by who is first in line, or
	// else when nobody stands in it. Place is the caller's, of Queue; nil: it has none, and
	// Wait doesn't wait for those who have.
	InLine bool
	Place  *Place
}

// Held says that somebody has the lock. It is an answer, not an error.
type Held struct {
	Path       string          // the file that says so
	Note       *Note           // what stands in it; nil: nothing, or nothing readable
	Liveness   onerun.Liveness // of the holder or its work; never Dead
	Evidence   string          // one line for people
	Unreadable bool            // an .excl that can't be understood: it stands until `onerun unlock`
	Behind     bool            // others stand in line before who asks, whether somebody holds the lock or not
}

// Holder puts it as a claim's refusal names whoever stands in the way.
func (h Held) Holder() onerun.Holder {
	holder := onerun.Holder{Detail: h.Evidence}
	if n := h.Note; n != nil {
		holder.Name, holder.Worker, holder.Since = n.Name, n.Worker(), n.StartedAt
		holder.RunID, holder.Attempt = n.RunID, n.Attempt
	}
	return holder
}

// Acquire takes a lock. Exactly one of the three results is not nil.
//
// A *Lock may come with a note of an owner that died, and a Verdict about that owner's
// work; the caller decides, and gives the lock back with Release if it must not start.
//
// With Wait, what is locked is waited for in flock(2), and the error is ctx.Err() when
// ctx ends first. What can't be waited for, a file of mode create that stands in the
// way, is Held at once; the caller asks again later then, and keeps its place in line.
//
// Errors: onerun.ErrUsage for a malformed request; else a *onerun.StoreError:
// ErrPermission, ErrCreate (a link, directory or FIFO in the way, the directory
// vanished, no flock here in mode flock) or ErrIO. A failure leaves nothing behind
// and is never reported as Held.
func (d *Dir) Acquire(ctx context.Context, r Request) (*Lock, *Held, error) {
	l, err := d.newLock(r)
	if err != nil {
		return nil, nil, err
	}
	held, err := l.acquire(ctx)
	if held == nil && err == nil {
		return l, nil, nil
	}
	l.abandon()
	return nil, held, err
}

// newLock checks a request. What it returns holds nothing yet but the directory.
func (d *Dir) newLock(r Request) (*Lock, error) {
	ns, name, err := canonical(r.Namespace, r.Lock)
	if err != nil {
		return nil, err
	}
	usage := func(why string) error { return refuse(onerun.ErrUsage, "lock "+string(name), "", why, "") }
	switch {
	case r.Mode == "":
		r.Mode = onerun.LockFlock
	case r.Mode != onerun.LockFlock && r.Mode != onerun.LockCreate:
		return nil, usage(fmt.Sprintf("mode %q is neither flock nor create", r.Mode))
	}
	if !isOwner(r.Owner) {
		return nil, usage(fmt.Sprintf("owner id %q is not 8 to 32 lower case hexadecimal digits", r.Owner))
	}
	if d.opt.NoFlock && r.Mode == onerun.LockFlock {
		return nil, d.noFlock()
	}
	if d.opt.Looking {
		return nil, refuse(onerun.ErrInternal, "lock directory", d.path, "was opened to look at it alone", "")
	}
	if err := d.retain(); err != nil {
		return nil, err
	}
	r.Namespace, r.Lock = ns, name
	base := fileName(ns, name)
	l := &Lock{dir: d, req: r, base: base, lock: none(), held: none(), excl: none()}
	l.Path = d.path + "/" + base + lockSuffix
	if r.Mode == onerun.LockCreate {
		l.Path = d.path + "/" + base + exclSuffix
	}
	l.note = Note{
		Kind: name.Kind(), Name: shownName(name), Namespace: ns, Owner: r.Owner,
		VersionLabel: r.VersionLabel, State: StateStarting, StartedAt: time.Now().Round(time.Millisecond),
	}
	if r.Job != "" && name.Kind() == "key" {
		l.note.Name = r.Job
	}
	l.note.setWorker(thisWorker())
	l.note.UID = os.Getuid()
	return l, nil
}

func (d *Dir) noFlock() error {
	return refuse(onerun.ErrCreate, "lock directory", d.path, "its file system has no flock(2)", "use --lock-mode create, or choose another directory with --lock-dir")
}

// acquire takes one layer after the other.
func (l *Lock) acquire(ctx context.Context) (*Held, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if l.req.InLine {
		if held, err := l.inLine(ctx); held != nil || err != nil {
			return held, err
		}
	}
	if !l.dir.opt.NoFlock {
		if held, err := l.takeLocks(ctx); held != nil || err != nil {
			return held, err
		}
	}
	if l.lock.fd < 0 && l.req.Mode == onerun.LockFlock {
		return nil, l.dir.noFlock()
	}
	l.note.Flock = l.lock.fd >= 0
	if err := l.readPrevious(); err != nil {
		return nil, err
	}
	if l.req.Mode == onerun.LockCreate {
		return l.publish()
	}
	return l.clearWay()
}

// takeLocks takes the flock and the byte range: layers 1 and 2. Without an error it
// leaves l.lock open, or closed where the file system has no flock.
func (l *Lock) takeLocks(ctx context.Context) (*Held, error) {
	pause := rangePause
	for {
		held, err := l.takeFlock(ctx)
		if held != nil || err != nil || l.lock.fd < 0 {
			return held, err
		}
		held, err = l.takeRange(ctx)
		if held == nil || err != nil {
			return nil, err
		}
		// The flock was free, the range isn't: the lock file was deleted under its holder.
		l.dropFresh()
		l.freeLocks()
		if !l.req.Wait {
			return held, nil
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
		pause = min(2*pause, time.Second)
	}
}

// takeFlock opens X.lock, takes its flock, and makes sure that the name still stands
// for the file that is locked now: it may have been deleted, and made again by
// somebody else, between the two.
func (l *Lock) takeFlock(ctx context.Context) (*Held, error) {
	name := l.base + lockSuffix
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var err error
		if l.lock.fd, l.fresh, err = l.dir.openOrCreate(name); err != nil {
			return nil, l.dir.fail("lock file", name, err)
		}
		l.dir.step("acquire: lock file opened")
		err = again(func() error { return unix.Flock(l.lock.fd, unix.LOCK_EX|unix.LOCK_NB) })
		if errors.Is(err, unix.EWOULDBLOCK) {
			l.fresh = false
			if !l.req.Wait {
				return l.heldBy(name), nil
			}
			if err = l.waitFlock(ctx); l.lock.fd < 0 {
				return nil, err
			}
		}
		if err != nil {
			l.dropFresh()
			if unsupported(err) {
				closeFD(&l.lock.fd)
				return nil, nil
			}
			return nil, l.dir.fail("lock file", name, err)
		}
		l.dir.step("acquire: flock taken")
		same, err := l.compareLock(name)
		if err != nil {
			return nil, l.dir.fail("lock file", name, err)
		}
		if same {
			l.dir.step("acquire: name compared")
			return nil, nil
		}
		l.fresh = false
		l.freeLocks()
	}
}

// compareLock looks at the locked file, whose holder may have changed it until now, and
// tells whether it is still the one that the name stands for.
func (l *Lock) compareLock(name string) (same bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(l.lock.fd, &st); err != nil {
		return false, err
	}
	if err := l.dir.regular(name, &st, true); err != nil {
		return false, err
	}
	l.lock.saw(&st)
	return l.dir.names(name, l.lock.id)
}

// waitFlock blocks in flock(2) until the lock is had or ctx ends. A thread that waits
// there can't be called back, so in the second case it is left behind with the
// descriptor, and lets go of the lock in the moment it gets it.
func (l *Lock) waitFlock(ctx context.Context) error {
	fd := l.lock.fd
	got := make(chan error)
	go func() {
		err := again(func() error { return unix.Flock(fd, unix.LOCK_EX) })
		select {
		case got <- err: // the caller is there, so it has the descriptor
		case <-ctx.Done():
			unlock(&fd)
		}
	}()
	select {
	case err := <-got:
		return err
	case <-ctx.Done():
		l.lock.fd = -1
		return ctx.Err()
	}
}

// heldBy describes the holder of a flock by the note in the locked file.
func (l *Lock) heldBy(name string) *Held {
	h := &Held{Path: l.dir.path + "/" + name, Liveness: onerun.Alive}
	note, err := readNote(l.lock.fd)
	switch {
	case err == nil:
		h.Note = note
		h.Evidence = fmt.Sprintf("its lock file is locked; noted in it: process %d on %s, %s", note.PID, hostOf(*note), note.State) + leftBehind(*note)
	case errors.Is(err, errEmpty):
		h.Evidence = "its lock file is locked, by a process that has not noted itself yet"
	default:
		h.Evidence = "its lock file is locked; its note can't be read: " + err.Error()
	}
	return h
}

// readPrevious reads and judges what the last owner left in X.lock. The lock is free,
// and now ours, so nobody writes there any more.
func (l *Lock) readPrevious() error {
	if l.lock.fd < 0 || l.lock.size == 0 {
		return nil
	}
	b, err := readHead(l.lock.fd)
	if err != nil {
		return l.dir.fail("lock file", l.base+lockSuffix, err)
	}
	switch note, err := parseNote(b); {
	case err == nil:
		l.Previous, l.Verdict = note, l.dir.work(*note, true, false)
	case !errors.Is(err, errEmpty):
		l.PreviousUnreadable, l.Verdict = true, unknown("the note in the lock file can't be read: "+err.Error())
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
