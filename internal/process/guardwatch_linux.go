package process

import (
	"bufio"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun/internal/procfs"
)

// Watch is the guard's work. pipe is descriptor 3, or a buffer in front of it.
func (o GuardOrder) Watch(pipe io.Reader) Watched {
	w := &watch{order: o, clock: bootTime, lines: bufio.NewReader(pipe), pipe: guardPipe, renewals: guardRenewals, leader: -1}
	unix.CloseOnExec(guardPipe)
	unix.CloseOnExec(guardRenewals)
	if !o.Hold {
		w.leader = openLeader(o.Tree.Group)
	}
	defer w.closeLeader()
	return w.run()
}

// watch is a guard's view of the wrapper, the job and the time. All of it is one loop, which
// hears what was said before it acts: a guard that was frozen itself, and goes on, must know
// what it has missed before it goes by a deadline.
type watch struct {
	order    GuardOrder // with the lease as it was renewed
	clock    func() time.Duration
	lines    *bufio.Reader // what the wrapper says
	pipe     int           // where that comes from
	renewals int           // what counts how far the lease has come
	leader   int           // a pidfd of the job's first process; -1: its end is known, or nobody waits for it

	released bool     // the wrapper has said "end"
	left     bool     // the wrapper is gone
	stopping bool     // the wrapper has said "stop"
	gone     bool     // the job's first process is
	ended    bool     // by itself, so that what it has left behind is left alone
	seen     *Watched // that end, if the wrapper hadn't waited for it already
	cause    GuardEnd // the deadline by which the guard has asked the job to end; 0: it hasn't

	scouting atomic.Bool
	found    atomic.Pointer[[]procfs.Identity] // what a scout has
}

// deadline is when the job is to be asked to end, and when it is to be over.
type deadline struct {
	end            GuardEnd // what the guard says that has acted by it
	termAt, killAt time.Duration
	slack          time.Duration // how late the wrapper may be with either
	look           time.Duration // how often to look: a timer alone would sleep through a suspend
}

func (w *watch) deadlines() (all []deadline) {
	if w.order.TermAt != 0 {
		all = append(all, deadline{GuardTimedOut, w.order.TermAt, w.order.KillAt, guardSlack, clockInterval})
	}
	if w.order.Lease.TTL != 0 {
		all = append(all, w.order.Lease.deadline())
	}
	return all
}

// passed is the deadline that was over first, and 0 if none is.
func (w *watch) passed(now time.Duration) (end GuardEnd) {
	if w.cause != 0 {
		return w.cause
	}
	first := now
	for _, d := range w.deadlines() {
		if d.termAt <= first {
			first, end = d.termAt, d.end
		}
	}
	return end
}

func (w *watch) run() Watched {
	for {
		rest(w.untilDue(), w.pipe, w.leader)
		now := w.clock() // before anything is heard, so that a freeze in between makes nothing overdue
		w.hear()
		w.follow()
		w.look()
		switch {
		case w.released:
			return Watched{End: GuardReleased}
		case w.left:
			return w.alone(now)
		}
		for _, d := range w.deadlines() {
			if now >= d.killAt+d.slack {
				return w.kill(d, now)
			}
			if now >= d.termAt+d.slack {
				w.ask(d)
			}
			if now >= d.termAt && d.end == GuardLost {
				w.scout()
			}
		}
	}
}

// untilDue is the time until something is.
func (w *watch) untilDue() time.Duration {
	now, due := w.clock(), time.Hour
	for _, d := range w.deadlines() {
		at := d.killAt + d.slack
		for _, earlier := range []time.Duration{d.termAt + d.slack, d.termAt} {
			if now < earlier {
				at = earlier
			}
		}
		due = min(due, at-now, d.look)
	}
	return max(due, 0)
}

// hear takes in all that the wrapper has said so far. A line is in the pipe as a whole or not at all.
func (w *watch) hear() {
	for !w.released && !w.left && (w.lines.Buffered() > 0 || rest(0, w.pipe)) {
		switch line, err := w.lines.ReadString('\n'); {
		case err == nil && line == stopLine:
			w.stopping = true
		case err == nil && line == endLine:
			w.released = true
		default:
			w.left = true
		}
	}
}

// follow takes in how far the lease has come.
func (w *watch) follow() {
	if w.order.Lease.TTL != 0 {
		w.order.Lease.Sent += renewed(w.renewals)
	}
}

