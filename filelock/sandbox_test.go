package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

var sandboxes = map[string]func(config) error{
	"full disk": sandboxFull, "read-only": sandboxReadOnly, "another account": sandboxAccount,
	"bind mount": sandboxBind, "full disk, spool": sandboxFullSpool,
	"pid 1": helperHold,
}

// newNamespaces puts a helper into namespaces of its own. Who isn't root is root there.
func newNamespaces(flags uintptr) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		if os.Geteuid() != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
		}
	}
}

func TestFullDisk(t *testing.T)       { sandbox(t, "full disk") }
func TestFullDiskSpool(t *testing.T)  { sandbox(t, "full disk, spool") }
func TestReadOnlyDisk(t *testing.T)   { sandbox(t, "read-only") }
func TestAnotherAccount(t *testing.T) { sandbox(t, "another account") }
func TestBindMount(t *testing.T)      { sandbox(t, "bind mount") }

// sayKind prints a line if an error isn't of the kind, or isn't for people.
func sayKind(what string, err, kind error) {
	if !errors.Is(err, kind) || strings.Contains(err.Error(), "\n") {
		fmt.Printf("%s: error %v (%s), want %v\n", what, err, kindOf(err), kind)
	}
}

// fill takes all that is left of a disk.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for block := make([]byte, 4096); ; {
		if _, err := f.Write(block); err != nil {
			if errors.Is(err, unix.ENOSPC) {
				return nil
			}
			return err
		}
	}
}

// sandboxFullSpool: without room for its end a run isn't spooled, and nothing is left of it; one
// that is spooled can end.
func sandboxFullSpool(c config) error {
	if err := mountTmpfs(c.Dir, "size=64k,nr_inodes=100"); err != nil {
		return err
	}
	locks := filepath.Join(c.Dir, "locks")
	d, err := Open(locks, Options{})
	if err != nil {
		return err
	}
	take := func(name onerun.LockName) (*Lock, error) {
		l, held, err := d.Acquire(context.Background(), Request{Namespace: "n", Lock: name, Owner: onerun.NewID()})
		if l == nil {
			return nil, fmt.Errorf("held %v, error %w", held, err)
		}
		return l, nil
	}
	first, err := take("job/first")
	if err != nil {
		return err
	}
	second, err := take("job/second")
	if err != nil {
		return err
	}
	spool, err := first.Spool(unclaimedRun())
	if err != nil {
		return err
	}
	if err := fill(filepath.Join(c.Dir, "ballast")); err != nil {
		return err
	}
	_, err = second.Spool(unclaimedRun())
	sayKind("spool", err, onerun.ErrIO)
	out := failure()
	out.Output.Text = strings.Repeat("x", 1<<16)
	if err := errors.Join(spool.Begin(), spool.End(out)); err != nil {
		fmt.Println("the end on a full disk:", err)
	}
	all, err := d.Spooled()
	if err != nil || len(all) != 1 || all[0].Outcome == nil || all[0].Outcome.Error != out.Error || all[0].Outcome.Output != nil {
		fmt.Printf("found %+v, error %v\n", all, err)
	}
	entries, err := os.ReadDir(locks)
	if err != nil || len(entries) != 4 { // two locks, .held, one spool file
		fmt.Printf("left: %v, error %v\n", entries, err)
	}
	fmt.Println("passed")
	return nil
}

