package filelock

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

// networkTypes are the f_type numbers (statfs(2), linux/magic.h and the file systems'
// own sources) of file systems that other hosts may have mounted at the same time, or
// that can hide one such: flock(2) holds on one host only there, or on none. FUSE, and
// with it virtiofs, is one of them because nothing tells what is behind it.
var networkTypes = map[uint32]string{
	0x00006969: "NFS",
	0x0000517B: "SMB",
	0xFF534D42: "CIFS",
	0xFE534D42: "SMB2",
	0x5346414F: "AFS",
	0x6B414653: "AFS",
	0x73757245: "Coda",
	0x0000564C: "NCP",
	0x01021997: "9P",
	0x00C36400: "Ceph",
	0x0BD00BD0: "Lustre",
	0x47504653: "GPFS",
	0x01161970: "GFS2",
	0x7461636F: "OCFS2",
	0x19830326: "BeeGFS",
	0xAAD7AAEA: "PanFS",
	0x20030528: "OrangeFS",
	0x61636673: "ACFS",
	0xBEEFDEAD: "SNFS",
	0x013111A8: "IBRIX",
	0x786F4256: "VirtualBox shared folder",
	0xBACBACBC: "VMware shared folder",
	0x7C7C6673: "Parallels shared folder",
	0x65735546: "FUSE",
}

// Network tells whether a file system of this f_type (statfs(2)) may be shared with
// other hosts, and its name.
func Network(magic int64) (name string, network bool) {
	name, network = networkTypes[uint32(magic)] // some kernels sign-extend it
	return name, network
}

// openFlags are those of every file in a lock directory. O_CLOEXEC: no job may ever
// inherit a lock. O_NOFOLLOW: no planted link leads out of the directory. O_NONBLOCK:
// no planted FIFO can make open(2) wait.
const openFlags = unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY

// again repeats a system call that a signal interrupted.
func again(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (d *Dir) open(name string, flags int, mode uint32) (fd int, err error) {
	err = again(func() (err error) {
		fd, err = unix.Openat(d.fd, name, flags|openFlags, mode)
		return err
	})
	if err != nil {
		return -1, err
	}
	return fd, nil
}

func closeFD(fd *int) {
	if *fd >= 0 {
		_ = unix.Close(*fd) // nothing is buffered in it, and there is no second try: close(2)
	}
	*fd = -1
}

// create makes a new file for reading and writing. It has its final permission bits,
// whatever the umask, from the moment its name exists: with 0660 less the umask first
// and fchmod(2) after, another account of the group would see a file that it can't
// open, for ever if the maker died in between. EEXIST if there is one already.
func (d *Dir) create(name string) (fd int, err error) {
	if !d.shared() {
		return d.createOpen(name)
	}
	tmp := name + newInfix + onerun.NewID()
	if fd, err = d.createOpen(tmp); err != nil {
		return -1, err
	}
	d.step("create: private file made")
	err = again(func() error { return unix.Renameat2(d.fd, tmp, d.fd, name, unix.RENAME_NOREPLACE) })
	if err == nil {
		return fd, nil
	}
	closeFD(&fd)
	_ = d.unlink(tmp) // the reason why it has no other name is the better error
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		return d.createOpen(name) // the file system can't rename so
	}
	return -1, err
}

// openOrCreate opens a file for reading and writing, and makes it if it is missing.
func (d *Dir) openOrCreate(name string) (fd int, created bool, err error) {
	for range vanishTries {
		if fd, err = d.open(name, unix.O_RDWR, 0); !errors.Is(err, unix.ENOENT) {
			return fd, false, err
		}
		if fd, err = d.create(name); !errors.Is(err, unix.EEXIST) {
			return fd, err == nil, err
		}
	}
	return -1, false, err
}

// vanishTries is how often we put up with somebody who deletes a file as fast as we make
// it.
const vanishTries = 1000

