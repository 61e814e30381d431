package sqlite_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/sqlite"
)

// nobody is an account that owns nothing (nobody, as Debian has it).
const nobody = 65534

// asNobody starts another process as that account.
func asNobody(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
}

// mustBeRoot: the tests of what another account may need to be able to become one.
func mustBeRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test starts processes as another account: run it as root, or under: unshare -rm --map-auto")
	}
}

// publicHome is a directory that every account can reach.
func publicHome(t *testing.T, mode fs.FileMode) string {
	t.Helper()
	dir := home(t)
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := reachable(dir); err != nil {
		t.Fatal(err)
	}
	sub := filepath.Join(dir, "store")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(sub, mode); err != nil {
		t.Fatal(err)
	}
	return sub
}

// reachable tells whether every account may go through the directories above.
func reachable(dir string) error {
	for d := filepath.Dir(dir); d != "/"; d = filepath.Dir(d) {
		if st, err := os.Stat(d); err != nil || st.Mode()&0o001 == 0 {
			return errors.Join(err, errors.New("other accounts can't go through "+d+", so this test can't be made there"))
		}
	}
	return nil
}

// TestNoPermission: what another account may not do is an error of its own kind, never
// "already running" (B21).
func TestNoPermission(t *testing.T) {
	t.Parallel()
	mustBeRoot(t)
	for _, c := range []struct {
		name    string
		mode    fs.FileMode                     // of the store's directory
		prepare func(t *testing.T, path string) // as root
		locks   bool                            // a lock directory of the account's own
	}{
		{"a private directory", 0o700, nil, false},
		{"a private directory, in use", 0o700, holdIt, false},
		{"a directory that can only be read", 0o755, nil, false},
		{"a directory that can only be read, in use", 0o755, holdIt, false},
		{"a private database", 0o755, holdIt, true},
		{"a private database in a directory of everybody's", 0o777, holdIt, true},
		{"no room for a new database", 0o755, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := publicHome(t, c.mode)
			p := plan{Path: filepath.Join(dir, sqlite.DatabaseName)}
			if c.locks {
				p.LockDir = filepath.Join(publicHome(t, 0o700), "locks")
				if err := os.Mkdir(p.LockDir, 0o700); err != nil {
					t.Fatal(err)
				}
				for _, d := range []string{filepath.Dir(p.LockDir), p.LockDir} {
					if err := os.Chown(d, nobody, nobody); err != nil {
						t.Fatal(err)
					}
				}
			}
			if c.prepare != nil {
				c.prepare(t, p.Path)
			}
			before, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			r, err := newChild(t, p, asNobody).ask(order{Do: "claim", Claim: claimOf("settle", day)})
			if err != nil {
				t.Fatal(err)
			}
			isKind(t, r.Kinds, r.Err, "permission", "claim as another account")
			after, err := os.ReadDir(dir)
			if err != nil || len(after) != len(before) {
				t.Errorf("the directory had %v, and has %v %v", before, after, err)
			}
		})
	}
}

// holdIt makes a run of root's RUNNING.
func holdIt(t *testing.T, path string) {
	t.Helper()
	b := &bed{t: t, path: path, Store: open(t, path)}
	b.granted(claimOf("settle", day))
}

// TestSharedStore: accounts of one group share a store whose directory is made so,
// whatever their umask.
func TestSharedStore(t *testing.T) {
	t.Parallel()
	mustBeRoot(t)
	dir := publicHome(t, 0o700)
	if err := os.Chown(dir, 0, nobody); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o770|fs.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	b := &bed{t: t, path: filepath.Join(dir, sqlite.DatabaseName), Store: open(t, dir)}
	c := claimOf("settle", day)
	g := b.granted(c)
	other := newChild(t, plan{Path: b.path}, asNobody)
	r, err := other.ask(order{Do: "claim", Claim: again(c)})
	if err != nil || r.Refusal == nil || r.Refusal.Reason != onerun.RefusedRunning {
		t.Fatalf("claim as another account of the group: %v %+v", err, r)
	}
	b.finish(g, onerun.Succeeded)
	other.do(order{Do: "claim", Claim: claimOf("report", day)})
	b.refused(claimOf("report", day), onerun.RefusedRunning)
	other.do(order{Do: "finish", Outcome: ended(onerun.Succeeded)})
	b.refused(claimOf("report", day), onerun.RefusedSucceeded)
	for name, mode := range map[string]fs.FileMode{b.path: 0o660, b.path + "-wal": 0o660, b.path + "-shm": 0o660, filepath.Join(dir, "locks"): 0o770} {
		if st, err := os.Stat(name); err != nil || st.Mode().Perm() != mode {
			t.Errorf("mode of %s: %v %v, not %v", name, st.Mode(), err, mode)
		}
	}
}

