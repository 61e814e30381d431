package filelock

import (
	"bytes"
	"context"
	"encoding/json"
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
	"github.com/onerun-dev/onerun/internal/procfs"
)

// inherited has the numbers of a guard's descriptors: those of ExtraFiles (os/exec).
const inheritedFrom = 3

// helperGuard inherits a lock and does with it what it is told.
func helperGuard(c config) error {
	d, err := c.open()
	if err != nil {
		return err
	}
	var fds []int
	for i := range c.Count {
		fds = append(fds, inheritedFrom+i)
	}
	l, _, err := d.Inherit(c.request(), fds)
	if err != nil {
		return err
	}
	fmt.Println("inherited")
	for {
		switch cmd := readCommand(); cmd {
		case "":
			return nil
		case "outcome":
			fmt.Println("outcome", l.SetOutcome(Outcome{Status: onerun.Failed, Reason: onerun.ReasonOwnerDied}))
		case "release":
			fmt.Println("released", errors.Join(l.Clear(), l.Release()))
		}
	}
}

// startGuard starts one that shares a lock of this process.
func startGuard(t *testing.T, l *Lock, c config) *process {
	t.Helper()
	fds := l.Descriptors()
	c.Count = len(fds)
	p := start(t, "guard", c, func(cmd *exec.Cmd) {
		for _, fd := range fds {
			dup, err := syscall.Dup(fd) // an *os.File of the lock's own descriptor would close it
			if err != nil {
				t.Fatal(err)
			}
			cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(dup), "lock"))
		}
	})
	for _, f := range p.cmd.ExtraFiles {
		_ = f.Close()
	}
	p.expect("inherited")
	return p
}

// helperWrapper takes a lock, starts a guard, and dies.
func helperWrapper(c config) error {
	d, err := c.open()
	if err != nil {
		return err
	}
	l, held, err := d.Acquire(context.Background(), c.request())
	if l == nil {
		return fmt.Errorf("held %v, error %w", held, err)
	}
	if err := l.Write(Note{RunID: "run", State: StateInProcess}); err != nil {
		return err
	}
	guard := exec.Command("/proc/self/exe")
	fds := l.Descriptors()
	c.Count = len(fds)
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	guard.Env = append(os.Environ(), helperEnv+"=guard", configEnv+"="+string(text))
	guard.Stdin, guard.Stdout, guard.Stderr = os.Stdin, os.Stdout, os.Stderr
	for _, fd := range fds {
		dup, err := syscall.Dup(fd)
		if err != nil {
			return err
		}
		guard.ExtraFiles = append(guard.ExtraFiles, os.NewFile(uintptr(dup), "lock"))
	}
	if err := guard.Start(); err != nil {
		return err
	}
	s, err := procfs.ReadStat(guard.Process.Pid)
	if err != nil {
		return err
	}
	if err := l.SetGuard(s.PID, s.StartTicks); err != nil {
		return err
	}
	fmt.Println("guard", guard.Process.Pid)
	return guard.Wait() // its parent kills it meanwhile
}

