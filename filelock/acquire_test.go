package filelock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

func TestAcquireRefusesMalformedRequests(t *testing.T) {
	d := mustOpen(t, lockDir(t), Options{})
	for name, change := range map[string]func(*Request){
		"no namespace":     func(r *Request) { r.Namespace = "" },
		"no lock":          func(r *Request) { r.Lock = "" },
		"no kind":          func(r *Request) { r.Lock = "j" },
		"unknown kind":     func(r *Request) { r.Lock = "file/j" },
		"no name":          func(r *Request) { r.Lock = "job/" },
		"slash":            func(r *Request) { r.Lock = "job/a/b" },
		"NUL":              func(r *Request) { r.Lock = "job/a\x00" },
		"key, no part":     func(r *Request) { r.Lock = "key/j" },
		"101 characters":   func(r *Request) { r.Lock = onerun.JobLock(strings.Repeat("a", 101)) },
		"unknown mode":     func(r *Request) { r.Mode = "hope" },
		"no owner":         func(r *Request) { r.Owner = "" },
		"a path for owner": func(r *Request) { r.Owner = "../../../../0123" },
	} {
		r := request(onerun.LockFlock)
		change(&r)
		l, held, err := d.Acquire(t.Context(), r)
		if l != nil || held != nil {
			t.Errorf("%s: accepted", name)
		}
		wantKind(t, err, onerun.ErrUsage)
	}
	_, _, err := mustOpen(t, lockDir(t), Options{NoFlock: true}).Acquire(t.Context(), request(onerun.LockFlock))
	wantKind(t, err, onerun.ErrCreate)
	if err == nil || !strings.Contains(err.Error(), "--lock-mode create") {
		t.Errorf("no flock: %v", err)
	}
	entries, err := os.ReadDir(d.path)
	if err != nil || len(entries) > 0 {
		t.Errorf("files were made: %v, error %v", entries, err)
	}
}

// Two processes, two descriptors of one process, the two modes, both ways: one holder.
func TestExclusion(t *testing.T) {
	for _, first := range modes {
		for _, second := range modes {
			if first.noFlock != second.noFlock && second.mode == onerun.LockFlock {
				continue // mode flock doesn't exist without flock
			}
			t.Run(first.name+", "+second.name, func(t *testing.T) {
				dir := lockDir(t)
				p := start(t, "hold", config{Dir: dir, Mode: first.mode, NoFlock: first.noFlock})
				pid := atoi(t, p.expect("got"))
				d := mustOpen(t, dir, Options{NoFlock: second.noFlock})
				if first.mode == onerun.LockFlock && second.noFlock {
					return // who can't see a flock can't be refused by one
				}
				for range 2 {
					h := mustHeld(t, d, request(second.mode))
					if h.Note == nil || h.Note.PID != pid || h.Liveness != onerun.Alive || h.Evidence == "" || h.Unreadable {
						t.Errorf("held %+v by %+v, want process %d", h, h.Note, pid)
					}
					if holder := h.Holder(); holder.Name != "j" || holder.RunID != "run" || holder.Worker.PID != pid || holder.Since.IsZero() {
						t.Errorf("holder %+v", holder)
					}
				}
				p.tell("release")
				p.expect("released <nil>")
				l := mustAcquire(t, d, request(second.mode))
				if l.Previous != nil || l.PreviousUnreadable || l.Verdict.Liveness != "" {
					t.Errorf("after a clean release: %+v, %+v", l.Previous, l.Verdict)
				}
				mustHeld(t, d, request(second.mode))
				mustRelease(t, l)
				mustRelease(t, l2(t, d, second.mode))
				if left := leftovers(t, dir); len(left) > 0 {
					t.Errorf("left behind: %q", left)
				}
			})
		}
	}
}

func l2(t *testing.T, d *Dir, mode onerun.LockMode) *Lock {
	r := request(mode)
	r.Lock = onerun.NamedLock("another")
	return mustAcquire(t, d, r)
}

func TestLocksOfOneDirectoryAreIndependent(t *testing.T) {
	d := mustOpen(t, lockDir(t), Options{})
	var locks []*Lock
	for _, ns := range []string{"default", "prod"} {
		for _, name := range []onerun.LockName{"job/j", "job/J", "name/j", "key/j:1", "key/j:2", onerun.JobLock(strings.Repeat("日", 90)), onerun.JobLock(strings.Repeat("日", 89) + "月")} {
			r := Request{Namespace: ns, Lock: name, Owner: onerun.NewID()}
			locks = append(locks, mustAcquire(t, d, r))
			r.Owner = onerun.NewID()
			mustHeld(t, d, r)
		}
	}
	for _, l := range locks {
		mustRelease(t, l)
	}
}

