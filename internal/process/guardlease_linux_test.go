package process

import (
	"bufio"
	"errors"
	"math"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/procfs"
)

// What a lost lease has to end.
const (
	meek    = `trap "echo term; exit 3" TERM; sleep 100 & echo pid $$; echo pid $!; echo up; wait`
	stopped = `trap "echo term" TERM; (until grep -q "^State:.T" /proc/$$/status; do sleep 0.01; done; echo up) & echo pid $$; kill -STOP $$; while :; do sleep 0.05; done`
	escaped = `setsid sh -c 'echo pid $$; echo up; exec sleep 100' & echo pid $$; wait`
	wild    = `setsid sh -c 'trap "" TERM; echo pid $$; echo up; while :; do sleep 0.05; done' & echo pid $$; wait`
	astray  = `setsid env -u ` + mark + ` sh -c 'trap "" TERM; echo pid $$; echo up; while :; do sleep 0.05; done' & trap "" TERM; echo pid $$; while :; do sleep 0.05; done`
	behind  = `sleep 100 & echo pid $!; echo up`
)

// inTime tells a story, of which the end is that the job is gone, and checks when that was: before anybody else can have
// its lock. On a machine that is so busy that the guard doesn't get a moment within its margin, nobody can be in time:
// so the best of three counts.
func inTime(t *testing.T, story func() (late time.Duration)) {
	t.Helper()
	for range 3 {
		late := story()
		if late < 0 {
			return
		}
		t.Logf("the job was gone %s after another might have had its lock", late)
	}
	t.Error("the job is gone too late")
}

// late is how much later the job is gone than it has to be. If nothing but SIGKILL ends it, that isn't before its lease says so, and
// if SIGTERM does, it is.
func (o *owned) late(deaf bool) time.Duration {
	o.t.Helper()
	at := o.gone()
	if kill := o.lastTold() + onerun.KillAfter(o.spec.TTL); deaf && at < kill {
		o.t.Errorf("the job is gone %s before its lease says that it is to be killed", kill-at)
	} else if !deaf {
		return at - kill
	}
	return at - o.lastSent() - o.spec.TTL
}

// B25: the wrapper is frozen, and can't renew its lease nor stop its job.
func TestGuardHoldsTheLease(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		job        string
		ttl        time.Duration
		hold       bool
		term, deaf bool // it says that it was asked to end; it doesn't heed that
	}{
		"heeds SIGTERM":                      {job: meek, ttl: 2 * time.Second, term: true},
		"ignores it":                         {job: deaf, ttl: 2 * time.Second, term: true, deaf: true},
		"is stopped":                         {job: stopped, ttl: 2 * time.Second, term: true, deaf: true},
		"has left its group":                 {job: escaped, ttl: 2 * time.Second},
		"has left its group, and ignores it": {job: wild, ttl: 2 * time.Second, deaf: true},
		"its group is held for":              {job: behind, ttl: 2 * time.Second, hold: true},
		"has left its group and environment": {job: astray, ttl: 5 * time.Second, deaf: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inTime(t, func() time.Duration {
				o, _ := own(t, ownerSpec{Job: c.job, Hold: c.hold, TTL: c.ttl, Grace: patience, Record: patience})
				freeze(t, o.cmd.Process.Pid)
				if c.term {
					o.expect("term")
					if at, term := bootTime(), o.lastTold()+onerun.TermAfter(o.spec.TTL, o.spec.Grace); at < term {
						t.Errorf("asked to end %s before its lease says so", term-at)
					}
				}
				late := o.late(c.deaf)
				o.seen(GuardLost)
				o.wasKilled()
				return late
			})
		})
	}
}

// A job lives as long as its lease is renewed, whatever becomes of guards; the one that is there knows the newest
// heartbeat.
func TestGuardFollowsTheLease(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(t *testing.T, o *owned, guard int){
		"the guard is killed": func(t *testing.T, o *owned, guard int) {
			if err := unix.Kill(guard, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			o.guard()
		},
		"the guard is frozen, and goes on": func(t *testing.T, o *owned, guard int) {
			freeze(t, guard)
			o.renews(o.spec.TTL + o.spec.TTL/4)
			thaw(t, guard)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inTime(t, func() time.Duration {
				o, guard := own(t, ownerSpec{Job: deaf, TTL: 2 * time.Second, Grace: patience, Record: patience})
				o.renews(o.spec.TTL + o.spec.TTL/4)
				trouble(t, o, guard)
				o.renews(o.spec.TTL + o.spec.TTL/4)
				o.quiet()
				freeze(t, o.cmd.Process.Pid)
				late := o.late(true)
				o.seen(GuardLost)
				o.wasKilled()
				return late
			})
		})
	}
}