// The wrapper is killed. As long as its guard works, nobody gets the lock; the guard notes
// the end and gives the lock back.
func TestGuardKeepsTheLock(t *testing.T) {
	for _, m := range modes {
		for _, end := range []string{"releases", "is killed", "notes and is killed"} {
			t.Run(m.name+", "+end, func(t *testing.T) {
				dir := lockDir(t)
				owner := onerun.NewID()
				p := start(t, "wrapper", config{Dir: dir, Mode: m.mode, NoFlock: m.noFlock, Owner: owner})
				lines := []string{p.line(), p.line()} // of two processes, in either order
				if strings.HasPrefix(lines[1], "guard") {
					lines[0], lines[1] = lines[1], lines[0]
				}
				guard := atoi(t, strings.TrimPrefix(lines[0], "guard "))
				defer func() { _ = syscall.Kill(guard, syscall.SIGKILL) }()
				if lines[1] != "inherited" {
					t.Fatalf("guard said %q", lines[1])
				}
				_ = p.cmd.Process.Kill()
				_, _ = p.cmd.Process.Wait()
				d := mustOpen(t, dir, Options{NoFlock: m.noFlock})
				h := mustHeld(t, d, request(m.mode))
				if h.Liveness != onerun.Alive {
					t.Errorf("held %+v", h)
				}
				if s, err := d.Look("default", "job/j"); err != nil || !s.Held {
					t.Errorf("looks like %+v, error %v", s, err)
				}
				if end == "notes and is killed" {
					p.tell("outcome")
					p.expect("outcome <nil>")
					mustHeld(t, d, request(m.mode))
				}
				if end == "releases" {
					p.tell("outcome")
					p.expect("outcome <nil>")
					p.tell("release")
					p.expect("released <nil>")
				} else {
					_ = syscall.Kill(guard, syscall.SIGKILL)
					await(t, "guard's end", func() bool { return mustDead(procfs.Judge(procfs.Identity{PID: guard})) })
				}
				l := mustAcquire(t, d, request(m.mode))
				switch {
				case end == "releases":
					if l.Previous != nil {
						t.Errorf("previous %+v", l.Previous)
					}
				case l.Previous == nil || l.Previous.Owner != owner || l.Verdict.Liveness != onerun.Dead:
					t.Errorf("previous %+v, verdict %+v", l.Previous, l.Verdict)
				case end == "notes and is killed" && (l.Previous.Outcome == nil || l.Previous.Outcome.Reason != onerun.ReasonOwnerDied):
					t.Errorf("outcome %+v", l.Previous.Outcome)
				}
				mustRelease(t, l)
				if left := leftovers(t, dir); len(left) > 0 {
					t.Errorf("left behind: %q", left)
				}
			})
		}
	}
}

func TestInheritRefusesAnotherOwner(t *testing.T) {
	d := mustOpen(t, lockDir(t), Options{})
	r := request(onerun.LockFlock)
	l := mustAcquire(t, d, r)
	_, _, err := d.Inherit(r, l.Descriptors())
	wantKind(t, err, onerun.ErrLost) // nothing is noted yet
	if err := l.Write(Note{}); err != nil {
		t.Fatal(err)
	}
	_, _, err = d.Inherit(request(onerun.LockFlock), l.Descriptors())
	wantKind(t, err, onerun.ErrLost)
	_, _, err = d.Inherit(r, nil)
	wantKind(t, err, onerun.ErrInternal)
	_, _, err = d.Inherit(r, []int{1 << 20})
	wantKind(t, err, onerun.ErrIO)
	mustRelease(t, l)
}

// Release frees the lock for all that share it, once, and then refuses everything.
func TestRelease(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			dir := lockDir(t)
			d := mustOpen(t, dir, Options{NoFlock: m.noFlock})
			r := request(m.mode)
			l := mustAcquire(t, d, r)
			wantKind(t, l.SetGroup(1, 1), onerun.ErrInternal)
			if err := l.Write(Note{}); err != nil {
				t.Fatal(err)
			}
			startGuard(t, l, config{Dir: dir, Mode: m.mode, NoFlock: m.noFlock, Owner: r.Owner})
			for range 2 {
				if err := l.Release(); err != nil {
					t.Errorf("release: %v", err)
				}
			}
			next := mustAcquire(t, d, request(m.mode))
			for _, err := range []error{l.Write(Note{}), l.SetGroup(2, 2), l.SetGuard(2, 2), l.SetOutcome(Outcome{}), l.Clear(), l.Sync()} {
				wantKind(t, err, onerun.ErrLost)
			}
			if l.Deleted() || len(l.Descriptors()) > 0 {
				t.Error("a released lock has something still")
			}
			if err := l.Release(); err != nil || next.Deleted() {
				t.Errorf("a second release hit the next owner: %v", err)
			}
			mustHeld(t, d, request(m.mode))
			mustRelease(t, next)
		})
	}
}

