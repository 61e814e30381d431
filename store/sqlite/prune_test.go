package sqlite_test

import (
	"os"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// pruneAll prunes until nothing is left to prune, and returns what that was.
func (b *bed) pruneAll(q onerun.PruneRequest) (sum onerun.Pruned) {
	b.t.Helper()
	q.Namespace = onerun.DefaultNamespace
	for sum.More = true; sum.More; {
		p, err := b.Prune(soon(b.t), q)
		if err != nil {
			b.t.Fatalf("prune: %v", err)
		}
		sum.Runs, sum.Keys, sum.Forgotten, sum.More = sum.Runs+p.Runs, sum.Keys+p.Keys, sum.Forgotten+p.Forgotten, p.More
	}
	return sum
}

func (b *bed) size() int64 {
	b.t.Helper()
	n, err := b.Size(soon(b.t))
	if err != nil {
		b.t.Fatalf("size: %v", err)
	}
	return n
}

// shrink shrinks as far as it goes, in how many steps.
func (b *bed) shrink() (steps int) {
	b.t.Helper()
	for more := true; more; steps++ {
		var err error
		if more, err = b.Shrink(soon(b.t)); err != nil {
			b.t.Fatalf("shrink: %v", err)
		}
	}
	return steps
}

// fileSize is that of the database alone, when nobody has it open.
func (b *bed) fileSize() int64 {
	b.t.Helper()
	if err := b.Close(); err != nil {
		b.t.Fatal(err)
	}
	st, err := os.Stat(b.path)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Store = open(b.t, b.path)
	return st.Size()
}

var forget = onerun.Who{By: "ann", Reason: "anew"}

// TestSizeAndShrink: what is pruned is not counted any more, and a store that is new gives
// the room back; one that version 1 began uses it again.
func TestSizeAndShrink(t *testing.T) {
	t.Parallel()
	const runs = 3000
	fill := func(b *bed) {
		d := b.sql()
		defer func() { _ = d.Close() }() // else the file isn't brought up to date when the store is closed
		mustExec(t, d, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
			INSERT INTO onerun_run (run_id, namespace, job, lock, status, attempt, started_at, finished_at, error)
			SELECT 'run-' || i, 'default', 'j', 'job/j', 'SUCCEEDED', 0, i, i, hex(zeroblob(500)) FROM n`, runs)
	}
	t.Run("a new store", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.lived(claimOf("settle", day), onerun.Failed)
		empty := b.size()
		fill(b)
		full, file := b.size(), b.fileSize()
		if full < empty+runs*1000 || file < full {
			t.Errorf("sizes: %d, %d when full, the file %d", empty, full, file)
		}
		if p := b.pruneAll(onerun.PruneRequest{Oldest: true}); p.Runs != runs {
			t.Errorf("pruned: %s", p)
		}
		if n := b.size(); n > empty+100_000 {
			t.Errorf("size of a store that was pruned: %d, and it was %d when new", n, empty)
		}
		if n := b.fileSize(); n < full {
			t.Errorf("the file is %d before it is shrunk", n)
		}
		if steps := b.shrink(); steps < 2 {
			t.Errorf("steps: %d, of which none is to take long", steps)
		}
		if n := b.fileSize(); n > empty+100_000 {
			t.Errorf("the file is %d after it was shrunk, and the store was %d when new", n, empty)
		}
		if more, err := b.Shrink(soon(t)); more || err != nil {
			t.Errorf("shrink what is shrunk: %v %v", more, err)
		}
		sound(t, b.path)
	})
	t.Run("a store that version 1 began", func(t *testing.T) {
		t.Parallel()
		old, path := version1(t)
		if err := old.Close(); err != nil {
			t.Fatal(err)
		}
		b := &bed{t: t, path: path, Store: open(t, path)}
		empty := b.size()
		fill(b)
		full := b.fileSize()
		b.pruneAll(onerun.PruneRequest{Oldest: true})
		if more, err := b.Shrink(soon(t)); more || err != nil {
			t.Errorf("shrink: %v %v", more, err)
		}
		if n := b.size(); n > empty+100_000 {
			t.Errorf("size of a store that was pruned: %d, and it was %d", n, empty)
		}
		fill(b) // in the room that is free
		if n := b.fileSize(); n > full+100_000 {
			t.Errorf("the file is %d, filled again, and was %d", n, full)
		}
		sound(t, path)
	})
}

// TestFullDiskAtPruning: a step that finds no room changes nothing, and says so; when
// there is room, it goes on.
func TestFullDiskAtPruning(t *testing.T) {
	t.Parallel()
	d := newSmallDisk(t)
	b := d.bed()
	const keys = 5
	for i := range keys {
		b.lived(claimOf("settle", time.Date(2026, 9, 1+i, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)), onerun.Succeeded)
	}
	mustExec(t, b.sql(), "PRAGMA wal_checkpoint(TRUNCATE)") // the journal has no room left of its own
	d.fill()
	for range 2 {
		_, err := b.Prune(soon(t), onerun.PruneRequest{Namespace: onerun.DefaultNamespace, Oldest: true})
		is(t, err, "io", "prune on a full disk")
	}
	if n := len(b.runs("settle")); n != keys {
		t.Errorf("runs after pruning that failed: %d", n)
	}
	d.free()
	if p := b.pruneAll(onerun.PruneRequest{Oldest: true, Limit: 2}); p.Runs != keys || p.Keys != keys {
		t.Errorf("pruned when there is room: %s", p)
	}
	b.refused(claimOf("settle", "2026-09-01"), onerun.RefusedSucceeded)
	sound(t, d.path)
}

// TestPrunedNoteIsNobodys: an owner that dies after it recorded its end, and before it
// cleared its note, leaves the end in the lock file. That doesn't bar the lock when the
// run is pruned, as if it were the end of a run of another ledger.
func TestPrunedNoteIsNobodys(t *testing.T) {
	t.Parallel()
	keyed := claimOf("settle", day)
	ofKey := claimOf("close", day)
	ofKey.Lock = onerun.KeyLock(ofKey.Key())
	for what, c := range map[string]onerun.Claim{"unkeyed": claimOf("sweep", ""), "a key": keyed, "a key under its own lock": ofKey} {
		for _, forgets := range []bool{false, true} {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				b := newBed(t)
				if _, died := life(t, b, plan{KillAt: stepClear}, c, ended(onerun.Succeeded)); !died {
					t.Fatal("it lived on")
				}
				b.pruneAll(onerun.PruneRequest{Oldest: true, ForgetKeys: forgets, Who: forget})
				next := again(c)
				if c.Partition != "" && !forgets {
					b.refused(again(c), onerun.RefusedSucceeded)
					if c.Lock == keyed.Lock {
						next.Partition = "2026-09-16"
					} else {
						other := claimOf("other", "")
						other.Lock = c.Lock
						b.lived(other, onerun.Succeeded)
						b.approve(b.run(c.RunID))
					}
				}
				if ref, err := b.Explain(soon(t), next); ref != nil || err != nil {
					t.Errorf("explain: %v %v", ref, err)
				}
				b.lived(next, onerun.Succeeded)
				sound(t, b.path)
			})
		}
	}
}

// TestTokensOutlivePruning: whatever the clock says, a key's later owner has the larger
// token, under a lock of its own too.
func TestTokensOutlivePruning(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"rerun", "forgotten", "forgotten later"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			c := claimOf("settle", day)
			c.Lock = onerun.KeyLock(c.Key())
			ahead := time.Now().Add(1000 * time.Hour).UnixMilli() // the clock was far ahead once
			b.lived(claimOf("other", day), onerun.Failed)
			mustExec(t, b.sql(), "INSERT INTO onerun_lock (namespace, lock, token) VALUES ('default', ?1, ?2)", c.Lock, ahead)
			first := b.lived(c, onerun.Succeeded)
			if first.Token <= ahead {
				t.Fatalf("token %d after %d", first.Token, ahead)
			}
			b.pruneAll(onerun.PruneRequest{Oldest: true, ForgetKeys: how == "forgotten", Who: forget})
			switch how {
			case "rerun":
				b.approve(b.run(first.RunID))
			case "forgotten later":
				b.pruneAll(onerun.PruneRequest{Oldest: true, ForgetKeys: true, Who: forget})
			}
			if next := b.lived(again(c), onerun.Succeeded); next.Token <= first.Token {
				t.Errorf("token %d after %d", next.Token, first.Token)
			}
			sound(t, b.path)
		})
	}
}

// TestPruningSaysSo: a refusal by what was pruned says why its run can't be shown, and the
// chain of what people decided stays whole.
func TestPruningSaysSo(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	c := claimOf("settle", day)
	r := b.lived(c, onerun.Failed)
	b.approve(r)
	b.lived(again(c), onerun.Succeeded)
	b.approve(b.lived(claimOf("report", day), onerun.Failed))
	b.pruneAll(onerun.PruneRequest{Oldest: true, Who: onerun.Who{By: "ann", Terminal: "pts/1", Reason: "old"}})
	want := "its history was pruned on " + time.Now().UTC().Format(time.DateOnly)
	if ref := b.refusal(again(c), onerun.RefusedSucceeded); ref.Holder.Detail != want {
		t.Errorf("the refusal says %q, not %q", ref.Holder.Detail, want)
	}
	events := journal(t, b.sql())
	if id := broken(t, events); id != 0 {
		t.Errorf("event %d doesn't fit its chain", id)
	}
	last := events[len(events)-1]
	if last.Event != onerun.EventPruned || last.By != "ann" || last.Terminal != "pts/1" || last.Reason != "old" || last.Detail != "the oldest successes, until the store is small enough" {
		t.Errorf("the event: %+v", last)
	}
	if n := one[int](t, b.sql(), "SELECT count(*) FROM onerun_attempt a WHERE NOT EXISTS (SELECT 1 FROM onerun_run r WHERE r.run_id = a.run_id)"); n != 0 {
		t.Errorf("attempts of runs that were pruned: %d", n)
	}
}