func TestWait(t *testing.T) {
	for _, m := range modes[:2] {
		t.Run(m.name, func(t *testing.T) {
			d := mustOpen(t, lockDir(t), Options{})
			first := mustAcquire(t, d, request(m.mode))
			r := request(m.mode)
			r.Wait = true
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, held, err := d.Acquire(ctx, r); held != nil || !errors.Is(err, context.Canceled) {
				t.Errorf("over before: held %v, error %v", held, err)
			}
			ctx, cancel = context.WithTimeout(t.Context(), 30*time.Millisecond)
			defer cancel()
			if _, held, err := d.Acquire(ctx, r); held != nil || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("over while waiting: held %v, error %v", held, err)
			}
			got := make(chan outcome, 1)
			go func() {
				l, held, err := d.Acquire(t.Context(), r)
				got <- outcome{l, held, err}
			}()
			await(t, "waiter", func() bool { return blockedOn(t, first.lock.id.ino) >= 2 }) // one was given up
			if err := first.Write(Note{RunID: "first", State: StateInProcess}); err != nil {
				t.Fatal(err)
			}
			if err := first.Release(); err != nil {
				t.Fatal(err)
			}
			o := <-got
			if o.lock == nil {
				t.Fatalf("held %+v, error %v", o.held, o.err)
			}
			// what was written while it waited is seen, and the one that gave up holds nothing
			if o.lock.Previous == nil || o.lock.Previous.RunID != "first" {
				t.Errorf("previous %+v", o.lock.Previous)
			}
			mustHeld(t, d, request(m.mode))
			mustRelease(t, o.lock)
			await(t, "given-up waiter", func() bool { return blockedOn(t, o.lock.lock.id.ino) == 0 })
			mustRelease(t, mustAcquire(t, d, request(m.mode)))
		})
	}
}

// blockedOn counts those that wait for a flock, by /proc/locks.
func blockedOn(t *testing.T, ino uint64) (n int) {
	text, err := readLocks()
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		if len(f) > 6 && string(f[1]) == "->" && bytes.HasSuffix(f[6], fmt.Appendf(nil, ":%d", ino)) {
			n++
		}
	}
	return n
}

// A .lock full of anything recovers by itself, since the flock decides. (B17)
func TestJunkInLockFile(t *testing.T) {
	texts := junk(t)
	texts["empty"] = nil
	for name, text := range texts {
		dir := lockDir(t)
		plantBytes(t, dir, lockSuffix, text)
		d := mustOpen(t, dir, Options{})
		l := mustAcquire(t, d, request(onerun.LockFlock))
		if l.Previous != nil || l.PreviousUnreadable != (text != nil) || text != nil && l.Verdict.Liveness != onerun.Unknown {
			t.Errorf("%s: previous %+v, unreadable %v, verdict %+v", name, l.Previous, l.PreviousUnreadable, l.Verdict)
		}
		if err := l.Write(Note{RunID: "r"}); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(l.Path); err != nil || info.Size() > noteMax {
			t.Errorf("%s: %d bytes after a note, error %v", name, info.Size(), err)
		}
		h := mustHeld(t, d, request(onerun.LockFlock))
		if h.Note == nil || h.Note.RunID != "r" {
			t.Errorf("%s: held %+v", name, h)
		}
		mustRelease(t, l)
		l = mustAcquire(t, d, request(onerun.LockFlock))
		if l.Previous != nil || l.PreviousUnreadable {
			t.Errorf("%s: not cleared: %+v", name, l)
		}
		mustRelease(t, l)
	}
}

// An .excl that can't be read is never taken for dead; only an operator removes it. (B17)
func TestJunkInExclFile(t *testing.T) {
	texts := junk(t)
	texts["empty"] = nil
	for name, text := range texts {
		for _, m := range modes {
			dir := lockDir(t)
			plantBytes(t, dir, exclSuffix, text)
			d := mustOpen(t, dir, Options{NoFlock: m.noFlock})
			h := mustHeld(t, d, request(m.mode))
			if !h.Unreadable || h.Note != nil || h.Liveness != onerun.Unknown || !strings.HasSuffix(h.Path, exclSuffix) {
				t.Errorf("%s, %s: %+v", name, m.name, h)
			}
			if s, err := d.Look("default", "job/j"); err != nil || !s.Held || !s.Unreadable || s.Verdict.Liveness != onerun.Unknown {
				t.Errorf("%s, %s: looks like %+v, error %v", name, m.name, s, err)
			}
			if err := d.Unlock("default", "job/j"); err != nil {
				t.Errorf("%s, %s: unlock: %v", name, m.name, err)
			}
			mustRelease(t, mustAcquire(t, d, request(m.mode)))
			if left := leftovers(t, dir); len(left) > 0 {
				t.Errorf("%s: left behind: %q", name, left)
			}
		}
	}
}

