package filelock

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

// Spool is the file of an unclaimed run, open for its end to be written. Its descriptor is
// never inherited.
type Spool struct {
	dir   *Dir
	name  string
	endAt int64

	mu     sync.Mutex
	fd     int
	closed bool
}

// Spool makes the file of an unclaimed run that is about to be executed under this lock: on
// the disk when it returns, with room for the run's end.
//
// Errors: ErrIO when there is no room; else as of Acquire. Nothing is left then.
func (l *Lock) Spool(u Unclaimed) (*Spool, error) { return l.spool(u, nil) }

// SpoolEnd makes the file of a run that has ended, in place of one that was made before: on the
// disk when it returns.
//
// Errors: as of Spool.
func (l *Lock) SpoolEnd(u Unclaimed, out onerun.Outcome) error {
	s, err := l.spool(u, &out)
	if err == nil {
		s.Close()
	}
	return err
}

// Unspool removes the file of the lock's owner, if there is one: its store has the run.
func (l *Lock) Unspool() {
	l.mu.Lock()
	owner := l.note.Owner
	l.mu.Unlock()
	l.dir.Unspool(l.base, owner)
}

// Unspool removes the file of an owner, under the lock whose files begin with base, if there is one.
func (d *Dir) Unspool(base, owner string) {
	if !isOwner(owner) || d.retain() != nil {
		return
	}
	defer d.release()
	_ = d.remove(base + spoolInfix + owner) // one that stays is delivered again, which changes nothing
}

func (l *Lock) spool(u Unclaimed, out *onerun.Outcome) (*Spool, error) {
	l.mu.Lock()
	owner, released := l.note.Owner, l.released
	l.mu.Unlock()
	if released {
		return nil, errReleased(l.Path)
	}
	u.Claim.Namespace, u.Claim.Lock, u.Claim.LockMode, u.Claim.Owner = l.req.Namespace, l.req.Lock, l.req.Mode, owner
	text, endAt, err := u.encode()
	if err == nil && out != nil {
		var end []byte
		end, err = encodeEnd(NewOutcome(*out))
		text = append(text[:endAt], end...)
	}
	if err != nil {
		return nil, refuse(onerun.ErrInternal, "spool file", l.Path, err.Error(), "")
	}
	d := l.dir
	s := &Spool{dir: d, name: l.base + spoolInfix + owner, endAt: int64(endAt), fd: -1}
	if err := d.retain(); err != nil {
		return nil, err
	}
	if err := s.make(text); err != nil {
		s.Close()
		return nil, d.fail("spool file", s.name, err)
	}
	if out != nil {
		s.writeOutput(out.Output)
	}
	return s, nil
}

// make makes the file whole under a name that nobody else uses, and then gives it its own.
func (s *Spool) make(text []byte) (err error) {
	d, private := s.dir, s.name+newInfix+onerun.NewID()
	if s.fd, err = d.createOpen(private); err != nil {
		return err
	}
	d.step("spool: private file made")
	// Room that is asked for and not written can still be missing on some file systems: it is written, too.
	err = again(func() error { return unix.Fallocate(s.fd, 0, 0, int64(len(text))) })
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) && !errors.Is(err, unix.EIO) {
		err = s.write(text, 0)
	}
	if err == nil {
		err = again(func() error { return unix.Fsync(s.fd) })
	}
	if err == nil {
		d.step("spool: written")
		err = d.rename(private, s.name)
	}
	if err != nil {
		_ = d.unlink(private)
		return err
	}
	if err = d.syncNames(); err != nil {
		_ = d.unlink(s.name)
	}
	d.step("spool: named")
	return err
}

func (s *Spool) write(text []byte, at int64) error {
	for len(text) > 0 {
		var n int
		err := again(func() (err error) { n, err = unix.Pwrite(s.fd, text, at); return err })
		if err != nil {
			return err
		}
		text, at = text[n:], at+int64(n)
	}
	return nil
}

// syncNames waits until the names of the directory are on the disk.
func (d *Dir) syncNames() error {
	fd, err := d.open(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer closeFD(&fd)
	return again(func() error { return unix.Fsync(fd) })
}

// Begin writes that the job is about to be started. It doesn't wait for the disk: in another boot
// nothing follows from its absence.
func (s *Spool) Begin() error {
	text, err := encodeEnd(Outcome{Status: onerun.Running})
	if err != nil {
		return refuse(onerun.ErrInternal, "spool file", s.path(), err.Error(), "")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errReleased(s.path())
	}
	err = s.write(text, s.endAt)
	s.dir.step("spool: begun")
	return s.dir.fail("spool file", s.name, err)
}

// End writes how the run has ended, in place of an end that was written before, and waits
// until it is on the disk. What the job printed is kept where there is room for it.
func (s *Spool) End(out onerun.Outcome) error {
	text, err := encodeEnd(NewOutcome(out))
	if err != nil {
		return refuse(onerun.ErrInternal, "spool file", s.path(), err.Error(), "")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errReleased(s.path())
	}
	s.writeOutput(out.Output)
	if err = s.write(text, s.endAt); err == nil {
		s.dir.step("spool: end written")
		err = again(func() error { return unix.Fdatasync(s.fd) })
	}
	return s.dir.fail("spool file", s.name, err)
}

// writeOutput keeps what was printed behind the end; without room, nothing of it.
func (s *Spool) writeOutput(o *onerun.Output) {
	at := s.endAt + endRoom
	var text []byte
	if o != nil {
		c := o.Cleaned()
		text, _ = jsonLine(spoolOutput{c.Text, c.Total, c.Truncated}) // strings and numbers always can be
	}
	if len(text) > 0 && s.write(text, at) == nil {
		at += int64(len(text))
	}
	_ = again(func() error { return unix.Ftruncate(s.fd, at) }) // behind a whole line nothing is read
}

// Remove removes the file: its store has the run, or the run never began.
func (s *Spool) Remove() error {
	err := s.dir.fail("spool file", s.name, s.dir.remove(s.name))
	s.Close()
	return err
}

// Close lets go of the file, and leaves it. Further calls do nothing.
func (s *Spool) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	closeFD(&s.fd)
	s.dir.release()
}

func (s *Spool) path() string { return s.dir.path + "/" + s.name }

// SetSpooled marks that an unclaimed run waits, as SetWaiting does; it is on the disk when it
// returns. Without the mark no other start would look.
//
// Errors: ErrIO.
func (d *Dir) SetSpooled() error {
	d.SetWaiting()
	if d.Waiting() == d.DeliveredUntil() {
		return refuse(onerun.ErrIO, "lock directory", d.path, "that a run waits here can't be noted in "+heldName, "is the disk full, or the file somebody else's?")
	}
	fd, err := d.open(heldName, unix.O_RDWR, 0)
	if err == nil {
		err = again(func() error { return unix.Fdatasync(fd) })
		closeFD(&fd)
	}
	return d.fail("lock directory", heldName, err)
}

// Of is the file as whoever lists the directory finds it, before it has an end.
func (s *Spool) Of(u Unclaimed) Spooled {
	base, owner, _, _ := splitSpool(s.name)
	return Spooled{Path: s.path(), Base: base, Owner: owner, Run: u}
}
