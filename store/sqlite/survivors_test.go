package sqlite_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

// A job whose first process dies with its wrapper (PDEATHSIG) and leaves another one in
// its process group.
const leavesOne = "sleep 1000 & echo $!; wait"

// TestGroupOutlivesItsWrapper: while anything of a job lives, no second one starts,
// whatever the policy; and the refusal names what lives.
func TestGroupOutlivesItsWrapper(t *testing.T) {
	t.Parallel()
	for _, keyed := range []bool{true, false} {
		for _, policy := range []onerun.OnCrash{onerun.CrashAuto, onerun.CrashManual} {
			for _, mode := range []onerun.LockMode{onerun.LockFlock, onerun.LockCreate} {
				v := variant{keyed, policy, mode}
				t.Run(v.String(), func(t *testing.T) {
					t.Parallel()
					b := newBed(t)
					c := v.claim("settle")
					owner := b.child(plan{})
					owner.do(order{Do: "claim", Claim: c})
					job := owner.do(order{Do: "job", Script: leavesOne})
					t.Cleanup(func() { _ = unix.Kill(-job.Group, unix.SIGKILL) })
					owner.kill()
					gone(t, job.Group) // its leader

					reason := onerun.RefusedLocked
					if keyed {
						reason = onerun.RefusedRunning
					}
					for range 2 {
						b.alive(t, again(c), reason, job.PID)
					}
					_, err := b.Resolve(soon(t), resolution(b.run(c.RunID), onerun.Failed))
					is(t, err, "state", "resolve a run whose job lives")
					if r := b.run(c.RunID); r.Status != onerun.Running || r.Liveness != onerun.Alive || r.Stale {
						t.Errorf("the run while its job lives: %s, %s, stale %v: %s", r.Status, r.Liveness, r.Stale, r.Evidence)
					}
					if mode == onerun.LockFlock {
						c.LockMode = onerun.LockCreate
					} else {
						c.LockMode = onerun.LockFlock
					}
					b.alive(t, again(c), reason, job.PID) // nor does the other mode get in

					killGroup(t, job.Group, job.PID)
					b.heir(t, "its job killed", v, c, onerun.Outcome{}, leavesUnknown)
					sound(t, b.path)
				})
			}
		}
	}
}

// alive checks that a claim is refused for a process that lives, and says so.
func (b *bed) alive(t *testing.T, c onerun.Claim, reason onerun.Reason, pid int) {
	t.Helper()
	ref := b.refusal(c, reason)
	if !strings.Contains(ref.Error(), fmt.Sprint(pid)) {
		t.Errorf("refused as %q: expected process %d to be named", ref, pid)
	}
	seen, err := b.Explain(soon(t), again(c))
	if err != nil || seen == nil || seen.Reason != reason || !strings.Contains(seen.Error(), fmt.Sprint(pid)) {
		t.Errorf("explained as %v %v: expected %s, naming process %d", seen, err, reason, pid)
	}
}

// TestForkedButNotNoted: a wrapper that died between starting its job and noting the
// group. What lives of it is found by the owner id in its environment.
func TestForkedButNotNoted(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	c := claimOf("settle", day)
	owner := b.child(plan{})
	owner.do(order{Do: "claim", Claim: c})
	job := owner.do(order{Do: "fork", Script: leavesOne})
	t.Cleanup(func() { _ = unix.Kill(-job.Group, unix.SIGKILL) })
	owner.kill()
	gone(t, job.Group)
	b.alive(t, again(c), onerun.RefusedRunning, job.PID)
	killGroup(t, job.Group, job.PID)
	b.heir(t, "its job killed", variant{true, onerun.CrashAuto, onerun.LockFlock}, c, onerun.Outcome{}, leavesUnknown)
}

