package filelock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

func look(t *testing.T, d *Dir) State {
	t.Helper()
	s, err := d.Look("default", "job/j")
	if err != nil {
		t.Fatal(err)
	}
	if s.Namespace != "default" || s.Lock != "job/j" || !strings.HasPrefix(s.Path, d.path+"/"+base()) {
		t.Errorf("about %q %q at %s", s.Namespace, s.Lock, s.Path)
	}
	return s
}

func TestLook(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			dir := lockDir(t)
			d := mustOpen(t, dir, Options{NoFlock: m.noFlock})
			if s := look(t, d); s.Held || s.Note != nil || s.Unreadable || s.Verdict.Liveness != "" {
				t.Errorf("nothing yet: %+v", s)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
				t.Errorf("looking made %v, error %v", entries, err)
			}
			r := request(m.mode)
			l := mustAcquire(t, d, r)
			if s := look(t, d); !s.Held || s.Mode != m.mode || s.Verdict.Liveness != onerun.Alive || s.Deleted {
				t.Errorf("acquired: %+v", s)
			}
			if err := l.Write(Note{RunID: "run", State: StateInProcess}); err != nil {
				t.Fatal(err)
			}
			if s := look(t, d); !s.Held || s.Note == nil || s.Note.RunID != "run" || s.Path != l.Path {
				t.Errorf("noted: %+v", s)
			}
			if states, err := d.List(); err != nil || len(states) != 1 || !states[0].Held || states[0].Lock != "job/j" || states[0].Namespace != "default" {
				t.Errorf("list: %+v, error %v", states, err)
			}
			mustRelease(t, l)
			if s := look(t, d); s.Held || s.Note != nil || s.Verdict.Liveness != "" {
				t.Errorf("released: %+v", s)
			}
			n := deadNote(t)
			suffix := exclSuffix
			if m.mode == onerun.LockFlock {
				suffix = lockSuffix
			}
			plant(t, dir, suffix, n)
			if s := look(t, d); s.Held || s.Note == nil || s.Note.Owner != n.Owner || s.Verdict.Liveness != onerun.Dead {
				t.Errorf("dead owner: %+v", s)
			}
			n.Host = "elsewhere"
			plant(t, dir, suffix, n)
			if s := look(t, d); s.Held != (m.mode == onerun.LockCreate) || s.Verdict.Liveness != onerun.Unknown {
				t.Errorf("foreign owner: %+v", s)
			}
			_, err := d.Look("default", "job/a b")
			wantKind(t, err, onerun.ErrUsage)
		})
	}
}

