package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/onerun-dev/onerun"
)

// TestLookingTakesNothing: a thousand looks at a job go on beside its starts, of which
// none is refused for them.
func TestLookingTakesNothing(t *testing.T) {
	t.Parallel()
	const looks = 1000
	b := newBed(t)
	b.lived(claimOf("settle", day), onerun.Succeeded)
	looker := b.reopen()
	var looking sync.WaitGroup
	turns := make(chan int, looks/10) // a start for every ten looks, so that they go on beside each other
	looking.Go(func() {
		defer close(turns)
		for i := range looks {
			if i%10 == 0 {
				turns <- i
			}
			var err error
			switch ctx := soon(t); i % 4 {
			case 0:
				_, err = looker.Explain(ctx, claimOf("sweep", ""))
			case 1:
				_, err = looker.Locks(ctx, onerun.DefaultNamespace)
			case 2:
				_, err = looker.Runs(ctx, onerun.Query{Namespace: onerun.DefaultNamespace, Limit: 5})
			case 3:
				_, err = looker.Explain(ctx, claimOf("settle", day))
			}
			if err != nil {
				t.Errorf("look %d: %v", i, err)
				return
			}
		}
	})
	for range turns {
		b.lived(claimOf("sweep", ""), onerun.Succeeded)
		b.finish(b.granted(lockClaim("db")), "")
	}
	looking.Wait()
	if n := one[int](t, b.sql(), "SELECT count(*) FROM onerun_skip"); n != 0 {
		t.Errorf("starts that were refused: %d", n)
	}
}

// TestExplainIsWhatAClaimSays: in each of the states that lock files can be in beside the
// ledger's (the conformance suite has those).
func TestExplainIsWhatAClaimSays(t *testing.T) {
	t.Parallel()
	excl := func(b *bed, l onerun.LockName) string { return strings.TrimSuffix(b.LockPath(l), ".lock") + ".excl" }
	for name, prepare := range map[string]func(t *testing.T, b *bed, c onerun.Claim){
		"nothing":        func(*testing.T, *bed, onerun.Claim) {},
		"a torn note":    func(t *testing.T, b *bed, c onerun.Claim) { b.lived(again(c), onerun.Failed); b.torn(c.Lock) },
		"an empty file":  func(t *testing.T, b *bed, c onerun.Claim) { rewrite(t, b.LockPath(c.Lock), nil) },
		"NULs":           func(t *testing.T, b *bed, c onerun.Claim) { rewrite(t, b.LockPath(c.Lock), make([]byte, 4096)) },
		"a foreign note": func(t *testing.T, b *bed, c onerun.Claim) { b.foreignNote(c.Lock) },
		"an empty .excl": func(t *testing.T, b *bed, c onerun.Claim) { rewrite(t, excl(b, c.Lock), nil) },
		"a torn .excl":   func(t *testing.T, b *bed, c onerun.Claim) { rewrite(t, excl(b, c.Lock), []byte(`{"kind":"job"`)) },
		"held by a lock": func(t *testing.T, b *bed, c onerun.Claim) { b.granted(lockClaim("db")) },
		"held by a run": func(t *testing.T, b *bed, c onerun.Claim) {
			other := claimOf("other", day)
			other.Lock = c.Lock
			b.granted(other)
		},
		"held in mode create": func(t *testing.T, b *bed, c onerun.Claim) {
			c = again(c)
			c.LockMode = onerun.LockCreate
			b.granted(c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			c := claimOf("settle", "")
			c.Lock = onerun.NamedLock("db")
			prepare(t, b, c)
			before, err := os.ReadDir(filepath.Dir(b.LockPath(c.Lock)))
			if err != nil {
				t.Fatal(err)
			}
			var said onerun.Reason
			ref, err := b.Explain(soon(t), again(c))
			if err != nil {
				t.Fatalf("explain: %v", err)
			}
			if ref != nil {
				said = ref.Reason
			}
			if _, err := b.Locks(soon(t), onerun.DefaultNamespace); err != nil {
				t.Fatalf("locks: %v", err)
			}
			after, err := os.ReadDir(filepath.Dir(b.LockPath(c.Lock)))
			if err != nil || len(after) != len(before) {
				t.Errorf("looking changed the lock directory: %v, then %v %v", before, after, err)
			}
			for _, c := range []onerun.Claim{again(c), lockClaim("db")} {
				var got onerun.Reason
				g, err := b.Claim(soon(t), c)
				if errors.As(err, &ref) {
					got = ref.Reason
				} else if err != nil {
					t.Fatalf("claim: %v", err)
				} else {
					b.finish(g, onerun.Succeeded)
				}
				if got != said {
					t.Errorf("explained %q; claimed (job %q) %q: %v", said, c.Job, got, err)
				}
			}
		})
	}
}

// TestLocksListed: each lock that is held, or that a dead owner left, once.
func TestLocksListed(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	job, key, create, byHand := claimOf("settle", day), claimOf("report", day), claimOf("sweep", ""), claimOf("close", day)
	key.Lock = onerun.KeyLock(key.Key())
	create.LockMode = onerun.LockCreate
	byHand.OnCrash = onerun.CrashManual
	other := claimOf("other", day)
	other.Namespace = "staging"
	for _, c := range []onerun.Claim{job, key, create, lockClaim("db"), other} {
		b.granted(c)
	}
	b.finish(b.granted(claimOf("done", day)), onerun.Succeeded)
	if _, died := life(t, b, plan{KillAt: stepOutcome}, byHand, ended(onerun.Succeeded)); !died {
		t.Fatal("it lived on")
	}
	locks, err := b.Locks(soon(t), onerun.DefaultNamespace)
	if err != nil {
		t.Fatal(err)
	}
	var got []onerun.LockName
	for _, l := range locks {
		got = append(got, l.Lock)
		if (l.Mode == onerun.LockCreate) != (l.Lock == create.Lock) {
			t.Errorf("mode of %s: %s", l.Lock, l.Mode)
		}
		if _, err := os.Stat(l.Path); err != nil {
			t.Errorf("file of %s: %v", l.Lock, err)
		}
		if (l.Run == nil) != (l.Lock == "name/db") || l.Holder.String() == "" || l.Token == 0 {
			t.Errorf("%s: run %v, holder %q, token %d", l.Lock, l.Run, l.Holder, l.Token)
		}
		want := onerun.Alive
		if l.Lock == byHand.Lock {
			want = onerun.Dead
		}
		if l.Liveness != want {
			t.Errorf("%s: %s, not %s: %s", l.Lock, l.Liveness, want, l.Evidence)
		}
	}
	slices.Sort(got)
	want := []onerun.LockName{job.Lock, key.Lock, create.Lock, byHand.Lock, "name/db"}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("locks: %v, not %v", got, want)
	}
}
