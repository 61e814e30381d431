package process

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun/internal/procfs"
)

// owned is an owner that runs, with what it and its job print and what its guards report.
type owned struct {
	*process
	spec    ownerSpec
	stdin   *os.File
	said    chan string // what is printed, but for the times of heartbeats; closed at its end
	reports *process
	pids    []int // of the job, as it has said

	mu   sync.Mutex
	sent time.Duration // the newest heartbeat, which the guard may not know of
	told time.Duration // the newest that it knows of, or one before that
}

// own starts an owner, and waits until its job has said "up" and its guard is there.
func own(t *testing.T, s ownerSpec) (o *owned, guard int) {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	r, w := pipe(t)
	in, stdin := pipe(t)
	cmd := helper("owner", specEnv+"="+string(b))
	cmd.Stdin, cmd.ExtraFiles = in, []*os.File{w}
	o = &owned{process: launch(t, cmd), spec: s, stdin: stdin, said: make(chan string, 100), reports: &process{t: t, stdout: r, lines: bufio.NewReader(r)}}
	_ = w.Close()
	go o.read()
	for {
		line := o.line()
		var pid int
		if _, err := fmt.Sscanf(line, "pid %d", &pid); err == nil {
			o.pids = append(o.pids, pid)
			t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGKILL) })
		} else if line == "up" {
			return o, o.guard()
		} else {
			t.Fatalf("output %q", line)
		}
	}
}

func (o *owned) read() {
	defer close(o.said)
	for {
		line, err := o.lines.ReadString('\n')
		if err != nil {
			return
		}
		var sent, told time.Duration
		if n, _ := fmt.Sscanf(line, "sent %d", &sent); n == 0 {
			if n, _ := fmt.Sscanf(line, "told %d", &told); n == 0 {
				o.said <- strings.TrimSuffix(line, "\n")
			}
		}
		o.mu.Lock()
		o.sent, o.told = max(o.sent, sent), max(o.told, told)
		o.mu.Unlock()
	}
}

// line waits for the next that is printed.
func (o *owned) line() string {
	o.t.Helper()
	select {
	case line, ok := <-o.said:
		if !ok {
			o.t.Fatal("the output has ended")
		}
		return line
	case <-time.After(patience):
		o.t.Fatal("nothing is printed")
	}
	return ""
}

func (o *owned) expect(want string) {
	o.t.Helper()
	if got := o.line(); got != want {
		o.t.Fatalf("output %q, want %q", got, want)
	}
}

// quiet fails the test when anything was printed.
func (o *owned) quiet() {
	o.t.Helper()
	select {
	case line := <-o.said:
		o.t.Errorf("output %q, want none", line)
	default:
	}
}

// lastSent is the newest heartbeat.
func (o *owned) lastSent() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sent
}

// lastTold is the newest heartbeat of which the guard knows for certain.
func (o *owned) lastTold() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.told
}

// renews waits until the lease has been renewed for a while.
func (o *owned) renews(d time.Duration) {
	o.t.Helper()
	until := o.lastSent() + d
	eventually(o.t, "the lease is renewed", func() bool { return o.lastSent() >= until })
}

// goesOn gives the job the line that it reads.
func (o *owned) goesOn() {
	o.t.Helper()
	if _, err := o.stdin.WriteString("go\n"); err != nil {
		o.t.Fatal(err)
	}
}

// guard waits for the next guard to be there.
func (o *owned) guard() (pid int) {
	o.t.Helper()
	if _, err := fmt.Sscanf(o.reports.line(), "guard %d", &pid); err != nil {
		o.t.Fatal(err)
	}
	return pid
}

// seen waits for what the guard has seen.
func (o *owned) seen(want GuardEnd) unix.WaitStatus {
	o.t.Helper()
	line := o.reports.line()
	var end GuardEnd
	var status unix.WaitStatus
	if _, err := fmt.Sscanf(line, "seen %d %d", &end, &status); err != nil || end != want {
		o.t.Fatalf("the guard reports %q, %v; want %d", line, err, want)
	}
	return status
}

// signal sends one to the owner.
func (o *owned) signal(s syscall.Signal) {
	o.t.Helper()
	if err := o.cmd.Process.Signal(s); err != nil {
		o.t.Fatal(err)
	}
}

// wasKilled waits for the end of the owner by SIGKILL.
func (o *owned) wasKilled() {
	o.t.Helper()
	if o.exitCode(); o.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
		o.t.Errorf("the wrapper: %v, want it killed", o.cmd.ProcessState)
	}
}

// gone waits until nothing of the job runs that has said its number, and returns the time of that by bootTime.
func (o *owned) gone() time.Duration {
	o.t.Helper()
	eventually(o.t, "the job is gone", func() bool {
		for _, pid := range o.pids {
			if runs(pid) {
				return false
			}
		}
		return true
	})
	return bootTime()
}

// runs reports whether a process does.
func runs(pid int) bool {
	s, err := procfs.ReadStat(pid)
	return err == nil && !s.Gone()
}

// hasPidfd reports whether a process holds a descriptor of a process: a guard does until it has seen the end of the job's
// first one.
func hasPidfd(pid int) bool {
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	return slices.ContainsFunc(fds, func(fd string) bool {
		to, err := os.Readlink(fd)
		return err == nil && strings.Contains(to, "pidfd")
	})
}

// freeze stops a process, and returns when it is stopped.
func freeze(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it stops", func() bool {
		s, err := procfs.ReadStat(pid)
		return err == nil && s.State == 'T'
	})
}

func thaw(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
}
