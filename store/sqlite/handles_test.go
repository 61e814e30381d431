package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/sqlite"
)

// TestNamesThatDiffer: what differs anywhere is two locks, two jobs and two files (B22),
// and what CleanName makes one is one.
func TestNamesThatDiffer(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("日", onerun.MaxName-1) // 297 bytes
	b := newBed(t)
	for _, p := range [][2]string{
		{long + "a", long + "b"},
		{strings.Repeat("x", 99) + "1", strings.Repeat("x", 99) + "2"},
		{strings.Repeat("日", 90), strings.Repeat("日", 91)},
		{"Job", "job"},
		{"a.b", "a_b"},
		{"a-b", "a.b-"},
		{"일일정산", "일일정신"},
		{"ß", "ss"},
		{"ﬁ", "fi"},
		{"1", "01"},
	} {
		for _, partition := range []string{"", day} {
			var grants []onerun.Grant
			for _, name := range p {
				clean, err := onerun.CleanName("job", name)
				if err != nil {
					t.Fatal(err)
				}
				c := claimOf(clean, partition)
				g := b.granted(c)
				alone := b.granted(lockClaim(clean))
				if n := len(filepath.Base(g.LockPath)); n > 255 {
					t.Errorf("the lock file's name has %d bytes", n)
				}
				if _, err := os.Stat(g.LockPath); err != nil {
					t.Errorf("the lock file of %s: %v", clean, err)
				}
				grants = append(grants, g, alone)
			}
			for i, name := range p {
				b.refused(claimOf(name, partition), map[bool]onerun.Reason{true: onerun.RefusedRunning, false: onerun.RefusedLocked}[partition != ""])
				b.refused(lockClaim(name), onerun.RefusedLocked)
				b.finish(grants[2*i], onerun.Succeeded)
				b.finish(grants[2*i+1], "")
			}
		}
	}
	nfd, err := onerun.CleanName("job", "cafe\u0301")
	if err != nil {
		t.Fatal(err)
	}
	b.granted(claimOf("caf\u00e9", ""))
	b.refused(claimOf(nfd, ""), onerun.RefusedLocked)
	sound(t, b.path)
}

// TestLockDirectoryElsewhere: the lock files are there and only there. A client that was
// told another place is kept out by the ledger, as long as the run's wrapper can be
// judged; and what became of a dead owner is read where that owner noted it.
func TestLockDirectoryElsewhere(t *testing.T) {
	t.Parallel()
	dir := home(t)
	locks := filepath.Join(home(t), "locks")
	b := &bed{t: t, path: filepath.Join(dir, sqlite.DatabaseName), Store: open(t, dir, sqlite.WithLockDir(locks))}
	g := b.granted(claimOf("settle", day))
	if filepath.Dir(g.LockPath) != locks {
		t.Errorf("the lock file is %s", g.LockPath)
	}
	if _, err := os.Stat(filepath.Join(dir, "locks")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("locks/ beside the database: %v", err)
	}
	b.reopen(sqlite.WithLockDir(locks)).refused(claimOf("settle", "2026-09-16"), onerun.RefusedLocked)
	misled := b.reopen()
	misled.refused(claimOf("settle", day), onerun.RefusedRunning)
	misled.refused(claimOf("settle", "2026-09-16"), onerun.RefusedLocked)
	b.finish(g, onerun.Succeeded)

	c, out := claimOf("settle", "2026-09-17"), ended(onerun.Succeeded)
	if _, died := life(t, b, plan{KillAt: stepRecord, LockDir: locks}, c, out); !died {
		t.Fatal("it lived on")
	}
	misled.refused(again(c), onerun.RefusedSucceeded)
	if r := misled.run(c.RunID); !r.FinishedAt.Equal(out.FinishedAt) {
		t.Errorf("its end: %s, not %s", r.FinishedAt, out.FinishedAt)
	}

	// A lock directory that is gone proves nothing, and isn't made again by those who look.
	c = claimOf("settle", "2026-09-18")
	if _, died := life(t, b, plan{KillAt: stepOutcome, LockDir: locks}, c, out); !died {
		t.Fatal("it lived on")
	}
	if err := os.RemoveAll(locks); err != nil {
		t.Fatal(err)
	}
	other := b.reopen()
	other.refused(again(c), onerun.RefusedStale)
	if locks, err := other.Locks(soon(t), onerun.DefaultNamespace); err != nil || len(locks) != 1 || locks[0].Liveness != onerun.Unknown {
		t.Errorf("locks: %+v %v", locks, err)
	}
	if _, err := os.Stat(locks); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the other lock directory: %v", err)
	}
	other.resolve(other.run(c.RunID), onerun.Succeeded)
	sound(t, b.path)
}

