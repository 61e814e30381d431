package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun/internal/procfs"
)

// heldClock stands still until it is released: so a timeout comes after what a test waits for, however slow the machine.
type heldClock struct{ released atomic.Int64 }

func (c *heldClock) now() time.Duration {
	if at := time.Duration(c.released.Load()); at != 0 {
		return time.Hour + bootTime() - at
	}
	return time.Hour
}

func (c *heldClock) release() { c.released.Store(int64(bootTime())) }

// B32: whatever the job is made of, nothing of its group is left.
func TestTimeoutTakesTheTree(t *testing.T) {
	const short, long = 100 * time.Millisecond, patience
	for _, c := range []struct {
		name, text     string
		grace          time.Duration
		wantSignal     syscall.Signal
		wantCode       int
		atLeast, below time.Duration
	}{
		{"shell with a child", "echo ready; sleep 100; true", long, unix.SIGTERM, 143, short, long},
		{"pipeline", "echo ready; sleep 100 | cat", long, unix.SIGTERM, 143, short, long},
		{"background child", "sleep 100 & echo ready; wait", long, unix.SIGTERM, 143, short, long},
		{"all ignore SIGTERM", `trap "" TERM; (trap "" TERM; echo ready; sleep 300) & sleep 300; true`, short, unix.SIGKILL, 137, 2 * short, long},
		{"only a grandchild ignores it", `(trap "" TERM; echo ready; sleep 300) & sleep 300; true`, short, unix.SIGTERM, 143, 2 * short, long},
		{"ends well in time", `trap "exit 0" TERM; sleep 100 & echo ready; wait`, long, 0, 0, short, long},
		{"no grace", `trap "" TERM; echo ready; sleep 100; true`, 0, unix.SIGKILL, 137, short, long},
		{"negative grace", `trap "" TERM; echo ready; sleep 100; true`, -1, unix.SIGKILL, 137, short, long},
		{"is stopped", `trap "exit 3" TERM; echo ready; kill -STOP $$; exit 4`, long, 0, 3, short, long},
		{"a stopped child ignores it", `(trap "" TERM; echo ready; exec sh -c 'kill -STOP $$') & wait`, short, unix.SIGTERM, 143, short, long},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := script(c.text)
			job.Timeout, job.Grace = short, c.grace
			var clock heldClock
			j := begin(context.Background(), t, runner{clock: clock.now}, job)
			j.expect("ready")
			if c.name == "is stopped" {
				eventually(t, "it stops", func() bool {
					s, err := procfs.ReadStat(j.group.PID)
					return err == nil && s.State == 'T'
				})
			}
			released := time.Now()
			clock.release()
			end, err := j.wait()
			took := time.Since(released)
			if end.Cause != TimedOut || end.Signal != c.wantSignal || end.ExitCode != c.wantCode || err != nil {
				t.Errorf("got %+v, %v", end, err)
			}
			if took < c.atLeast || took >= c.below {
				t.Errorf("took %v, want %v to %v", took, c.atLeast, c.below)
			}
			j.expectGone()
		})
	}
}

func TestNoTimeoutInTime(t *testing.T) {
	for _, timeout := range []time.Duration{0, -1, patience, 1<<63 - 1} {
		c := script("exit 5")
		c.Timeout = timeout
		if end, _, err := runJob(t, c); end.Cause != Exited || end.ExitCode != 5 || err != nil {
			t.Errorf("%v: got %+v, %v", timeout, end, err)
		}
	}
}

func TestCancelStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	j := begin(ctx, t, runner{}, script("echo ready; (sleep 100) & sleep 100; true"))
	j.expect("ready")
	cancel()
	end, err := j.wait()
	if end.Cause != Stopped || end.Signal != unix.SIGTERM || err != nil {
		t.Errorf("got %+v, %v", end, err)
	}
	j.expectGone()
}