// look looks whether the job's first process has ended. When it was asked to, by the guard or by the wrapper, it has no
// end of its own, and what it leaves is not left alone. A deadline that is over asks nobody: a job that ends after it,
// before anybody acts, or that a guard without a processor sees too late, has ended by itself, and its end is the true one.
func (w *watch) look() {
	if w.leader < 0 || !rest(0, w.leader) {
		return
	}
	w.closeLeader()
	w.gone, w.ended = true, w.cause == 0 && !w.stopping
	if status, ok := procfs.ExitStatus(w.order.Tree.Group); ok && w.ended {
		w.seen = &Watched{GuardSawEnd, status, time.Now()}
	}
}

// alone is what a guard does whose wrapper is gone.
func (w *watch) alone(now time.Duration) Watched {
	if w.seen == nil { // the two ends may come at once
		rest(firstPause, w.leader)
		w.look()
	}
	// The kernel kills the first process together with the wrapper (PDEATHSIG): that is no end of
	// its own.
	if w.seen != nil && !(w.seen.Status.Signaled() && w.seen.Status.Signal() == unix.SIGKILL) {
		return *w.seen
	}
	end := w.passed(now)
	if end == 0 {
		end = GuardKilled
	}
	w.order.Tree.Kill()
	return Watched{End: end, At: time.Now()}
}

// ask asks the job to end, as the wrapper should have done: once, and not if the wrapper has begun to, or if
// the job has ended by itself.
func (w *watch) ask(d deadline) {
	if w.cause != 0 || w.stopping || w.ended {
		return
	}
	w.cause = d.end
	w.order.Tree.signalGroup(unix.SIGTERM)
	w.order.Tree.signalGroup(unix.SIGCONT)
	go w.order.Tree.askEscaped()
}

// scout looks for what will have to be killed when the lease goes on to be over, as long as there is time for that.
func (w *watch) scout() {
	if w.scouting.Swap(true) {
		return
	}
	go func() {
		found := w.order.Tree.find()
		w.found.Store(&found)
		w.scouting.Store(false)
	}()
}

// kill ends everything of the job, unless that has ended by itself. What is left to do after that has no
// hurry: the time that a lease gives is short, and a wrapper may be slow, so it gets time to record the end.
func (w *watch) kill(d deadline, now time.Duration) Watched {
	end := w.passed(now)
	mayKnow := w.gone || w.stopping || d.end == GuardLost
	if !w.ended {
		var found []procfs.Identity
		if scouted := w.found.Load(); scouted != nil {
			found = *scouted
		}
		w.order.Tree.Kill(found...)
	}
	at := time.Now()
	switch {
	case mayKnow && w.finishes():
		return Watched{End: GuardReleased}
	case w.seen != nil:
		return *w.seen
	}
	return Watched{End: end, At: at}
}

// finishes reports whether the wrapper, when nothing of the job is left any more, records the end itself. One that is stopped
// doesn't.
func (w *watch) finishes() bool {
	began := time.Now() // a clock that stands still in a suspend, as the wrapper does
	frozen := false
	for next := guardSlack; ; {
		rest(next-time.Since(began), w.pipe)
		w.hear()
		switch passed := time.Since(began); {
		case w.released:
			return true
		case w.left, passed-guardPatience >= w.order.Record: // a sum of the two might overflow
			return false
		case passed >= next:
			next = passed + guardSlack
			s, err := procfs.ReadStat(w.order.Wrapper.PID)
			stopped := err == nil && s.State == 'T'
			if stopped && frozen { // at two looks, one after the other
				return false
			}
			frozen = stopped
		}
	}
}

// openLeader opens the job's first process, to wait for its end, whose status stands in /proc until
// the wrapper has waited for it; -1: it would not be told.
func openLeader(who procfs.Identity) int {
	if !procfs.MayKnowExit(who) {
		return -1
	}
	fd, err := unix.PidfdOpen(who.PID, 0)
	if err != nil {
		return -1
	}
	return fd
}

func (w *watch) closeLeader() {
	if w.leader >= 0 {
		_ = unix.Close(w.leader)
		w.leader = -1
	}
}

// rest waits until one of some descriptors has something to tell, and reports whether one has; d is the
// longest that it waits. A negative descriptor tells nothing.
func rest(d time.Duration, fds ...int) bool {
	list := make([]unix.PollFd, len(fds))
	for i, fd := range fds {
		list[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	ms := (max(d, 0) + time.Millisecond - 1) / time.Millisecond
	for {
		n, err := unix.Poll(list, int(ms))
		if !errors.Is(err, unix.EINTR) || ms > 0 { // whoever waits looks at the time again
			return n > 0
		}
	}
}
