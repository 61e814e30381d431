package filelock

import (
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

// OpenSpool opens the file of an unclaimed run by its owner; nil: there is none.
//
// Errors: as of Acquire; ErrIO for a file that can't be understood.
func (d *Dir) OpenSpool(namespace string, lock onerun.LockName, owner string) (*Spool, Spooled, error) {
	if !isOwner(owner) {
		return nil, Spooled{}, nil
	}
	return d.openSpool(FileName(namespace, lock) + spoolInfix + owner)
}

// Spool opens the file that was found; nil: it is gone.
func (d *Dir) Spool(found Spooled) (*Spool, Spooled, error) {
	return d.openSpool(found.Base + spoolInfix + found.Owner)
}

func (d *Dir) openSpool(name string) (*Spool, Spooled, error) {
	if err := d.retain(); err != nil {
		return nil, Spooled{}, err
	}
	s := &Spool{dir: d, name: name, fd: -1}
	found, endAt, err := d.readSpool(name, unix.O_RDWR, &s.fd)
	if s.endAt = endAt; err == nil {
		err = found.Err
	}
	if err != nil || s.fd < 0 {
		s.Close()
		return nil, found, err
	}
	return s, found, nil
}

// Spooled lists the unclaimed runs that wait in the directory, those that began first first. One
// that can't be read is among them, with the reason.
func (d *Dir) Spooled() ([]Spooled, error) {
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
	var all []Spooled
	for _, name := range names {
		if _, _, private, ok := splitSpool(name); !ok || private {
			continue
		}
		fd := -1
		found, _, err := d.readSpool(name, unix.O_RDONLY, &fd)
		switch {
		case err != nil:
			found.Err = err
		case fd < 0: // it was delivered meanwhile
			continue
		}
		closeFD(&fd)
		all = append(all, found)
	}
	slices.SortStableFunc(all, func(a, b Spooled) int { return a.Run.StartedAt.Compare(b.Run.StartedAt) })
	return all, nil
}

// splitSpool takes the name of a spool file apart; private: one that is still being made.
func splitSpool(name string) (base, owner string, private, ok bool) {
	i := strings.LastIndex(name, spoolInfix)
	if i < hashDigits+1 {
		return "", "", false, false
	}
	base, owner = name[:i], name[i+len(spoolInfix):]
	owner, _, private = strings.Cut(owner, newInfix)
	hash := base[len(base)-hashDigits-1:]
	return base, owner, private, isOwner(owner) && hash[0] == '-' && isOwner(hash[1:])
}

// readSpool reads a file, and leaves it open in fd; where there is none, fd stays as it is. Its
// owner may be just writing the end.
func (d *Dir) readSpool(name string, flags int, fd *int) (found Spooled, endAt int64, err error) {
	base, owner, _, _ := splitSpool(name)
	found = Spooled{Path: d.path + "/" + name, Base: base, Owner: owner}
	fail := func(err error) (Spooled, int64, error) {
		closeFD(fd)
		return found, 0, d.fail("spool file", name, err)
	}
	*fd, err = d.open(name, flags, 0)
	if errors.Is(err, unix.ENOENT) {
		return found, 0, nil
	}
	if err != nil {
		return fail(err)
	}
	for try := 1; ; try++ {
		var st unix.Stat_t
		if err = unix.Fstat(*fd, &st); err == nil {
			err = d.regular(name, &st, true)
		}
		var text []byte
		if err == nil {
			text, err = readAll(*fd, st.Size)
		}
		if err != nil {
			return fail(err)
		}
		at, why := found.parse(text)
		if why == nil {
			return found, int64(at), nil
		}
		if try == readTries {
			found.Err = refuse(onerun.ErrIO, "spool file", found.Path, why.Error(),
				"it is of a run that was executed without a claim; find out what became of it, then remove the file")
			return found, 0, nil
		}
		time.Sleep(time.Millisecond)
	}
}

// readAll reads a file of a size.
func readAll(fd int, size int64) ([]byte, error) {
	text := make([]byte, min(size, spoolMax))
	for at := 0; at < len(text); {
		var n int
		err := again(func() (err error) { n, err = unix.Pread(fd, text[at:], int64(at)); return err })
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return text[:at], nil
		}
		at += n
	}
	return text, nil
}

// SameBoot reports whether the process that is noted as executing the run belongs to this
// boot of this host: then what was written here, and isn't there, was never written.
func (s Spooled) SameBoot() bool {
	return s.Run.Worker.Boot != "" && s.Run.Worker.Boot == thisWorker().Boot
}

// isPrivateSpool reports whether a name is that of a spool file that is still being made.
func isPrivateSpool(name string) bool {
	_, _, private, ok := splitSpool(name)
	return private && ok
}
