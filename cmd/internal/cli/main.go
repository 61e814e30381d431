// Package cli is the command line: one file a command, and one table of them. The programs
// onerun, onerun-full and onerun-etcd are made from it. They differ in the stores that they link.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/notify"
	"github.com/onerun-dev/onerun/internal/storeurl"
	"github.com/onerun-dev/onerun/store/sqlite"
)

// Remote opens a store of many machines by its URL, behind the lock files in lockDir ("": none); with
// looking, to look at it alone. It asks the store nothing.
//
// Errors: ErrNotLinked for a store that another of the programs links.
type Remote func(ctx context.Context, storeURL, lockDir string, looking bool) (onerun.Store, error)

// ErrNotLinked says that this program doesn't link a store.
var ErrNotLinked = errors.New("not linked")

// etcdProgram is the program that links the store on etcd, and no other of many machines.
const etcdProgram = "onerun-etcd"

// Web serves pages at an address until ctx ends; ready is told where that is.
type Web func(ctx context.Context, addr string, pages map[string]Page, ready func(addr string)) error

// Page writes a page, and gives its status and its media type.
type Page func(w io.Writer) (status int, mediaType string)

// Main is the whole program; it returns the exit status. What needs a store that remote doesn't
// link (nil: any of many machines), or a server of pages (nil), is left to the program that does,
// which takes this one's place.
func Main(remote Remote, web Web) int {
	outliveSizeLimit()
	if os.Args[0] == guardName {
		return guardMain(remote)
	}
	return run(os.Args[1:], os.Stdout, os.Stderr, remote, web)
}

// openAt opens the store of a URL.
func (e *env) openAt(ctx context.Context, url, lockDir string) (onerun.Store, error) {
	kind, err := storeurl.KindOf(url)
	if err != nil {
		return nil, err
	}
	if kind == storeurl.Local {
		return e.openLocal(ctx, url, lockDir)
	}
	if e.remote == nil {
		return nil, e.handOver(url)
	}
	if lockDir == "" { // one directory for every store: jobs of one name exclude each other on a host
		if lockDir, err = e.usualLocks(); err != nil {
			return nil, err
		}
	}
	s, err := e.remote(ctx, url, lockDir, e.looking || e.reading && readOnly(lockDir))
	if errors.Is(err, ErrNotLinked) {
		return nil, e.handOver(url)
	}
	return s, err
}

func (e *env) openLocal(ctx context.Context, url, lockDir string) (onerun.Store, error) {
	var opts []sqlite.Option
	if lockDir != "" {
		opts = append(opts, sqlite.WithLockDir(lockDir))
	}
	if db := storeFile(url, "."); e.looking || e.reading && (readOnly(filepath.Dir(db)) || readOnly(cmp.Or(lockDir, filepath.Join(filepath.Dir(db), sqlite.LocksName)))) {
		opts = append(opts, sqlite.Looking())
	}
	if e.makeStore {
		opts = append(opts, sqlite.WithMakeDir())
	}
	s, err := sqlite.OpenURL(ctx, url, opts...)
	if err != nil {
		return nil, err // not a nil *sqlite.Store, which as a Store is not nil
	}
	return s, nil
}

// readOnly reports whether a directory is on a file system where nothing can be made.
func readOnly(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Flags&unix.ST_RDONLY != 0
}

// usualLocks is the lock directory of the embedded store.
func (e *env) usualLocks() (string, error) {
	dir, _, err := e.embedded()
	var told *onerun.StoreError
	if errors.As(err, &told) {
		other := *told
		other.Do = "name a directory for this host's lock files with --lock-dir"
		err = &other
	}
	return filepath.Join(dir, sqlite.LocksName), err
}

// handOver makes this process the program that links a store of many machines: the same process,
// arguments and environment. It returns only when that can't be.
func (e *env) handOver(url string) error {
	name := notify.Companion
	if strings.HasPrefix(url, "etcd:") {
		name = etcdProgram
	}
	if e.once != "" { // it would find nothing there, and take another store
		return &onerun.StoreError{
			Kind: onerun.ErrConfig, What: "store", Path: storeurl.Redact(url),
			Err: fmt.Errorf("it is named by %s, which is no plain file and can't be read again by %s", e.once, name), Do: "name a plain file",
		}
	}
	program := beside(name)
	err := error(unix.ENOENT)
	switch {
	case sameFile(program, "/proc/self/exe"): // a link to this very program, which would come back here for ever
		err = unix.ELOOP
	case program != "":
		err = unix.Exec(program, os.Args, os.Environ())
	}
	return &onerun.StoreError{
		Kind: onerun.ErrConfig, What: "store", Path: storeurl.Redact(url), Err: wrap("it needs the program "+name+" beside this one", err),
		Do: "make builds it; without a build: go run ./cmd/" + name,
	}
}

// beside is the path of another of onerun's programs; "": it is not beside this one.
func beside(name string) string {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return ""
	}
	path := filepath.Join(filepath.Dir(self), name)
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
		return ""
	}
	return path
}

// typedProgram is the path of the program that people type: this one, or the one that it is started by.
func typedProgram() (string, error) {
	self, err := os.Executable()
	if name := filepath.Base(self); err == nil && (name == notify.Companion || name == etcdProgram) {
		if plain := beside("onerun"); plain != "" {
			return plain, nil
		}
	}
	return self, err
}

// readOnce keeps what can't be read a second time: a pipe, say.
func (e *env) readOnce(path string) {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		e.once = path
	}
}

func wrap(what string, err error) error {
	return errors.New(what + ": " + err.Error())
}
