package filelock

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
)

const (
	rounds  = 100
	players = 20
)

// helperPlay takes part in rounds: at each "go OWNER" it asks once for the lock, and says
// what it got. A winner writes to the witness file when it enters and when it leaves.
func helperPlay(c config) error {
	d, err := c.open()
	if err != nil {
		return err
	}
	w, err := os.OpenFile(c.File, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	var mine *Lock
	for {
		cmd := readCommand()
		switch cmd {
		case "":
			return nil
		case "go":
			l, held, err := d.Acquire(context.Background(), c.request2())
			switch {
			case err != nil:
				return err
			case held != nil:
				fmt.Println("refused", held.Liveness)
			default:
				mine = l
				_, _ = fmt.Fprintf(w, "in %s\n", l.note.Owner)
				prev := ""
				if l.Previous != nil {
					prev = l.Previous.Owner
				}
				fmt.Println("won", l.Verdict.Liveness, prev)
			}
		case "end":
			if mine != nil {
				_, _ = fmt.Fprintf(w, "out %s\n", mine.note.Owner)
				if err := mine.Clear(); err != nil {
					return err
				}
				if err := mine.Release(); err != nil {
					return err
				}
				mine = nil
			}
			fmt.Println("ended")
		}
	}
}

func (c config) request2() Request {
	c.Owner = ""
	return c.request()
}

// Twenty processes find the same dead owner at the same time. Exactly one may take over,
// in every round.
func TestTakeoverRounds(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			dir := lockDir(t)
			witness := filepath.Join(t.TempDir(), "witness")
			if err := os.WriteFile(witness, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			var ps []*process
			for range players {
				ps = append(ps, start(t, "play", config{Dir: dir, Mode: m.mode, NoFlock: m.noFlock, File: witness}))
			}
			for _, p := range ps {
				p.expect("ready")
			}
			note := deadNote(t)
			for round := range rounds {
				note.Owner = onerun.NewID()
				suffix := exclSuffix
				if m.mode == onerun.LockFlock {
					suffix = lockSuffix
				}
				plant(t, dir, suffix, note)
				for _, p := range ps {
					p.tell("go")
				}
				var won []string
				for _, p := range ps {
					if s := p.line(); s != "refused alive" {
						won = append(won, s)
					}
				}
				if want := []string{"won dead " + note.Owner}; !slices.Equal(won, want) {
					t.Fatalf("round %d: %q, want %q", round, won, want)
				}
				for _, p := range ps {
					p.tell("end")
				}
				for _, p := range ps {
					p.expect("ended")
				}
			}
			checkWitness(t, witness, rounds)
			if left := leftovers(t, dir); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// checkWitness reads the file that every winner wrote to: nobody may enter before the
// one before has left.
func checkWitness(t *testing.T, file string, want int) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	inside, entries := "", 0
	for {
		var what, owner string
		if n, _ := fmt.Fscan(f, &what, &owner); n < 2 {
			break
		}
		switch {
		case what == "in" && inside == "":
			inside, entries = owner, entries+1
		case what == "out" && inside == owner:
			inside = ""
		default:
			t.Fatalf("entry %d: %s %s while %q is inside", entries, what, owner, inside)
		}
	}
	if entries != want {
		t.Errorf("%d entries, want %d", entries, want)
	}
}

// pausing is a directory whose Hook stops at the nth step until it is let go.
type pausing struct {
	dir     *Dir
	at      int
	n       int
	steps   []string
	reached chan string
	resume  chan struct{}
}

func pauseAt(t testing.TB, path string, o Options, at int) *pausing {
	p := &pausing{at: at, reached: make(chan string, 1), resume: make(chan struct{})}
	o.Hook = func(step string) {
		p.n++
		p.steps = append(p.steps, step)
		if p.n == p.at {
			p.reached <- step
			<-p.resume
		}
	}
	p.dir = mustOpen(t, path, o)
	return p
}

// wait waits until the process stands still at the step.
func (p *pausing) wait(t testing.TB, step string, done <-chan outcome) {
	t.Helper()
	select {
	case got := <-p.reached:
		if got != step {
			t.Fatalf("step %d is %q, was %q", p.at, got, step)
		}
	case o := <-done:
		t.Fatalf("%s: it ended before, with lock %v, held %+v, error %v", step, o.lock != nil, o.held, o.err)
	}
}

// outcome is what an Acquire came to.
type outcome struct {
	lock *Lock
	held *Held
	err  error
}

func (p *pausing) acquire(r Request) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		l, held, err := p.dir.Acquire(context.Background(), r)
		done <- outcome{l, held, err}
	}()
	return done
}