// Whoever asks while a lock is being given back finds it held, or gets it. Never does it
// look as if a file had been deleted under its holder: the flock is the last to go.
func TestReleaseOrder(t *testing.T) {
	for _, lock := range []onerun.LockName{"job/j", "key/j:1"} {
		for _, m := range modes[:2] {
			for at := 1; ; at++ {
				dir := lockDir(t)
				armed, n := false, 0
				reached, resume := make(chan string, 1), make(chan struct{})
				d := mustOpen(t, dir, Options{Hook: func(step string) {
					if armed {
						if n++; n == at {
							reached <- step
							<-resume
						}
					}
				}})
				r := request(m.mode)
				r.Lock = lock
				l := mustAcquire(t, d, r)
				armed = true
				released := make(chan error, 1)
				go func() { released <- l.Release() }()
				select {
				case err := <-released:
					if err != nil || at < 3 {
						t.Errorf("%s, %s: %d steps, error %v", lock, m.name, at-1, err)
					}
				case step := <-reached:
					r.Owner = onerun.NewID()
					next, held, err := mustOpen(t, dir, Options{}).Acquire(t.Context(), r)
					if err != nil || held != nil && strings.Contains(held.Evidence, "deleted") {
						t.Errorf("%s, %s, %s: held %+v, error %v", lock, m.name, step, held, err)
					}
					close(resume)
					if err := <-released; err != nil {
						t.Errorf("%s, %s, %s: %v", lock, m.name, step, err)
					}
					if next != nil {
						mustHeld(t, d, r)
						mustRelease(t, next)
					}
					continue
				}
				break
			}
		}
	}
}

// X.excl is removed only when it is still ours: an operator may have removed it, and a
// third process may have made its own.
func TestReleaseSparesAnothersExcl(t *testing.T) {
	for _, m := range modes[1:] {
		t.Run(m.name, func(t *testing.T) {
			dir := lockDir(t)
			d := mustOpen(t, dir, Options{NoFlock: m.noFlock})
			l := mustAcquire(t, d, request(m.mode))
			x := filepath.Join(dir, base()+exclSuffix)
			if err := os.Remove(x); err != nil {
				t.Fatal(err)
			}
			n := deadNote(t)
			plant(t, dir, exclSuffix, n)
			mustRelease(t, l)
			got, err := d.readExcl(base() + exclSuffix)
			if err != nil || got == nil || got.note.Owner != n.Owner {
				t.Errorf("another's .excl is gone: %+v, error %v", got, err)
			}
			// our own, but somebody wrote into it
			mustRelease(t, mustAcquire(t, d, request(m.mode)))
			l = mustAcquire(t, d, request(m.mode))
			if err := os.WriteFile(x, []byte("junk"), 0o600); err != nil {
				t.Fatal(err)
			}
			mustRelease(t, l)
			if left := leftovers(t, dir); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

func TestKeyLockFiles(t *testing.T) {
	dir := lockDir(t)
	d := mustOpen(t, dir, Options{})
	r := Request{Namespace: "default", Lock: onerun.KeyLock("j:2026-09-15"), Owner: onerun.NewID()}
	l := mustAcquire(t, d, r)
	if err := l.Write(Note{RunID: "run"}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(l.Path)
	if err != nil || bytes.Contains(text, []byte("2026-09-15")) || !bytes.Contains(text, []byte(`"kind":"key","name":"j"`)) {
		t.Errorf("%s, error %v", text, err)
	}
	// what nobody has taken up isn't thrown away
	if err := l.SetOutcome(Outcome{Status: onerun.Succeeded}); err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	l = mustAcquire(t, d, r)
	if l.Previous == nil || l.Previous.Outcome == nil {
		t.Errorf("previous %+v", l.Previous)
	}
	if err := l.Release(); err != nil { // refused: it looked only
		t.Fatal(err)
	}
	l = mustAcquire(t, d, r)
	if l.Previous == nil {
		t.Error("the note is gone")
	}
	mustRelease(t, l)
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("files %v, error %v; want .held alone", entries, err)
	}
	// a job's file stays
	l = mustAcquire(t, d, request(onerun.LockFlock))
	mustRelease(t, l)
	if _, err := os.Stat(l.Path); err != nil {
		t.Error(err)
	}
}

// The documented life of a note, read as another program would.
func TestNoteInFiles(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			d := mustOpen(t, lockDir(t), Options{NoFlock: m.noFlock})
			r := request(m.mode)
			r.VersionLabel = "v1"
			l := mustAcquire(t, d, r)
			read := func() Note {
				t.Helper()
				text, err := os.ReadFile(l.Path)
				var n Note
				if err == nil {
					err = json.Unmarshal(text, &n) // the whole file is one JSON document
				}
				if err != nil {
					t.Fatalf("%v in %q", err, text)
				}
				return n
			}
			if m.mode == onerun.LockCreate {
				if n := read(); n.State != StateStarting || n.Owner != r.Owner || n.PID != os.Getpid() {
					t.Errorf("published %+v", n)
				}
			}
			start := time.Now().Round(time.Second)
			if err := l.Write(Note{RunID: "run", Attempt: 2, Token: 5, StartedAt: start}); err != nil {
				t.Fatal(err)
			}
			n := read()
			me := thisWorker()
			if n.Kind != "job" || n.Name != "j" || n.Namespace != "default" || n.Owner != r.Owner || n.RunID != "run" || n.Attempt != 2 ||
				n.Token != 5 || n.VersionLabel != "v1" || !n.StartedAt.Equal(start) || n.Worker() != me || n.State != StateStarting || n.Flock == m.noFlock {
				t.Errorf("written %+v", n)
			}
			if err := l.SetGroup(77, 88); err != nil {
				t.Fatal(err)
			}
			if n := read(); n.State != StateRunning || n.Group != 77 || n.GroupStartTicks != 88 || n.RunID != "run" {
				t.Errorf("running %+v", n)
			}
			code := 4
			o := onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit, ExitCode: &code, Error: "no\nmoney", FinishedAt: start}
			if err := errors.Join(l.SetOutcome(NewOutcome(o)), l.Sync()); err != nil {
				t.Fatal(err)
			}
			if n := read(); n.State != StateEnded || n.Outcome.Outcome().Error != o.Error || *n.Outcome.ExitCode != 4 || n.Group != 77 {
				t.Errorf("ended %+v", n)
			}
			mustRelease(t, l)
			text, err := os.ReadFile(filepath.Join(d.path, base()+lockSuffix))
			if !m.noFlock && (err != nil || string(text) != "\n") {
				t.Errorf("cleared: %q, error %v", text, err)
			}
		})
	}
}

