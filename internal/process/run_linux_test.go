package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun/internal/procfs"
)

// B33: the shell's codes, and the signal's name kept.
func TestExitStatus(t *testing.T) {
	for text, want := range map[string]End{
		"exit 0":         {Cause: Exited},
		"exit 1":         {Cause: Exited, ExitCode: 1},
		"exit 137":       {Cause: Exited, ExitCode: 137},
		"exit 255":       {Cause: Exited, ExitCode: 255},
		"kill -9 $$":     {Cause: Signaled, ExitCode: 137, Signal: unix.SIGKILL},
		"kill -TERM $$":  {Cause: Signaled, ExitCode: 143, Signal: unix.SIGTERM},
		"kill -USR1 $$":  {Cause: Signaled, ExitCode: 138, Signal: unix.SIGUSR1},
		"kill -9 $$ | :": {Cause: Signaled, ExitCode: 137, Signal: unix.SIGKILL},
		"exec false":     {Cause: Exited, ExitCode: 1},
		"sleep 60 & :":   {Cause: Exited}, // the background process keeps nothing
	} {
		end, _, err := runJob(t, script(text+" 2>/dev/null"))
		if end.StartedAt.IsZero() || end.FinishedAt.Before(end.StartedAt) {
			t.Errorf("%s: from %v to %v", text, end.StartedAt, end.FinishedAt)
		}
		end.StartedAt, end.FinishedAt = time.Time{}, time.Time{}
		if end != want || err != nil {
			t.Errorf("%s: got %+v, %v, want %+v", text, end, err, want)
		}
	}
}

func TestCoreDumped(t *testing.T) {
	var status unix.WaitStatus = 0x80 | 6 // core file written, SIGABRT
	if !status.CoreDump() {
		t.Fatal("unexpected form of a wait status")
	}
	end, _, err := runJob(t, script("ulimit -c 0; kill -ABRT $$"))
	if end.Signal != unix.SIGABRT || end.CoreDumped || err != nil {
		t.Errorf("got %+v, %v", end, err)
	}
}

