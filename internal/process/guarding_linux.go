package process

import (
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Guarding is a wrapper's side of its guard: it starts one when the job has lasted a
// while, another one when that dies, and releases it at the end.
type Guarding struct {
	order func() (GuardOrder, error)
	argv  []string
	files []int // duplicates of the lock's descriptors, which the guard gets from GuardFrom on

	renewals renewals

	mu       sync.Mutex
	timer    *time.Timer
	pipe     *os.File // our end
	stopping bool
	over     bool
	pause    time.Duration
	gone     chan struct{} // closed when the present guard is; nil: there is none
}

// The descriptors of a guard.
const (
	guardPipe     = 3 // what the wrapper says
	guardRenewals = 4 // what counts how far the lease has come
	GuardFrom     = 5 // the first of the lock's
)

// guardAfter is how long a job lasts before a guard is worth its start: until then
// PDEATHSIG and the noted group stand in for it.
const guardAfter = 50 * time.Millisecond

// NewGuarding begins to guard a job that was just started. order is asked for when a guard
// is started, which most jobs don't live to see. argv[0] is a program that does as
// cmd/onerun does for a guard.
//
// For a job with a lease, order's Lease has the newest moment that onerun.WithRenewal has told by then, and each that
// is told later goes to Renewed. Whoever keeps the newest one for order before it looks whether there
// is a Guarding, and calls Renewed with that one when there is, misses none. Without any, no guard is started.
//
// files may be closed before End: the guard gets duplicates. A guard is started at a moment of its own, when the lock
// may be free already, and the numbers of its descriptors in use for something else.
func NewGuarding(order func() (GuardOrder, error), path string, argv []string, files []int) *Guarding {
	g := &Guarding{order: order, argv: append([]string{path}, argv...), pause: 50 * time.Millisecond, renewals: renewals{fd: -1}}
	for _, fd := range files {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil { // the wrapper does all that it can without a guard
			g.over = true
			break
		}
		g.files = append(g.files, own)
	}
	g.timer = time.AfterFunc(guardAfter, g.start)
	return g
}

// errNotRenewed: nobody has told when the lease was granted.
var errNotRenewed = errors.New("the lease has no heartbeat yet")

// start starts a guard, and another when it dies.
func (g *Guarding) start() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return
	}
	pid, err := g.fork()
	if err == nil {
		g.gone = make(chan struct{})
		go g.wait(pid, g.gone)
		return
	}
	g.later() // the machine's bad hour; the wrapper does all that it can without
}

// later tries again; the lock is held.
func (g *Guarding) later() {
	g.timer = time.AfterFunc(g.pause, g.start)
	g.pause = min(2*g.pause, 800*time.Millisecond)
}

// wait waits for one guard, by its own number, and has it replaced.
func (g *Guarding) wait(pid int, gone chan struct{}) {
	defer close(gone)
	var status unix.WaitStatus
	for {
		if _, err := unix.Wait4(pid, &status, 0, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		_ = g.pipe.Close()
		g.pipe = nil
		g.renewals.close()
		g.later()
	}
}

// Stopping tells the guard, also one that is yet to be started, that the job is being
// stopped: it has no end of its own any more.
func (g *Guarding) Stopping() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopping = true
	if g.pipe != nil {
		_, _ = g.pipe.WriteString(stopLine)
	}
}

// Renewed tells the guard, also one that is yet to be started, that the lease was renewed: sent is what
// [onerun.WithRenewal] tells of a heartbeat. It waits neither for a guard that is frozen nor for one that is just being
// started, so it may be called from there. A moment that isn't later than those before changes nothing.
//
// The guard never believes in a longer lease than it was told of. When this process is frozen, or dies, between the
// heartbeat and this call, the guard acts by the heartbeat before, too early rather than too late.
func (g *Guarding) Renewed(sent time.Duration) { g.renewals.renew(sent) }

// End releases the guard: the job's end is recorded. What it still has of the lock is
// freed by the wrapper for both.
func (g *Guarding) End() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	g.timer.Stop()
	g.renewals.close()
	for _, fd := range g.files {
		_ = unix.Close(fd)
	}
	g.files = nil
	if g.pipe != nil {
		_, _ = g.pipe.WriteString(endLine) // a guard that is gone needs no word
		_ = g.pipe.Close()
	}
}

// Gone waits, after End, until the guard is: where the lock wasn't freed, because the end
// could not be recorded, it is free for others from then on.
func (g *Guarding) Gone(limit time.Duration) {
	g.mu.Lock()
	gone := g.gone
	g.mu.Unlock()
	if gone == nil {
		return
	}
	select {
	case <-gone:
	case <-time.After(limit):
	}
}

func (g *Guarding) fork() (pid int, err error) {
	order, err := g.order()
	if err != nil {
		return 0, err
	}
	counter := -1
	if order.Lease.TTL != 0 {
		if order.Lease.Sent, counter, err = g.renewals.open(order.Lease.Sent); err != nil {
			return 0, err
		}
		defer func() {
			if err != nil {
				g.renewals.close()
			}
		}()
		if order.Lease.Sent == 0 { // the guard would take the lease for one that was over long ago
			return 0, errNotRenewed
		}
	}
	text, err := json.Marshal(order)
	if err != nil {
		return 0, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer func() { _ = r.Close() }()
	// All that it has to know lies in the pipe before it starts: should this process die in
	// between, it still knows.
	text = append(text, '\n')
	if g.stopping {
		text = append(text, stopLine...)
	}
	if _, err = w.Write(text); err == nil {
		pid, err = forkGuard(g.argv, r, counter, g.files)
	}
	if err != nil {
		_ = w.Close()
		return 0, err
	}
	g.pipe = w
	return pid, nil
}
