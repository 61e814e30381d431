package filelock

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

// stopMax bounds what is read of a request.
const stopMax = 8 << 10

// RequestStop asks the owner of a lock to stop its work. The file X.stop holds that owner's
// id and, on a second line, who asked and why; to any other owner it is nothing.
func (d *Dir) RequestStop(namespace string, lock onerun.LockName, owner, by string) error {
	if err := d.retain(); err != nil {
		return err
	}
	defer d.release()
	name := FileName(namespace, lock) + stopSuffix
	fd, _, err := d.openOrCreate(name)
	if err != nil {
		return d.fail("request to stop", name, err)
	}
	defer closeFD(&fd)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		err = d.regular(name, &st, true)
	}
	text := owner + "\n" + strings.Join(strings.Fields(by), " ") + "\n"
	if err == nil {
		err = again(func() error { return unix.Ftruncate(fd, 0) })
	}
	if err == nil {
		err = again(func() error { _, err := unix.Pwrite(fd, []byte(text), 0); return err })
	}
	return d.fail("request to stop", name, err)
}

// StopRequested says who asked this owner to stop, and why; "" for nobody.
func (l *Lock) StopRequested() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return ""
	}
	fd, err := l.dir.open(l.base+stopSuffix, unix.O_RDONLY, 0)
	if err != nil {
		return "" // nobody has asked, or it can't be read, which is looked at again
	}
	defer closeFD(&fd)
	buf := make([]byte, stopMax)
	n, err := unix.Pread(fd, buf, 0)
	if err != nil || n <= 0 {
		return ""
	}
	owner, by, ok := strings.Cut(string(buf[:n]), "\n")
	if !ok || owner != l.note.Owner || !strings.HasSuffix(by, "\n") {
		return ""
	}
	return onerun.CutError(strings.TrimSpace(by))
}

// dropStop takes a request away that was answered, or came too late.
func (l *Lock) dropStop() { _ = l.dir.unlink(l.base + stopSuffix) }
