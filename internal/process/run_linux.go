package process

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun/internal/procfs"
)

// Run starts the job and waits for its end. A job that ends by itself is over when its first process is: what it
// leaves in the background is left alone, and nothing waits for it, unless [Command.Hold] says so.
//
// While it runs, SIGTERM, SIGINT, SIGHUP and SIGQUIT sent to this process are forwarded to the job's group; whether to end
// is up to the job. SIGHUP and SIGINT that this process ignored from its start on (under nohup(1), and in the background of a
// shell without job control) stay ignored, here and in the job, and so do the terminal's SIGTSTP, SIGTTIN and SIGTTOU. Of
// all others Go's runtime takes the place of what was there before any of our code runs, so that nobody can tell: the job
// has them by default. When Run returns, the four act again as they did before: whoever has something to record after the
// job should listen to them before and after, which makes Run faster too.
//
// When the timeout passes or ctx is cancelled, the group gets SIGTERM (and SIGCONT, so that stopped processes take
// notice), and [Command.Grace] later SIGKILL. Run then returns only when no process of the group runs any more, nor one with [Command.Mark], however
// long that takes: one in an uninterruptible sleep can't be killed by anybody, nor one that changed its user, and until
// they are gone the caller may not give their lock away. After the first reason to stop no other counts; if the job ended
// by itself in the same moment, it was not stopped.
//
// The goroutine is locked to its thread for the time of the call, since the kernel kills the job when that thread ends
// (PDEATHSIG, prctl(2)): that is, when this process dies. A caller that locks it earlier, in main, gains nothing
// but slower switches between goroutines.
//
// As PID 1 of a pid namespace it also waits, meanwhile, for the orphans that the kernel gives to this process, but not for
// those children of which Command.Own says that somebody else does.
//
// One call at a time: signals and the terminal belong to the process. On a terminal the job gets it, with the keys Ctrl-C,
// Ctrl-\ and Ctrl-Z, and gives it back; when it is stopped by Ctrl-Z, this whole process stops, until the shell continues it.
//
// The error is a [*StartError] when the job was not started. If ctx is over before, it is that context's cause, and
// nothing was started either. After any other error the job did run, and End tells what is known: it could not be
// noted and was stopped, or its exit status was lost (Cause is then 0).
func Run(ctx context.Context, c Command) (End, error) {
	return runner{clock: bootTime, files: []uintptr{0, 1, 2}}.run(ctx, c)
}

// runner is what Run takes from its surroundings.
type runner struct {
	clock func() time.Duration // as bootTime
	files []uintptr            // what becomes the job's 0, 1 and 2
}

// filesFor are the job's 0, 1 and 2.
func (r runner) filesFor(c Command) []uintptr {
	files := slices.Clone(r.files)
	for i, fd := range []uintptr{c.Stdout, c.Stderr} {
		if fd != 0 {
			files[i+1] = fd
		}
	}
	return files
}

func (r runner) run(ctx context.Context, c Command) (End, error) {
	tty := openTerminal()
	defer tty.close()
	signals := listen(tty)
	defer signal.Stop(signals)
	return r.supervise(ctx, c, tty, signals)
}

// listen catches the signals to forward. It comes before the fork, so that none is lost: what arrives earlier waits in
// the channel. signal.Ignore is never used: the job would inherit it.
func listen(tty *terminal) chan os.Signal {
	signals := make(chan os.Signal, 16)
	for _, s := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	if tty.catchesStops() {
		signal.Notify(signals, unix.SIGTSTP)
	}
	return signals
}

func (r runner) supervise(ctx context.Context, c Command, tty *terminal, signals <-chan os.Signal) (End, error) {
	if ctx.Err() != nil {
		return End{}, fmt.Errorf("the job was not started: %w", context.Cause(ctx))
	}
	if c.KillBy != nil && r.clock() >= c.KillBy() { // this process was frozen until now
		return End{}, errors.New("the job was not started: its time was over before")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	end := End{StartedAt: time.Now()}
	pid, err := start(c, r.filesFor(c), tty)
	if err != nil {
		tty.takeBack()
		return End{}, err
	}
	defer reapOrphans(pid, c.Own).stop()
	j := newJob(pid, r.clock, c.Timeout, c.Grace)
	j.hold, j.mark, j.onStop, j.killBy = c.Hold, c.Mark, c.Stopping, c.KillBy
	if c.Look > 0 {
		j.look = min(c.Look, j.look)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	over := make(chan struct{})
	defer close(over)
	go j.watch(ctx, signals, over)

	var unnoted error
	if c.Started != nil {
		if err := c.Started(identify(pid), j.deadlines()); err != nil {
			unnoted = fmt.Errorf("the job was stopped, because its start could not be noted: %w", err)
			stop()
		}
	}
	status, err := j.wait(tty)
	tty.endOf(status, j.wasForwarded)
	end.FinishedAt = time.Now()
	if err != nil {
		return end, fmt.Errorf("the exit status of process %d is lost: %w", pid, err)
	}
	end.ExitCode, end.Cause = status.ExitStatus(), Exited
	if status.Signaled() {
		end.Signal, end.CoreDumped = status.Signal(), status.CoreDump()
		end.ExitCode, end.Cause = 128+int(end.Signal), Signaled
	}
	if cause := j.stopped(); cause != 0 {
		end.Cause = cause
	} else if end.Signal != 0 && j.deadline != 0 && r.clock()-guardSlack >= j.deadline {
		end.Cause = TimedOut // this process was frozen, and its guard has asked the job to end
	}
	return end, unnoted
}

// identify reads the start time of our own child, which is there at least as a zombie until we reap it.
func identify(pid int) procfs.Identity {
	s, err := procfs.ReadStat(pid)
	if err != nil {
		return procfs.Identity{PID: pid} // no /proc, or a setuid program on a /proc with hidepid
	}
	return procfs.Identity{PID: pid, StartTicks: s.StartTicks}
}

// deadlines are what Started is told. A time that is longer than any machine runs is cut, so that no sum of them overflows.
func (j *job) deadlines() (d Deadlines) {
	const longest = math.MaxInt64 / 4
	if j.deadline != 0 {
		d.TermAt = min(j.deadline, longest)
		d.KillAt = d.TermAt + min(j.grace, longest)
	}
	return d
}

// bootTime counts the time since boot with the time in suspend (clock_gettime(2)), which Go's own timers leave out.
func bootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("CLOCK_BOOTTIME: %v", err)) // there since Linux 2.6.39, and Go needs a later one
	}
	return time.Duration(ts.Nano())
}
