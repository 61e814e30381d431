package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
)

// The steps of an owner, as the store names them (see the package's documentation).
const (
	stepBegin   = "begin"
	stepNote    = "note starting"
	stepCommit  = "commit the claim"
	stepClaimed = "claimed"
	stepStart   = "note the start"
	stepGroup   = "note the group"
	stepOutcome = "note the outcome"
	stepRecord  = "record the outcome"
	stepClear   = "clear the note"
	stepFree    = "free the lock"

	// Package filelock names a write when it is done.
	stepForking = "write: forking in .lock"
	stepEnded   = "write: ended in .lock"
)

// What a death leaves, in the order in which a life comes to them.
const (
	leavesNothing = iota // no row
	leavesVoid           // a row, and no job
	leavesUnknown        // a job that may have begun, and of which nothing is left
	leavesEnd            // an end that was noted, or recorded
)

// leaves tells what a death at the nth step of a life leaves.
func leaves(steps []string, n int) int {
	come := func(step string) bool { return slices.Contains(steps[:n+1], step) }
	switch {
	case come(stepEnded):
		return leavesEnd
	case come(stepForking):
		return leavesUnknown
	case come(stepClaimed):
		return leavesVoid
	}
	return leavesNothing
}

// variant is a kind of start whose deaths differ.
type variant struct {
	keyed  bool
	policy onerun.OnCrash
	mode   onerun.LockMode
}

func (v variant) String() string {
	return fmt.Sprintf("%s-%s-%s", map[bool]string{true: "keyed", false: "unkeyed"}[v.keyed], v.policy, v.mode)
}

func (v variant) claim(job string) onerun.Claim {
	partition := ""
	if v.keyed {
		partition = day
	}
	c := claimOf(job, partition)
	c.OnCrash, c.LockMode = v.policy, v.mode
	return c
}

// life is a whole life in another process. Its job is one process, which dies with its
// wrapper (PDEATHSIG). It returns the grant, if there was one, and the steps; and
// whether the process died on the way.
func life(t *testing.T, b *bed, p plan, c onerun.Claim, out onerun.Outcome) (steps []string, died bool) {
	t.Helper()
	child := b.child(p)
	job, told := 0, filepath.Join(filepath.Dir(b.path), "pid-"+c.Owner)
	for _, o := range []order{
		{Do: "claim", Claim: c},
		{Do: "job", Script: "echo $$ >" + told + "; echo $$; exec sleep 1000"},
		{Do: "finish", Outcome: out},
	} {
		if o.Do == "finish" {
			killGroup(t, job, job) // its end, before the store hears of it
		}
		r, err := child.ask(o)
		switch {
		case errors.Is(err, errDied):
			if text, err := os.ReadFile(told); err == nil { // the job dies with its wrapper, but not in the same instant
				pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
				if err != nil {
					t.Fatal(err)
				}
				gone(t, pid)
			}
			return steps, true
		case err != nil:
			t.Fatal(err)
		case r.Err != "" || r.Refusal != nil:
			t.Fatalf("%s in another process: %s %v", o.Do, r.Err, r.Refusal)
		}
		if r.PID != 0 {
			job = r.PID
		}
		steps = r.Steps
	}
	return steps, false
}

// TestDeathAtEveryStep kills an owner before each of its steps (B14). Whatever the
// step, the next start gives the right answer, without anybody tidying up.
func TestDeathAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, keyed := range []bool{true, false} {
		for _, policy := range []onerun.OnCrash{onerun.CrashAuto, onerun.CrashManual} {
			for _, mode := range []onerun.LockMode{onerun.LockFlock, onerun.LockCreate} {
				v := variant{keyed, policy, mode}
				t.Run(v.String(), func(t *testing.T) {
					t.Parallel()
					b := newBed(t)
					steps, died := life(t, b, plan{}, v.claim("dry"), ended(onerun.Succeeded))
					if died || !slices.Contains(steps, stepFree) {
						t.Fatalf("a life that nobody ends: died %v, steps %q", died, steps)
					}
					for i, step := range steps {
						// The steps of package filelock in between matter as much, but not once
						// for each variant.
						own := slices.Contains([]string{stepBegin, stepNote, stepCommit, stepClaimed, stepStart, stepGroup, stepOutcome, stepRecord, stepClear, stepFree}, step)
						if own || keyed && policy == onerun.CrashAuto {
							b.deathAt(t, v, steps, i)
						}
					}
				})
			}
		}
	}
}