// sandboxFull: without room for a note nothing starts, and nothing is left behind; with a
// note written, its later forms need no room. (B17)
func sandboxFull(c config) error {
	if err := mountTmpfs(c.Dir, "size=64k,nr_inodes=100"); err != nil {
		return err
	}
	locks, ballast := filepath.Join(c.Dir, "locks"), filepath.Join(c.Dir, "ballast")
	for _, m := range modes {
		_ = os.RemoveAll(locks)
		d, err := Open(locks, Options{NoFlock: m.noFlock})
		if err != nil {
			return err
		}
		first, held, err := d.Acquire(context.Background(), Request{Namespace: "n", Lock: "job/first", Mode: m.mode, Owner: onerun.NewID()})
		if first == nil {
			return fmt.Errorf("%s: held %v, error %w", m.name, held, err)
		}
		if err := first.Write(Note{RunID: "r"}); err != nil {
			return err
		}
		if err := fill(ballast); err != nil {
			return err
		}
		for _, name := range []onerun.LockName{"job/second", "key/second:1", "name/second"} {
			r := Request{Namespace: "n", Lock: name, Mode: m.mode, Owner: onerun.NewID()}
			l, held, err := d.Acquire(context.Background(), r)
			if held != nil {
				fmt.Printf("%s: a full disk is called held: %+v\n", m.name, held)
			}
			if l != nil {
				err = l.Write(Note{RunID: "r"})
				if e := l.Release(); e != nil {
					return e
				}
			}
			sayKind(m.name+", "+string(name), err, onerun.ErrIO)
			entries, err := os.ReadDir(locks)
			if err != nil {
				return err
			}
			for _, e := range entries {
				if strings.Contains(e.Name(), "second") {
					fmt.Printf("%s: %s is left\n", m.name, e.Name())
				}
			}
		}
		// what was written has its room
		long := strings.Repeat("e", 1000)
		if err := errors.Join(first.SetGroup(1000, 1), first.SetGuard(1001, 1), first.SetOutcome(Outcome{Status: onerun.Failed, Error: long})); err != nil {
			fmt.Printf("%s: full disk: %v\n", m.name, err)
		}
		s, err := d.Look("n", "job/first")
		if err != nil || s.Note == nil || s.Note.Outcome == nil || s.Note.Outcome.Error != long {
			fmt.Printf("%s: the outcome is lost: %+v, error %v\n", m.name, s.Note, err)
		}
		if err := errors.Join(first.Clear(), first.Release()); err != nil {
			fmt.Printf("%s: full disk: %v\n", m.name, err)
		}
		// and a lock file that was used before has room still
		if m.mode == onerun.LockFlock {
			if err := fill(ballast + "2"); err != nil {
				return err
			}
			l, held, err := d.Acquire(context.Background(), Request{Namespace: "n", Lock: "job/first", Owner: onerun.NewID()})
			if l == nil {
				return fmt.Errorf("held %v, error %w", held, err)
			}
			if err := errors.Join(l.Write(Note{RunID: "r"}), l.SetOutcome(Outcome{Status: onerun.Failed, Error: long}), l.Clear(), l.Release()); err != nil {
				fmt.Printf("second use: %v\n", err)
			}
		}
		_ = os.Remove(ballast + "2")
		if err := errors.Join(os.Remove(ballast), d.Close()); err != nil {
			return err
		}
	}
	// no inode left for a directory
	if err := unix.Mount("", c.Dir, "", unix.MS_REMOUNT, "nr_inodes=1"); err == nil {
		_, err := Open(filepath.Join(c.Dir, "more"), Options{})
		sayKind("no inode", err, onerun.ErrIO)
	}
	fmt.Println("passed")
	return nil
}

// sandboxReadOnly: a read-only disk is an error, never "held". (B21)
func sandboxReadOnly(c config) error {
	if err := mountTmpfs(c.Dir, ""); err != nil {
		return err
	}
	locks := filepath.Join(c.Dir, "locks")
	d, err := Open(locks, Options{})
	if err != nil {
		return err
	}
	if err := unix.Mount("", c.Dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return err
	}
	for _, path := range []string{locks, filepath.Join(c.Dir, "new")} {
		_, err = Open(path, Options{})
		sayKind(path, err, onerun.ErrCreate)
	}
	for _, m := range modes[:2] { // it became read-only after it was opened
		_, held, err := d.Acquire(context.Background(), Request{Namespace: "n", Lock: "job/j", Mode: m.mode, Owner: onerun.NewID()})
		if held != nil {
			fmt.Printf("%s: held %+v\n", m.name, held)
		}
		sayKind(m.name, err, onerun.ErrCreate)
	}
	fmt.Println("passed")
	return nil
}

// sandboxAccount: root made the files and lets nobody else at them, then another account
// comes; and root is to use a directory that is another account's. (B21)
func sandboxAccount(c config) error {
	if err := mountTmpfs(c.Dir, "mode=755"); err != nil {
		return err
	}
	if err := os.Chdir(c.Dir); err != nil { // the directories above may be closed to the other account
		return err
	}
	d, err := Open("locks", Options{})
	if err != nil {
		return err
	}
	l, _, err := d.Acquire(context.Background(), Request{Namespace: "n", Lock: "job/j", Owner: onerun.NewID()})
	if l == nil {
		return fmt.Errorf("acquire: %w", err)
	}
	if err := errors.Join(l.Release(), os.Mkdir("closed", 0o700)); err != nil {
		return err
	}
	if err := errors.Join(os.Mkdir("theirs", 0o700), os.Chown("theirs", nobody, nobody)); err == nil {
		_, err := Open("theirs", Options{})
		sayKind("root in another account's directory", err, onerun.ErrPermission)
	}
	for path, mode := range map[string]os.FileMode{l.Path: 0, "locks/" + heldName: 0, "locks": 0o555, "closed": 0, ".": 0o555} {
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
	}
	if err := becomeNobody(); err != nil {
		return err
	}
	for _, path := range []string{"closed/locks", "closed/x/y", "mine"} {
		_, err := Open(path, Options{})
		sayKind(path, err, onerun.ErrPermission)
	}
	if d, err = Open("locks", Options{}); err != nil {
		return err // root's directory may be used, as far as its files let us
	}
	for _, name := range []onerun.LockName{"job/j", "job/new"} {
		for _, m := range modes[:2] {
			_, held, err := d.Acquire(context.Background(), Request{Namespace: "n", Lock: name, Mode: m.mode, Owner: onerun.NewID()})
			if held != nil {
				fmt.Printf("%s: no permission is called held: %+v\n", m.name, held)
			}
			sayKind(m.name, err, onerun.ErrPermission)
			if err != nil && !strings.Contains(err.Error(), "locks/job-") {
				fmt.Printf("%q doesn't name the path\n", err)
			}
		}
	}
	_, err = d.Look("n", "job/j")
	sayKind("look", err, onerun.ErrPermission)
	fmt.Println("passed")
	return nil
}

