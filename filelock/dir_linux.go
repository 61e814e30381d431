package filelock

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

// Options say how a lock directory is to be used. The zero value is right but for
// special file systems.
type Options struct {
	// NoFlock treats the file system as one that has no flock(2): mode create then
	// rests on link(2) alone, and mode flock is refused.
	NoFlock bool
	// AllowNetwork lets the directory be on a file system that other hosts may share.
	AllowNetwork bool
	// Looking is for who only looks: nothing is made or removed, no lock can be taken, and
	// what would be refused as unsafe (who may write there, the kind of file system) is
	// opened all the same, to be looked at. A directory that isn't there has no locks.
	Looking bool

	// Remote is for a ledger on other machines: what waits for it is marked by itself.
	Remote bool

	// Hook is for tests: it is called between any two steps with the name of the one
	// that was just done, and may end the process there.
	Hook func(step string)
	// FSType is for tests: it stands in for the f_type of statfs(2).
	FSType func(path string) int64

	noRange  bool   // for tests: there are no open file description locks
	creating func() // for tests: a file is about to be made, with bits by what the directory was
}

// Dir is an open lock directory. It is safe for concurrent use.
type Dir struct {
	fd      int // O_PATH: all files are reached through it, so the directory can't be exchanged under us
	path    string
	opt     Options
	network string // the name of the network file system; "" for a local one
	tag     uint64 // see offsets

	mu     sync.Mutex
	refs   int // Open and each Lock
	closed bool
}

// Open opens a lock directory, and creates its last element if that is missing: with
// mode 0700, or 2770 below a directory that `onerun init --shared` made.
//
// Every error is a *onerun.StoreError. ErrCreate: the directory above is missing, the
// file system is read-only or another hosts' too (see Options.AllowNetwork), or the
// last element is a symbolic link or no directory. ErrPermission: it is not
// accessible, belongs to another account, or others may write in it; whoever can do
// that can take away locks. The one shared form is the mode 2770: set-group-ID and
// writable by the group. ErrIO: the disk is full or failing.
func Open(path string, o Options) (*Dir, error) {
	path = filepath.Clean(path) // a slash at the end would follow a symbolic link
	d := &Dir{fd: -1, path: path, opt: o, refs: 1}
	if err := d.openOrMake(); err != nil {
		closeFD(&d.fd)
		return nil, storeError("lock directory", path, err)
	}
	return d, nil
}

func (d *Dir) openOrMake() error {
	err := d.openDir()
	made := false
	if errors.Is(err, unix.ENOENT) && d.opt.Looking {
		return nil
	}
	if errors.Is(err, unix.ENOENT) {
		if err = d.make(); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		made = err == nil
		err = d.openDir()
	}
	switch {
	case errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP):
		return d.notDirectory(err)
	case err != nil:
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(d.fd, &st); err != nil {
		return err
	}
	if err := d.checkMode(&st, made); err != nil && !d.opt.Looking {
		return err
	}
	var parent unix.Stat_t
	if err := unix.Fstatat(d.fd, "..", &parent, 0); err != nil {
		return err
	}
	d.tag = tagOf(parent.Dev, parent.Ino, filepath.Base(d.path))
	return d.checkFS()
}

func (d *Dir) openDir() error {
	return again(func() (err error) {
		d.fd, err = unix.Open(d.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
}

// make creates the last element. In a store that accounts share, the first one to
// need the directory makes it for all of them.
func (d *Dir) make() error {
	mode := uint32(0o700)
	var parent unix.Stat_t
	if err := unix.Stat(filepath.Dir(d.path), &parent); err == nil && SharedMode(parent.Mode) {
		mode = sharedDirMode
	}
	if mode == 0o700 {
		return unix.Mkdir(d.path, mode)
	}
	// mkdir(2) takes off the umask and ignores the set-group-ID bit, so the bits come after it; under the final name
	// the other accounts must never see, or be left with, a directory that is closed to them.
	tmp := d.path + newInfix + onerun.NewID()
	if err := unix.Mkdir(tmp, 0o700); err != nil {
		return err
	}
	err := unix.Fchmodat(unix.AT_FDCWD, tmp, mode, 0)
	if err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, d.path, unix.RENAME_NOREPLACE)
	}
	if err != nil {
		_ = unix.Rmdir(tmp) // the first error says more
	}
	return err
}

// notDirectory says which of the two it is.
func (d *Dir) notDirectory(err error) error {
	var st unix.Stat_t
	if unix.Lstat(d.path, &st) == nil {
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			return refuse(onerun.ErrCreate, "lock directory", d.path, "is a symbolic link", "name the directory itself with --lock-dir")
		case unix.S_IFDIR:
		default:
			return refuse(onerun.ErrCreate, "lock directory", d.path, "is not a directory", "name a directory with --lock-dir")
		}
	}
	return err
}

