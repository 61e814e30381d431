package hostlock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/procfs"
	"github.com/onerun-dev/onerun/store/hostlock"
	"github.com/onerun-dev/onerun/store/memory"
)

// killedEnv is set for a process that runs a key without a claim, and is killed at a step of
// that: DIR OWNER STEP.
const killedEnv = "HOSTLOCK_TEST_KILLED"

// unclaimedChild is such a process. Its job is a real one; each is told before anything is
// noted of it.
func unclaimedChild() {
	f := strings.Fields(os.Getenv(killedEnv))
	if len(f) != 3 {
		return
	}
	at, err := strconv.Atoi(f[2])
	if err == nil {
		err = runKilled(f[0], f[1], at)
	}
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println("done")
	os.Exit(0)
}

func runKilled(dir, owner string, at int) error {
	n := 0
	hook := func(step string) {
		if n++; n == at {
			fmt.Println("step", step)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	remote := &faulty{Store: memory.New()}
	remote.away.Store(true)
	h, err := hostlock.Open(remote, dir, hostlock.Options{Name: "store", Hook: hook})
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, ok := h.Unclaimed(nil)
	if !ok {
		return errors.New("the store keeps no runs without a claim")
	}
	c := claimOf("pay", "a")
	c.Owner = owner
	g, err := s.Claim(ctx, c)
	if err != nil {
		return err
	}
	noter := s.(onerun.Noter)
	if err := noter.NoteStart(g.Lease); err != nil {
		return err
	}
	job := exec.Command("sleep", "1000")
	job.Env = append(os.Environ(), "ONERUN_OWNER="+owner)
	job.SysProcAttr = newGroup
	if err := job.Start(); err != nil {
		return err
	}
	fmt.Println("job", job.Process.Pid)
	hook("started the job")
	stat, err := procfs.ReadStat(job.Process.Pid)
	if err == nil {
		err = noter.NoteGroup(g.Lease, job.Process.Pid, stat.StartTicks)
	}
	if err != nil {
		return err
	}
	_ = job.Process.Kill()
	_ = job.Wait()
	hook("ended the job")
	if err := s.Finish(ctx, g.Lease, exited); !errors.Is(err, onerun.ErrUnavailable) {
		return err
	}
	h.Leave(g.Lease)
	return nil
}

// TestUnclaimedKilled: a kill -9 between any two steps leaves what the next start needs: while
// the job lives the key is refused; afterwards it is known how it ended, or that it never began.
func TestUnclaimedKilled(t *testing.T) {
	seen := map[string]string{}
	for at := 1; ; at++ {
		step, state := killedAt(t, at)
		if step == "" {
			if at < 10 || state != "exit" {
				t.Errorf("only %d steps; in the end it was %s", at-1, state)
			}
			break
		}
		seen[step] = state
	}
	for step, want := range map[string]string{
		"spool the run": "nothing", "mark the spool": "void", "note the start without a claim": "void", "begun without a claim": "void",
		"begin the spool": "void", "note the start": "void", "started the job": "owner_died", "note the group": "owner_died", "ended the job": "owner_died",
		"spool the end": "owner_died", "note the end": "exit", "deliver the run": "exit",
	} {
		if seen[step] != want {
			t.Errorf("killed at %q: %q, want %q", step, seen[step], want)
		}
	}
}

// killedAt gives the step at which the process was killed, and what is known of the run then.
func killedAt(t *testing.T, at int) (step, state string) {
	t.Helper()
	h := newHost(t)
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", killedEnv, h.dir, onerun.NewID(), at), "GORACE=atexit_sleep_ms=0")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	job := 0
	for in := bufio.NewScanner(out); in.Scan(); {
		word, rest, _ := strings.Cut(in.Text(), " ")
		switch word {
		case "job":
			job, _ = strconv.Atoi(rest)
		case "step":
			step = rest
		case "done":
		default:
			t.Fatalf("step %d: it said %q", at, in.Text())
		}
	}
	_ = cmd.Wait()
	if job != 0 && syscall.Kill(job, 0) == nil { // init has not reaped it, or it lives
		if stat, err := procfs.ReadStat(job); err == nil && stat.State != 'Z' {
			h.refused(h.without(), claimOf("pay", "a"), onerun.RefusedRunning)
		}
		_ = syscall.Kill(job, syscall.SIGKILL)
		for end := time.Now().Add(10 * time.Second); syscall.Kill(job, 0) == nil && time.Now().Before(end); {
			if stat, err := procfs.ReadStat(job); err != nil || stat.State == 'Z' {
				break
			}
		}
	}
	h.remote.away.Store(false)
	all, err := h.Flush(soon(t))
	if err != nil || len(all) > 1 {
		t.Fatalf("%s: flush: %+v, error %v", step, all, err)
	}
	if len(all) == 0 {
		// What isn't marked yet is found by whoever takes the lock.
		h.granted(h, claimOf("pay", "a"))
		return step, "nothing"
	}
	if rest, err := filepath.Glob(filepath.Join(h.dir, "*.spool-*")); err != nil || len(rest) > 0 {
		t.Errorf("%s: left %v, error %v", step, rest, err)
	}
	attempts := h.detail("pay", "a").Attempts
	if attempts[0].Void {
		h.granted(h, claimOf("pay", "a"))
		return step, "void"
	}
	h.refused(h, claimOf("pay", "a"), onerun.RefusedFailed)
	return step, string(attempts[0].Reason)
}