// scene is a directory as dead owners left it.
type scene struct {
	name  string
	mode  onerun.LockMode
	o     Options
	plant func(t testing.TB, dir string)
}

func scenes() []scene {
	deadExcl := func(t testing.TB, dir string) { plant(t, dir, exclSuffix, deadNote(t)) }
	// the owner died, and so did one that was taking over from it
	deadMark := func(t testing.TB, dir string) {
		first, taker := deadNote(t), deadNote(t)
		plant(t, dir, exclSuffix, first)
		plant(t, dir, markName(exclSuffix, first.Owner), taker)
	}
	deadMarks := func(t testing.TB, dir string) {
		first, taker, other := deadNote(t), deadNote(t), deadNote(t)
		plant(t, dir, exclSuffix, first)
		plant(t, dir, markName(exclSuffix, first.Owner), taker)
		plant(t, dir, markName(markName(exclSuffix, first.Owner), taker.Owner), other)
	}
	// the owner died in its own release: the mark is its own file
	deadRelease := func(t testing.TB, dir string) {
		n := deadNote(t)
		plant(t, dir, exclSuffix, n)
		x := filepath.Join(dir, base()+exclSuffix)
		if err := os.Link(x, markName(x, n.Owner)); err != nil {
			t.Fatal(err)
		}
	}
	nothing := func(testing.TB, string) {}
	all := []scene{
		{"flock", onerun.LockFlock, Options{}, nothing},
		{"flock, dead owner", onerun.LockFlock, Options{}, func(t testing.TB, dir string) { plant(t, dir, lockSuffix, deadNote(t)) }},
		{"flock, dead .excl", onerun.LockFlock, Options{}, deadExcl},
		{"flock, dead mark", onerun.LockFlock, Options{}, deadMark},
	}
	for _, m := range modes[1:] {
		o := Options{NoFlock: m.noFlock}
		all = append(all,
			scene{m.name, m.mode, o, nothing},
			scene{m.name + ", dead .excl", m.mode, o, deadExcl},
			scene{m.name + ", dead mark", m.mode, o, deadMark},
			scene{m.name + ", dead marks", m.mode, o, deadMarks},
			scene{m.name + ", dead release", m.mode, o, deadRelease},
		)
	}
	return all
}

// stepsOf counts the steps of an Acquire that nobody disturbs.
func stepsOf(t testing.TB, s scene) []string {
	dir := lockDir(t)
	s.plant(t, dir)
	p := pauseAt(t, dir, s.o, 0)
	l := mustAcquire(t, p.dir, request(s.mode))
	steps := slices.Clone(p.steps)
	mustRelease(t, l)
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	return steps
}

