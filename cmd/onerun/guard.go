package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/process"
	"github.com/onerun-dev/onerun/internal/procfs"
	"github.com/onerun-dev/onerun/store"
	"github.com/onerun-dev/onerun/store/sqlite"
)

// guardName is argv[0] of this program as a guard (see package process).
const guardName = "onerun-guard"

// guardTask is what a guard needs to record the end of a run.
type guardTask struct {
	Store      string
	LockDir    string
	Lease      onerun.Lease
	Job        string
	Mode       onerun.LockMode
	Locks      int // how many descriptors are the lock's
	FinishWait time.Duration
	TmpDir     string // ONERUN_TMPDIR of the job
}

// guard begins to guard the job that was just started. Without a guard the wrapper does
// all that it can, so what keeps one from starting is no error.
func (x *execution) guard(o *onerun.Owner, group procfs.Identity) {
	s, ok := x.store.(*sqlite.Store)
	if !ok {
		return
	}
	files, lockDir, mode := s.SharedLock(o.Lease())
	if len(files) == 0 {
		return
	}
	task := guardTask{
		Store: absoluteStore(x.place.url, s), LockDir: lockDir, Lease: o.Lease(), Job: o.Run().Job, Mode: mode, Locks: len(files),
		FinishWait: x.finishWait, TmpDir: x.tmpDir,
	}
	term, kill := time.Duration(0), time.Duration(0)
	if x.timeout > 0 {
		term, kill = process.Deadlines(x.timeout, x.grace)
	}
	order := func() (process.GuardOrder, error) {
		self, err := procfs.Self()
		if err != nil {
			return process.GuardOrder{}, err
		}
		more, err := json.Marshal(task)
		return process.GuardOrder{
			Tree:    process.Tree{Group: group, Mark: [2]string{"ONERUN_OWNER", task.Lease.Owner}, Since: self.StartTicks},
			Wrapper: self, TermAt: term, KillAt: kill, Hold: x.hold, More: more,
		}, err
	}
	g := process.NewGuarding(order, "/proc/self/exe", []string{guardName, o.Run().Name()}, files)
	if x.guarding.Store(g); x.stopping.Load() {
		g.Stopping()
	}
}

// stopGuarding tells the guard, if there is one, that the job is being stopped. It may be
// called while guard is.
func (x *execution) stopGuarding() {
	x.stopping.Store(true)
	if g := x.guarding.Load(); g != nil {
		g.Stopping()
	}
}

// releaseGuard says that nothing is left to be guarded. Where the end waits to be recorded,
// whoever comes next needs the lock for that, which the guard still shares.
func (x *execution) releaseGuard(waits bool) {
	if g := x.guarding.Swap(nil); g != nil {
		g.End()
		if waits {
			g.Gone(time.Second)
		}
	}
}

// absoluteStore is the URL of a local store for a process in another directory.
func absoluteStore(url string, s *sqlite.Store) string {
	_, query, ok := strings.Cut(url, "?")
	if ok {
		query = "?" + query
	}
	return "sqlite:" + s.Path() + query
}

// guardMain is this program as a guard. Nobody hears it: what it has to say stands in the
// ledger, or waits in the lock file.
func guardMain() int {
	// A service manager signals every process of a unit, and the guard goes last.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP)
	name := [16]byte{}
	copy(name[:15], guardName)
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name)), 0, 0, 0) // for ps(1) alone
	pipe := bufio.NewReader(os.NewFile(3, "orders"))
	order, err := process.ReadGuardOrder(pipe)
	var g guardTask
	if err == nil {
		err = json.Unmarshal(order.More, &g)
	}
	if err != nil {
		return exitInternal
	}
	for i := range g.Locks {
		unix.CloseOnExec(process.GuardFrom + i)
	}
	end, status := order.Watch(pipe)
	if end == process.GuardReleased {
		return 0
	}
	if g.TmpDir != "" {
		_ = os.RemoveAll(g.TmpDir)
	}
	if err := g.record(outcomeOf(end, status), order.Wrapper, end == process.GuardTimedOut); err != nil {
		return statusOf(err)
	}
	return 0
}

// outcomeOf is what the guard saw, in the ledger's words.
func outcomeOf(end process.GuardEnd, status unix.WaitStatus) onerun.Outcome {
	out := onerun.Outcome{Status: onerun.Failed, FinishedAt: time.Now()}
	code := status.ExitStatus()
	switch {
	case end == process.GuardKilled:
		out.Reason, out.Error = onerun.ReasonOwnerDied, "the wrapper was killed; its guard ended everything of the job"
	case end == process.GuardTimedOut:
		out.Reason, out.Error = onerun.ReasonTimeout, "timed out; the wrapper didn't act, so its guard ended everything of the job"
	case status.Signaled():
		code = 128 + int(status.Signal())
		out.Reason, out.Signal, out.ExitCode = onerun.ReasonSignal, unix.SignalName(status.Signal()), &code
	case code != 0:
		out.Reason, out.ExitCode = onerun.ReasonExit, &code
	default:
		out.Status, out.ExitCode = onerun.Succeeded, &code
	}
	return out
}

// record notes the end, sees to it that the wrapper can do nothing any more, and tells the
// ledger. The lock is freed last.
func (g guardTask) record(out onerun.Outcome, wrapper procfs.Identity, killWrapper bool) error {
	ctx := context.Background()
	s, err := store.Open(ctx, g.Store, store.Options{LockDir: g.LockDir})
	if err != nil {
		if killWrapper {
			endWrapper(wrapper)
		}
		return err
	}
	ours, ok := s.(*sqlite.Store)
	if !ok {
		return onerun.ErrInternal
	}
	files := make([]int, g.Locks)
	for i := range files {
		files[i] = process.GuardFrom + i
	}
	noted, err := ours.Inherit(g.Lease, g.Mode, g.Job, files)
	if errors.Is(err, onerun.ErrLost) { // the wrapper has recorded the end already
		return nil
	}
	if err != nil {
		return err
	}
	if noted != nil { // the wrapper saw the end, and died before the ledger knew
		out = *noted
	} else if err := ours.NoteEnd(g.Lease, out); err != nil && !killWrapper {
		return err
	}
	if killWrapper {
		endWrapper(wrapper)
	}
	ctx, cancel := context.WithTimeout(ctx, max(g.FinishWait, time.Second))
	defer cancel()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if err = ours.Finish(ctx, g.Lease, out); err == nil || errors.Is(err, onerun.ErrLost) || ctx.Err() != nil {
			return err
		}
		rest(pause)
	}
}

// endWrapper kills a wrapper that is frozen or hung, and waits until it is gone: from then
// on nobody but the guard writes to the lock file.
func endWrapper(who procfs.Identity) {
	fd, err := unix.PidfdOpen(who.PID, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	if s, err := procfs.ReadStat(who.PID); err != nil || s.StartTicks != who.StartTicks {
		return
	}
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	for {
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
