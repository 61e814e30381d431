package cli

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
	"github.com/onerun-dev/onerun/filelock"
	"github.com/onerun-dev/onerun/internal/process"
	"github.com/onerun-dev/onerun/internal/procfs"
	"github.com/onerun-dev/onerun/internal/storeurl"
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
	WorkDir    string   // of the wrapper: the store's URL may name files from there
	Env        []string // of the wrapper, what names the store beside the URL: through the pipe, since a password can be in it
	Private    []string // what the attempt had to itself, to be removed
	Tell       *guardTell
	Textfile   *guardTextfile
	Granted    *filelock.Unclaimed // for a store that has forgotten the claim by then
}

// guard begins to guard the job that was just started. Without a guard the wrapper does
// all that it can, so what keeps one from starting is no error.
func (x *execution) guard(o *onerun.Owner, group procfs.Identity, until process.Deadlines) {
	s, ok := x.store.(hostLocked)
	if !ok {
		return
	}
	files, lockDir, mode := s.SharedLock(o.Lease())
	if len(files) == 0 {
		return
	}
	task := guardTask{
		Store: absoluteStore(x.place.url, x.store), LockDir: lockDir, Lease: o.Lease(), Job: o.Run().Job, Mode: mode, Locks: len(files),
		FinishWait: x.finishWait, Private: x.private.paths(), Tell: x.forGuard(o.Run()), Textfile: x.textfile.forGuard(),
		Granted: s.Granted(o.Lease()),
	}
	order := func() (process.GuardOrder, error) {
		self, err := procfs.Self()
		if err != nil {
			return process.GuardOrder{}, err
		}
		task.WorkDir, _ = os.Getwd() // else the URL has to do without
		for _, entry := range os.Environ() {
			if strings.HasPrefix(entry, "PG") {
				task.Env = append(task.Env, entry)
			}
		}
		more, err := json.Marshal(task)
		return process.GuardOrder{
			Tree:    process.Tree{Group: group, Mark: [2]string{"ONERUN_OWNER", task.Lease.Owner}, Since: self.StartTicks},
			Wrapper: self, Deadlines: until, Lease: x.guardLease(task.Lease), Hold: x.hold, Record: task.FinishWait, More: more,
		}, err
	}
	g := process.NewGuarding(order, "/proc/self/exe", []string{guardName, o.Run().Name()}, files)
	x.guarding.Store(g)
	g.Renewed(time.Duration(x.lease.sent.Load())) // what was told while nobody was there to hear it
	if x.stopping.Load() {
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

// hostLocked is a store that has lock files on this host.
type hostLocked interface {
	onerun.Store
	onerun.EndNoter
	SharedLock(l onerun.Lease) (files []int, lockDir string, mode onerun.LockMode)
	Inherit(l onerun.Lease, mode onerun.LockMode, job string, files []int) (noted *onerun.Outcome, skip *string, err error)
	Granted(l onerun.Lease) *filelock.Unclaimed
	SetGranted(l onerun.Lease, u *filelock.Unclaimed)
	Leave(l onerun.Lease)
}

// absoluteStore is the URL of a store for a process in another directory.
func absoluteStore(url string, s onerun.Store) string {
	local, ok := s.(*sqlite.Store)
	if !ok {
		return url
	}
	_, query, ok := strings.Cut(url, "?")
	if ok {
		query = "?" + query
	}
	return "sqlite:" + local.Path() + query
}

// guardMain is this program as a guard. Nobody hears it: what it has to say stands in the
// ledger, or waits in the lock file.
func guardMain(remote Remote) int {
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
	seen := order.Watch(pipe)
	if seen.End == process.GuardReleased {
		return 0
	}
	removeAll(g.Private)
	if err := g.record(remote, outcomeOf(seen), order.Wrapper, seen.End != process.GuardKilled); err != nil {
		return statusOf(err)
	}
	return 0
}

// outcomeOf is what the guard saw, in the ledger's words.
func outcomeOf(seen process.Watched) onerun.Outcome {
	end, status := seen.End, seen.Status
	out := onerun.Outcome{Status: onerun.Failed, FinishedAt: seen.At}
	code := status.ExitStatus()
	switch {
	case end == process.GuardKilled:
		out.Reason, out.Error = onerun.ReasonOwnerDied, "the wrapper was killed; its guard ended everything of the job"
	case end == process.GuardLost:
		out.Reason, out.Error = onerun.ReasonLeaseLost, "the lease was lost; the wrapper didn't act, so its guard ended everything of the job"
	case end == process.GuardTimedOut:
		out.Reason, out.Error = onerun.ReasonTimeout, "timed out; the wrapper didn't act, so its guard ended everything of the job"
	case status.Signaled():
		code = 128 + int(status.Signal())
		out.Reason, out.Signal, out.ExitCode = onerun.ReasonSignal, process.SignalName(status.Signal()), &code
	case code != 0:
		out.Reason, out.ExitCode = onerun.ReasonExit, &code
	default:
		out.Status, out.ExitCode = onerun.Succeeded, &code
	}
	return out
}

// record notes the end, sees to it that the wrapper can do nothing any more, and tells the
// ledger. The lock is freed last.
func (g guardTask) record(remote Remote, out onerun.Outcome, wrapper procfs.Identity, killWrapper bool) error {
	ctx := context.Background()
	_ = os.Chdir(g.WorkDir) // only now: it keeps a file system busy
	for _, entry := range g.Env {
		name, value, _ := strings.Cut(entry, "=")
		_ = os.Setenv(name, value) // in this process's memory, not in /proc
	}
	s, err := (&env{remote: remote}).openAt(ctx, g.Store, g.LockDir)
	var late []onerun.Delivery
	if host, ok := s.(unclaimer); ok && unclaimed(g.Lease) {
		s, _ = host.Unclaimed(func(d onerun.Delivery) { late = append(late, d) })
	}
	if err != nil {
		noted := g.noteAlone(out)
		if killWrapper {
			endWrapper(wrapper)
		}
		if noted {
			g.Textfile.write(out, err)
		}
		return err
	}
	ours, ok := s.(hostLocked)
	if !ok {
		return onerun.ErrInternal
	}
	noted, skip, err := g.inherit(ours)
	if errors.Is(err, onerun.ErrLost) { // the wrapper has recorded the end already
		return nil
	}
	if err != nil {
		return err
	}
	if skip != nil && out.Status == onerun.Succeeded {
		out.Status, out.Error = onerun.Skipped, *skip
	}
	if noted != nil { // the wrapper saw the end, and died before the ledger knew
		out = *noted
	} else if err := ours.NoteEnd(g.Lease, out); err != nil && !killWrapper {
		return err
	}
	if killWrapper {
		endWrapper(wrapper)
		// Should the wrapper have gone on in the last moment, it has seen how the job ended.
		noted, _, err := g.inherit(ours)
		if errors.Is(err, onerun.ErrLost) {
			return nil
		}
		if noted != nil {
			out = *noted
		}
	}
	ctx, cancel := context.WithTimeout(ctx, max(g.FinishWait, time.Second))
	defer cancel()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if err = ours.Finish(ctx, g.Lease, out); errors.Is(err, onerun.ErrLost) && g.Lease.RunID != "" { // others have closed it
			d, e := ours.Deliver(ctx, g.Lease, out)
			if e == nil && d.Kind != onerun.DeliveredBefore {
				late = append(late, d)
			}
			if e == nil || !errors.Is(e, onerun.ErrLost) {
				err = e
			}
		}
		if err == nil || errors.Is(err, onerun.ErrLost) || ctx.Err() != nil {
			g.told(ours, out, err, late)
			return err
		}
		rest(pause)
	}
}

// inherit takes the lock over, with what the wrapper knew of its run.
func (g guardTask) inherit(s hostLocked) (noted *onerun.Outcome, skip *string, err error) {
	noted, skip, err = s.Inherit(g.Lease, g.Mode, g.Job, g.files())
	if err == nil && g.Granted != nil {
		s.SetGranted(g.Lease, g.Granted)
	}
	return noted, skip, err
}

// noteAlone notes the end in the lock file of a store that can't be opened: whoever comes next
// delivers it. It reports whether it has.
func (g guardTask) noteAlone(out onerun.Outcome) bool {
	kind, _ := storeurl.KindOf(g.Store)
	dir, err := filelock.Open(g.LockDir, filelock.Options{Remote: kind != storeurl.Local})
	if err != nil {
		return false
	}
	lock, note, err := dir.Inherit(filelock.Request{Namespace: g.Lease.Namespace, Lock: g.Lease.Lock, Mode: g.Mode, Owner: g.Lease.Owner, Job: g.Job}, g.files())
	if err != nil || note.Outcome != nil || g.Lease.RunID == "" {
		return false
	}
	if lock.SetOutcome(filelock.NewOutcome(out)) != nil {
		return false
	}
	_ = lock.Sync() // it is as good as it can be
	dir.SetWaiting()
	if g.Granted != nil && lock.SpoolEnd(*g.Granted, out) == nil {
		_ = dir.SetSpooled()
	}
	return true
}

// files are the lock's descriptors.
func (g guardTask) files() []int {
	files := make([]int, g.Locks)
	for i := range files {
		files[i] = process.GuardFrom + i
	}
	return files
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
