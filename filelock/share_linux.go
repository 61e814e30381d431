package filelock

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

// The bits that accounts of a group need to use a directory, and files, together.
const (
	sharedDirMode  = 0o2770
	sharedFileMode = 0o660
)

// SharedMode reports whether a directory of these mode bits (stat(2)) is a group's, as
// `onerun init --shared` makes one: files get the directory's group, the group may write,
// and nobody else.
func SharedMode(mode uint32) bool {
	return mode&unix.S_ISGID != 0 && mode&0o070 == 0o070 && mode&0o002 == 0
}

// IsLockFile reports whether a file of a lock directory has a name that this package gives.
func IsLockFile(name string) bool {
	if rest, ok := strings.CutPrefix(name, heldName); ok {
		return rest == "" || strings.HasPrefix(rest, newInfix)
	}
	if _, _, _, ok := splitSpool(name); ok {
		return true
	}
	for _, suffix := range []string{lockSuffix, exclSuffix, stopSuffix, queueSuffix} {
		i := strings.LastIndex(name, suffix)
		if i < hashDigits+1 {
			continue
		}
		hash, rest := name[i-hashDigits-1:i], name[i+len(suffix):]
		if hash[0] == '-' && isOwner(hash[1:]) && (rest == "" || strings.HasPrefix(rest, newInfix) || strings.HasPrefix(rest, markInfix)) {
			return true
		}
	}
	return false
}

// Sharing is a directory of onerun's that a group is to share, with the files in it.
// It may be in use: nothing is replaced, and who holds a lock holds it still.
type Sharing struct {
	What string // for messages: "lock directory"
	Path string
	GID  int
	Mine func(name string) bool // a file of onerun's
	Skip func(name string) bool // not a file of onerun's, and allowed all the same; nil: none
}

// ShareLocks is the Sharing of a lock directory.
func ShareLocks(path string, gid int) Sharing {
	return Sharing{What: "lock directory", Path: path, GID: gid, Mine: IsLockFile}
}

// Check finds what would stop Apply, and changes nothing.
//
// Errors: ErrCreate for a symbolic link, or a file in the directory that isn't onerun's or
// has a second name somewhere else, since it would be opened to the group with the rest;
// ErrPermission where this account may not change what needs a change.
func (s Sharing) Check() error {
	return s.each(func(dir int, files []shareFile) error {
		var st unix.Stat_t
		if err := unix.Fstat(dir, &st); err != nil {
			return storeError(s.What, s.Path, err)
		}
		if err := s.mayChange(s.Path, &st, sharedDirMode); err != nil {
			return err
		}
		for _, f := range files {
			if err := s.mayChange(s.Path+"/"+f.name, &f.st, sharedFileMode); err != nil {
				return err
			}
		}
		return nil
	})
}

// Wrong is the first thing that isn't as the group needs it, as an ErrPermission; nil if
// there is none. Other errors are those of Check.
func (s Sharing) Wrong() error {
	return s.each(func(dir int, files []shareFile) error {
		var st unix.Stat_t
		if err := unix.Fstat(dir, &st); err != nil {
			return storeError(s.What, s.Path, err)
		}
		files = append([]shareFile{{st: st}}, files...)
		for i, f := range files {
			mode, path := uint32(sharedFileMode), s.Path+"/"+f.name
			if i == 0 {
				mode, path = sharedDirMode, s.Path
			}
			if s.wrong(&f.st, mode) {
				return refuse(onerun.ErrPermission, s.What, path,
					fmt.Sprintf("its mode is %04o and its group %d; the accounts that share it need %04o and %d", f.st.Mode&0o7777, f.st.Gid, mode, s.GID),
					"type: onerun init --shared --group G")
			}
		}
		return nil
	})
}

// sharePasses bounds how often the files are gone through until all are right. A start at
// work may make one while we look; but from the first pass on it makes them right.
const sharePasses = 50

// Apply gives the directory and its files to the group, and says how many it changed.
//
// The directory comes first: a file that is made after that has the right group and bits
// from its maker (see Dir.create), and one that was made before is found in it.
func (s Sharing) Apply() (changed int, err error) {
	err = s.each(func(dir int, _ []shareFile) error {
		did, err := s.fix(dir, s.Path, sharedDirMode)
		changed += did
		return err
	})
	for pass := 0; err == nil && pass < sharePasses; pass++ {
		before := changed
		err = s.each(func(dir int, files []shareFile) error {
			for _, f := range files {
				did, err := s.fixFile(dir, f)
				changed += did
				if err != nil {
					return err
				}
			}
			return nil
		})
		if changed == before {
			break
		}
	}
	return changed, err
}

// shareFile is a file of the directory, as it was listed.
type shareFile struct {
	name string
	st   unix.Stat_t
}

// each lists the directory, refuses what can't be shared, and hands the rest on.
func (s Sharing) each(do func(dir int, files []shareFile) error) error {
	for pass := 1; ; pass++ {
		dir, err := s.open()
		if err != nil {
			return err
		}
		files, linked, err := s.list(dir)
		// A lock that is just changing hands has a second name for a moment (see publish).
		if linked != nil && err == nil {
			err = linked
			if pass < sharePasses {
				closeFD(&dir)
				time.Sleep(time.Millisecond)
				continue
			}
		}
		if err == nil {
			err = do(dir, files)
		}
		closeFD(&dir)
		return err
	}
}

