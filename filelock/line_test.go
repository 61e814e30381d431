package filelock

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

func mustQueue(t testing.TB, d *Dir, lock onerun.LockName) *Place {
	t.Helper()
	p, err := d.Queue(t.Context(), "default", lock)
	if err != nil {
		t.Fatalf("Queue: %v", err)
	}
	t.Cleanup(p.Leave)
	return p
}

func mustQueued(t testing.TB, d *Dir, lock onerun.LockName, want int) {
	t.Helper()
	if n, err := d.Queued("default", lock); n != want || err != nil {
		t.Errorf("%d stand in line for %s, error %v; want %d", n, lock, err, want)
	}
}

func isFirst(t testing.TB, p *Place) bool {
	t.Helper()
	first, err := p.first()
	if err != nil {
		t.Fatal(err)
	}
	return first
}

// TestLinePlaces: in one process places are as apart as in several, and each way of leaving
// one moves the others up.
func TestLinePlaces(t *testing.T) {
	d, job := mustOpen(t, lockDir(t), Options{}), onerun.JobLock("j")
	mustQueued(t, d, job, 0)
	a, b, c := mustQueue(t, d, job), mustQueue(t, d, job), mustQueue(t, d, job)
	mustQueued(t, d, job, 3)
	if !isFirst(t, a) || isFirst(t, b) || isFirst(t, c) {
		t.Fatal("the first is not the one who came first")
	}
	b.Leave()
	b.Leave()
	if isFirst(t, c) || !b.Left() || c.Left() {
		t.Fatal("who left was not the last one before the third")
	}
	a.Leave()
	if !isFirst(t, c) {
		t.Fatal("all before it left, and it is not the first")
	}
	mustQueued(t, d, job, 1)
	r := request(onerun.LockFlock)
	r.InLine, r.Place = true, a
	if _, _, err := d.Acquire(t.Context(), r); !errors.Is(err, onerun.ErrInternal) {
		t.Errorf("with a place that was given back: %v", err)
	}
	r.Place, r.Lock = c, onerun.JobLock("other")
	if _, _, err := d.Acquire(t.Context(), r); !errors.Is(err, onerun.ErrInternal) {
		t.Errorf("with a place for another lock: %v", err)
	}
}

// TestLineIsOfOneLock: neither another lock nor another namespace has the same line.
func TestLineIsOfOneLock(t *testing.T) {
	d := mustOpen(t, lockDir(t), Options{})
	mustQueue(t, d, onerun.JobLock("j"))
	for _, other := range []struct {
		namespace string
		lock      onerun.LockName
	}{{"staging", "job/j"}, {"default", "name/j"}, {"default", "job/k"}, {"default", "key/j:p"}} {
		if held, err := d.Line(other.namespace, other.lock); held != nil || err != nil {
			t.Errorf("%s in %s: %+v, error %v", other.lock, other.namespace, held, err)
		}
		p, err := d.Queue(t.Context(), other.namespace, other.lock)
		if err != nil {
			t.Fatal(err)
		}
		if !isFirst(t, p) {
			t.Errorf("%s in %s stands behind another lock's line", other.lock, other.namespace)
		}
		p.Leave()
	}
	if held, err := d.Line("default", "job/j"); held == nil || err != nil {
		t.Errorf("its own: %+v, error %v", held, err)
	}
}

// TestLineWithoutPlace: who doesn't wait comes after all that do, and is told who has the
// lock, if somebody does.
func TestLineWithoutPlace(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			d := mustOpen(t, lockDir(t), Options{NoFlock: m.noFlock})
			r := request(m.mode)
			r.InLine = true
			l := mustAcquire(t, d, r) // nobody waits
			if err := l.Write(Note{RunID: "run", Attempt: 1, State: StateInProcess}); err != nil {
				t.Fatal(err)
			}
			p := mustQueue(t, d, r.Lock)
			next := request(m.mode)
			next.InLine = true
			if held := mustHeld(t, d, next); held.Note == nil || held.Note.Owner != r.Owner || held.Unreadable || !held.Behind || !strings.Contains(held.Evidence, "before this one") {
				t.Errorf("in the way is %+v; want the holder", held)
			}
			mustRelease(t, l)
			if held := mustHeld(t, d, next); held.Note != nil || !held.Behind {
				t.Errorf("in the way is %+v; want the one in line", held)
			}
			next.Place = mustQueue(t, d, r.Lock)
			if held := mustHeld(t, d, next); !strings.Contains(held.Evidence, "a start with --order fifo waits") {
				t.Errorf("in the way is %+v; want the one who is first", held)
			}
			next.Place.Leave()
			next.Place = p
			l = mustAcquire(t, d, next)
			p.Leave()
			mustRelease(t, l)
			next = request(m.mode)
			next.InLine = true
			mustRelease(t, mustAcquire(t, d, next))
		})
	}
}

