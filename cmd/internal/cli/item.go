package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/jobapi"
	"github.com/onerun-dev/onerun/internal/process"
	"github.com/onerun-dev/onerun/store/sqlite"
)

type itemCmd struct {
	Item        string   `arg:"" help:"Name of the item: what it is about, such as an order's number."`
	Shell       word     `short:"c" placeholder:"LINE" help:"Execute LINE by /bin/sh instead of a command."`
	Payload     word     `placeholder:"TEXT|@FILE" help:"Content of the item: another one under the same name is a conflict."`
	OnCrash     string   `enum:"auto,manual" default:"auto" placeholder:"auto|manual" help:"What becomes of it if this process dies: done again by whoever comes to it next, or left to a person."`
	SkipCode    int      `short:"E" default:"0" placeholder:"N" help:"Exit code when it is done already, or being done (0)."`
	BlockedCode int      `default:"79" placeholder:"N" help:"Exit code of stale and conflict (79)."`
	Command     []string `arg:"" optional:"" passthrough:"partial" help:"What to execute."`
}

// Help explains the command.
func (itemCmd) Help() string {
	return `Inside of a job: executes COMMAND for ITEM once ever for this namespace and job, whichever run or attempt comes to it. A
COMMAND that ends with 0 is done for ever; one that fails is executed again when a run comes to the item again.

When this process dies in the middle, nobody knows whether the work was done. --on-crash says what then: auto executes it
again, so COMMAND should be safe to repeat; manual refuses it (79) until onerun resolve JOB --item ITEM --as done|failed.
COMMAND gets ONERUN_ITEM. onerun items lists them. Over HTTP, for any language: see docs/inside.md.`
}

func (c *itemCmd) run(ctx context.Context, e *env) error {
	name, err := onerun.CleanItem(c.Item)
	if err != nil {
		return err
	}
	argv, err := commandLine(string(c.Shell), c.Command)
	if err != nil {
		return err
	}
	if err := cmp.Or(checkExit("--skip-code", c.SkipCode), checkExit("--blocked-code", c.BlockedCode)); err != nil {
		return err
	}
	payload, err := c.payload()
	if err != nil {
		return err
	}
	job, err := insideJob()
	if err != nil {
		return err
	}
	path, err := process.LookPath(argv[0], os.Getenv("PATH"))
	if err != nil { // before it is begun
		return notStarted(err)
	}
	begun, err := job.BeginItem(ctx, jobapi.ItemBegin{Item: name, Payload: payload, OnCrash: c.OnCrash, Process: true})
	switch {
	case err != nil:
		return err
	case begun.Reason == string(onerun.RefusedStale), begun.Reason == string(onerun.RefusedConflict):
		return &statusError{status: c.BlockedCode, cause: errors.New(begun.Error)}
	case !begun.Begin:
		return &statusError{status: c.SkipCode}
	}
	status, end, failed := executeItem(path, argv, name, begun.Owner)
	end.Item, end.Owner = name, begun.Owner
	ended, err := endItem(ctx, job, end)
	if err != nil {
		if status == 0 {
			status = exitUnrecorded
		}
		return &statusError{status: status, cause: fmt.Errorf("item %q: how it ended is not recorded: %w", name, err)}
	}
	if !ended.Stored {
		complain(e, fmt.Errorf("item %q: how it ended is kept until the store takes it: %s", name, ended.Error))
	}
	if status == 0 {
		return nil
	}
	return &statusError{status: status, cause: failed}
}

// endItem tells how an item ended. An answer that doesn't come is asked for again, for up to ten
// seconds: to say it twice is to say it once. When nobody listens, the job is over.
func endItem(ctx context.Context, job *jobapi.Client, end jobapi.ItemEnd) (a jobapi.ItemEnded, err error) {
	until := time.Now().Add(10 * time.Second)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		a, err = job.EndItem(ctx, end)
		gone := errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ENOENT)
		if err == nil || !errors.Is(err, onerun.ErrUnavailable) || gone || time.Now().After(until) {
			return a, err
		}
		rest(pause)
	}
}

// payload is the digest of --payload: however long that is, and whatever bytes are in it.
func (c *itemCmd) payload() (string, error) {
	file, ok := strings.CutPrefix(string(c.Payload), "@")
	if !ok {
		return jobapi.Digest(string(c.Payload)), nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", &onerun.StoreError{Kind: fileKind(err), What: "payload", Path: file, Err: pathCause(err)}
	}
	if len(b) == 0 {
		return "", usage("the payload %s is empty", file)
	}
	return jobapi.Digest(string(b)), nil
}

func notStarted(err error) error {
	var start *process.StartError
	if errors.As(err, &start) {
		return &statusError{status: start.Code, cause: err}
	}
	return err
}

// executeItem executes the command. It stays in the job's process group, so that whatever
// stops the job stops it; should this process be killed, the kernel kills it too.
func executeItem(path string, argv []string, name, owner string) (status int, end jobapi.ItemEnd, failed error) {
	runtime.LockOSThread() // the death of this thread would be taken for the death of this process
	defer runtime.UnlockOSThread()
	signals := make(chan os.Signal, 8)
	// Those of a terminal reach the command by themselves, and this process has to outlive it.
	signal.Notify(signals, stopSignals()...)
	cmd := &exec.Cmd{
		Path: path, Args: argv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Env:         process.Env(os.Environ(), map[string]string{"ONERUN_ITEM": name, sqlite.ItemOwnerVariable: owner}),
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	}
	if err := cmd.Start(); err != nil {
		return process.CodeNotExecutable, jobapi.ItemEnd{Error: err.Error()}, fmt.Errorf("execute %s: %w", argv[0], pathCause(err))
	}
	go func() {
		for sig := range signals {
			if sig == syscall.SIGTERM || sig == syscall.SIGHUP {
				_ = cmd.Process.Signal(sig)
			}
		}
	}()
	_ = cmd.Wait() // the state says it all
	ws, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	status = ws.ExitStatus()
	if ws.Signaled() {
		status = 128 + int(ws.Signal())
		end.Signal = process.SignalName(ws.Signal())
	}
	end.ExitCode, end.Done = &status, status == 0
	return status, end, nil
}