// TestLockAloneLeavesAGroup: `onerun lock N` whose wrapper was killed, and whose command
// left something in its group: nobody takes the lock until that is gone, be it another
// `onerun lock` or a run under the same name.
func TestLockAloneLeavesAGroup(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	owner := b.child(plan{})
	owner.do(order{Do: "claim", Claim: lockClaim("db")})
	job := owner.do(order{Do: "job", Script: leavesOne})
	t.Cleanup(func() { _ = unix.Kill(-job.Group, unix.SIGKILL) })
	owner.kill()
	gone(t, job.Group)
	c := claimOf("settle", day)
	c.Lock = onerun.NamedLock("db")
	b.alive(t, lockClaim("db"), onerun.RefusedLocked, job.PID)
	b.alive(t, c, onerun.RefusedLocked, job.PID)
	if runs := b.runs("settle"); len(runs) != 0 {
		t.Errorf("runs of a job that was refused: %d", len(runs))
	}
	locks, err := b.Locks(soon(t), onerun.DefaultNamespace)
	if err != nil || len(locks) != 1 || locks[0].Lock != c.Lock || locks[0].Liveness != onerun.Alive {
		t.Errorf("locks: %+v %v", locks, err)
	}
	killGroup(t, job.Group, job.PID)
	b.finish(b.granted(again(c)), onerun.Succeeded)
	b.granted(lockClaim("db"))
}

// TestLockAloneAfterARun: `onerun lock N` and a run with `--lock N` are one lock, also
// when the run's wrapper is dead.
func TestLockAloneAfterARun(t *testing.T) {
	t.Parallel()
	for _, policy := range []onerun.OnCrash{onerun.CrashAuto, onerun.CrashManual} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			c := claimOf("settle", day)
			c.Lock, c.OnCrash = onerun.NamedLock("db"), policy
			owner := b.child(plan{})
			owner.do(order{Do: "claim", Claim: c})
			job := owner.do(order{Do: "job", Script: leavesOne})
			t.Cleanup(func() { _ = unix.Kill(-job.Group, unix.SIGKILL) })
			if ref := b.refusal(lockClaim("db"), onerun.RefusedLocked); ref.Holder.RunID != c.RunID || ref.Holder.Name != c.Key() {
				t.Errorf("the holder, while its wrapper lives: %+v", ref.Holder)
			}
			owner.kill()
			gone(t, job.Group)
			b.alive(t, lockClaim("db"), onerun.RefusedLocked, job.PID)
			killGroup(t, job.Group, job.PID)
			if policy == onerun.CrashManual {
				b.refused(lockClaim("db"), onerun.RefusedStale)
				b.resolve(b.run(c.RunID), onerun.Failed)
			}
			g := b.granted(lockClaim("db"))
			if r := b.run(c.RunID); r.Status != onerun.Failed || g.Lease.Token <= r.Token {
				t.Errorf("the run before: %s, token %d; the lock's token %d", r.Status, r.Token, g.Lease.Token)
			}
		})
	}
}

// TestCommitOfUnknownSuccess: a claim that was written down, and whose process lives on
// without knowing. Asked again with the same owner id it is that claim; of anybody else
// it is a running process's.
func TestCommitOfUnknownSuccess(t *testing.T) {
	t.Parallel()
	for _, mode := range []onerun.LockMode{onerun.LockFlock, onerun.LockCreate} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			c := claimOf("settle", day)
			c.LockMode = mode
			first := b.granted(c)
			// The lock goes, as it does when a claim ends in an error.
			if !b.Forget(c.Owner) {
				t.Fatal("the store holds nothing for the owner")
			}
			b.refused(again(c), onerun.RefusedRunning)
			g := b.granted(c)
			if !g.Adopted || g.Lease != first.Lease || g.Run.RunID != first.Run.RunID {
				t.Errorf("asked again: adopted %v, lease %+v, not %+v", g.Adopted, g.Lease, first.Lease)
			}
			if n := len(b.detail(c.RunID).Attempts); n != 1 {
				t.Errorf("attempts: %d", n)
			}
			b.finish(g, onerun.Succeeded)
			b.refused(c, onerun.RefusedSucceeded)
		})
	}
}

// TestNoteOfAnotherRun: the lock file doesn't name the RUNNING run. Then only its wrapper
// can be judged: alive, it runs; dead on this boot, nobody knows about its job.
func TestNoteOfAnotherRun(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*bed, onerun.LockName){
		"missing":    (*bed).removeLockFile,
		"unreadable": (*bed).tearLockFile,
		"another's":  (*bed).foreignNote,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			c := claimOf("settle", day)
			c.Lock = onerun.NamedLock("db")
			owner := b.child(plan{})
			owner.do(order{Do: "claim", Claim: c})
			owner.do(order{Do: "job", Script: "echo $$; exec sleep 1000"})
			if name != "unreadable" { // a holder's own note can't be taken away without it noticing
				spoil(b, c.Lock)
				b.refused(again(c), onerun.RefusedRunning)
			}
			owner.kill()
			spoil(b, c.Lock)
			for range 2 {
				ref := b.refusal(again(c), onerun.RefusedStale)
				if ref.Holder.RunID != c.RunID {
					t.Errorf("holder: %s", ref.Holder)
				}
				b.refused(lockClaim("db"), onerun.RefusedStale)
			}
			if r := b.run(c.RunID); r.Status != onerun.Running || !r.Stale || r.Liveness != onerun.Unknown {
				t.Errorf("the run: %s, stale %v, %s: %s", r.Status, r.Stale, r.Liveness, r.Evidence)
			}
			b.resolve(b.run(c.RunID), onerun.Succeeded)
			b.refused(again(c), onerun.RefusedSucceeded)
			b.finish(b.granted(lockClaim("db")), "")
		})
	}
}

