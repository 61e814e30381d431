// Package process runs a job as a supervised process group of its own: it starts it, forwards signals, keeps the terminal
// working, ends it on a timeout or a cancellation together with everything in its group, and tells how it ended.
//
// The job has the wrapper's own standard input, and its output and error unless the caller gives others: pipes that package
// capture reads, say. Run waits for the job and never for the end of a pipe, so that no background process that keeps one
// open can hold it up. Of the wrapper's own other descriptors none reaches the job; those that the wrapper was itself started with do (a shell's `<(…)` and `3>file`, socket activation),
// as they would without it.
//
// What a program in Go can't hand on: its runtime has replaced the inherited handling of all signals but SIGHUP and SIGINT
// before any of its code runs. A job that would have inherited, say, an ignored SIGTERM or SIGPIPE has the default.
package process

import (
	"fmt"
	"syscall"
	"time"

	"github.com/onerun-dev/onerun/internal/procfs"
)

// Command is what to start, and how to stop it.
type Command struct {
	Path string   // of the program, as [LookPath] returns it; a relative one counts from Dir
	Args []string // the argument vector with argv[0]; empty means Path alone
	Env  []string // the whole environment, name=value; see [Env]
	Dir  string   // working directory; "" is the wrapper's

	// Stdout and Stderr become the job's 1 and 2; 0: the wrapper's own do. Whoever made a pipe closes its own copy of the
	// writing end in Started, and reads for as long as Run lasts: a pipe that is full stops the job.
	Stdout, Stderr uintptr

	// Timeout is how long the job may run, counted with the time that the machine is suspended; 0 is without end.
	Timeout time.Duration
	// Grace is the time between SIGTERM and SIGKILL when the job is stopped; 0 kills at once.
	Grace time.Duration

	// KillBy is the moment, by CLOCK_BOOTTIME, at which nothing of the job may run any more,
	// whatever else is under way: the end of a lease, which a renewal moves. It is asked again and
	// again, at least every Look; nil: there is none.
	KillBy func() time.Duration
	Look   time.Duration

	// Mark is a variable of Env, by name and value, that only this job has. When the job is stopped, what has left its group
	// is found by it, and ended too. Empty: the group is all that is ended.
	Mark [2]string

	// Hold makes the job last until no process of its group runs any more, and not only its first one.
	Hold bool

	// Started is called once, right after the fork, with the leader of the job's new process group, so that it can be
	// noted for whoever has to judge or end the job later. StartTicks is 0 where /proc doesn't tell. The deadlines are those by
	// which Run goes, so that a guard has the same.
	//
	// The note is what keeps others from starting a second time, so a job that can't be noted may not run on: an error
	// stops it in the same way as a cancellation, and Run returns the error.
	Started func(group procfs.Identity, until Deadlines) error

	// Stopping is called, on another goroutine, before the job is stopped; nil: nobody needs to know.
	Stopping func()

	// Own reports whether a child of this process is somebody else's to wait for; nil: there is none.
	Own func(pid int) bool
}

// Cause is why a job came to its end.
type Cause int

// The causes.
const (
	Exited   Cause = iota + 1 // it ended by itself, with an exit code
	Signaled                  // a signal ended it, whoever sent it
	TimedOut                  // it was stopped because of [Command.Timeout], whatever its exit code says
	Stopped                   // it was stopped because the context was cancelled, or because it couldn't be noted
)

func (c Cause) String() string {
	switch c {
	case Exited:
		return "exited"
	case Signaled:
		return "signaled"
	case TimedOut:
		return "timed out"
	case Stopped:
		return "stopped"
	default:
		return fmt.Sprintf("Cause(%d)", int(c))
	}
}

// End is how a job ended.
type End struct {
	ExitCode   int            // the job's own, 0 to 255; 128+N when signal N ended it, as shells count
	Signal     syscall.Signal // the one that ended it, 0 if none
	CoreDumped bool
	Cause      Cause
	StartedAt  time.Time
	FinishedAt time.Time // when it was over: after a stop, when the last process of its group was gone
}

// Exit codes of a job that could not be started, as shells, env(1) and sysexits.h have them.
const (
	CodeNoFork        = 71  // the system has no room for another process
	CodeNotExecutable = 126 // it is there, but can't be executed
	CodeNotFound      = 127 // it is not there
)

// StartError says why a job was not started. Nothing of it has run.
type StartError struct {
	Code int // one of the Code constants
	Err  error
}

func (e *StartError) Error() string { return e.Err.Error() }

func (e *StartError) Unwrap() error { return e.Err }