// shared reports whether the directory is a group's now: `onerun init --shared` may make
// it so while we have it open.
func (d *Dir) shared() bool {
	var st unix.Stat_t
	return unix.Fstat(d.fd, &st) == nil && SharedMode(st.Mode)
}

func (d *Dir) checkMode(st *unix.Stat_t, made bool) error {
	no := func(why, do string) error {
		return refuse(onerun.ErrPermission, "lock directory", d.path, why, do)
	}
	shared := SharedMode(st.Mode)
	me := uint32(unix.Geteuid())
	switch {
	case made && !shared && st.Mode&0o700 != 0o700: // a umask that takes the owner's bits
		return unix.Fchmodat(unix.AT_FDCWD, d.path, 0o700, 0)
	case st.Mode&0o002 != 0:
		return no("every account can write in it, and so remove locks", "type: chmod o-w "+d.path)
	case st.Mode&0o020 != 0 && !shared:
		return no("its group can write in it, and so remove locks", fmt.Sprintf("type: chmod g-w %s   (or, to share it with that group: chmod 2770 %s)", d.path, d.path))
	case st.Uid != me && st.Uid != 0 && !shared:
		return no(fmt.Sprintf("it belongs to uid %d, and this account is uid %d", st.Uid, me), fmt.Sprintf("run as its owner, or type: chown %d %s   (or, to share it with its group: chmod 2770 %s)", me, d.path, d.path))
	}
	return nil
}

func (d *Dir) checkFS() error {
	var fs unix.Statfs_t
	if err := again(func() error { return unix.Fstatfs(d.fd, &fs) }); err != nil {
		return err
	}
	if d.opt.FSType != nil {
		fs.Type = d.opt.FSType(d.path)
	}
	if fs.Flags&unix.ST_RDONLY != 0 && !d.opt.Looking {
		return unix.EROFS
	}
	name, network := Network(fs.Type)
	if network && !d.opt.AllowNetwork && !d.opt.Looking {
		return refuse(onerun.ErrCreate, "lock directory", d.path,
			"is on a network file system ("+name+"), where a lock may hold on one host only",
			"choose a local directory with --lock-dir, use a store for many machines, or take the risk with ?network=unsafe")
	}
	d.network = name
	return nil
}

// Close gives back the directory's descriptor, at once or when the last lock of it is
// released: a lock still needs it, and a number that is freed too early is soon that of
// some other file. Further calls do nothing.
func (d *Dir) Close() error {
	d.mu.Lock()
	first := !d.closed
	d.closed = true
	d.mu.Unlock()
	if first {
		d.release()
	}
	return nil
}

// absent reports that there is no directory to look into.
func (d *Dir) absent() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opt.Looking && d.fd < 0
}

// retain keeps the descriptor open until release.
func (d *Dir) retain() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return &onerun.StoreError{Kind: onerun.ErrUnavailable, What: "lock directory", Path: d.path, Err: onerun.ErrClosed, Do: "close it when the jobs on it have ended"}
	}
	d.refs++
	return nil
}

// share is retain for what a held lock still needs after Close. It reports whether the
// descriptor is there, and then wants a release.
func (d *Dir) share() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refs == 0 {
		return false
	}
	d.refs++
	return true
}

func (d *Dir) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refs--; d.refs == 0 {
		closeFD(&d.fd)
	}
}

// step tells the tests that something was done.
func (d *Dir) step(name string) {
	if d.opt.Hook != nil {
		d.opt.Hook(name)
	}
}

// unsupported reports whether a file system answered that it has no locks of a kind.
func unsupported(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOLCK) || errors.Is(err, unix.EINVAL)
}