// TestKeyUnderAnotherLock: a key whose owner died under another lock than the one that
// the next start wants. What became of it stands in the other lock's file.
func TestKeyUnderAnotherLock(t *testing.T) {
	t.Parallel()
	for _, left := range []string{stepRecord, stepOutcome, stepClaimed} {
		t.Run(strings.ReplaceAll(left, " ", "-"), func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			c, out := claimOf("settle", day), ended(onerun.Succeeded)
			if _, died := life(t, b, plan{KillAt: left}, c, out); !died {
				t.Fatal("it lived on")
			}
			c.Lock = onerun.NamedLock("other")
			switch left {
			case stepRecord:
				ref := b.refusal(again(c), onerun.RefusedSucceeded)
				if r := b.run(c.RunID); len(ref.Delivered) != 1 || !r.FinishedAt.Equal(out.FinishedAt) {
					t.Errorf("closed on the way: %d, finished %s, not %s", len(ref.Delivered), r.FinishedAt, out.FinishedAt)
				}
			case stepOutcome:
				b.refused(again(c), onerun.RefusedFailed)
			case stepClaimed:
				g := b.granted(again(c))
				if g.Lease.Attempt != 2 || g.Run.Lock != c.Lock || len(g.TakenOver) != 1 {
					t.Errorf("attempt %d under %s, after %d others", g.Lease.Attempt, g.Run.Lock, len(g.TakenOver))
				}
				b.refused(claimOf("settle", day), onerun.RefusedRunning)
				b.finish(g, onerun.Succeeded)
			}
			b.finish(b.granted(claimOf("settle", "2026-09-16")), onerun.Succeeded) // the first lock is free
			sound(t, b.path)
		})
	}
}

// TestKeyUnderAnotherLockWhileHeld: the same, when somebody else holds the lock that the
// next start wants. The skip needn't reach the disk at once, but the end that is found on
// the way must.
func TestKeyUnderAnotherLockWhileHeld(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	c := claimOf("settle", day)
	if _, died := life(t, b, plan{KillAt: stepRecord}, c, ended(onerun.Succeeded)); !died {
		t.Fatal("it lived on")
	}
	g := b.granted(lockClaim("other"))
	c.Lock = onerun.NamedLock("other")
	// Claimed without asking Explain first: a claim alone must find its way.
	_, err := b.claim(again(c))
	var ref *onerun.Refusal
	if !errors.As(err, &ref) || ref.Reason != onerun.RefusedSucceeded || len(ref.Delivered) != 1 {
		t.Errorf("claim: %v", err)
	}
	if r := b.run(c.RunID); r.Status != onerun.Succeeded {
		t.Errorf("recorded as %s", r.Status)
	}
	b.finish(g, "")
}

// TestOwnerDiedIsAKnownFailure: a proven death takes a retry, by the policy of the dead;
// Explain says beforehand what a claim will.
func TestOwnerDiedIsAKnownFailure(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	c := claimOf("settle", day)
	c.Retries = 1
	for attempt := 1; attempt <= 2; attempt++ {
		if _, died := life(t, b, plan{KillAt: stepOutcome}, again(c), ended(onerun.Succeeded)); !died {
			t.Fatal("it lived on")
		}
		seen, err := b.Explain(soon(t), again(c))
		if err != nil || attempt == 1 && seen != nil || attempt == 2 && (seen == nil || seen.Reason != onerun.RefusedFailed) {
			t.Fatalf("explained after %d deaths: %v %v", attempt, seen, err)
		}
	}
	b.refused(again(c), onerun.RefusedFailed)
	if n := len(b.runs("settle")); n != 1 {
		t.Errorf("runs: %d", n)
	}
}
