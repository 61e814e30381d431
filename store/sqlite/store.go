package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// Store is the embedded store: lock files beside a database. Make one with Open.
type Store struct {
	path    string
	lockDir string
	options options
	dir     *filelock.Dir

	opening chan struct{} // one at a time; not mu, since that may take as long as a caller waits

	*filelock.Holdings // what this process holds

	mu sync.Mutex
	db *db // opened when first needed: `onerun lock` may not need it

	otherDirs map[string]*filelock.Dir // see dirOf
}

type options struct {
	lockDir      string
	hook         func(step string)
	allowNetwork bool
	makeDir      bool
	mayShare     func(dir string) error
	looking      bool
	examineFor   time.Duration           // for tests: stands in for a third of the caller's time
	fsType       func(path string) int64 // for tests: the f_type of statfs(2)
}

// Option changes how a Store is opened.
type Option func(*options)

// WithLockDir puts the lock files into another directory than locks/ beside the
// database. Programs that share a database must share the lock directory too.
func WithLockDir(dir string) Option { return func(o *options) { o.lockDir = dir } }

// WithHook calls hook between any two steps of a claim and a finish, with the step
// that comes next: for tests that let a process die exactly there.
func WithHook(hook func(step string)) Option { return func(o *options) { o.hook = hook } }

// WithNetworkFS accepts a network file system, on which neither the locks nor the
// database are safe.
func WithNetworkFS() Option { return func(o *options) { o.allowNetwork = true } }

// WithMakeDir makes the directory of the database when the last element of its path is
// missing.
func WithMakeDir() Option { return func(o *options) { o.makeDir = true } }

// WithMayShare lets the caller forbid a directory to Share, before anything is changed.
func WithMayShare(mayShare func(dir string) error) Option {
	return func(o *options) { o.mayShare = mayShare }
}

// Looking opens a store to look at it alone. Nothing is made that isn't there, be it
// database, schema or lock directory, nothing can be written, and no lock can be taken;
// and what would be refused as unsafe is opened all the same, so that Examine can tell.
// A database that this program would have to make, or whose schema it would have to
// bring up first, is ErrConfig then.
func Looking() Option { return func(o *options) { o.looking = true } }

// DatabaseName is the name of the database in a directory that is given as a store.
const DatabaseName = "onerun.db"

// Open opens the store at path: a database file, or a directory in which the file
// is DatabaseName. The file is made when it is missing, the directory is not.
//
// Errors: ErrCreate for a missing or read-only directory, a symbolic link in the
// way or a network file system; ErrPermission.
func Open(_ context.Context, path string, opts ...Option) (*Store, error) {
	s, err := locate(path, opts)
	if err != nil {
		return nil, err
	}
	if s.options.makeDir {
		if err := s.makeDir(); err != nil {
			return nil, err
		}
	}
	if st, err := os.Stat(filepath.Dir(s.path)); err != nil {
		return nil, cantOpen(s.path, err)
	} else if !st.IsDir() {
		return nil, cantOpen(s.path, fmt.Errorf("%s: %w", filepath.Dir(s.path), syscall.ENOTDIR))
	}
	if err := s.checkFS(); err != nil {
		return nil, err
	}
	s.dir, err = filelock.Open(s.lockDir, s.dirOptions())
	if err != nil {
		return nil, err
	}
	s.Holdings = filelock.NewHoldings(s.dir, s.step)
	return s, nil
}

// locate says where the files of a store are, and touches none of them.
func locate(path string, opts []Option) (*Store, error) {
	s := &Store{otherDirs: map[string]*filelock.Dir{}, opening: make(chan struct{}, 1)}
	for _, o := range opts {
		o(&s.options)
	}
	if s.options.hook == nil {
		s.options.hook = func(string) {}
	}
	var err error
	if s.path, err = database(path); err != nil {
		return nil, cantOpen(path, err)
	}
	s.lockDir = s.options.lockDir
	if s.lockDir == "" {
		s.lockDir = filepath.Join(filepath.Dir(s.path), LocksName)
	}
	s.lockDir = onePath(s.lockDir)
	return s, nil
}

// database is the file that a path names: itself, or DatabaseName in a directory.
func database(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if st, err := os.Stat(abs); err == nil && st.IsDir() || strings.HasSuffix(path, "/") {
		return filepath.Join(abs, DatabaseName), nil // a directory, which must be there
	}
	return abs, nil
}

func (s *Store) dirOptions() filelock.Options {
	return filelock.Options{Hook: s.options.hook, AllowNetwork: s.options.allowNetwork, Looking: s.options.looking, FSType: s.options.fsType}
}

// onePath is the one path that a directory has, by whichever it was named: runs are kept
// with the lock directory that they use, and are compared by it.
func onePath(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return dir
	}
	above, err := filepath.EvalSymlinks(filepath.Dir(abs)) // the last element may be missing yet, and is never a link
	if err != nil {
		return abs
	}
	return filepath.Join(above, filepath.Base(abs))
}