func TestOutputPassesThrough(t *testing.T) {
	_, out, err := runJob(t, script(`printf 'ok\000mid\377\376end\n'; printf 'no line end'`))
	if want := "ok\x00mid\xff\xfeend\nno line end"; out != want || err != nil {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

func TestArgumentsEnvironmentAndDirectory(t *testing.T) {
	dir := t.TempDir()
	c := Command{
		Path: "/bin/sh", Args: []string{"name of its own", "-c", `printf '%s|' "$0" "$@" "$(pwd -P)" "$A" "$HOME"`, "zero", "a b", "", "c"},
		Env: []string{"A=1 2", "malformed"}, Dir: dir,
	}
	_, out, err := runJob(t, c)
	actual, _ := filepath.EvalSymlinks(dir)
	if want := "zero|a b||c|" + actual + "|1 2||"; out != want || err != nil {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
	_, out, err = runJob(t, Command{Path: "/bin/pwd", Dir: dir})
	if out != actual+"\n" || err != nil {
		t.Errorf("without Args: got %q, %v", out, err)
	}
}

// B31: the process left behind has the job's own output open, and nobody waits for it.
func TestDaemoniseReturnsAtOnce(t *testing.T) {
	c := script("sleep 60 & echo started; exit 0")
	c.Timeout = patience
	j := begin(context.Background(), t, runner{}, c)
	end, err := j.wait()
	if end.Cause != Exited || end.ExitCode != 0 || err != nil {
		t.Errorf("got %+v, %v", end, err)
	}
	j.expect("started")
	if gone, live, why := procfs.GroupGone(j.group); gone != procfs.Alive || len(live) != 1 {
		t.Errorf("the process left behind: %v (%s) %v, want it left alone", gone, why, live)
	}
}

func TestStartedNamesTheGroup(t *testing.T) {
	j := begin(context.Background(), t, runner{}, script("echo $$; sleep 60"))
	pid := j.line()
	s, err := procfs.ReadStat(j.group.PID)
	if err != nil || s.PGRP != j.group.PID || s.StartTicks != j.group.StartTicks || s.StartTicks == 0 {
		t.Errorf("noted %+v, found %+v, %v", j.group, s, err)
	}
	if own, _ := unix.Getpgid(0); s.PGRP == own || pid != strconv.Itoa(j.group.PID) {
		t.Errorf("noted %+v, the job is process %s; the test's own group is %d", j.group, pid, own)
	}
}

func TestUnnotedJobIsStopped(t *testing.T) {
	full := errors.New("disk full")
	c := script("sleep 60; true")
	c.Started = func(procfs.Identity, Deadlines) error { return full }
	j := begin(context.Background(), t, runner{}, c)
	end, err := j.wait()
	if !errors.Is(err, full) || end.Cause != Stopped || end.Signal != unix.SIGTERM {
		t.Errorf("got %+v, %v", end, err)
	}
	var failed *StartError
	if errors.As(err, &failed) {
		t.Error("a job that has run must not look like one that was not started")
	}
	j.expectGone()
}

func TestCancelledBeforeTheStart(t *testing.T) {
	why := errors.New("lease lost")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	file := filepath.Join(t.TempDir(), "started")
	end, err := Run(ctx, Command{Path: "/bin/touch", Args: []string{"touch", file}, Started: func(procfs.Identity, Deadlines) error {
		t.Error("started")
		return nil
	}})
	if !errors.Is(err, why) || end != (End{}) {
		t.Errorf("got %+v, %v", end, err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the job has run")
	}
}

// The kernel kills the job when the thread that forked it ends. Threads end with goroutines that are locked to them.
func TestThreadOfTheForkLives(t *testing.T) {
	c := script("read x; echo read")
	r, w := pipe(t)
	c.Started = func(procfs.Identity, Deadlines) error {
		var ended sync.WaitGroup
		for range 50 {
			ended.Go(func() { runtime.LockOSThread() })
		}
		ended.Wait()
		return w.Close()
	}
	old := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(old)
	_, out := pipe(t)
	end, err := runner{clock: bootTime, files: []uintptr{r.Fd(), out.Fd(), 2}}.run(context.Background(), c)
	if end.Cause != Exited || err != nil {
		t.Errorf("got %+v, %v", end, err)
	}
}

func TestLostStatusIsAnError(t *testing.T) {
	c := script("exit 3")
	c.Started = func(group procfs.Identity, _ Deadlines) error {
		_, err := unix.Wait4(group.PID, nil, 0, nil) // a reaper of "any child" somewhere in the process
		return err
	}
	end, err := begin(context.Background(), t, runner{}, c).wait()
	if !errors.Is(err, unix.ECHILD) || end.Cause != 0 {
		t.Errorf("got %+v, %v", end, err)
	}
}

// B34: a job's wrapper is no reaper of other children, which have somebody who waits for them.
func TestOtherChildrenAreLeftAlone(t *testing.T) {
	other := exec.Command("/bin/sh", "-c", "exit 9")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := waitEvent(other.Process.Pid, false); err != nil {
		t.Fatal(err)
	}
	end, _, err := runJob(t, script("exit 3"))
	if end.ExitCode != 3 || err != nil {
		t.Errorf("got %+v, %v", end, err)
	}
	var failed *exec.ExitError
	if err := other.Wait(); !errors.As(err, &failed) || failed.ExitCode() != 9 {
		t.Errorf("the other child: %v", err)
	}
}

// descriptors is a job that lists what it has open, without the shell's own.
const descriptors = `cd /proc/$$/fd && for f in *; do [ -e "$f" ] && echo "$f"; done; echo end`

func TestNoDescriptorLeaks(t *testing.T) {
	s := spec{Args: []string{"sh", "-c", descriptors}, Open: []string{"/etc/passwd", "/dev/null", "."}}
	p := launch(t, wrapper(s))
	for _, want := range []string{"0", "1", "2", "end"} {
		p.expect(want)
	}
}

// `onerun run J -- diff <(a) <(b)` names descriptors that the wrapper's own shell has opened for the job.
func TestInheritedDescriptorsPass(t *testing.T) {
	r, w := pipe(t)
	if _, err := w.WriteString("from above\n"); err != nil {
		t.Fatal(err)
	}
	cmd := wrapper(spec{Args: []string{"sh", "-c", "read x <&3; echo $x"}})
	cmd.ExtraFiles = []*os.File{r}
	launch(t, cmd).expect("from above")
}

func TestStringOfCause(t *testing.T) {
	for c, want := range map[Cause]string{Exited: "exited", Signaled: "signaled", TimedOut: "timed out", Stopped: "stopped", 0: "Cause(0)"} {
		if c.String() != want {
			t.Errorf("got %q, want %q", c, want)
		}
	}
}

func TestLimitsArePassedOn(t *testing.T) {
	// Go raises its own limit of open files; the job gets the one that was there before
	launch(t, underShell(t, "ulimit -S -n 123", wrapper(spec{Args: []string{"sh", "-c", "ulimit -S -n"}}))).expect("123")
}