func (b *bed) deathAt(t *testing.T, v variant, steps []string, i int) {
	t.Helper()
	nth := 1
	for _, s := range steps[:i] {
		if s == steps[i] {
			nth++
		}
	}
	doing := fmt.Sprintf("killed at %q (%d)", steps[i], nth)
	c := v.claim(fmt.Sprintf("job-%d", i))
	out := ended(onerun.Succeeded)
	if _, died := life(t, b, plan{KillAt: steps[i], Nth: nth}, c, out); !died {
		t.Fatalf("%s: it lived on", doing)
	}
	sound(t, b.path)
	after := b.reopen()
	left := leaves(steps, i)
	t.Logf("%s: leaves %d", doing, left)
	if left == leavesNothing && len(after.runs(c.Job)) > 0 {
		t.Errorf("%s: it left a run", doing)
	}
	after.heir(t, doing, v, c, out, left)
	sound(t, b.path)
}

// heir is the next start after a death.
func (b *bed) heir(t *testing.T, doing string, v variant, c onerun.Claim, out onerun.Outcome, left int) {
	t.Helper()
	next := again(c)
	switch manual := v.policy == onerun.CrashManual; {
	case left == leavesNothing:
		g := b.granted(next)
		if g.Lease.Attempt != 1 || len(g.TakenOver) != 0 {
			t.Errorf("%s: expected a first attempt, got %d after %d others", doing, g.Lease.Attempt, len(g.TakenOver))
		}
		b.finish(g, onerun.Succeeded)
	case left == leavesEnd:
		r := b.run(c.RunID)
		if v.keyed {
			ref := b.refusal(next, onerun.RefusedSucceeded)
			r = b.run(ref.Holder.RunID)
		} else {
			b.finish(b.granted(next), onerun.Succeeded)
			r = b.run(r.RunID)
		}
		if r.RunID != c.RunID || r.Status != onerun.Succeeded || !r.FinishedAt.Equal(out.FinishedAt) || r.ExitCode == nil || *r.ExitCode != 0 || r.Attempt != 1 {
			t.Errorf("%s: expected its own end of %s to be recorded, got %s at %s, attempt %d", doing, out.FinishedAt, r.Status, r.FinishedAt, r.Attempt)
		}
	case manual:
		ref := b.refusal(next, onerun.RefusedStale)
		if ref.Holder.RunID != c.RunID {
			t.Errorf("%s: holder of the stale lock is %s", doing, ref.Holder)
		}
		r := b.resolve(b.run(c.RunID), onerun.Failed)
		if r.Status != onerun.Failed || r.Attempt != 1 {
			t.Errorf("%s: resolved to %s, attempt %d", doing, r.Status, r.Attempt)
		}
		if v.keyed {
			b.refused(again(c), onerun.RefusedFailed)
			b.approve(r)
		}
		b.finish(b.granted(again(c)), onerun.Succeeded)
	case left == leavesVoid:
		g := b.granted(next)
		a := b.detail(c.RunID).Attempts[0]
		if !a.Void || a.Status != onerun.Failed || a.Reason != onerun.ReasonOwnerDied {
			t.Errorf("%s: the attempt whose job never started is %s %s, void %v", doing, a.Status, a.Reason, a.Void)
		}
		if len(g.TakenOver) != 1 || v.keyed && (g.Lease.RunID != c.RunID || g.Lease.Attempt != 2) {
			t.Errorf("%s: expected attempt 2 of the same run, got %d", doing, g.Lease.Attempt)
		}
		b.finish(g, onerun.Succeeded)
	case v.keyed:
		ref := b.refusal(next, onerun.RefusedFailed)
		r := b.run(c.RunID)
		if r.Status != onerun.Failed || r.Reason != onerun.ReasonOwnerDied || len(ref.Closed) != 1 {
			t.Errorf("%s: its run is %s %s", doing, r.Status, r.Reason)
		}
	default:
		g := b.granted(next)
		if r := b.run(c.RunID); r.Status != onerun.Failed || r.Reason != onerun.ReasonOwnerDied || len(g.TakenOver) != 1 {
			t.Errorf("%s: its run is %s %s", doing, r.Status, r.Reason)
		}
		b.finish(g, onerun.Succeeded)
	}
	if locks, err := b.Locks(soon(t), onerun.DefaultNamespace); err != nil || slices.ContainsFunc(locks, func(l onerun.LockState) bool { return l.Lock == c.Lock }) {
		t.Errorf("%s: its lock is still listed at the end: %v %v", doing, locks, err)
	}
}
