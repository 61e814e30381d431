package filelock

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

func TestOpenMakesOnlyTheLastElement(t *testing.T) {
	parent := t.TempDir()
	path := filepath.Join(parent, "locks")
	old := syscall.Umask(0o777)
	d, err := Open(path+"/", Options{AllowNetwork: true})
	syscall.Umask(old)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if st, err := os.Stat(path); err != nil || st.Mode() != os.ModeDir|0o700 {
		t.Errorf("mode %v, error %v", st.Mode(), err)
	}
	mustRelease(t, mustAcquire(t, d, request(onerun.LockFlock)))
	_, err = Open(filepath.Join(parent, "missing", "locks"), Options{AllowNetwork: true})
	wantKind(t, err, onerun.ErrCreate)
}

// What `onerun init --shared` makes: every account of the group can use every lock file,
// whatever its umask, and whoever came first.
func TestOpenShared(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "store")
	if err := os.Mkdir(parent, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(parent, os.ModeSetgid|0o770); err != nil {
		t.Fatal(err)
	}
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	path := filepath.Join(parent, "locks")
	for _, o := range []Options{{}, {NoFlock: true}} {
		d := mustOpen(t, path, o)
		if st, err := os.Stat(path); err != nil || st.Mode() != os.ModeDir|os.ModeSetgid|0o770 {
			t.Errorf("directory: mode %v, error %v", st.Mode(), err)
		}
		l := mustAcquire(t, d, request(onerun.LockCreate))
		if err := l.Write(Note{}); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(path)
		if err != nil || len(entries) < 1 {
			t.Fatalf("%d files, error %v", len(entries), err)
		}
		for _, e := range entries {
			if info, err := e.Info(); err != nil || info.Mode() != 0o660 {
				t.Errorf("%s: mode %v, error %v", e.Name(), info.Mode(), err)
			}
		}
		mustRelease(t, l)
	}
	if left := leftovers(t, path); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestFilesArePrivate(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := lockDir(t)
	l := mustAcquire(t, mustOpen(t, dir, Options{}), request(onerun.LockCreate))
	defer func() { _ = l.Release() }()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Fatalf("%d files, error %v", len(entries), err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: mode %v, error %v", e.Name(), info.Mode(), err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(path string) error
		want error
		say  string
	}{
		{"a file", func(p string) error { return os.WriteFile(p, []byte("x"), 0o600) }, onerun.ErrCreate, "not a directory"},
		{"a FIFO", func(p string) error { return syscall.Mkfifo(p, 0o600) }, onerun.ErrCreate, "not a directory"},
		{"a symbolic link", func(p string) error { return os.Symlink(filepath.Dir(p), p) }, onerun.ErrCreate, "symbolic link"},
		{"a broken symbolic link", func(p string) error { return os.Symlink("nowhere", p) }, onerun.ErrCreate, "symbolic link"},
		{"others may write", func(p string) error { return mkdir(p, 0o777) }, onerun.ErrPermission, "chmod o-w "},
		{"others may write, sticky", func(p string) error { return mkdir(p, os.ModeSticky|0o777) }, onerun.ErrPermission, "chmod o-w "},
		{"shared, but others may write", func(p string) error { return mkdir(p, os.ModeSetgid|0o777) }, onerun.ErrPermission, "chmod o-w "},
		{"group may write", func(p string) error { return mkdir(p, 0o770) }, onerun.ErrPermission, "chmod g-w "},
		{"name too long", func(string) error { return nil }, onerun.ErrCreate, "too long"},
	} {
		path := filepath.Join(t.TempDir(), "locks")
		if c.say == "too long" {
			path = filepath.Join(t.TempDir(), strings.Repeat("x", 300))
		}
		if err := c.make(path); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{path, path + "/"} {
			d, err := Open(p, Options{AllowNetwork: true})
			if d != nil {
				t.Fatalf("%s: opened", c.name)
			}
			wantKind(t, err, c.want)
			if !strings.Contains(err.Error(), c.say) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %q doesn't say %q and the path", c.name, err, c.say)
			}
		}
	}
}