// The wrapper can't reach its store, and stops its job itself: it asks it to end, the guard doesn't; but it would leave it more
// time than the lease has. When nothing is left, it is the wrapper that records what happened.
func TestGuardBesideAStop(t *testing.T) {
	t.Parallel()
	inTime(t, func() time.Duration {
		o, _ := own(t, ownerSpec{Job: deaf, TTL: 2 * time.Second, Grace: patience, Record: patience})
		o.signal(unix.SIGUSR1)
		o.expect("term")
		late := o.late(true)
		o.signal(unix.SIGUSR2)
		o.expect("end stopped 137")
		o.expect("recorded FAILED lease_lost")
		o.seen(GuardReleased)
		return late
	})
}

// A job that is being stopped for another reason keeps its lease, which is renewed all the while.
func TestGuardFollowsWhileStopping(t *testing.T) {
	t.Parallel()
	o, _ := own(t, ownerSpec{Job: deaf, TTL: time.Second, Timeout: time.Second, Grace: 3 * time.Second, Record: patience})
	o.expect("term")
	at := o.gone()
	if o.lastSent()+o.spec.TTL <= at {
		t.Errorf("the lease was renewed last at %s, the job gone at %s", o.lastSent(), at)
	}
	o.expect("end timed out 137")
	o.expect("recorded FAILED timeout")
	o.seen(GuardReleased)
}

// A wrapper that goes on when its guard has asked the job to end sees first that it has lost its lease.
func TestGuardOfAThawedWrapper(t *testing.T) {
	t.Parallel()
	o, _ := own(t, ownerSpec{Job: meek, TTL: 2 * time.Second, Grace: patience, Record: patience})
	freeze(t, o.cmd.Process.Pid)
	o.expect("term")
	o.gone() // or the wrapper, too, would ask it to end
	thaw(t, o.cmd.Process.Pid)
	o.expect("end exited 3")
	o.expect("recorded FAILED lease_lost")
	o.seen(GuardReleased)
}

// One that goes on when all of the job was killed is given the time to record it.
func TestGuardOfAWrapperThawedLate(t *testing.T) {
	t.Parallel()
	o, _ := own(t, ownerSpec{Job: deaf, TTL: 2 * time.Second, Grace: patience, Record: patience})
	freeze(t, o.cmd.Process.Pid)
	o.expect("term")
	o.gone()
	thaw(t, o.cmd.Process.Pid)
	o.expect("end signaled 137")
	o.expect("recorded FAILED lease_lost")
	o.seen(GuardReleased)
}

// A wrapper that is killed when its lease is over already has lost it, and did not just die.
func TestGuardOfAWrapperKilledLate(t *testing.T) {
	t.Parallel()
	o, _ := own(t, ownerSpec{Job: deaf, TTL: 2 * time.Second, Grace: patience, Record: patience})
	freeze(t, o.cmd.Process.Pid)
	o.expect("term")
	o.signal(unix.SIGKILL)
	o.gone()
	o.seen(GuardLost)
}

// The same where the wrapper goes on in between, and renews the lease of a job that it has begun to stop.
func TestGuardOfAWrapperKilledLater(t *testing.T) {
	t.Parallel()
	o, _ := own(t, ownerSpec{Job: deaf, TTL: 2 * time.Second, Grace: patience, Record: patience})
	freeze(t, o.cmd.Process.Pid)
	o.expect("term")
	thaw(t, o.cmd.Process.Pid)
	o.expect("term") // from the wrapper
	o.renews(o.spec.TTL)
	o.signal(unix.SIGKILL)
	o.gone()
	o.seen(GuardLost)
}

// Of the two deadlines the one that is over first acts, and says why, also where the other one ends the rest.
func TestGuardOfTwoDeadlines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ttl, timeout, grace time.Duration
		want                GuardEnd
		deaf                bool // it is the lease that kills
	}{
		"the job's time is over first":        {4 * time.Second, time.Second, 0, GuardTimedOut, false},
		"the lease is over first":             {2 * time.Second, patience, patience, GuardLost, true},
		"the lease ends a grace that is long": {4 * time.Second, time.Second, patience, GuardTimedOut, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inTime(t, func() time.Duration {
				o, _ := own(t, ownerSpec{Job: deaf, TTL: c.ttl, Timeout: c.timeout, Grace: c.grace, Record: patience})
				freeze(t, o.cmd.Process.Pid)
				late := o.late(c.deaf)
				o.seen(c.want)
				o.wasKilled()
				return late
			})
		})
	}
}

