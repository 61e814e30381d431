package process

import (
	"context"
	"math"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun/internal/procfs"
)

// How often deadlines are looked at: a timer alone would sleep through a suspend.
const clockInterval = time.Second

// How long to pause between looks at a group that is to go, at first and at most, and before a /proc that hides processes
// is asked again.
const (
	firstPause    = time.Millisecond
	lastPause     = 20 * time.Millisecond
	blindInterval = 5 * time.Second
)

// job is a started process group. Its leader is waited for on one goroutine; signals, the timeout and a cancellation come
// in on another. The leader stays a zombie until all is over, so that its number can't be reused and no signal can
// reach strangers.
type job struct {
	pid      int // of the leader, and the number of the group
	clock    func() time.Duration
	deadline time.Duration // of the timeout, by clock; 0: none
	grace    time.Duration
	killBy   func() time.Duration // see Command.KillBy; nil: none
	look     time.Duration        // how often the clock is looked at, at least
	hold     bool                 // the job lasts until its group is gone
	mark     [2]string
	onStop   func() // see Command.Stopping

	mu        sync.Mutex
	over      bool  // no signal may be sent any more
	cause     Cause // why it is being stopped; 0: it isn't
	killAt    time.Duration
	killed    bool
	forwarded []syscall.Signal

	// of the waiting goroutine
	left       []int         // running members at the last look
	blindUntil time.Duration // /proc didn't tell, and isn't asked again before; the leader is reaped
	status     unix.WaitStatus
	reaped     bool
}

func newJob(pid int, clock func() time.Duration, timeout, grace time.Duration) *job {
	j := &job{pid: pid, clock: clock, grace: grace, look: clockInterval}
	if timeout > 0 {
		j.deadline = after(clock(), timeout)
	}
	return j
}

// after is now + d, and the end of time where that is later.
func after(now, d time.Duration) time.Duration {
	if d > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + max(d, 0)
}

// watch acts on what comes from outside, until over is closed.
func (j *job) watch(ctx context.Context, signals <-chan os.Signal, over <-chan struct{}) {
	timer := time.NewTimer(clockInterval)
	defer timer.Stop()
	cancelled := ctx.Done()
	for {
		var due <-chan time.Time
		if wait, ok := j.untilDue(); ok {
			timer.Reset(min(wait, j.look))
			due = timer.C
		}
		select {
		case <-over:
			return
		case s := <-signals:
			j.forward(s.(syscall.Signal))
		case <-cancelled:
			cancelled = nil
			j.stop(Stopped)
		case <-due:
			j.tick()
		}
	}
}

// untilDue returns the time until the next deadline, and false when there is none.
func (j *job) untilDue() (time.Duration, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now, at := j.clock(), time.Duration(math.MaxInt64)
	switch {
	case j.killed:
	case j.cause != 0:
		at = j.killAt
	case j.deadline != 0:
		at = j.deadline
	}
	if j.killBy != nil && !j.killed {
		at = min(at, j.killBy())
	}
	return at - now, at != math.MaxInt64
}

func (j *job) tick() {
	now := j.clock()
	if j.deadline != 0 && now >= j.deadline {
		j.stop(TimedOut)
	}
	late := j.late()
	if late {
		j.stop(Stopped)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if late {
		j.killAt = min(j.killAt, now)
	}
	if j.cause != 0 && !j.killed && now >= j.killAt {
		j.killed = true
		j.signal(unix.SIGKILL)
	}
}

// late reports whether nothing of the job may run any more.
func (j *job) late() bool { return j.killBy != nil && j.clock() >= j.killBy() }

// stop is the one way in which a job is ended. Only the first call counts, and none after the job's own end.
func (j *job) stop(cause Cause) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.over || j.cause != 0 || !j.hold && hasEnded(j.pid) {
		return
	}
	if j.onStop != nil {
		j.onStop()
	}
	j.cause, j.killAt = cause, after(j.clock(), j.grace)
	j.signal(unix.SIGTERM)
	j.signal(unix.SIGCONT) // a stopped process acts on SIGTERM only when it goes on
	if j.mark[0] != "" {
		go j.tree().askEscaped()
	}
}

