package process

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun/internal/procfs"
)

// The guard is a second process beside the job, of which it knows the group, the mark and
// the deadline. It shares the job's lock, and it outlives the wrapper.
//
//	state       who moves on                  what happens
//	watching    the wrapper says "end"        the guard goes, and does nothing
//	            the wrapper is gone (its end  the job had ended by itself: that end is
//	            of the pipe is closed)        recorded. Else everything of the job is killed
//	            the wrapper says "stop"       an end from now on is not the job's own
//	            the deadline passes           SIGTERM to the group, SIGKILL to everything
//	                                          after the grace: the wrapper should have done it
//	killing     nothing is left               the end is noted, then the wrapper is killed, if
//	                                          it is frozen or hung, then the ledger is told
//
// The guard dies: the wrapper starts another. Both die at once: what lives on of the job is
// found by the next claim, by the noted group and the mark.

// GuardOrder is what a guard has to know. It comes through the pipe, so that no process
// list shows it.
type GuardOrder struct {
	Tree    Tree
	Wrapper procfs.Identity
	TermAt  time.Duration   // by the clock since boot; 0: there is no deadline
	KillAt  time.Duration   // likewise
	Hold    bool            // the job lasts until its group is gone, whatever its first process does
	More    json.RawMessage // what whoever runs the guard needs to record the end
}

// guardSlack is how long after a deadline the guard believes that the wrapper will act.
const guardSlack = 500 * time.Millisecond

// stopLine is what the wrapper says before it begins to stop the job.
const stopLine = "stop\n"

// endLine is what the wrapper says when the job's end is recorded.
const endLine = "end\n"

// GuardEnd is why a guard's watch was over.
type GuardEnd int

// The reasons.
const (
	GuardReleased  GuardEnd = iota + 1 // the wrapper has done everything
	GuardSawEnd                        // the wrapper is gone, and the job had ended by itself before
	GuardKilled                        // the wrapper was gone, and everything of the job was killed
	GuardTimedOut                      // the deadline had passed, and everything of the job was killed
	guardDismissed                     // the order could not be read
)

// ReadGuardOrder reads what the wrapper sent. The rest of the pipe is for Watch.
func ReadGuardOrder(pipe *bufio.Reader) (GuardOrder, error) {
	var o GuardOrder
	line, err := pipe.ReadBytes('\n')
	if err != nil {
		return o, err
	}
	return o, json.Unmarshal(line, &o)
}

// Watch is the guard's work. status is how the job's first process ended, for GuardSawEnd.
func (o GuardOrder) Watch(pipe io.Reader) (end GuardEnd, status unix.WaitStatus) {
	w := &watch{order: o, said: make(chan bool, 1), ended: make(chan unix.WaitStatus, 1)}
	go w.listen(pipe)
	if !o.Hold {
		go w.leader()
	}
	timer := time.NewTimer(clockInterval)
	defer timer.Stop()
	termed := false
	gone, done := false, false // the first process is; nothing is left to be ended
	var seen *unix.WaitStatus  // how the first process ended, if that was its own end
	ended := func(s unix.WaitStatus) {
		gone = true
		// After the deadline, and after the wrapper has begun to stop it, it has no end of its
		// own, and what it leaves is not left alone.
		if (o.TermAt == 0 || bootTime() < o.TermAt) && !w.stopping.Load() {
			seen = &s
		}
	}
	for {
		timer.Reset(w.wait(termed, done || seen != nil))
		select {
		case released := <-w.said:
			if released {
				return GuardReleased, 0
			}
			if seen == nil { // the two may come at once
				select {
				case s := <-w.ended:
					ended(s)
				case <-time.After(firstPause):
				}
			}
			// The kernel kills the first process together with the wrapper (PDEATHSIG): that
			// is no end of its own.
			if seen != nil && !(seen.Signaled() && seen.Signal() == unix.SIGKILL) {
				return GuardSawEnd, *seen
			}
			o.Tree.Kill()
			if o.TermAt != 0 && bootTime() >= o.TermAt {
				return GuardTimedOut, 0
			}
			return GuardKilled, 0
		case s := <-w.ended:
			ended(s)
			w.ended = nil
		case <-timer.C:
		}
		if o.TermAt == 0 || done || seen != nil { // a job that has ended has no deadline
			continue
		}
		now := bootTime()
		if now >= o.KillAt+guardSlack {
			if left, complete := o.Tree.Members(); gone && complete && len(left) == 0 {
				done = true // the wrapper has acted, and has the end to record
				continue
			}
			o.Tree.Kill()
			return GuardTimedOut, 0
		}
		if now >= o.TermAt+guardSlack && !termed {
			termed = true
			_ = unix.Kill(-o.Tree.Group.PID, unix.SIGTERM)
			_ = unix.Kill(-o.Tree.Group.PID, unix.SIGCONT)
		}
	}
}