// The first reason is the one that is told.
func TestCancelDuringTheGraceOfATimeout(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c := script(`trap "echo term" TERM; echo ready; while :; do sleep 100 & wait; done`)
	c.Timeout, c.Grace = 50*time.Millisecond, 300*time.Millisecond
	var clock heldClock
	j := begin(ctx, t, runner{clock: clock.now}, c)
	j.expect("ready")
	clock.release()
	j.expect("term")
	cancel()
	if end, err := j.wait(); end.Cause != TimedOut || end.Signal != unix.SIGKILL || err != nil {
		t.Errorf("got %+v, %v", end, err)
	}
}

// Of a job that has ended by itself nobody says that it was stopped, however late that is noticed.
func TestNoStopAfterTheEnd(t *testing.T) {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	if _, err := waitEvent(cmd.Process.Pid, false); err != nil {
		t.Fatal(err)
	}
	j := newJob(cmd.Process.Pid, bootTime, time.Nanosecond, 0)
	j.tick()
	j.stop(Stopped)
	if j.stopped() != 0 || j.stopping() {
		t.Errorf("got %v", j.stopped())
	}
}

// While members are waited for, the leader's number must not be free for others.
func TestLeaderKeepsTheNumber(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c := script(`
		(
			trap "" TERM
			until [ -e trapped ]; do sleep 0.01; done
			echo ready
			until grep -q "^State:.Z" /proc/$$/status; do [ -e /proc/$$ ] || echo reaped; sleep 0.01; done
			echo zombie
			sleep 100
		) &
		trap "exit 0" TERM
		: >trapped
		wait`)
	c.Dir = t.TempDir()
	c.Grace = 50 * time.Millisecond
	var clock heldClock
	j := begin(ctx, t, runner{clock: clock.now}, c)
	j.expect("ready")
	cancel()
	j.expect("zombie")
	clock.release()
	if end, err := j.wait(); end.Cause != Stopped || end.ExitCode != 0 || err != nil {
		t.Errorf("got %+v, %v", end, err)
	}
	j.expectGone()
}

// keepZombie has a child in the job's group that it never reaps, and leaves that group itself.
func keepZombie() (int, error) {
	child := exec.Command("/bin/sleep", "100")
	if err := child.Start(); err != nil {
		return 1, err
	}
	if _, err := unix.Setsid(); err != nil {
		return 1, err
	}
	// the job's output is the test's pipe, so it must not stay open here
	fmt.Println("keeper", os.Getpid(), "of", child.Process.Pid)
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return 1, err
	}
	if err := unix.Dup3(int(null.Fd()), 1, 0); err != nil {
		return 1, err
	}
	_, err = io.Copy(io.Discard, os.NewFile(3, "until the test ends"))
	return 0, err
}

// A zombie that its parent elsewhere doesn't reap answers kill(2) for ever, but runs no more.
func TestZombieInTheGroupDelaysNothing(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	alive, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	keeper := asHelper(t, "zombie keeper", "GORACE=atexit_sleep_ms=0")
	quoted := "'" + strings.Join(keeper, "' '") + "'"
	ctx, cancel := context.WithCancel(context.Background())
	j := begin(ctx, t, runner{}, script(quoted+" 3<"+fifo+" & sleep 100; true"))
	var pid, child int
	if _, err := fmt.Sscanf(j.line(), "keeper %d of %d", &pid, &child); err != nil {
		t.Fatal(err)
	}
	defer func() { // its input ends, and so does it
		_ = alive.Close()
		eventually(t, "the keeper ends", func() bool {
			gone, _ := procfs.Judge(procfs.Identity{PID: pid}) // whoever inherits it may take a second to reap it
			return gone == procfs.Dead
		})
	}()
	cancel()
	if end, err := j.wait(); end.Cause != Stopped || err != nil {
		t.Errorf("got %+v, %v", end, err)
	}
	if s, err := procfs.ReadStat(child); err != nil || s.State != 'Z' || s.PGRP != j.group.PID {
		t.Errorf("the zombie: %+v, %v", s, err)
	}
	if err := unix.Kill(-j.group.PID, 0); err != nil {
		t.Errorf("the group of the zombie: %v", err)
	}
}