// Somebody planted something where our files are to be. It is refused, at once, and what
// it leads to isn't touched. (B20)
func TestPlantedFiles(t *testing.T) {
	kinds := map[string]func(path, target string) error{
		"symbolic link":        func(path, target string) error { return os.Symlink(target, path) },
		"broken symbolic link": func(path, target string) error { return os.Symlink(target+"-missing", path) },
		"directory":            func(path, _ string) error { return os.Mkdir(path, 0o700) },
		"FIFO":                 func(path, _ string) error { return syscall.Mkfifo(path, 0o600) },
		"hard link":            func(path, target string) error { return os.Link(target, path) },
		"socket": func(path, _ string) error {
			fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			defer func() { _ = syscall.Close(fd) }()
			return syscall.Bind(fd, &syscall.SockaddrUnix{Name: path})
		},
	}
	for name, make := range kinds {
		for _, suffix := range []string{lockSuffix, exclSuffix, heldName} {
			for _, m := range modes {
				if m.noFlock && suffix != exclSuffix || name == "hard link" && suffix == exclSuffix {
					continue // not used; an .excl of somebody else's is only read
				}
				// the path of a socket is short
				dir, err := os.MkdirTemp("", "p")
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = os.RemoveAll(dir) }()
				target, path := filepath.Join(t.TempDir(), "target"), filepath.Join(dir, base()+suffix)
				if suffix == heldName {
					path = filepath.Join(dir, heldName)
				}
				content := []byte("precious\n")
				if err := errors.Join(os.WriteFile(target, content, 0o644), make(path, target)); err != nil {
					t.Fatal(err)
				}
				d := mustOpen(t, dir, Options{NoFlock: m.noFlock})
				l, held, err := d.Acquire(t.Context(), request(m.mode))
				if l != nil || held != nil {
					t.Errorf("%s at %s, %s: lock %v, held %+v", name, suffix, m.name, l != nil, held)
				}
				wantKind(t, err, onerun.ErrCreate)
				if err != nil && !strings.Contains(err.Error(), path) {
					t.Errorf("%s: %q doesn't name %s", name, err, path)
				}
				text, err := os.ReadFile(target)
				info, err2 := os.Stat(target)
				if err != nil || err2 != nil || !bytes.Equal(text, content) || info.Mode() != 0o644 {
					t.Errorf("%s at %s: the target changed: %q, %v, %v, %v", name, suffix, text, info.Mode(), err, err2)
				}
				if suffix == exclSuffix {
					wantKind(t, d.Unlock("default", "job/j"), onerun.ErrCreate)
				}
			}
		}
	}
}

func TestDirectoryVanishes(t *testing.T) {
	dir := lockDir(t)
	d := mustOpen(t, dir, Options{})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for _, m := range modes[:2] {
		_, held, err := d.Acquire(t.Context(), request(m.mode))
		if held != nil {
			t.Errorf("held %+v", held)
		}
		wantKind(t, err, onerun.ErrCreate)
	}
}

// Files deleted under a holder: it notices, and nobody else gets in. (B18)
func TestDeletedUnderHolder(t *testing.T) {
	for _, c := range []struct {
		name  string
		files func(dir string) []string
	}{
		{"lock file", func(dir string) []string { return []string{base() + lockSuffix} }},
		{"rm -rf dir/*", func(dir string) []string { return glob(dir, "[^.]*") }},
		{"all files", func(dir string) []string { return append(glob(dir, "[^.]*"), heldName) }},
		{".held", func(dir string) []string { return []string{heldName} }},
	} {
		for _, m := range modes[:2] {
			t.Run(c.name+", "+m.name, func(t *testing.T) {
				dir := lockDir(t)
				d := mustOpen(t, dir, Options{})
				p := start(t, "hold", config{Dir: dir, Mode: m.mode})
				p.expect("got")
				p.tell("deleted")
				p.expect("deleted false")
				for _, name := range c.files(dir) {
					if err := os.Remove(filepath.Join(dir, name)); err != nil {
						t.Fatal(err)
					}
				}
				p.tell("deleted")
				p.expect("deleted true")
				for range 3 { // the second and third find what the first has made
					for _, mode := range modes[:2] {
						h := mustHeld(t, d, request(mode.mode))
						if h.Liveness != onerun.Alive || h.Evidence == "" {
							t.Errorf("held %+v", h)
						}
					}
				}
				l := l2(t, d, m.mode) // other locks are free
				s, err := d.Look("default", "job/j")
				if err != nil || !s.Held || s.Verdict.Liveness != onerun.Alive {
					t.Errorf("looks like %+v, error %v", s, err)
				}
				r := request(m.mode)
				r.Wait = true
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer cancel()
				if _, held, err := d.Acquire(ctx, r); held != nil && m.mode == onerun.LockFlock || held == nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("waiting: held %v, error %v", held, err)
				}
				p.kill()
				mustRelease(t, l)
				mustRelease(t, mustAcquire(t, d, request(m.mode)))
				mustRelease(t, mustAcquire(t, d, request(m.mode)))
			})
		}
	}
}