// sandboxBind: the lock directory itself is mounted somewhere else, as into a container.
// Under both paths it is one directory, even when a lock file was deleted.
func sandboxBind(c config) error {
	if err := mountTmpfs(c.Dir, ""); err != nil {
		return err
	}
	here, there := filepath.Join(c.Dir, "locks"), filepath.Join(c.Dir, "volume")
	if err := errors.Join(os.Mkdir(here, 0o700), os.Mkdir(there, 0o700), unix.Mount(here, there, "", unix.MS_BIND, "")); err != nil {
		return err
	}
	first, err := Open(here, Options{})
	if err != nil {
		return err
	}
	second, err := Open(there, Options{})
	if err != nil {
		return err
	}
	r := Request{Namespace: "n", Lock: "job/j", Owner: onerun.NewID()}
	l, _, err := first.Acquire(context.Background(), r)
	if l == nil {
		return err
	}
	for _, what := range []string{"as it is", "lock file deleted"} {
		if l2, held, err := second.Acquire(context.Background(), r); held == nil {
			fmt.Printf("%s: lock %v, error %v\n", what, l2 != nil, err)
		}
		if s, err := second.Look("n", "job/j"); err != nil || !s.Held {
			fmt.Printf("%s: looks like %+v, error %v\n", what, s, err)
		}
		_ = os.Remove(l.Path)
	}
	fmt.Println("passed")
	return l.Release()
}

const nobody = 65534

// becomeNobody gives up all power over files, for good: it becomes another account, or
// where there is no other (a user namespace with one id), the same without capabilities.
func becomeNobody() error {
	if syscall.Setresuid(nobody, nobody, nobody) == nil {
		return nil
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var nothing [2]unix.CapUserData
	runtime.LockOSThread() // capabilities are a thread's
	return unix.Capset(&header, &nothing[0])
}

// A holder in a pid namespace of its own, as in a container, seen from outside.
func TestPIDNamespace(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			dir := lockDir(t)
			p := start(t, "sandbox pid 1", config{Dir: dir, Mode: m.mode, NoFlock: m.noFlock}, newNamespaces(syscall.CLONE_NEWPID))
			if got := p.expect("got"); got != "1" {
				t.Fatalf("the holder is PID %s", got)
			}
			d := mustOpen(t, dir, Options{NoFlock: m.noFlock})
			s, err := d.Look("default", "job/j")
			if err != nil || !s.Held || s.Note == nil || s.Note.PID != 1 || s.Verdict.Liveness == onerun.Dead {
				t.Errorf("held: looked like %+v, error %v", s, err)
			}
			mustHeld(t, d, request(m.mode))
			p.kill()
			s, err = d.Look("default", "job/j")
			if err != nil {
				t.Fatal(err)
			}
			if m.noFlock {
				// nothing shows here that it is gone, and no pid of it means anything
				if !s.Held || s.Verdict.Liveness != onerun.Unknown {
					t.Errorf("killed: looked like %+v", s)
				}
				mustHeld(t, d, request(m.mode))
				if err := d.Unlock("default", "job/j"); err != nil {
					t.Errorf("unlock: %v", err)
				}
				mustRelease(t, mustAcquire(t, d, request(m.mode)))
				return
			}
			if s.Held || s.Verdict.Liveness != onerun.Dead {
				t.Errorf("killed: looked like %+v", s)
			}
			l := mustAcquire(t, d, request(m.mode))
			if l.Previous == nil || l.Verdict.Liveness != onerun.Dead {
				t.Errorf("previous %+v, verdict %+v", l.Previous, l.Verdict)
			}
			mustRelease(t, l)
		})
	}
}