// createOpen makes a file that its maker alone may use until its bits are right.
func (d *Dir) createOpen(name string) (fd int, err error) {
	mode := uint32(0o600)
	if d.shared() {
		mode = sharedFileMode
	}
	if d.opt.creating != nil {
		d.opt.creating()
	}
	if fd, err = d.open(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, mode); err != nil {
		return -1, err
	}
	if mode != sharedFileMode && d.shared() { // since then; what was made before that, init --shared finds
		mode = sharedFileMode
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&0o777 != mode {
		err = unix.Fchmod(fd, mode)
	}
	if err != nil {
		closeFD(&fd)
		_ = d.unlink(name)
		return -1, err
	}
	return fd, nil
}

// fail puts an error of the operating system into words, with its kind. Only these
// errors exist: a lock that is held is no error.
func (d *Dir) fail(what, name string, err error) error {
	path := d.path
	if name != "" {
		path += "/" + name
	}
	return storeError(what, path, err)
}

func storeError(what, path string, err error) error {
	var known *onerun.StoreError
	if err == nil || errors.As(err, &known) {
		return err
	}
	e := &onerun.StoreError{Kind: onerun.ErrIO, What: what, Path: path, Err: err}
	var no unix.Errno
	errors.As(err, &no)
	switch no {
	case unix.EACCES, unix.EPERM:
		e.Kind = onerun.ErrPermission
		e.Do = "let the account with uid " + strconv.Itoa(unix.Geteuid()) + " read and write it, or run as its owner; accounts share a lock directory after: onerun init --shared --group G"
	case unix.EROFS:
		e.Kind, e.Do = onerun.ErrCreate, "choose a writable directory with --lock-dir"
	case unix.ENOENT:
		e.Kind, e.Do = onerun.ErrCreate, "make the directory above it, or choose another with --lock-dir"
	case unix.ELOOP:
		e.Kind, e.Do = onerun.ErrCreate, "a symbolic link is never followed here; remove it"
	case unix.ENOTDIR, unix.EISDIR, unix.ENXIO, unix.EEXIST, unix.ENAMETOOLONG, unix.ENODEV:
		e.Kind, e.Do = onerun.ErrCreate, "something else is in the way; remove it, or choose another directory with --lock-dir"
	case unix.ENOSPC, unix.EDQUOT:
		e.Do = "free some space there"
	case unix.EFBIG:
		e.Do = SizeLimitRemedy()
	case unix.EMFILE, unix.ENFILE:
		e.Do = "raise the limit of open files"
	}
	return e
}

// SizeLimit is this process's limit on the size of a file that it writes (RLIMIT_FSIZE, ulimit
// -f), in bytes, if there is one.
func SizeLimit() (limit uint64, limited bool) {
	var r unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_FSIZE, &r)
	return r.Cur, err == nil && r.Cur != unix.RLIM_INFINITY
}

// SizeLimitRemedy is what to do about a file that may not grow.
func SizeLimitRemedy() string {
	limit, limited := SizeLimit()
	if !limited {
		return "choose a file system with larger files"
	}
	return fmt.Sprintf("the limit on file sizes (ulimit -f, LimitFSIZE=) is %d bytes; raise it", limit)
}

// refuse is an error that no system call reported.
func refuse(kind error, what, path, why, do string) error {
	return &onerun.StoreError{Kind: kind, What: what, Path: path, Err: errors.New(why), Do: do}
}

// regular refuses what can't be a lock file: a directory, a FIFO, a device. Writing
// to a file with a second name would change it under that name too, so files that are
// written must have one. None at all means deleted, which the caller finds out by
// itself.
func (d *Dir) regular(name string, st *unix.Stat_t, written bool) error {
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return refuse(onerun.ErrCreate, "lock file", d.path+"/"+name, "is not a regular file", "remove it")
	case written && st.Nlink > 1:
		return refuse(onerun.ErrCreate, "lock file", d.path+"/"+name, fmt.Sprintf("has %d names (hard links)", st.Nlink), "remove it")
	}
	return nil
}

// fileID tells inodes apart as long as one descriptor keeps the inode from being used
// again.
type fileID struct{ dev, ino uint64 }

func idOf(st *unix.Stat_t) fileID { return fileID{st.Dev, st.Ino} }

// names reports whether name stands for that inode now.
func (d *Dir) names(name string, id fileID) (bool, error) {
	var st unix.Stat_t
	err := again(func() error { return unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil && idOf(&st) == id, err
}

func (d *Dir) unlink(name string) error {
	return again(func() error { return unix.Unlinkat(d.fd, name, 0) })
}

// remove is unlink for whoever only wants the file to be gone.
func (d *Dir) remove(name string) error {
	if err := d.unlink(name); !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

func (d *Dir) link(from, to string) error {
	return again(func() error { return unix.Linkat(d.fd, from, d.fd, to, 0) })
}

func (d *Dir) rename(from, to string) error {
	return again(func() error { return unix.Renameat(d.fd, from, d.fd, to) })
}

// readHead reads at most a little more than a note has room for, whatever the size.
func readHead(fd int) ([]byte, error) {
	buf := make([]byte, noteMax+1)
	var n int
	err := again(func() (err error) {
		n, err = unix.Pread(fd, buf, 0) // less than asked for is the whole of a regular file: read(2)
		return err
	})
	return buf[:max(n, 0)], err
}