// The directory itself is deleted and made again.
func TestDirectoryMadeAgain(t *testing.T) {
	for _, m := range modes[:2] {
		t.Run(m.name, func(t *testing.T) {
			dir := lockDir(t)
			p := start(t, "hold", config{Dir: dir, Mode: m.mode})
			p.expect("got")
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			d := mustOpen(t, dir, Options{})
			p.tell("deleted")
			p.expect("deleted true")
			for range 2 {
				mustHeld(t, d, request(m.mode))
			}
			if s, err := d.Look("default", "job/j"); err != nil || !s.Held {
				t.Errorf("looks like %+v, error %v", s, err)
			}
			p.kill()
			mustRelease(t, mustAcquire(t, d, request(m.mode)))
		})
	}
}

func glob(dir, pattern string) (names []string) {
	paths, _ := filepath.Glob(filepath.Join(dir, pattern))
	for _, p := range paths {
		names = append(names, filepath.Base(p))
	}
	return names
}

// A copy of .held, as a restored backup has it, isn't taken for the file that was seen to
// have no deleted one beside it.
func TestRestoredBackup(t *testing.T) {
	dir := lockDir(t)
	d := mustOpen(t, dir, Options{})
	mustRelease(t, mustAcquire(t, d, request(onerun.LockFlock)))
	held := filepath.Join(dir, heldName)
	text, err := os.ReadFile(held)
	if err != nil || len(text) == 0 {
		t.Fatalf("%q, error %v: .held isn't settled", text, err)
	}
	p := start(t, "hold", config{Dir: dir, Mode: onerun.LockFlock})
	p.expect("got")
	for _, name := range []string{held, filepath.Join(dir, base()+lockSuffix)} {
		if err := errors.Join(os.WriteFile(name+"~", text, 0o600), os.Remove(name), os.Rename(name+"~", name)); err != nil {
			t.Fatal(err)
		}
	}
	mustHeld(t, d, request(onerun.LockFlock))
}

// Whatever the job leaves in the background, it can't hold the lock. (B19)
func TestChildrenInheritNothing(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			dir := lockDir(t)
			p := start(t, "hold", config{Dir: dir, Mode: m.mode, NoFlock: m.noFlock})
			p.expect("got")
			p.tell("spawn")
			pid := atoi(t, p.expect("child"))
			defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
			fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
			if err != nil {
				t.Fatal(err)
			}
			for _, fd := range fds {
				path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
				if errors.Is(err, os.ErrNotExist) { // closed since the list was read
					continue
				}
				if err != nil || strings.HasPrefix(path, dir) {
					t.Errorf("the child has %s, error %v", path, err)
				}
			}
			p.kill()
			l := mustAcquire(t, mustOpen(t, dir, Options{NoFlock: m.noFlock}), request(m.mode))
			if l.Verdict.Liveness != onerun.Dead {
				t.Errorf("verdict %+v", l.Verdict)
			}
			mustRelease(t, l)
		})
	}
}

// While one thread gives locks back, others fork: a child between fork and exec has
// duplicates of all descriptors, but no lock may last for its sake.
func TestReleaseWhileForking(t *testing.T) {
	d := mustOpen(t, lockDir(t), Options{})
	stop := make(chan struct{})
	defer close(stop)
	for range 2 {
		go func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = exec.Command("/bin/true").Run()
				}
			}
		}()
	}
	for range 2000 {
		l, held, err := d.Acquire(t.Context(), request(onerun.LockFlock))
		if l == nil {
			t.Fatalf("held %+v, error %v", held, err)
		}
		mustRelease(t, l)
	}
}
