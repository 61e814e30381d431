package sqlite_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
)

// TestDeathInATakeover kills whoever takes over what a dead owner left, before each of
// its steps: the end that the dead owner noted and could not tell the ledger is told by
// whoever comes third.
func TestDeathInATakeover(t *testing.T) {
	t.Parallel()
	for _, mode := range []onerun.LockMode{onerun.LockFlock, onerun.LockCreate} {
		for _, left := range []string{stepRecord, stepOutcome, stepClaimed} {
			t.Run(strings.ReplaceAll(fmt.Sprintf("%s-%s", mode, left), " ", "-"), func(t *testing.T) {
				t.Parallel()
				b := newBed(t)
				first := func(job string) (onerun.Claim, onerun.Outcome) {
					c, out := variant{true, onerun.CrashAuto, mode}.claim(job), ended(onerun.Succeeded)
					if _, died := life(t, b, plan{KillAt: left}, c, out); !died {
						t.Fatalf("the first owner lived on")
					}
					return c, out
				}
				second := func(c onerun.Claim) onerun.Claim { // another key under the same lock
					c = again(c)
					c.Partition = "2026-09-16"
					return c
				}
				c, _ := first("dry")
				r := b.child(plan{}).do(order{Do: "claim", Claim: second(c)})
				for i, step := range r.Steps {
					if strings.HasPrefix(step, "release") {
						continue
					}
					nth := 1
					for _, s := range r.Steps[:i] {
						if s == step {
							nth++
						}
					}
					c, out := first(fmt.Sprintf("job-%d", i))
					if _, err := b.child(plan{KillAt: step, Nth: nth}).claim(second(c)); !errors.Is(err, errDied) {
						t.Fatalf("killed at %q: %v", step, err)
					}
					sound(t, b.path)
					doing := fmt.Sprintf("taken over, which was killed at %q (%d)", step, nth)
					after := b.reopen()
					g := after.granted(second(c))
					after.finish(g, onerun.Succeeded)
					switch run := after.run(c.RunID); {
					case left == stepRecord && (run.Status != onerun.Succeeded || !run.FinishedAt.Equal(out.FinishedAt)):
						t.Errorf("%s: the first run SUCCEEDED at %s, and is %s at %s", doing, out.FinishedAt, run.Status, run.FinishedAt)
					case left == stepOutcome && (run.Status != onerun.Failed || run.Reason != onerun.ReasonOwnerDied || !run.NextRetryAt.IsZero()):
						t.Errorf("%s: the first run's owner died, and it is %s %s", doing, run.Status, run.Reason)
					case left == stepClaimed && (run.Status != onerun.Failed || run.NextRetryAt.IsZero()):
						t.Errorf("%s: the first run's job never started, and it is %s %s, due %s", doing, run.Status, run.Reason, run.NextRetryAt)
					}
					sound(t, b.path)
				}
			})
		}
	}
}

// TestDeathOfARefusedStart kills starts that are refused before each of their steps.
// They leave no trace but a count.
func TestDeathOfARefusedStart(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	busy, done := claimOf("busy", day), claimOf("done", day)
	holder := b.granted(busy)
	b.lived(done, onerun.Succeeded)
	for _, c := range []onerun.Claim{busy, done} {
		dry, err := b.child(plan{}).ask(order{Do: "claim", Claim: again(c)})
		if err != nil || dry.Refusal == nil {
			t.Fatalf("a claim of %s: %v %+v", c.Key(), err, dry)
		}
		counted := dry.Refusal.Count
		for _, step := range slices.Compact(slices.Sorted(slices.Values(dry.Steps))) {
			if _, err := b.child(plan{KillAt: step}).ask(order{Do: "claim", Claim: again(c)}); !errors.Is(err, errDied) {
				t.Fatalf("killed at %q: %v", step, err)
			}
			sound(t, b.path)
			if _, err := b.Heartbeat(soon(t), holder.Lease); err != nil {
				t.Errorf("the holder's heartbeat, after a refused start was killed at %q: %v", step, err)
			}
		}
		ref := b.refusal(again(c), dry.Refusal.Reason)
		if ref.Count <= counted || ref.Count > counted+int64(len(dry.Steps))+1 {
			t.Errorf("%s: refusals counted: %d, then %d after %d deaths", c.Key(), counted, ref.Count, len(dry.Steps))
		}
	}
	b.finish(holder, onerun.Succeeded)
	b.refused(again(busy), onerun.RefusedSucceeded)
}

// TestDeathOfALockAlone kills whoever holds a lock without a run before each step.
func TestDeathOfALockAlone(t *testing.T) {
	t.Parallel()
	for _, mode := range []onerun.LockMode{onerun.LockFlock, onerun.LockCreate} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			claim := func(i int) onerun.Claim {
				c := lockClaim(fmt.Sprintf("lock-%d", i))
				c.LockMode = mode
				return c
			}
			steps, _ := life(t, b, plan{}, claim(-1), onerun.Outcome{})
			last := int64(0)
			for i, step := range steps {
				nth := 1
				for _, s := range steps[:i] {
					if s == step {
						nth++
					}
				}
				if _, died := life(t, b, plan{KillAt: step, Nth: nth}, claim(i), onerun.Outcome{}); !died {
					t.Fatalf("killed at %q (%d): it lived on", step, nth)
				}
				g := b.granted(again(claim(i)))
				if g.Lease.Token <= last {
					t.Errorf("killed at %q: token %d after %d", step, g.Lease.Token, last)
				}
				b.finish(g, "")
			}
		})
	}
}