// The same of a guard that finds both over, after a suspend say.
func TestGuardFindsTwoDeadlinesOver(t *testing.T) {
	lease := GuardLease{TTL: 10 * time.Second, Sent: time.Minute}
	over := lease.deadline().termAt
	for now, want := range map[time.Duration]GuardEnd{0: 0, over - 2: 0, over: GuardLost, time.Hour: GuardLost} {
		w := watch{order: GuardOrder{Lease: lease, Deadlines: Deadlines{over + 1, over + 1}}}
		if got := w.passed(now); got != want {
			t.Errorf("after %s, the lease first: %d, want %d", now, got, want)
		}
	}
	for now, want := range map[time.Duration]GuardEnd{0: 0, over - 2: 0, over - 1: GuardTimedOut, time.Hour: GuardTimedOut} {
		w := watch{order: GuardOrder{Lease: lease, Deadlines: Deadlines{over - 1, over - 1}}}
		if got := w.passed(now); got != want {
			t.Errorf("after %s, the job's time first: %d, want %d", now, got, want)
		}
	}
}

// A job that has ended by itself before its lease was over isn't lost, and nobody touches what it has left behind.
func TestGuardSawTheEndBeforeTheLoss(t *testing.T) {
	t.Parallel()
	o, guard := own(t, ownerSpec{Job: leaves, TTL: 5 * time.Second, Grace: patience, Record: patience})
	watched(t, guard)
	freeze(t, o.cmd.Process.Pid)
	o.goesOn()
	if status := o.seen(GuardSawEnd); status.ExitStatus() != 3 {
		t.Errorf("it has ended with %#x", status)
	}
	if bootTime() < o.lastSent()+o.spec.TTL-onerun.LeaseMargin(o.spec.TTL) {
		t.Error("the guard didn't wait for the wrapper")
	}
	if !runs(o.pids[0]) {
		t.Error("what the job has left behind is gone")
	}
}

// The same of an end that the wrapper has seen, and that it can't record while it is cut off: the guard was frozen, and finds
// nothing of it any more.
func TestGuardOfAnEndThatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	o, guard := own(t, ownerSpec{Job: leaves, TTL: 5 * time.Second, Grace: patience, Record: patience})
	watched(t, guard)
	o.signal(unix.SIGUSR1)
	freeze(t, guard)
	o.goesOn()
	o.expect("end exited 3")
	thaw(t, guard)
	eventually(t, "the lease is over", func() bool { return bootTime() > o.lastSent()+o.spec.TTL })
	o.signal(unix.SIGUSR2)
	o.expect("recorded FAILED exit")
	o.seen(GuardReleased)
	if !runs(o.pids[0]) {
		t.Error("what the job has left behind is gone")
	}
}

// watched waits until a guard watches the job's first process.
func watched(t *testing.T, guard int) {
	t.Helper()
	eventually(t, "the guard watches", func() bool { return hasPidfd(guard) })
}

// A machine that is suspended counts: the guard looks at the clock however far away the deadline seems.
func TestGuardLooksAtTheClock(t *testing.T) {
	w, job, say := guardOfAChild(t, 24*time.Hour)
	var suspended time.Duration
	w.clock = func() time.Duration { // it asks, and while it waits for what is due the machine is suspended
		now := bootTime() + suspended
		suspended = 24 * time.Hour
		return now
	}
	end := make(chan GuardEnd, 1)
	go func() { end <- w.run().End }()
	eventually(t, "the job is killed", func() bool { return !runs(job.Process.Pid) })
	say(endLine)
	if got := <-end; got != GuardReleased {
		t.Errorf("the guard ends with %d", got)
	}
}

// It wakes when the lease begins to be over, when it has to ask, and when it has to kill; and in between.
func TestGuardWakesInTime(t *testing.T) {
	lease := GuardLease{TTL: 7 * time.Second, Grace: time.Second, Sent: time.Minute} // a margin of 700 ms
	at := time.Minute + 70*time.Millisecond
	w := watch{order: GuardOrder{Lease: lease}, clock: func() time.Duration { return at }}
	var woken []time.Duration
	for kill := time.Minute + 6475*time.Millisecond; at <= kill && len(woken) < 100; at += w.untilDue() {
		woken = append(woken, at-time.Minute)
	}
	for _, want := range []time.Duration{5300, 5475, 6475} {
		if !slices.Contains(woken, want*time.Millisecond) {
			t.Errorf("it wakes at %v, want at %d ms too", woken, want)
		}
	}
	for i := range len(woken) - 1 {
		if d := woken[i+1] - woken[i]; d > onerun.LookEvery(lease.TTL) {
			t.Errorf("it sleeps for %s, from %s on", d, woken[i])
		}
	}
}