func (j *job) tree() Tree {
	self, _ := procfs.Self() // without it, every process is looked at
	return Tree{Group: procfs.Identity{PID: j.pid}, Mark: j.mark, Since: self.StartTicks}
}

// endEscaped returns when nothing of a stopped job runs any more that has left its group.
func (j *job) endEscaped() {
	if j.mark[0] == "" {
		return
	}
	for pause := firstPause; j.clock() < j.killAt && !j.late(); pause = min(2*pause, lastPause) {
		if left, complete := j.tree().Members(); len(left) == 0 && complete {
			return
		}
		<-time.After(pause)
	}
	j.tree().Kill()
}

func (j *job) stopped() Cause {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.cause
}

func (j *job) forward(s syscall.Signal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.forwarded = append(j.forwarded, s)
	j.signal(s)
}

func (j *job) wasForwarded(s syscall.Signal) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Contains(j.forwarded, s)
}

// signal signals the whole group; mu is held. Members of another user may stay out of its reach (kill(2)).
func (j *job) signal(s syscall.Signal) {
	if !j.over {
		_ = unix.Kill(-j.pid, s)
	}
}

// wait returns the leader's status when the job is over: when the leader has ended, and after a stop when nothing of its
// group runs any more.
func (j *job) wait(tty *terminal) (unix.WaitStatus, error) {
	for {
		stop, err := waitEvent(j.pid, tty != nil)
		if err != nil {
			j.finish()
			return 0, err
		}
		if stop == 0 {
			break
		}
		if j.stopped() == 0 { // else SIGKILL is on its way, and helps in any state
			tty.suspend(j.pid, stop)
		}
	}
	if j.hold {
		for pause := firstPause; j.stopped() == 0 && !j.groupGone(); pause = min(2*pause, lastPause) {
			<-time.After(pause)
		}
	}
	if j.stopping() {
		for pause := firstPause; !j.groupGone(); pause = min(2*pause, lastPause) {
			<-time.After(pause)
		}
		j.endEscaped()
	}
	j.finish()
	return j.status, j.reap()
}

// stopping is asked when the leader has ended. If no stop is under way by then, none comes later.
func (j *job) stopping() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.over = j.cause == 0
	return !j.over
}

func (j *job) finish() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.over = true
}

// groupGone looks whether any member still runs. Those found last are asked first: that is cheaper than all of /proc.
func (j *job) groupGone() bool {
	if slices.ContainsFunc(j.left, j.runs) {
		return false
	}
	if j.clock() < j.blindUntil {
		return unix.Kill(-j.pid, 0) == unix.ESRCH
	}
	live, complete, err := procfs.GroupMembers(j.pid)
	if j.left = live; len(live) > 0 {
		j.killAgain()
		return false
	}
	if complete && err == nil {
		return true
	}
	// /proc doesn't tell: a member of another user on a mount with hidepid, or no /proc at all. kill(2) does when no zombie
	// is left, so ours has to go. From here on the number is held by the rest of the group, which is looked at every
	// 20 ms, and nobody gets it within that time. /proc is asked again now and then, for zombies that nobody reaps.
	_ = j.reap()
	j.blindUntil = j.clock() + blindInterval
	return unix.Kill(-j.pid, 0) == unix.ESRCH
}

func (j *job) runs(pid int) bool {
	s, err := procfs.ReadStat(pid)
	return err == nil && s.PGRP == j.pid && !s.Gone()
}

// killAgain reaches those who came into the group after SIGKILL, by setpgid(2).
func (j *job) killAgain() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.killed {
		j.signal(unix.SIGKILL)
	}
}

// reap takes the leader's status. It waits for that one process and never for "any": other children have other waiters.
func (j *job) reap() error {
	for !j.reaped {
		_, err := unix.Wait4(j.pid, &j.status, 0, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		j.reaped = true
	}
	return nil
}
