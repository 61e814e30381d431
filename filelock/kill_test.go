package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/procfs"
)

// helperCycle does all that an owner does, with a real child as its job, and may be killed
// at any step of it. The child is told to the parent before anything is noted about it.
func helperCycle(c config) error {
	d, err := c.open()
	if err != nil {
		return err
	}
	r := c.request()
	l, held, err := d.Acquire(context.Background(), r)
	if err != nil || held != nil {
		return fmt.Errorf("held %+v, error %w", held, err)
	}
	if err := l.Write(Note{RunID: "run", Attempt: 1}); err != nil {
		return err
	}
	if err := l.SetForking(); err != nil {
		return err
	}
	child := exec.Command("sleep", "1000")
	child.Env = append(os.Environ(), ownerVariable+"="+r.Owner)
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := child.Start(); err != nil {
		return err
	}
	fmt.Println("job", child.Process.Pid)
	d.step("job started")
	s, err := procfs.ReadStat(child.Process.Pid)
	if err != nil {
		return err
	}
	if err := l.SetGroup(child.Process.Pid, s.StartTicks); err != nil {
		return err
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	d.step("job ended")
	status := 137
	o := onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonSignal, ExitCode: &status, FinishedAt: time.Now()}
	if err := errors.Join(l.SetOutcome(NewOutcome(o)), l.Clear(), l.Release()); err != nil {
		return err
	}
	fmt.Println("done")
	return nil
}

// A kill -9 between any two steps of an owner's life: the next start gets the lock without
// anybody's help as soon as the job is gone, and not before that.
func TestKilledAtEveryStep(t *testing.T) {
	for _, s := range scenes() {
		t.Run(s.name, func(t *testing.T) {
			for at := 1; ; at++ {
				if step := killedAt(t, s, at); step == "" {
					if at < 12 {
						t.Errorf("only %d steps", at-1)
					}
					return
				}
			}
		})
	}
}

// killedAt lets an owner be killed at one step and looks at what follows. "" when it has
// fewer steps.
func killedAt(t *testing.T, s scene, at int) (step string) {
	dir := lockDir(t)
	s.plant(t, dir)
	owner := onerun.NewID()
	p := start(t, "cycle", config{Dir: dir, Mode: s.mode, NoFlock: s.o.NoFlock, Owner: owner, KillAt: at})
	job := 0
	for step == "" {
		line := p.line()
		if pid, ok := strings.CutPrefix(line, "job "); ok {
			job = atoi(t, pid)
			defer func() { _ = syscall.Kill(job, syscall.SIGKILL) }()
			continue
		}
		if line == "done" {
			return ""
		}
		var ok bool
		if step, ok = strings.CutPrefix(line, "step "); !ok {
			t.Fatalf("step %d: owner said %q", at, line)
		}
	}
	_ = p.cmd.Wait()

	d := mustOpen(t, dir, s.o)
	if step == "job started" || strings.HasPrefix(step, "write: running") {
		wantAlive(t, d, s, step, job)
		_ = syscall.Kill(job, syscall.SIGKILL)
		await(t, step, func() bool { return mustDead(procfs.Judge(procfs.Identity{PID: job})) })
	}
	l, held, err := d.Acquire(context.Background(), request(s.mode))
	if l == nil {
		t.Fatalf("killed at %q: held %+v, error %v", step, held, err)
	}
	if l.Verdict.Liveness != "" && l.Verdict.Liveness != onerun.Dead {
		t.Fatalf("killed at %q: verdict %+v", step, l.Verdict)
	}
	// before the fork the attempt is void, at the end its outcome is there
	if p := l.Previous; p != nil && p.Owner == owner {
		switch {
		case strings.HasPrefix(step, "write: starting"):
			if !l.Verdict.Void || p.RunID != "run" {
				t.Errorf("killed at %q: verdict %+v, run %q", step, l.Verdict, p.RunID)
			}
		case strings.HasPrefix(step, "write: ended"):
			if p.Outcome == nil || p.Outcome.Status != onerun.Failed || *p.Outcome.ExitCode != 137 {
				t.Errorf("killed at %q: outcome %+v", step, p.Outcome)
			}
		}
	} else if strings.HasPrefix(step, "write:") {
		t.Errorf("killed at %q: the note is lost: %+v", step, p)
	}
	// a dead owner's note stays until somebody has taken up what it says
	before := slices.ContainsFunc([]string{"acquire:", "private:", "publish:", "takeover:"}, func(p string) bool { return strings.HasPrefix(step, p) })
	if strings.Contains(s.name, "dead") && !s.o.NoFlock && before && (l.Previous == nil || l.Previous.RunID != "dead-run") {
		t.Errorf("killed at %q: the dead owner's note is lost: %+v", step, l.Previous)
	}
	mustHeld(t, d, request(s.mode))
	if err := l.Write(Note{RunID: "next"}); err != nil {
		t.Fatal(err)
	}
	mustRelease(t, l)
	if _, err := d.List(); err != nil {
		t.Fatal(err)
	}
	for _, name := range leftovers(t, dir) {
		if x, err := d.readExcl(name); err != nil || x.note != nil { // what was never written is swept when it is old
			t.Errorf("killed at %q: %s is left", step, name)
		}
	}
	return step
}

// wantAlive checks that a dead wrapper's living job is seen, and that nobody is let in.
func wantAlive(t *testing.T, d *Dir, s scene, step string, job int) {
	t.Helper()
	l, held, err := d.Acquire(context.Background(), request(s.mode))
	if err != nil {
		t.Fatalf("killed at %q: %v", step, err)
	}
	if held != nil {
		if held.Liveness != onerun.Alive || s.mode == onerun.LockFlock {
			t.Errorf("killed at %q: held %+v", step, held)
		}
		return
	}
	if v := l.Verdict; v.Liveness != onerun.Alive || !slices.Contains(v.PIDs, job) || !strings.Contains(v.Evidence, "nobody is left to end them") {
		t.Errorf("killed at %q: the job %d runs, verdict %+v", step, job, v)
	}
	if err := l.Release(); err != nil { // as a caller does that must not start
		t.Error(err)
	}
}

func mustDead(l procfs.Liveness, _ string) bool { return l == procfs.Dead }

// await waits for something that the kernel is about to do.
func await(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: waited in vain", what)
		}
	}
}
