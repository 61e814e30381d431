package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// firstStartName is a file beside the database: a start was made here before.
const firstStartName = ".started"

// Share makes the store at path, which it names as Open does, one that the accounts of a
// group use together, or makes it such a one: directories 2770, files 0660, all of the
// group gid. It may be in use; nobody loses a lock. The directory is made when the last
// element of its path is missing. made tells that there was no database, changed how many
// files and directories were not as they are now.
//
// Errors: ErrCreate, with nothing changed, for a directory that holds anything but the
// store (a directory that is opened to a group must be onerun's own), or a link;
// ErrPermission where this account is neither root nor owner and member; else as of Open.
func Share(ctx context.Context, path string, gid int, opts ...Option) (made bool, changed int, err error) {
	s, err := locate(path, opts)
	if err != nil {
		return false, 0, err
	}
	parts := s.sharings(gid)
	for _, p := range parts {
		if s.options.mayShare != nil {
			if err := s.options.mayShare(p.Path); err != nil {
				return false, 0, err
			}
		}
		err := p.Check()
		if errors.Is(err, fs.ErrNotExist) { // it will be this account's own
			err = p.MayGive()
		}
		if err != nil {
			return false, 0, err
		}
	}
	if err := s.openDirs(); err != nil {
		return false, 0, err
	}
	_, err = os.Lstat(s.path)
	made = errors.Is(err, fs.ErrNotExist)
	d, err := openDB(ctx, s.path, sharedDir(filepath.Dir(s.path))) // made, or seen to be one of ours, before it is opened to anybody
	if err != nil {
		return false, 0, err
	}
	defer func() { _ = d.close() }()
	for _, p := range parts {
		n, err := p.Apply()
		if changed += n; err != nil {
			return made, changed, unfinished(err, changed)
		}
	}
	return made, changed, nil
}

// unfinished says how far it came.
func unfinished(err error, changed int) error {
	var e *onerun.StoreError
	if changed == 0 || !errors.As(err, &e) {
		return err
	}
	told := *e
	told.Err = fmt.Errorf("%w (%d files or directories are the group's already, and stay so)", e.Err, changed)
	told.Do = e.Do + "; then type the same again"
	return &told
}

// openDirs makes the directories that are missing, private to this account.
func (s *Store) openDirs() error {
	if err := s.makeDir(); err != nil {
		return err
	}
	if err := s.checkFS(); err != nil {
		return err
	}
	if err := os.Mkdir(s.lockDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return cantOpen(s.lockDir, err)
	}
	return nil
}

// makeDir makes the last element of the database's directory: if more is missing, it is
// more likely a disk that isn't mounted.
func (s *Store) makeDir() error {
	dir := filepath.Dir(s.path)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		if _, e := os.Stat(dir); e == nil { // there, though its parent is closed to us
			return nil
		}
		return cantOpen(dir, err)
	}
	return nil
}

// sharings are the directories of the store, the innermost first: the outer one, while it
// is private, keeps everybody out.
func (s *Store) sharings(gid int) []filelock.Sharing {
	dir, name := filepath.Dir(s.path), filepath.Base(s.path)
	parts := []filelock.Sharing{filelock.ShareLocks(s.lockDir, gid)}
	usual := filepath.Join(dir, LocksName)
	if st, err := os.Lstat(usual); err == nil && st.IsDir() && usual != s.lockDir {
		parts = append(parts, filelock.ShareLocks(usual, gid))
	}
	return append(parts, filelock.Sharing{
		What: "store's directory", Path: dir, GID: gid,
		Mine: func(file string) bool {
			rest, ok := strings.CutPrefix(file, name)
			return ok && (rest == "" || rest == "-wal" || rest == "-shm" || rest == "-journal" || strings.Contains(rest, newInfix)) || file == firstStartName
		},
		Skip: func(file string) bool {
			st, err := os.Lstat(filepath.Join(dir, file))
			return err == nil && st.IsDir() && (file == LocksName || file == "lost+found")
		},
	})
}

// LocksName is the usual lock directory, beside the database.
const LocksName = "locks"

// Access is who may use a store, by the bits of its directory.
type Access struct {
	Shared bool // with the group GID
	GID    int
	UID    int // the directory's owner
}

// Access looks at who may use the store. Errors: ErrPermission when it is shared and a
// file of it is closed to the group; ErrCreate when something in it is not onerun's.
func (s *Store) Access() (Access, error) {
	st, err := os.Stat(filepath.Dir(s.path))
	if err != nil {
		return Access{}, cantOpen(s.path, err)
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return Access{}, cantOpen(s.path, errors.ErrUnsupported)
	}
	a := Access{Shared: filelock.SharedMode(sys.Mode), GID: int(sys.Gid), UID: int(sys.Uid)}
	if !a.Shared {
		return a, nil
	}
	for _, p := range s.sharings(a.GID) {
		if err := p.Wrong(); err != nil {
			return a, err
		}
	}
	return a, nil
}

// FirstStart reports whether it is asked for the first time ever on this store, and keeps
// that it was. When that can't be kept it is false.
func (s *Store) FirstStart() bool {
	f, err := os.OpenFile(filepath.Join(filepath.Dir(s.path), firstStartName), os.O_CREATE|os.O_EXCL|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return false
	}
	_ = f.Close() // it is empty
	return true
}

// newInfix is in the name of a file on its way to its own.
const newInfix = ".new-"

// place makes a file of a shared store that is missing. Under its own name it has its
// final bits from the first moment, whatever the umask: another account that saw it
// closed would take that for an answer, for ever if its maker died in between.
func place(path string) error {
	tmp := path + newInfix + onerun.NewID()
	if err := makeFile(tmp, 0o660); err != nil {
		return err
	}
	err := unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
	if err == nil {
		return nil
	}
	_ = os.Remove(tmp) // the first error says more
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		return makeFile(path, 0o660) // the file system can't rename so
	}
	return err
}

// makeFile makes a file with these bits, whatever the umask.
func makeFile(path string, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return f.Chmod(mode)
}

// readyJournal makes the journal's files of a shared store before SQLite does, which gives
// them the umask's bits first and the right ones a moment later. Beside an empty database
// SQLite would remove them.
func readyJournal(path string) error {
	if st, err := os.Stat(path); err != nil || st.Size() == 0 {
		return nil // opening it says what is wrong
	}
	for _, suffix := range fileSuffixes[1:] {
		if err := regular(path + suffix); err != nil {
			return err
		}
		if _, err := os.Lstat(path + suffix); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := place(path + suffix); err != nil && !errors.Is(err, fs.ErrExist) {
			return cantOpen(path+suffix, err)
		}
	}
	return nil
}