// watch is what goes on beside the guard's loop.
type watch struct {
	order GuardOrder
	said  chan bool // true: the wrapper says "end"; false: it is gone
	ended chan unix.WaitStatus

	stopping atomic.Bool // the wrapper has said "stop"
}

// wait is the time until something is due. A timer alone would sleep through a suspend.
func (w *watch) wait(termed, done bool) time.Duration {
	at := w.order.TermAt
	if termed {
		at = w.order.KillAt
	}
	if at == 0 || done {
		return time.Hour
	}
	return max(0, min(at+guardSlack-bootTime(), clockInterval))
}

func (w *watch) listen(pipe io.Reader) {
	lines := bufio.NewReader(pipe)
	for {
		line, err := lines.ReadString('\n')
		if err != nil || line != stopLine {
			w.said <- err == nil && line == endLine
			return
		}
		w.stopping.Store(true)
	}
}

// leader waits for the end of the job's first process, whose status stands in /proc until
// the wrapper has waited for it.
func (w *watch) leader() {
	who := w.order.Tree.Group
	if !procfs.MayKnowExit(who) {
		return
	}
	fd, err := unix.PidfdOpen(who.PID, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if status, ok := procfs.ExitStatus(who); ok {
		w.ended <- status
	}
}

// Guarding is a wrapper's side of its guard: it starts one when the job has lasted a
// while, another one when that dies, and releases it at the end.
type Guarding struct {
	order func() (GuardOrder, error)
	argv  []string
	files []int // the lock's descriptors, which the guard gets after the pipe

	mu       sync.Mutex
	timer    *time.Timer
	pipe     *os.File // our end
	stopping bool
	over     bool
	pause    time.Duration
	gone     chan struct{} // closed when the present guard is; nil: there is none
}

// GuardFrom is the first descriptor of a guard that is the lock's; 3 is the pipe.
const GuardFrom = 4

// guardAfter is how long a job lasts before a guard is worth its start: until then
// PDEATHSIG and the noted group stand in for it.
const guardAfter = 50 * time.Millisecond

// NewGuarding begins to guard a job that was just started. order is asked for when a guard
// is started, which most jobs don't live to see. argv[0] is a program that does as
// cmd/onerun does for a guard.
func NewGuarding(order func() (GuardOrder, error), path string, argv []string, files []int) *Guarding {
	g := &Guarding{order: order, argv: append([]string{path}, argv...), files: files, pause: 50 * time.Millisecond}
	g.timer = time.AfterFunc(guardAfter, g.start)
	return g
}

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

// End releases the guard: the job's end is recorded. What it still has of the lock is
// freed by the wrapper for both.
func (g *Guarding) End() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	g.timer.Stop()
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
		pid, err = forkGuard(g.argv, r, g.files)
	}
	if err != nil {
		_ = w.Close()
		return 0, err
	}
	g.pipe = w
	return pid, nil
}
