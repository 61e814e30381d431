package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/onerun-dev/onerun"
)

// spawn tells another client what it is to be.
type spawn struct {
	URL    string
	KillAt string // the step at which it dies
	Nth    int    // … when it comes to it for the Nth time
	TZ     string // its time zone, as TZ has it
}

// order is one thing that another client is to do, reply what became of it. They
// travel as JSON, one a line.
type order struct {
	Op      string // claim, live, work
	Claims  []onerun.Claim
	Witness string // the file that sees the work
	Close   bool   // close the store before replying
}

type reply struct {
	Grant   *onerun.Grant
	Refusal *onerun.Refusal
	Err     string
	Steps   []string // passed so far
	Won     int      // work: how many claims it won
}

// err gives a reply as the error that a Store would have returned.
func (r reply) err() error {
	switch {
	case r.Err != "":
		return errors.New(r.Err)
	case r.Refusal != nil:
		return r.Refusal
	}
	return nil
}

// childEnv carries a spawn to a child process.
const childEnv = "ONERUN_STORETEST_CHILD"

// Self makes the command that starts this test binary once more; its TestMain has
// to call Child.
func Self() *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		return &exec.Cmd{Err: err}
	}
	return exec.Command(exe)
}

// Child makes this process a client of the store, and ends it, if the suite started
// it as one; else it returns at once. Call it first thing in TestMain. url is the
// harness's; the store should call hook before each of its steps, with the name of
// the step, since the process is to be killed at every one of them. A store that
// can't, ignores it.
func Child(open func(ctx context.Context, url string, hook func(step string)) (onerun.Store, error)) {
	env, ok := os.LookupEnv(childEnv)
	if !ok {
		return
	}
	var sp spawn
	if err := json.Unmarshal([]byte(env), &sp); err != nil {
		fmt.Fprintln(os.Stderr, "storetest:", err)
		os.Exit(70)
	}
	if err := serve(sp, open); err != nil {
		fmt.Fprintln(os.Stderr, "storetest:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve opens the store and does what it is told on standard input, until that ends.
func serve(sp spawn, open func(context.Context, string, func(string)) (onerun.Store, error)) error {
	ctx := context.Background()
	w := &worker{spawn: sp, die: func() {
		if p, err := os.FindProcess(os.Getpid()); err == nil {
			_ = p.Kill()
		}
		select {} // SIGKILL is on its way
	}}
	out := json.NewEncoder(os.Stdout)
	s, err := open(ctx, sp.URL, w.step)
	if err != nil {
		return out.Encode(reply{Err: "open the store: " + err.Error()})
	}
	if err := out.Encode(reply{}); err != nil {
		return err
	}
	in := json.NewDecoder(os.Stdin)
	for in.More() {
		var o order
		if err := in.Decode(&o); err != nil {
			return err
		}
		if err := out.Encode(w.do(ctx, s, o)); err != nil {
			return err
		}
		if o.Close {
			return nil
		}
	}
	return s.Close()
}

// worker does orders. It is the same code in another process and in a goroutine.
type worker struct {
	spawn
	die func()

	mu    sync.Mutex
	steps []string
	nth   int
}

// step notes a step, and dies at the one that was said.
func (w *worker) step(name string) {
	w.mu.Lock()
	w.steps = append(w.steps, name)
	die := false
	if w.KillAt == name {
		w.nth++
		die = w.nth == w.Nth
	}
	w.mu.Unlock()
	if die {
		w.die()
	}
}

// The suite's own steps of a life, beside the store's.
const (
	stepGranted  = "suite: granted"
	stepBegun    = "suite: begun"
	stepDone     = "suite: done"
	stepFinished = "suite: finished"
)

func (w *worker) do(ctx context.Context, s onerun.Store, o order) reply {
	var r reply
	switch o.Op {
	case "claim":
		r = replyOf(s.Claim(ctx, o.Claims[0]))
	case "live":
		r = w.live(ctx, s, o.Claims[0], o.Witness)
	case "work":
		r = w.work(ctx, s, o)
	default:
		r.Err = "no such order: " + o.Op
	}
	if o.Close {
		if err := s.Close(); err != nil && r.Err == "" {
			r.Err = "close: " + err.Error()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r.Steps = w.steps
	return r
}

func replyOf(g onerun.Grant, err error) reply {
	var ref *onerun.Refusal
	switch {
	case err == nil:
		return reply{Grant: &g}
	case errors.As(err, &ref):
		return reply{Refusal: ref}
	}
	return reply{Err: err.Error()}
}

// live is the whole life of one start: claim, work, finish. The work is this
// process's own, as the claim says (InProcess), so there is no group to note.
func (w *worker) live(ctx context.Context, s onerun.Store, c onerun.Claim, witness string) reply {
	r := replyOf(s.Claim(ctx, c))
	if r.Grant == nil {
		return r
	}
	w.step(stepGranted)
	if err := testify(witness, "begin", c, r.Grant.Lease); err != nil {
		return reply{Err: err.Error()}
	}
	w.step(stepBegun)
	for range 10 { // a moment in which another one could begin
		runtime.Gosched()
	}
	if err := testify(witness, "end", c, r.Grant.Lease); err != nil {
		return reply{Err: err.Error()}
	}
	w.step(stepDone)
	if err := s.Finish(ctx, r.Grant.Lease, succeeded); err != nil {
		return reply{Err: "finish: " + err.Error()}
	}
	w.step(stepFinished)
	return r
}

// work lives every claim, in turn, until each is done by somebody.
func (w *worker) work(ctx context.Context, s onerun.Store, o order) reply {
	r := reply{}
	left := o.Claims
	for len(left) > 0 {
		var busy []onerun.Claim
		for _, c := range left {
			one := w.live(ctx, s, again(c), o.Witness)
			switch {
			case one.Err != "":
				return one
			case one.Grant != nil:
				r.Won++
			case one.Refusal.Reason == onerun.RefusedLocked, one.Refusal.Reason == onerun.RefusedRunning:
				busy = append(busy, c)
			case one.Refusal.Reason != onerun.RefusedSucceeded:
				return one
			}
		}
		left = busy
		if len(left) == 0 {
			break
		}
		timer := time.NewTimer(time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return reply{Err: fmt.Sprintf("%d claims still refused: %v", len(left), context.Cause(ctx))}
		}
	}
	return r
}