// checkFS refuses a database on a network file system. The lock directory, which may be
// elsewhere, is looked at by filelock.
func (s *Store) checkFS() error {
	dir := filepath.Dir(s.path)
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return cantOpen(s.path, err)
	}
	if s.options.fsType != nil {
		st.Type = s.options.fsType(dir)
	}
	if name, network := filelock.Network(st.Type); network && !s.options.allowNetwork && !s.options.looking {
		return &onerun.StoreError{
			Kind: onerun.ErrCreate, What: "open the store", Path: s.path,
			Err: fmt.Errorf("it is on a network file system (%s), where locks hold on each machine by itself", name),
			Do:  "choose a local file, use a store for many machines, or take the risk with ?network=unsafe",
		}
	}
	return nil
}

// Close implements onerun.Store. Locks that this process holds stay held until it
// finishes them or ends.
func (s *Store) Close() error {
	s.mu.Lock()
	d := s.db
	s.db = nil
	for _, other := range s.otherDirs {
		_ = other.Close()
	}
	clear(s.otherDirs)
	s.mu.Unlock()
	err := s.dir.Close()
	if d != nil {
		err = d.close()
	}
	return err
}

// sharedDir reports whether a directory is one of a group's: setgid, and writable for it.
func sharedDir(dir string) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) == nil && filelock.SharedMode(st.Mode)
}

// lockPath is the file that stands for a lock.
func (s *Store) lockPath(namespace string, lock onerun.LockName) string {
	return filepath.Join(s.lockDir, filelock.FileName(namespace, lock)+".lock")
}

// Path is the database file.
func (s *Store) Path() string { return s.path }

// LockDir is the directory of the lock files.
func (s *Store) LockDir() string { return s.lockDir }

func (s *Store) step(name string) { s.options.hook(name) }

// Warm begins to open the database, for a caller that is about to claim a run: while it
// takes the lock, the statements of a claim are made ready on another processor.
func (s *Store) Warm(ctx context.Context) {
	go func() {
		if d, err := s.open(ctx); err == nil { // else the claim meets the same error, and reports it
			d.ready(ctx, sqlClaimState, sqlInsertRun, sqlInsertAttempt, sqlTakeLock)
		}
	}()
}

// open opens the database when it is first needed, or was closed because its files
// were deleted or replaced.
func (s *Store) open(ctx context.Context) (*db, error) {
	if d := s.opened(); d != nil {
		return d, nil
	}
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return nil, &onerun.StoreError{Kind: onerun.ErrUnavailable, What: "open the store", Path: s.path, Err: ctx.Err()}
	}
	if d := s.opened(); d != nil {
		return d, nil
	}
	var d *db
	var err error
	if s.options.looking {
		d, err = lookKnown(ctx, s.path)
	} else {
		d, err = openDB(ctx, s.path, sharedDir(filepath.Dir(s.path)))
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.db = d
	return d, nil
}

func (s *Store) opened() *db {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.db
}

// with runs one transaction, on a database that is opened anew when its files were
// deleted or replaced under the connection. For the owner of a lease it is never made
// anew: a lease whose ledger vanished is lost.
func (s *Store) with(ctx context.Context, owner bool, do func(d *db) error) error {
	for range 3 {
		if owner && s.opened() == nil {
			if _, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) {
				return errVanished
			}
		}
		d, err := s.open(ctx)
		if err != nil {
			return err
		}
		if err = do(d); !errors.Is(err, errMoved) {
			return err
		}
		s.mu.Lock()
		if s.db == d {
			s.db = nil
		}
		s.mu.Unlock()
		_ = d.close() // what it had to write down, nobody would see
	}
	return &onerun.StoreError{Kind: onerun.ErrIO, What: "store", Path: s.path, Err: errMoved, Do: "leave its files where they are"}
}

// errVanished is a lease of which the ledger knows nothing any more.
var errVanished = fmt.Errorf("%w: it is not in the ledger any more", onerun.ErrLost)

func (s *Store) write(ctx context.Context, what string, f func(t *tx) error) error {
	return s.with(ctx, false, func(d *db) error { return d.write(ctx, what, f) })
}

func (s *Store) lightly(ctx context.Context, what string, f func(t *tx) error) error {
	return s.with(ctx, false, func(d *db) error { return d.lightly(ctx, what, f) })
}

func (s *Store) read(ctx context.Context, what string, f func(t *tx) error) error {
	return s.with(ctx, false, func(d *db) error { return d.read(ctx, what, f) })
}

// letGo frees the lock of a holding that the ledger doesn't need any more, and clears
// its note. Of a lock alone the note stays, as ended: its token outlives the lock, and
// stands nowhere else. (Not in mode create, whose file must go: there the token follows
// the clock alone.)
func (s *Store) letGo(h *filelock.Holding) {
	// A note that can't be cleared does no harm: its run is closed, so it is ignored.
	if h.Lease.RunID == "" && h.Mode != onerun.LockCreate {
		_ = h.Lock.SetOutcome(filelock.NewOutcome(onerun.Outcome{Status: onerun.Succeeded, FinishedAt: time.Now()}))
	} else {
		_ = h.Lock.Clear()
	}
	s.Free(h)
}

// micros is how times are stored; the zero time is NULL.
func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

func fromMicros(us *int64) time.Time {
	if us == nil {
		return time.Time{}
	}
	return time.UnixMicro(*us)
}

// null stores the zero value as NULL.
func null[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}