// TestLineGivenUp: who gives its wait up leaves the line at once, and nothing of it when
// those before it are gone. It is not parallel, since it looks at all goroutines.
func TestLineGivenUp(t *testing.T) {
	d, job := mustOpen(t, lockDir(t), Options{}), onerun.JobLock("j")
	first, middle, last := mustQueue(t, d, job), mustQueue(t, d, job), mustQueue(t, d, job)
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() { gone <- middle.wait(ctx) }()
	waiting(t, true)
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) || !middle.Left() {
		t.Errorf("given up: %v, left %v", err, middle.Left())
	}
	mustQueued(t, d, job, 2)
	first.Leave()
	if err := last.wait(t.Context()); err != nil {
		t.Error(err)
	}
	waiting(t, false)
	last.Leave()
	if n := openFiles(t, queueSuffix); n != 0 {
		t.Errorf("%d descriptors of the line are open still", n)
	}
}

// openFiles counts the descriptors of this process that have a file with a suffix.
func openFiles(t *testing.T, suffix string) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasSuffix(name, suffix) {
			n++
		}
	}
	return n
}

// waiting returns when a goroutine waits in line, or none does any more.
func waiting(t *testing.T, want bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	end := time.After(time.Minute)
	for {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if bytes.Contains(stacks, []byte("Place).wait.func")) == want {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("want a goroutine that waits in line: %v\n%s", want, stacks)
		}
	}
}

// TestLineHasOneFirst: numbers become free between looking for the last one and taking the
// next. Whoever is first by then stays the only one.
func TestLineHasOneFirst(t *testing.T) {
	path, job := lockDir(t), onerun.JobLock("j")
	d := mustOpen(t, path, Options{})
	var first *Place
	slow := mustOpen(t, path, Options{Hook: func(step string) {
		if step == "queue: last place seen" && first == nil {
			before := mustQueue(t, d, job)
			first = mustQueue(t, d, job)
			before.Leave()
			if !isFirst(t, first) {
				t.Error("all before it left, and it is not the first")
			}
		}
	}})
	late := mustQueue(t, slow, job) // it saw an empty line
	if isFirst(t, late) {
		t.Error("two are the first in one line")
	}
	first.Leave()
	if !isFirst(t, late) {
		t.Error("nobody is the first")
	}
}

// TestLineOfKey: there is no end to keys, so the last one in line takes the file away, and
// who has opened it meanwhile stands in the line that others see.
func TestLineOfKey(t *testing.T) {
	path, key := lockDir(t), onerun.KeyLock("j:p")
	d := mustOpen(t, path, Options{})
	a, b := mustQueue(t, d, key), mustQueue(t, d, key)
	b.Leave()
	mustQueued(t, d, key, 1)
	a.Leave()
	if left := leftovers(t, path); len(left) != 0 {
		t.Errorf("left is %q", left)
	}
	for _, at := range []string{"queue: last place seen", "queue: place taken"} {
		last := mustQueue(t, d, key)
		slow := mustOpen(t, path, Options{Hook: func(step string) {
			if step == at {
				last.Leave()
			}
		}})
		p := mustQueue(t, slow, key)
		mustQueued(t, d, key, 1)
		if !isFirst(t, p) {
			t.Errorf("%s: it is not the first", at)
		}
		p.Leave()
	}
	if left := leftovers(t, path); len(left) != 0 {
		t.Errorf("left is %q", left)
	}
	p := mustQueue(t, d, onerun.JobLock("j"))
	p.Leave()
	if left := leftovers(t, path); !slices.Equal(left, []string{base() + queueSuffix}) {
		t.Errorf("left is %q, want the file of the job's line", left)
	}
}