// TestTwoHandles: two handles in one process exclude each other like two processes.
func TestTwoHandles(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	other := b.reopen()
	g := b.granted(claimOf("settle", day))
	other.refused(claimOf("settle", day), onerun.RefusedRunning)
	other.refused(claimOf("settle", "2026-09-16"), onerun.RefusedLocked)
	alone := other.granted(lockClaim("db"))
	b.refused(lockClaim("db"), onerun.RefusedLocked)
	is(t, other.Finish(soon(t), otherToken(alone), onerun.Outcome{}), "lost", "finish of a lease with another token")
	if err := b.Close(); err != nil { // it keeps what it holds
		t.Fatal(err)
	}
	other.refused(claimOf("settle", day), onerun.RefusedRunning)
	b.finish(g, onerun.Succeeded)
	other.refused(claimOf("settle", day), onerun.RefusedSucceeded)
	other.finish(alone, "")
	other.granted(lockClaim("db"))
	_, err := b.Claim(soon(t), claimOf("settle", "2026-09-16"))
	is(t, err, "unavailable", "claim by a handle that was closed")
	if !errors.Is(err, onerun.ErrClosed) {
		t.Errorf("claim by a handle that was closed: %v", err)
	}
}

func otherToken(g onerun.Grant) onerun.Lease {
	l := g.Lease
	l.Token++
	return l
}

// TestOneHandleManyGoroutines: a handle is for concurrent use, closing included.
func TestOneHandleManyGoroutines(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 10 {
				c := claimOf("settle", fmt.Sprintf("p%d", n))
				c.Lock = onerun.KeyLock(c.Key())
				g, err := b.Claim(soon(t), c)
				var ref *onerun.Refusal
				switch {
				case errors.As(err, &ref):
				case err != nil:
					t.Errorf("goroutine %d: %v", i, err)
				default:
					if _, err := b.Heartbeat(soon(t), g.Lease); err != nil {
						t.Errorf("goroutine %d: heartbeat: %v", i, err)
					}
					if err := b.Finish(soon(t), g.Lease, ended(onerun.Succeeded)); err != nil {
						t.Errorf("goroutine %d: finish: %v", i, err)
					}
				}
				if _, err := b.Locks(soon(t), onerun.DefaultNamespace); err != nil {
					t.Errorf("goroutine %d: locks: %v", i, err)
				}
			}
		})
	}
	all.Wait()
	if rs := b.runs("settle"); len(rs) != 10 {
		t.Errorf("runs: %d", len(rs))
	}
	for i := range 8 {
		all.Go(func() {
			_, err := b.Claim(soon(t), claimOf("settle", fmt.Sprintf("q%d", i)))
			var ref *onerun.Refusal
			if err != nil && !errors.As(err, &ref) && len(kinds(err)) != 1 {
				t.Errorf("claim while the handle is closed: %v", err)
			}
		})
	}
	all.Go(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	all.Wait()
	sound(t, b.path)
}

// TestOwnerIDs: an owner id is for one acquisition.
func TestOwnerIDs(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	c := claimOf("settle", day)
	g := b.granted(c)
	for what, change := range map[string]func(*onerun.Claim){
		"another lock":          func(c *onerun.Claim) { c.Lock = onerun.NamedLock("db") },
		"another namespace":     func(c *onerun.Claim) { c.Namespace = "staging" },
		"the lock alone":        func(c *onerun.Claim) { c.Job, c.Partition = "", "" },
		"no hexadecimal digits": func(c *onerun.Claim) { c.Owner = "me" },
	} {
		other := c
		change(&other)
		_, err := b.Claim(soon(t), other)
		is(t, err, "usage", "claim with the owner id of another acquisition: "+what)
	}
	if got := b.granted(c); !got.Adopted || got.Lease != g.Lease {
		t.Errorf("asked again: %+v", got)
	}
	b.finish(g, onerun.Succeeded)
	b.refused(c, onerun.RefusedSucceeded)
}