// TestPrivateFiles: else a store is its account's own, whatever the umask.
func TestPrivateFiles(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.granted(claimOf("settle", day))
	err := filepath.WalkDir(filepath.Dir(b.path), func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == filepath.Dir(b.path) {
			return err
		}
		st, err := e.Info()
		if want := map[bool]fs.FileMode{true: 0o700, false: 0o600}[e.IsDir()]; err == nil && st.Mode().Perm() != want {
			t.Errorf("mode of %s: %v, not %v", path, st.Mode(), want)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestCantCreate: the place itself is wrong.
func TestCantCreate(t *testing.T) {
	t.Parallel()
	dir := home(t)
	file, fifo := filepath.Join(dir, "file"), filepath.Join(dir, "fifo")
	rewrite(t, file, []byte("hello"))
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	links := map[string]string{"to a database": used(t), "to a file": file, "to nothing": filepath.Join(dir, "nothing")}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(dir, "link "+name)); err != nil {
			t.Fatal(err)
		}
	}
	for what, path := range map[string]string{
		"a missing directory":     filepath.Join(dir, "missing", "onerun.db"),
		"a file as a directory":   filepath.Join(file, "onerun.db"),
		"a FIFO":                  fifo,
		"a link to a database":    filepath.Join(dir, "link to a database"),
		"a link to a file":        filepath.Join(dir, "link to a file"),
		"a link to nothing":       filepath.Join(dir, "link to nothing"),
		"a name that is too long": filepath.Join(dir, string(bytes.Repeat([]byte("x"), 300))),
	} {
		s, err := sqlite.Open(t.Context(), path)
		if err == nil {
			_, err = s.Claim(soon(t), claimOf("settle", day))
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		is(t, err, "create", what)
	}
	for _, path := range []string{filepath.Join(dir, "missing"), filepath.Join(dir, "nothing")} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was made: %v", path, err)
		}
	}
	if string(read(t, file)) != "hello" {
		t.Error("the file that a link led to was changed")
	}
	if _, err := sqlite.Open(t.Context(), filepath.Join(dir, "b.db"), sqlite.WithLockDir(filepath.Join(dir, "missing", "locks"))); true {
		is(t, err, "create", "a lock directory whose parent is missing")
	}
}

// TestLinkedDirectory: a directory may be reached by a link, a relative path or a second mount;
// it is one store all the same, with one set of locks. What an owner left by one path is found
// by the other.
func TestLinkedDirectory(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	dir := filepath.Dir(b.path)
	link := filepath.Join(home(t), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(cwd, dir)
	if err != nil {
		t.Fatal(err)
	}
	bound := filepath.Join(home(t), "bound")
	if err := os.Mkdir(bound, 0o700); err != nil {
		t.Fatal(err)
	}
	mount(t, dir, bound, "", unix.MS_BIND, "")
	beds := map[string]*bed{
		"itself":   b,
		"bound":    {t: t, path: filepath.Join(bound, sqlite.DatabaseName), Store: open(t, bound)},
		"linked":   {t: t, path: filepath.Join(link, sqlite.DatabaseName), Store: open(t, link)},
		"relative": {t: t, path: filepath.Join(relative, sqlite.DatabaseName), Store: open(t, relative, sqlite.WithLockDir(filepath.Join(relative, "locks")))},
	}
	for one, holder := range beds {
		for other, heir := range beds {
			g := holder.granted(lockClaim("db"))
			heir.refused(lockClaim("db"), onerun.RefusedLocked)
			holder.finish(g, "")

			c := claimOf(one+"-"+other, day)
			p := plan{KillAt: stepOutcome}
			if one == "relative" {
				p.LockDir = filepath.Join(relative, "locks")
			}
			if _, died := life(t, holder, p, c, ended(onerun.Succeeded)); !died {
				t.Fatal("it lived on")
			}
			heir.refused(again(c), onerun.RefusedFailed)
			if locks, err := heir.Locks(soon(t), onerun.DefaultNamespace); err != nil || len(locks) != 0 {
				t.Errorf("%s, then %s: locks: %v %v", one, other, locks, err)
			}
		}
	}
}

// TestNetworkFileSystem: refused, be it for the database or for the locks (B23).
func TestNetworkFileSystem(t *testing.T) {
	t.Parallel()
	const nfs, ext4 = 0x6969, 0xEF53
	dir := home(t)
	for _, opts := range [][]sqlite.Option{
		{sqlite.WithFSType(nfs)},
		{sqlite.WithFSTypeOf(dir, nfs), sqlite.WithLockDir(filepath.Join(home(t), "locks"))},
		{sqlite.WithFSTypeOf(filepath.Join(dir, "locks"), nfs)},
	} {
		_, err := sqlite.Open(t.Context(), dir, opts...)
		is(t, err, "create", "open a store on NFS")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 1 {
		t.Errorf("left behind: %v %v", left, err)
	}
	open(t, dir, sqlite.WithFSType(nfs), sqlite.WithNetworkFS())
	open(t, dir, sqlite.WithFSType(ext4))
}