// A guard that is frozen between two instructions, and goes on when its lease has been renewed, does nothing.
func TestGuardFrozenBetweenTwoInstructions(t *testing.T) {
	w, job, say := guardOfAChild(t, time.Second)
	var counter renewals
	began, fd, err := counter.open(w.order.Lease.Sent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(counter.close)
	w.renewals = fd
	var frozen time.Duration
	looks := 0
	w.clock = func() time.Duration { // each time that it asks, the guard has been away for an hour
		frozen += time.Hour
		counter.renew(began + frozen)
		if looks++; looks == 20 {
			say(endLine)
		}
		return bootTime() + frozen
	}
	if got := w.run().End; got != GuardReleased || looks < 20 {
		t.Errorf("the guard ends with %d after %d looks", got, looks)
	}
	if !runs(job.Process.Pid) {
		t.Error("the job is gone")
	}
}

// guardOfAChild is a guard's watch in this process over a child of it.
func guardOfAChild(t *testing.T, ttl time.Duration) (w *watch, job *exec.Cmd, say func(line string)) {
	t.Helper()
	job = exec.Command("/bin/sleep", "100")
	job.Env = []string{mark + "=" + t.Name()}
	job.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := job.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = job.Process.Kill(); _ = job.Wait() })
	self, err := procfs.Self()
	if err != nil {
		t.Fatal(err)
	}
	r, pipe := pipe(t)
	w = &watch{
		order: GuardOrder{
			Tree:    Tree{Group: identify(job.Process.Pid), Mark: [2]string{mark, t.Name()}, Since: self.StartTicks},
			Wrapper: self, Lease: GuardLease{TTL: ttl, Sent: bootTime()}, Record: patience,
		},
		lines: bufio.NewReader(r), pipe: int(r.Fd()), renewals: -1, leader: -1,
	}
	return w, job, func(line string) {
		if _, err := pipe.WriteString(line); err != nil {
			t.Error(err)
		}
	}
}

// A guard that knows of no heartbeat would kill the job at once, so there is none.
func TestNoGuardBeforeTheFirstHeartbeat(t *testing.T) {
	g := Guarding{order: func() (GuardOrder, error) { return GuardOrder{Lease: GuardLease{TTL: time.Second}}, nil }, renewals: renewals{fd: -1}}
	if pid, err := g.fork(); !errors.Is(err, errNotRenewed) || g.renewals.fd != -1 {
		t.Errorf("started as %d, %v", pid, err)
	}
}

// However many renewals nobody reads, the wrapper doesn't wait, and one read gives all of them.
func TestRenewalsNeverWait(t *testing.T) {
	r := renewals{fd: -1}
	r.renew(time.Hour) // before there is a guard
	r.renew(time.Second)
	from, fd, err := r.open(time.Minute)
	if err != nil || from != time.Hour {
		t.Fatalf("it counts from %s, %v", from, err)
	}
	const n = 200_000 // lines of them would have filled a pipe many times
	for i := range n {
		r.renew(time.Hour + time.Duration(i+1)*time.Millisecond)
		r.renew(time.Hour) // late, and old
	}
	if got := renewed(fd); got != n*time.Millisecond {
		t.Errorf("the lease has come %s further", got)
	}
	if got := renewed(fd); got != 0 {
		t.Errorf("the lease has come %s further again", got)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	r.fd = int(null.Fd()) // as if the kernel had refused one
	r.renew(2 * time.Hour)
	r.fd = fd
	r.renew(2*time.Hour + 1)
	if got := renewed(fd); got != time.Hour-n*time.Millisecond+1 {
		t.Errorf("the lease has come %s further, after a renewal that was lost", got)
	}
	_ = null.Close()
	r.close()
	r.renew(3 * time.Hour) // between two guards
	from, fd, err = r.open(2 * time.Hour)
	if err != nil || from != 3*time.Hour || renewed(fd) != 0 {
		t.Fatalf("the next guard counts from %s, %v", from, err)
	}
	r.renew(math.MaxInt64)
	if got := from + renewed(fd); got != math.MaxInt64 {
		t.Errorf("the end of time is %s", got)
	}
	r.close()
	r.close()
}

// Whose number the job's group had when all of it was gone is no part of the job.
func TestKillLeavesTheNextOneOfTheNumberAlone(t *testing.T) {
	w, job, _ := guardOfAChild(t, time.Second)
	tree := w.order.Tree
	tree.Group.StartTicks--
	tree.Mark[1] = "another"
	tree.Kill(tree.Group)
	tree.signalGroup(unix.SIGTERM)
	if left, complete := tree.Members(); len(left) != 0 || !complete {
		t.Errorf("found %v, %v", left, complete)
	}
	if s, err := procfs.ReadStat(job.Process.Pid); err != nil || s.Gone() {
		t.Errorf("the other process: %+v, %v", s, err)
	}
	w.order.Tree.Kill()
	if err := job.Wait(); err == nil {
		t.Error("the job isn't killed")
	}
}