func mkdir(path string, mode os.FileMode) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

func TestOpenNetworkFileSystem(t *testing.T) {
	dir := lockDir(t)
	for name, magic := range map[string]int64{
		"NFS": unix.NFS_SUPER_MAGIC, "SMB": unix.SMB_SUPER_MAGIC, "CIFS": unix.CIFS_SUPER_MAGIC, "SMB2": unix.SMB2_SUPER_MAGIC,
		"AFS": unix.AFS_SUPER_MAGIC, "9P": unix.V9FS_MAGIC, "Ceph": unix.CEPH_SUPER_MAGIC, "FUSE": unix.FUSE_SUPER_MAGIC,
		"OCFS2": unix.OCFS2_SUPER_MAGIC, "Lustre": 0x0BD00BD0, "GFS2": 0x01161970,
		// as 32-bit kernels and some 64-bit ones give a number with its highest bit set
		"CIFS, sign-extended": -0xADB2BE, "SMB2, sign-extended": -0x1ACB2BE,
	} {
		fake := func(string) int64 { return magic }
		_, err := Open(dir, Options{FSType: fake})
		if strings.HasSuffix(name, "sign-extended") {
			magic = int64(int32(uint32(magic)))
			continue
		}
		wantKind(t, err, onerun.ErrCreate)
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "network=unsafe") {
			t.Errorf("%s: %v", name, err)
		}
		d, err := Open(dir, Options{FSType: fake, AllowNetwork: true})
		if err != nil {
			t.Errorf("%s, forced: %v", name, err)
			continue
		}
		// an earlier boot is no proof there: another host may have the same name
		n := deadNote(t)
		n.Boot = "earlier"
		plant(t, dir, lockSuffix, n)
		l := mustAcquire(t, d, request(onerun.LockFlock))
		if l.Verdict.Liveness != onerun.Unknown {
			t.Errorf("%s: %+v", name, l.Verdict)
		}
		_ = l.Release()
		_ = d.Close()
	}
	for _, magic := range []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC} {
		d, err := Open(dir, Options{FSType: func(string) int64 { return magic }})
		if err != nil {
			t.Errorf("%x: %v", magic, err)
			continue
		}
		_ = d.Close()
	}
	high := uint32(unix.CIFS_SUPER_MAGIC)
	if name, network := Network(int64(int32(high))); !network || name != "CIFS" {
		t.Errorf("sign-extended: %q, %v", name, network)
	}
}

func TestOpenIsClosedAfterItsLocks(t *testing.T) {
	d := mustOpen(t, lockDir(t), Options{})
	l := mustAcquire(t, d, request(onerun.LockCreate))
	for range 2 {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := d.Acquire(t.Context(), request(onerun.LockFlock)); err == nil {
		t.Error("acquired from a closed directory")
	}
	if l.Deleted() {
		t.Error("the lock lost its directory")
	}
	mustRelease(t, l)
	if d.fd != -1 {
		t.Error("the descriptor is open still")
	}
}

// The sandboxes are tests that need mounts, or another account, of their own. Each is a
// process in a mount namespace (and as an ordinary user in a user namespace); what it
// mounts vanishes with it.
func sandbox(t *testing.T, name string) {
	t.Helper()
	p := start(t, "sandbox "+name, config{Dir: t.TempDir()}, newNamespaces(syscall.CLONE_NEWNS))
	for {
		switch line := p.line(); {
		case line == "passed":
			return
		case line == "" || strings.HasPrefix(line, "error"):
			t.Fatalf("%s: %s", name, line)
		default:
			t.Errorf("%s: %s", name, line)
		}
	}
}

func mountTmpfs(path, options string) error {
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", path, "tmpfs", 0, options); err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	return nil
}