// TestLineHammer: many come and go at once, in one file or, with a key, in one after the
// other. Nobody is served before one who stood in line before it came.
func TestLineHammer(t *testing.T) {
	for _, lock := range []onerun.LockName{"job/j", "key/j:p"} {
		t.Run(lock.Kind(), func(t *testing.T) {
			path := lockDir(t)
			var mu sync.Mutex
			clock, served := 0, 0
			stands := map[int]int{} // who, since when
			now := func(f func()) int { mu.Lock(); defer mu.Unlock(); clock++; f(); return clock }
			var all sync.WaitGroup
			for who := range 8 {
				d := mustOpen(t, path, Options{})
				all.Go(func() {
					for range 40 {
						came := now(func() {})
						p, err := d.Queue(t.Context(), "default", lock)
						if err != nil {
							t.Error(err)
							return
						}
						now(func() { stands[who] = clock })
						err = p.wait(t.Context())
						now(func() {
							delete(stands, who)
							for other, since := range stands {
								if since < came {
									t.Errorf("%d, who came at %d, is served before %d, who stood there at %d", who, came, other, since)
								}
							}
							if served++; served > 1 || err != nil {
								t.Errorf("%d are served at once, error %v", served, err)
							}
						})
						now(func() { served-- })
						p.Leave()
					}
				})
			}
			all.Wait()
			mustQueued(t, mustOpen(t, path, Options{}), lock, 0)
		})
	}
}

// TestLineFile: X.queue is made like every file of the directory, belongs to it, and is no
// lock; what else stands in its place is refused.
func TestLineFile(t *testing.T) {
	for mode, want := range map[os.FileMode]os.FileMode{0o700: 0o600, 0o770 | os.ModeSetgid: 0o660} {
		path := lockDir(t)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		d := mustOpen(t, path, Options{})
		mustQueue(t, d, onerun.JobLock("j"))
		st, err := os.Lstat(filepath.Join(path, base()+queueSuffix))
		if err != nil || st.Mode() != want || st.Size() != 0 {
			t.Errorf("in a directory with %v: %v, error %v; want %v", mode, st, err, want)
		}
		foreign, err := d.Foreign()
		if len(foreign) != 0 || err != nil || !IsLockFile(base()+queueSuffix) || !IsLockFile(base()+queueSuffix+newInfix+"x") {
			t.Errorf("foreign are %q, error %v", foreign, err)
		}
		if states, err := d.List(); len(states) != 0 || err != nil {
			t.Errorf("locks: %+v, error %v", states, err)
		}
	}
	for what, plant := range map[string]func(string) error{
		"a link":      func(name string) error { return os.Symlink("elsewhere", name) },
		"a directory": func(name string) error { return os.Mkdir(name, 0o700) },
		"two names": func(name string) error {
			return errors.Join(os.WriteFile(name, nil, 0o600), os.Link(name, name+"-2"))
		},
	} {
		path := lockDir(t)
		if err := plant(filepath.Join(path, base()+queueSuffix)); err != nil {
			t.Fatal(err)
		}
		d := mustOpen(t, path, Options{})
		_, err := d.Queue(t.Context(), "default", onerun.JobLock("j"))
		wantKind(t, err, onerun.ErrCreate)
		if what != "two names" { // which only matters to who writes
			_, err = d.Queued("default", onerun.JobLock("j"))
			wantKind(t, err, onerun.ErrCreate)
		}
	}
}

// TestLineDeleted: who deletes the file of a line ends its order, and no more: whoever comes
// next stands in a new one.
func TestLineDeleted(t *testing.T) {
	path, job := lockDir(t), onerun.JobLock("j")
	d := mustOpen(t, path, Options{})
	mustQueue(t, d, job)
	if err := os.Remove(filepath.Join(path, base()+queueSuffix)); err != nil {
		t.Fatal(err)
	}
	mustQueued(t, d, job, 0)
	p := mustQueue(t, d, job)
	mustQueued(t, d, job, 1)
	if !isFirst(t, p) {
		t.Error("it stands in a line that nobody sees")
	}
}

// TestLineWithoutLocks: where the kernel keeps no places, there is no order, and that is said.
func TestLineWithoutLocks(t *testing.T) {
	d := mustOpen(t, lockDir(t), Options{noRange: true})
	_, err := d.Queue(t.Context(), "default", onerun.JobLock("j"))
	wantKind(t, err, onerun.ErrCreate)
	if !strings.Contains(err.Error(), "--order") {
		t.Errorf("it doesn't say what to leave out: %v", err)
	}
	_, err = d.Queue(t.Context(), "default", "file/j")
	wantKind(t, err, onerun.ErrUsage)
	looking := mustOpen(t, lockDir(t), Options{Looking: true})
	_, err = looking.Queue(t.Context(), "default", onerun.JobLock("j"))
	wantKind(t, err, onerun.ErrInternal)
	mustQueued(t, looking, onerun.JobLock("j"), 0)
}