// One process stands still between any two steps, as a scheduler can make it, while a
// second one asks. Exactly one of them gets the lock.
func TestPausedAtEveryStep(t *testing.T) {
	for _, s := range scenes() {
		t.Run(s.name, func(t *testing.T) {
			for i, step := range stepsOf(t, s) {
				dir := lockDir(t)
				s.plant(t, dir)
				a := pauseAt(t, dir, s.o, i+1)
				done := a.acquire(request(s.mode))
				a.wait(t, step, done)
				b := mustOpen(t, dir, s.o)
				lb, held, err := b.Acquire(context.Background(), request(s.mode))
				if err != nil {
					t.Fatalf("%s: second: %v", step, err)
				}
				close(a.resume)
				ra := <-done
				if ra.err != nil {
					t.Fatalf("%s: first: %v", step, ra.err)
				}
				if (ra.lock != nil) == (lb != nil) {
					t.Fatalf("%s: first has the lock: %v (%+v), second: %v (%+v)", step, ra.lock != nil, ra.held, lb != nil, held)
				}
				for _, l := range []*Lock{ra.lock, lb} {
					if l != nil {
						mustRelease(t, l)
					}
				}
				mustRelease(t, mustAcquire(t, b, request(s.mode)))
				if left := leftovers(t, dir); len(left) > 0 {
					t.Errorf("%s: left behind: %q", step, left)
				}
			}
		})
	}
}

// The same, and while the first stands still, a second one takes over and releases, and a
// third one makes a new lock. When the first goes on, it must not hit the third.
func TestPausedWhileThirdLocks(t *testing.T) {
	for _, s := range scenes() {
		t.Run(s.name, func(t *testing.T) {
			for i, step := range stepsOf(t, s) {
				dir := lockDir(t)
				s.plant(t, dir)
				a := pauseAt(t, dir, s.o, i+1)
				done := a.acquire(request(s.mode))
				a.wait(t, step, done)
				b := mustOpen(t, dir, s.o)
				second, _, err := b.Acquire(context.Background(), request(s.mode))
				if err != nil {
					t.Fatalf("%s: second: %v", step, err)
				}
				var third *Lock
				if second != nil {
					mustRelease(t, second)
					third = mustAcquire(t, b, request(s.mode))
				}
				close(a.resume)
				ra := <-done
				if ra.err != nil || (ra.lock != nil) == (third != nil) {
					t.Fatalf("%s: first has the lock: %v, third: %v, error %v", step, ra.lock != nil, third != nil, ra.err)
				}
				if third != nil {
					if third.Deleted() {
						t.Fatalf("%s: the third's files were removed", step)
					}
					mustHeld(t, b, request(s.mode))
					mustRelease(t, third)
				} else {
					mustRelease(t, ra.lock)
				}
				if left := leftovers(t, dir); len(left) > 0 {
					t.Errorf("%s: left behind: %q", step, left)
				}
			}
		})
	}
}

// Two stand still, each between any two of its steps; the first goes on before the second.
// Exactly one of them gets the lock.
func TestTwoPaused(t *testing.T) {
	for _, s := range scenes() {
		if !s.o.NoFlock || strings.HasSuffix(s.name, "dead marks") {
			continue // with a flock, the second is refused before it gets anywhere; one dead mark is enough
		}
		t.Run(s.name, func(t *testing.T) {
			steps := stepsOf(t, s)
			for i, first := range steps {
				for j := range steps {
					dir := lockDir(t)
					s.plant(t, dir)
					a, b := pauseAt(t, dir, s.o, i+1), pauseAt(t, dir, s.o, j+1)
					doneA := a.acquire(request(s.mode))
					a.wait(t, first, doneA)
					doneB := b.acquire(request(s.mode))
					var ra, rb outcome
					select {
					case <-b.reached:
						close(a.resume)
						ra = <-doneA
						close(b.resume)
						rb = <-doneB
					case rb = <-doneB: // it has fewer steps, now that the first has gone ahead
						close(a.resume)
						ra = <-doneA
					}
					if ra.err != nil || rb.err != nil || (ra.lock != nil) == (rb.lock != nil) {
						t.Fatalf("first at %q, second at %q: locks %v and %v, errors %v and %v", first, steps[j], ra.lock != nil, rb.lock != nil, ra.err, rb.err)
					}
					for _, o := range []outcome{ra, rb} {
						if o.lock != nil {
							mustRelease(t, o.lock)
						}
					}
					if left := leftovers(t, dir); len(left) > 0 {
						t.Errorf("first at %q, second at %q: left behind: %q", first, steps[j], left)
					}
				}
			}
		})
	}
}