// A process that joins the group after SIGKILL was sent gets its own.
func TestLateMemberIsKilled(t *testing.T) {
	c := script(`echo ready; sleep 100`)
	c.Grace = 0
	cmd := exec.Command("/bin/sleep", "100")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Started = func(group procfs.Identity, _ Deadlines) error {
		cmd.SysProcAttr.Pgid = group.PID
		return cmd.Start()
	}
	j := begin(context.Background(), t, runner{}, c)
	j.expect("ready")
	defer func() { _ = cmd.Wait() }()
	// as if SIGKILL had gone out before the process came
	late := newJob(j.group.PID, bootTime, 0, 0)
	late.cause, late.killed = Stopped, true
	eventually(t, "its end", late.groupGone)
	if end, err := j.wait(); end.Signal != unix.SIGKILL || err != nil {
		t.Errorf("got %+v, %v", end, err)
	}
}

// The time that a machine is suspended counts, although Go's timers sleep through it.
func TestTimeoutCountsSuspend(t *testing.T) {
	var suspended atomic.Int64
	clock := func() time.Duration { return bootTime() + time.Duration(suspended.Load()) }
	c := script(`trap "echo term" TERM; echo ready; while :; do sleep 100 & wait; done`)
	c.Timeout, c.Grace = time.Hour, time.Hour
	j := begin(context.Background(), t, runner{clock: clock}, c)
	j.expect("ready")
	suspended.Add(int64(time.Hour))
	j.expect("term")
	suspended.Add(int64(time.Hour))
	if end, err := j.wait(); end.Cause != TimedOut || end.Signal != unix.SIGKILL || err != nil {
		t.Errorf("got %+v, %v", end, err)
	}
}

func TestClockIsBootTime(t *testing.T) {
	b, err := os.ReadFile("/proc/uptime") // which is CLOCK_BOOTTIME in seconds
	if err != nil {
		t.Fatal(err)
	}
	seconds, err := strconv.ParseFloat(strings.Fields(string(b))[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	if d := bootTime().Seconds() - seconds; d < -1 || d > 10 {
		t.Errorf("%v after boot by our clock, %v s by the kernel's", bootTime(), seconds)
	}
}

// beHiddenWrapper stops a job on a /proc that doesn't tell everything: first as root to mount it, then as nobody.
func beHiddenWrapper() (int, error) {
	if os.Getuid() == 0 {
		if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return 1, err
		}
		if err := unix.Mount("proc", "/proc", "proc", 0, "hidepid=2"); err != nil {
			return 1, err
		}
		cmd := helper("hidden wrapper")
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
		return 0, cmd.Run()
	}
	if _, err := os.Stat("/proc/1"); err == nil {
		return 1, fmt.Errorf("process 1 is not hidden")
	}
	c := script(`(trap "" TERM; sleep 100) & sleep 100; true`)
	c.Timeout, c.Grace, c.Dir = 50*time.Millisecond, 50*time.Millisecond, "/"
	end, err := Run(context.Background(), c)
	if end.Cause != TimedOut || end.Signal != unix.SIGTERM {
		return 1, fmt.Errorf("got %+v, %w", end, err)
	}
	return 0, err
}

// beBlindWrapper stops a job in a pid namespace that the mounted /proc knows nothing of.
func beBlindWrapper() (int, error) {
	if _, err := procfs.Self(); err == nil {
		return 1, errors.New("/proc knows this process")
	}
	c := script("exec sleep 100")
	c.Timeout = 50 * time.Millisecond
	end, err := Run(context.Background(), c)
	if end.Cause != TimedOut || end.Signal != unix.SIGTERM {
		return 1, fmt.Errorf("got %+v, %w", end, err)
	}
	return 0, err
}

func TestStopWithoutProc(t *testing.T) {
	requireRoot(t)
	cmd := helper("blind wrapper")
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
	if code := launch(t, cmd).exitCode(); code != 0 {
		t.Errorf("got %d", code)
	}
}

func TestStopOnHidepid(t *testing.T) {
	requireRoot(t)
	cmd := helper("hidden wrapper")
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
	if code := launch(t, cmd).exitCode(); code != 0 {
		t.Errorf("got %d", code)
	}
}