// While somebody looks as fast as it can, a free lock is never refused.
func TestLookingTakesNothing(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			dir := lockDir(t)
			stop, done := make(chan struct{}), make(chan error, 2)
			for range 2 {
				go func() {
					d, err := Open(dir, Options{NoFlock: m.noFlock, AllowNetwork: true})
					for err == nil {
						select {
						case <-stop:
							done <- d.Close()
							return
						default:
							_, err = d.Look("default", "job/j")
							_, err2 := d.List()
							err = errors.Join(err, err2)
						}
					}
					done <- err
				}()
			}
			d := mustOpen(t, dir, Options{NoFlock: m.noFlock})
			for range 300 {
				mustRelease(t, mustAcquireQuiet(t, d, request(m.mode)))
			}
			close(stop)
			for range 2 {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// mustAcquireQuiet is mustAcquire for many locks of one test.
func mustAcquireQuiet(t *testing.T, d *Dir, r Request) *Lock {
	t.Helper()
	l, held, err := d.Acquire(t.Context(), r)
	if l == nil {
		t.Fatalf("held %+v, error %v", held, err)
	}
	return l
}

// Without open file description locks, /proc/locks tells who holds a flock.
func TestLookWithoutRanges(t *testing.T) {
	d := mustOpen(t, lockDir(t), Options{noRange: true})
	l := mustAcquire(t, d, request(onerun.LockFlock))
	if err := l.Write(Note{State: StateInProcess}); err != nil {
		t.Fatal(err)
	}
	if s := look(t, d); !s.Held || s.Verdict.Liveness != onerun.Alive {
		t.Errorf("held: %+v", s)
	}
	mustHeld(t, d, request(onerun.LockFlock))
	mustRelease(t, l)
	if s := look(t, d); s.Held {
		t.Errorf("released: %+v", s)
	}
	mustRelease(t, mustAcquire(t, d, request(onerun.LockFlock)))
}

// What /proc/locks may show while .held is young. The list isn't one moment: a line can
// stand in it twice.
func TestOthersListed(t *testing.T) {
	mine := listedRange{5, "fe:00", "10"}
	for name, c := range map[string]struct {
		ranges             []listedRange
		same, other, known bool
	}{
		"nobody, not even we":          {nil, false, false, false},
		"we alone":                     {[]listedRange{mine}, false, false, true},
		"we twice":                     {[]listedRange{mine, mine}, false, false, true},
		"other locks of our file":      {[]listedRange{{6, "fe:00", "10"}, mine}, false, false, true},
		"the same in a deleted file":   {[]listedRange{{5, "fe:00", "9"}, mine}, true, true, true},
		"another in a deleted file":    {[]listedRange{mine, {6, "fe:00", "9"}}, false, true, true},
		"the same on another device":   {[]listedRange{{5, "fe:01", "9"}, mine}, false, false, true},
		"our inode has another number": {[]listedRange{{5, "0:33", "77"}}, false, false, true},
		"and so has another's":         {[]listedRange{{5, "0:33", "77"}, {5, "0:33", "78"}}, true, true, true},
	} {
		if same, other, known := others(c.ranges, 5, "10"); same != c.same || other != c.other || known != c.known {
			t.Errorf("%s: %v, %v, %v", name, same, other, known)
		}
	}
}

func TestListSweeps(t *testing.T) {
	dir := lockDir(t)
	d := mustOpen(t, dir, Options{})
	dead, live, first := deadNote(t), deadNote(t), deadNote(t)
	live.setWorker(thisWorker())
	live.State = StateInProcess
	gone := []string{newInfix + "1", markName("", onerun.NewID()), newInfix + "3"}
	plant(t, dir, exclSuffix+gone[0], dead)
	plant(t, dir, exclSuffix+gone[1], dead)
	plantBytes(t, dir, exclSuffix+gone[2], nil)
	old := time.Now().Add(-2 * sweepAge)
	if err := os.Chtimes(filepath.Join(dir, base()+exclSuffix+gone[2]), old, old); err != nil {
		t.Fatal(err)
	}
	stay := []string{newInfix + "4", markName("", onerun.NewID()), newInfix + "5", markName("", first.Owner)}
	plant(t, dir, exclSuffix+stay[0], live)
	plant(t, dir, exclSuffix+stay[1], live)
	plantBytes(t, dir, exclSuffix+stay[2], nil) // its maker may be about to write
	plant(t, dir, exclSuffix, first)
	plant(t, dir, exclSuffix+stay[3], dead) // it decides who takes over from first
	if states, err := d.List(); err != nil || len(states) != 1 {
		t.Errorf("%d states, error %v", len(states), err)
	}
	var want []string
	for _, s := range append(stay, "") {
		want = append(want, base()+exclSuffix+s)
	}
	slices.Sort(want)
	if got := leftovers(t, dir); !slices.Equal(got, want) {
		t.Errorf("left: %q\nwant: %q", got, want)
	}
}

// foreign makes a lock of this process look like another host's, about which nothing can
// be proven here.
func foreign(t *testing.T, l *Lock) {
	t.Helper()
	if err := l.change(func(n *Note) error { n.Host, l.written = "elsewhere", true; return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestUnlock(t *testing.T) {
	for _, m := range modes[1:] {
		t.Run(m.name, func(t *testing.T) {
			dir := lockDir(t)
			d := mustOpen(t, dir, Options{NoFlock: m.noFlock})
			wantKind(t, d.Unlock("default", "job/j"), onerun.ErrNotFound)
			wantKind(t, d.Unlock("default", "job/"), onerun.ErrUsage)
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
				t.Errorf("files %v, error %v", entries, err)
			}
			l := mustAcquire(t, d, request(m.mode))
			wantKind(t, d.Unlock("default", "job/j"), onerun.ErrState)
			if l.Deleted() {
				t.Fatal("a living owner's file was removed")
			}
			mustRelease(t, l)
			for name, change := range map[string]func(*Note){
				"dead":              func(*Note) {},
				"another host":      func(n *Note) { n.Host = "elsewhere" },
				"unknown kernel":    func(n *Note) { n.Boot = "" },
				"pid namespace":     func(n *Note) { n.PIDNS++ },
				"unknown to us":     func(n *Note) { n.State = "dreaming" },
				"foreign, with pid": func(n *Note) { n.Host, n.PID, n.StartTicks = "elsewhere", os.Getpid(), thisWorker().StartTicks },
			} {
				n := deadNote(t)
				change(&n)
				plant(t, dir, exclSuffix, n)
				if name != "dead" {
					mustHeld(t, d, request(m.mode))
				}
				if name == "another host" { // and a taker about whom nothing can be proven either
					taker := n
					taker.Owner = onerun.NewID()
					plant(t, dir, markName(exclSuffix, n.Owner), taker)
				}
				if err := d.Unlock("default", "job/j"); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				mustRelease(t, mustAcquire(t, d, request(m.mode)))
			}
			if left := leftovers(t, dir); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// Processes died taking over from each other, more often than a file name has room for.
// It takes an operator's word then.
func TestUnlockManyDead(t *testing.T) {
	dir := lockDir(t)
	d := mustOpen(t, dir, Options{NoFlock: true})
	name := exclSuffix
	for range maxMarks + 1 {
		n := deadNote(t)
		plant(t, dir, name, n)
		name = markName(name, n.Owner)
	}
	h := mustHeld(t, d, request(onerun.LockCreate))
	if h.Liveness != onerun.Unknown || h.Evidence == "" {
		t.Errorf("held %+v", h)
	}
	if err := d.Unlock("default", "job/j"); err != nil {
		t.Errorf("unlock: %v", err)
	}
	mustRelease(t, mustAcquire(t, d, request(onerun.LockCreate)))
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// An operator says that an owner is dead, who lives and releases at that very moment; and
// a third process makes a new lock at once. Whatever the order, the third's stays.
func TestUnlockSparesAThird(t *testing.T) {
	unlockSteps := func() int {
		dir := lockDir(t)
		p := pauseAt(t, dir, Options{NoFlock: true}, 0)
		n := deadNote(t)
		n.Host = "elsewhere"
		plant(t, dir, exclSuffix, n)
		if err := p.dir.Unlock("default", "job/j"); err != nil {
			t.Fatal(err)
		}
		return len(p.steps)
	}()
	for at := 1; at <= unlockSteps; at++ {
		dir := lockDir(t)
		d := mustOpen(t, dir, Options{NoFlock: true})
		owner := mustAcquire(t, d, request(onerun.LockCreate))
		foreign(t, owner)
		operator := pauseAt(t, dir, Options{NoFlock: true}, at)
		unlocked := make(chan error, 1)
		go func() { unlocked <- operator.dir.Unlock("default", "job/j") }()
		step := <-operator.reached
		released := make(chan error, 1)
		go func() { released <- owner.Release() }()
		if !strings.HasPrefix(step, "takeover: marked") && !strings.HasPrefix(step, "takeover: read again") {
			if err := <-released; err != nil { // else it waits for the operator
				t.Errorf("%s: release: %v", step, err)
			}
			released <- nil
		}
		third, held, err := d.Acquire(t.Context(), request(onerun.LockCreate))
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		close(operator.resume)
		if err := <-unlocked; err != nil && !errors.Is(err, onerun.ErrState) {
			t.Errorf("%s: unlock: %v", step, err)
		}
		if err := <-released; err != nil {
			t.Errorf("%s: release: %v", step, err)
		}
		if third != nil {
			if third.Deleted() {
				t.Errorf("%s: the third's lock was removed", step)
			}
			mustHeld(t, d, request(onerun.LockCreate))
			mustRelease(t, third)
		} else if held.Note.Host != "elsewhere" {
			t.Errorf("%s: held %+v", step, held)
		}
		mustRelease(t, mustAcquire(t, d, request(onerun.LockCreate)))
		if left := leftovers(t, dir); len(left) > 0 {
			t.Errorf("%s: left behind: %q", step, left)
		}
	}
}

// The same with the owner standing still within its release.
func TestReleaseSparesAThird(t *testing.T) {
	for at := 1; ; at++ {
		dir := lockDir(t)
		armed := false
		p := &pausing{reached: make(chan string, 1), resume: make(chan struct{})}
		p.dir = mustOpen(t, dir, Options{NoFlock: true, Hook: func(step string) {
			if !armed {
				return
			}
			if p.n++; p.n == at {
				p.reached <- step
				<-p.resume
			}
		}})
		owner := mustAcquire(t, p.dir, request(onerun.LockCreate))
		foreign(t, owner)
		armed = true
		released := make(chan error, 1)
		go func() { released <- owner.Release() }()
		step := ""
		select {
		case step = <-p.reached:
		case err := <-released:
			if at < 4 || err != nil {
				t.Errorf("only %d steps, error %v", at-1, err)
			}
			return
		}
		d := mustOpen(t, dir, Options{NoFlock: true})
		err := d.Unlock("default", "job/j")
		if err != nil && !errors.Is(err, onerun.ErrState) && !errors.Is(err, onerun.ErrNotFound) {
			t.Errorf("%s: unlock: %v", step, err)
		}
		third, _, err := d.Acquire(t.Context(), request(onerun.LockCreate))
		if err != nil {
			t.Fatal(err)
		}
		close(p.resume)
		if err := <-released; err != nil {
			t.Errorf("%s: release: %v", step, err)
		}
		if third != nil {
			if third.Deleted() {
				t.Errorf("%s: the third's lock was removed", step)
			}
			mustRelease(t, third)
		}
		mustRelease(t, mustAcquire(t, d, request(onerun.LockCreate)))
		if left := leftovers(t, dir); len(left) > 0 {
			t.Errorf("%s: left behind: %q", step, left)
		}
	}
}

// TestListShowsForeignFiles: one that is none hides no other, and a start still fails on it.
func TestListShowsForeignFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "locks")
	d, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	busy := Request{Namespace: "n", Lock: "job/busy", Owner: onerun.NewID()}
	l, _, err := d.Acquire(context.Background(), busy)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Release() }()
	path := filepath.Join(dir, FileName("n", "job/foreign")+".lock")
	for what, plant := range map[string]func() error{
		"link":      func() error { return os.Symlink("/etc/passwd", path) },
		"FIFO":      func() error { return unix.Mkfifo(path, 0o600) },
		"directory": func() error { return os.Mkdir(path, 0o700) },
	} {
		if err := plant(); err != nil {
			t.Fatal(err)
		}
		states, err := d.List()
		i := slices.IndexFunc(states, func(s State) bool { return s.Path == path })
		if err != nil || len(states) != 2 || i < 0 {
			t.Fatalf("%s: %+v, error %v", what, states, err)
		}
		if s := states[i]; !s.Unreadable || s.Held || s.Verdict.Liveness != onerun.Unknown || s.Verdict.Evidence == "" {
			t.Errorf("%s: %+v", what, s)
		}
		if s := states[1-i]; !s.Held || s.Verdict.Liveness != onerun.Alive {
			t.Errorf("beside a %s: %+v", what, s)
		}
		if s, err := d.Peek("n", "job/foreign"); err != nil || !s.Unreadable || s.Lock != "job/foreign" {
			t.Errorf("%s: %+v, error %v", what, s, err)
		}
		if _, err := d.Look("n", "job/foreign"); !errors.Is(err, onerun.ErrCreate) {
			t.Errorf("%s: error %v", what, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLooking: a directory that is opened to be looked at is not made, nothing in it is
// removed, no lock is taken; and one that would be refused as unsafe is opened.
func TestLooking(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "locks")
	d := mustOpen(t, missing, Options{Looking: true})
	if s := look(t, d); s.Held || s.Note != nil {
		t.Errorf("a directory that isn't there: %+v", s)
	}
	states, err := d.List()
	if strange, e := d.Foreign(); err != nil || e != nil || len(states)+len(strange) > 0 {
		t.Errorf("a directory that isn't there: %v %v %v %v", states, strange, err, e)
	}
	if _, _, err := d.Acquire(t.Context(), request(onerun.LockFlock)); err == nil {
		t.Error("a lock was taken")
	}
	if _, err := os.Lstat(missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was made: %v", err)
	}

	dir := lockDir(t)
	mustRelease(t, mustAcquire(t, mustOpen(t, dir, Options{}), request(onerun.LockFlock)))
	plant(t, dir, exclSuffix+newInfix+onerun.NewID(), deadNote(t))
	plant(t, dir, exclSuffix, deadNote(t))
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	before := leftovers(t, dir)
	d = mustOpen(t, dir, Options{Looking: true})
	if states, err := d.List(); err != nil || len(states) != 1 {
		t.Errorf("list: %v %v", states, err)
	}
	if strange, err := d.Foreign(); err != nil || !slices.Equal(strange, []string{"notes.txt"}) {
		t.Errorf("foreign: %v %v", strange, err)
	}
	if _, _, err := d.Acquire(t.Context(), request(onerun.LockFlock)); err == nil {
		t.Error("a lock was taken where there are some")
	}
	if after := leftovers(t, dir); !slices.Equal(before, after) {
		t.Errorf("there was %v, and is %v", before, after)
	}
	if _, err := Open(dir, Options{}); err == nil {
		t.Error("who may take locks there was let in")
	}
}