// Without flock there is one place for an outcome that nobody took up. It lasts until
// somebody has, however many die on the way.
func TestOutcomeOutlastsTakeovers(t *testing.T) {
	dir := lockDir(t)
	d := mustOpen(t, dir, Options{NoFlock: true})
	l := mustAcquire(t, d, request(onerun.LockCreate))
	if err := errors.Join(l.Write(Note{RunID: "run", Attempt: 1}), l.SetOutcome(Outcome{Status: onerun.Succeeded}), l.Release()); err != nil {
		t.Fatal(err)
	}
	for range 3 { // killed after they took over, before they wrote a note of their own
		var steps int
		count := mustOpen(t, copyDir(t, dir), Options{NoFlock: true, Hook: func(string) { steps++ }})
		mustRelease(t, mustAcquire(t, count, request(onerun.LockCreate)))
		p := start(t, "cycle", config{Dir: dir, Mode: onerun.LockCreate, NoFlock: true, KillAt: takeoverDone})
		if s := p.line(); s != "step takeover: mark removed" {
			t.Fatalf("killed at %q of %d", s, steps)
		}
		_ = p.cmd.Wait()
	}
	l = mustAcquire(t, d, request(onerun.LockCreate))
	if l.Left == nil || l.Left.RunID != "run" || l.Left.Outcome.Status != onerun.Succeeded {
		t.Errorf("left %+v, previous %+v", l.Left, l.Previous)
	}
	if err := l.Write(Note{RunID: "next"}); err != nil { // taken up
		t.Fatal(err)
	}
	if x, err := d.readExcl(base() + exclSuffix); err != nil || x.note.Left != nil {
		t.Errorf("%+v, error %v", x, err)
	}
	mustRelease(t, l)
}

// takeoverDone is the number of the step after which a takeover without flock is complete.
const takeoverDone = 7

func copyDir(t *testing.T, dir string) string {
	to := lockDir(t)
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}