func (s Sharing) open() (fd int, err error) {
	err = again(func() (err error) {
		fd, err = unix.Open(s.Path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return -1, refuse(onerun.ErrCreate, s.What, s.Path, "is a symbolic link, which is never followed here, or no directory", "name the directory itself")
	}
	if err != nil {
		return -1, storeError(s.What, s.Path, err)
	}
	return fd, nil
}

// list gives the files of the directory. linked is about one that has a name elsewhere.
func (s Sharing) list(dir int) (files []shareFile, linked, err error) {
	names, err := readNames(dir)
	if err != nil {
		return nil, nil, storeError(s.What, s.Path, err)
	}
	links := map[fileID]int{}
	for _, name := range names {
		f := shareFile{name: name}
		err := again(func() error { return unix.Fstatat(dir, name, &f.st, unix.AT_SYMLINK_NOFOLLOW) })
		switch {
		case errors.Is(err, unix.ENOENT):
			continue
		case err != nil:
			return nil, nil, storeError(s.What, s.Path+"/"+name, err)
		}
		links[idOf(&f.st)]++
		if s.Skip != nil && s.Skip(name) {
			continue
		}
		if err := s.acceptable(&f); err != nil {
			return nil, nil, err
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b shareFile) int { return strings.Compare(a.name, b.name) })
	for _, f := range files {
		if n := int(f.st.Nlink); n > links[idOf(&f.st)] {
			linked = refuse(onerun.ErrCreate, s.What, s.Path+"/"+f.name, fmt.Sprintf("has %d names (hard links), and another file would be opened to the group with it", n), "remove it")
		}
	}
	return files, linked, nil
}

func (s Sharing) acceptable(f *shareFile) error {
	path := s.Path + "/" + f.name
	switch kind := f.st.Mode & unix.S_IFMT; {
	case kind == unix.S_IFLNK:
		return refuse(onerun.ErrCreate, s.What, path, "is a symbolic link, which is never followed here", "remove it")
	case !s.Mine(f.name):
		return refuse(onerun.ErrCreate, s.What, path, "is not a file of onerun's, and only a directory of onerun's own can be shared", "move it away, or name another directory with --store")
	case kind != unix.S_IFREG:
		return refuse(onerun.ErrCreate, s.What, path, "is not a regular file", "remove it")
	}
	return nil
}

func (s Sharing) wrong(st *unix.Stat_t, mode uint32) bool {
	return st.Mode&0o7777 != mode || int(st.Gid) != s.GID
}

// mayChange refuses what this account can't change, before anything is changed.
func (s Sharing) mayChange(path string, st *unix.Stat_t, mode uint32) error {
	me := os.Geteuid()
	if !s.wrong(st, mode) || me == 0 {
		return nil
	}
	if int(st.Uid) != me {
		return refuse(onerun.ErrPermission, s.What, path, fmt.Sprintf("it belongs to uid %d, and this account is uid %d", st.Uid, me), "type it as root")
	}
	return s.MayGive()
}

// MayGive is the part of Check that is about this account: only root, or a member, can give
// what it has to the group. Errors: ErrPermission.
func (s Sharing) MayGive() error {
	groups, err := os.Getgroups()
	if err != nil || os.Geteuid() == 0 || os.Getegid() == s.GID || slices.Contains(groups, s.GID) {
		return nil
	}
	return refuse(onerun.ErrPermission, s.What, s.Path, fmt.Sprintf("this account is not in the group %d, so it can't give anything to it", s.GID), "type it as root, or log in anew if it was just added to the group")
}

// fixFile is fix for a file by its name, if it is the one that was listed.
func (s Sharing) fixFile(dir int, f shareFile) (changed int, err error) {
	path := s.Path + "/" + f.name
	var fd int
	// O_PATH: it needs no right to read the file, and closing it doesn't drop the locks
	// that SQLite holds on a database in this process (fcntl(2)).
	err = again(func() (err error) {
		fd, err = unix.Openat(dir, f.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	if errors.Is(err, unix.ENOENT) {
		return 0, nil
	}
	if err != nil {
		return 0, storeError(s.What, path, err)
	}
	defer closeFD(&fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, storeError(s.What, path, err)
	}
	if idOf(&st) != idOf(&f.st) { // exchanged meanwhile; the next pass looks at what it is now
		return 1, nil
	}
	return s.fix(fd, path, sharedFileMode)
}

// fix gives what is open to the group. The group comes before the bits: no other one ever
// gets in, and chown(2) could take bits away again.
func (s Sharing) fix(fd int, path string, mode uint32) (changed int, err error) {
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && s.wrong(&st, mode) {
		changed = 1
		if int(st.Gid) != s.GID {
			err = unix.Fchownat(fd, "", -1, s.GID, unix.AT_EMPTY_PATH)
		}
		if err == nil {
			err = unix.Fchmodat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), mode, 0) // fchmod(2) refuses O_PATH
		}
	}
	if err != nil {
		e := storeError(s.What, path, err)
		var known *onerun.StoreError
		if errors.As(e, &known) && errors.Is(e, onerun.ErrPermission) {
			known.Do = "type it as root"
		}
		return 0, e
	}
	return changed, nil
}

// readNames lists an open directory.
func readNames(dir int) (names []string, err error) {
	buf := make([]byte, 32<<10)
	for {
		var n int
		err := again(func() (err error) { n, err = unix.ReadDirent(dir, buf); return err })
		if err != nil {
			return nil, err
		}
		if n <= 0 {
			return names, nil
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}
