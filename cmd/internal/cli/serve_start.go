package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun/internal/process"
	"github.com/onerun-dev/onerun/internal/scheduler"
)

// launcher starts jobs as processes of their own: `onerun run`, in a session of its own, so that what ends the
// scheduler, or is typed at it, doesn't end them.
type launcher struct {
	program  string
	flags    []string // of every start
	file     *os.File // the configuration, as it was read: see configAs
	as       string
	children *children

	complain func(error)
}

// configFD is where a job's onerun finds the configuration.
const configFD = 3

// newLauncher keeps the configuration as it is now for what is started by it.
func (e *env) newLauncher(remote bool, own *children) (*launcher, error) {
	l := &launcher{complain: func(err error) { complain(e, err) }, as: e.file.Path, program: beside("onerun"), children: own}
	var err error
	if l.program == "" || remote { // which onerun doesn't link
		if l.program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	fd, err := unix.MemfdCreate("onerun.yaml", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	l.file = os.NewFile(uintptr(fd), "onerun.yaml")
	if _, err := l.file.Write(e.fileText); err != nil {
		return nil, errors.Join(err, l.file.Close())
	}
	for _, f := range flagFields(&e.common) {
		if f.name != "config" && e.given[f.name] {
			l.flags = append(l.flags, "--"+f.name+"="+textOf(f.value))
		}
	}
	return l, nil
}

// args are the arguments of a fire.
func (l *launcher) args(f *scheduler.Fire) []string {
	args := slices.Concat([]string{"run", f.Job.Name}, l.flags, []string{"--at", f.Slot.UTC().Format(time.RFC3339)})
	switch {
	case f.Skipped && f.BusinessDate != "":
		args = append(args, "--date", f.BusinessDate)
	case f.Own || f.Skipped:
		args = append(args, "--partition", f.Partition)
	}
	if r := f.Request; r != nil {
		args = append(args, "--label", "request_id="+r.ID, "--label", "requested_by="+r.By, "--label", "request_reason="+r.Reason)
	}
	if f.Wait {
		args = append(args, "--wait", "forever")
	}
	if f.Job.RetryLater { // no process waits for a retry: it would keep another job from its place among the limits
		args = append(args, "--retry-later")
	}
	return args
}

// start starts a fire, and waits for its end, or for that of ctx: the process goes on then.
func (l *launcher) start(ctx context.Context, f *scheduler.Fire) scheduler.Result {
	if ctx.Err() != nil {
		return scheduler.Unknown
	}
	cmd := exec.Command(l.program, l.args(f)...)
	cmd.Args[0] = "onerun"
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{l.file}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Env = process.Env(os.Environ(), map[string]string{"ONERUN_CONFIG": "/proc/self/fd/3", configAs: l.as, served: "1"}, "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "ONERUN_SCHEDULED_AT")
	ended, err := l.children.start(cmd)
	if err != nil {
		l.complain(fmt.Errorf("start %s: %w", f.Key(), err))
		return scheduler.Unknown
	}
	for drop := f.Drop; ; drop = nil {
		select {
		case <-ended:
		case <-drop:
			_ = cmd.Process.Signal(syscall.SIGTERM) // one that has ended doesn't mind
			continue
		case <-ctx.Done():
			return scheduler.Away
		}
		break
	}
	if code := cmd.ProcessState.ExitCode(); code == exitUsage || code == exitConfig {
		return scheduler.Refused
	}
	if !cmd.ProcessState.Success() { // a failure of the job's, or of onerun before its claim, which a signal may have ended too
		return scheduler.Unknown
	}
	return scheduler.Ran
}

// inherited is what a process that the scheduler started does with what it was handed, once it has read that: the
// job is to find the configuration where it stands.
func (e *env) inherited() {
	as := os.Getenv(configAs)
	if as == "" {
		return
	}
	unix.CloseOnExec(configFD)
	_ = os.Unsetenv(configAs)
	_ = os.Unsetenv(served)
	_ = os.Setenv("ONERUN_CONFIG", as)
}
