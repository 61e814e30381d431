package storetest

import (
	"errors"
	"time"

	"github.com/onerun-dev/onerun"
)

// lockCases: at most one live owner per lock, whatever the jobs are called.
func lockCases() []check {
	db := onerun.NamedLock("db")
	return []check{
		{"locks/one shared by two jobs", func(t *trial) {
			g := t.granted(under(t.job("settle", day), db))
			t.stoodBy(t.refused(under(t.job("report", day), db), onerun.RefusedLocked), g.Run)
			t.stoodBy(t.refused(under(t.job("sweep", ""), db), onerun.RefusedLocked), g.Run)
			t.granted(t.job("report", day)) // its own lock is free
			t.finish(g, succeeded)
			t.granted(under(t.job("sweep", ""), db))
		}},
		{"locks/a lock alone excludes runs, and runs it", func(t *trial) {
			alone := t.granted(t.lockOnly("db"))
			ref := t.refused(under(t.job("settle", day), db), onerun.RefusedLocked)
			equal(t, ref.Holder.RunID, "", "Holder.RunID of a lock that no run holds")
			if ref.Holder.String() == "" {
				t.failf("holder of a lock that no run holds: expected words that name it, got none")
			}
			ref = t.refused(t.lockOnly("db"), onerun.RefusedLocked)
			equal(t, ref.Count, 0, "Count of a refusal of a lock alone (it is not recorded)")
			t.finish(alone, succeeded)
			g := t.granted(under(t.job("settle", day), db))
			ref = t.refused(t.lockOnly("db"), onerun.RefusedLocked)
			equal(t, ref.Holder.RunID, g.Lease.RunID, "Holder.RunID of a lock that a run holds")
			t.finish(g, succeeded)
			t.granted(t.lockOnly("db"))
		}},
		{"locks/a lock alone has no table and no ledger", func(t *trial) {
			alone := t.granted(t.lockOnly("db"))
			equal(t, len(t.runs(onerun.Query{Namespace: t.ns})), 0, "runs while a lock alone is held")
			_, err := t.s.Heartbeat(t.ctx, alone.Lease)
			t.must(err, "heartbeat of a lock alone")
			t.finish(alone, onerun.Outcome{}) // takes no notice of the outcome
			t.finish(t.granted(t.lockOnly("db")), failed)
			t.granted(t.lockOnly("db"))
			equal(t, len(t.runs(onerun.Query{Namespace: t.ns})), 0, "runs after a lock alone was held")
		}},
		{"locks/key locks let two keys run beside each other", func(t *trial) {
			a, b := t.job("settle", day), t.job("settle", "2026-09-16")
			ga := t.granted(under(a, onerun.KeyLock(a.Key())))
			gb := t.granted(under(b, onerun.KeyLock(b.Key())))
			t.refused(under(again(a), onerun.KeyLock(a.Key())), onerun.RefusedRunning)
			t.finish(ga, succeeded)
			t.refused(under(again(b), onerun.KeyLock(b.Key())), onerun.RefusedRunning)
			t.finish(gb, succeeded)
		}},
		{"locks/a job's lock doesn't", func(t *trial) {
			t.granted(t.job("settle", day))
			t.refused(t.job("settle", "2026-09-16"), onerun.RefusedLocked)
		}},
		{"locks/a key that runs under another lock than the one asked", func(t *trial) {
			g := t.granted(under(t.job("settle", day), db))
			t.stoodBy(t.refused(t.job("settle", day), onerun.RefusedRunning), g.Run)
			t.finish(g, failed)
			r := t.run(g.Lease.RunID)
			t.approve(r)
			next := t.granted(t.job("settle", day)) // and its run holds the new lock then
			equal(t, next.Run.Lock, onerun.JobLock("settle"), "lock of attempt 2")
			t.refused(t.job("settle", "2026-09-16"), onerun.RefusedLocked)
			t.granted(under(t.job("report", day), db))
		}},
		{"locks/three kinds of one name", func(t *trial) {
			// "settle" as a job's and as a shared lock are two locks, and a key's is a
			// third.
			t.granted(t.job("settle", ""))
			t.granted(t.lockOnly("settle"))
			t.granted(under(t.job("other", day), onerun.KeyLock("settle:"+day)))
			t.refused(t.job("settle", ""), onerun.RefusedLocked)
			t.refused(t.lockOnly("settle"), onerun.RefusedLocked)
			t.refused(under(t.job("another", day), onerun.KeyLock("settle:"+day)), onerun.RefusedLocked)
		}},
		{"locks/are listed with their holders", func(t *trial) {
			g := t.granted(under(t.job("settle", day), db))
			alone := t.granted(t.lockOnly("reports"))
			l, ok := t.locked(db)
			if !ok || l.Run == nil {
				t.failf("the listing of locks: expected %s with its run, got %v %v", db, ok, l.Run)
			}
			equal(t, l.Run.RunID, g.Lease.RunID, "run that holds %s", db)
			equal(t, l.Holder.RunID, g.Lease.RunID, "Holder.RunID of %s", db)
			equal(t, l.Token, g.Lease.Token, "token of %s", db)
			equal(t, l.Namespace, t.ns, "namespace of %s", db)
			l, ok = t.locked(alone.Lease.Lock)
			if !ok || l.Run != nil || l.Holder.String() == "" {
				t.failf("the listing of locks: expected %s with words about its holder and without a run, got %v %q %v", alone.Lease.Lock, ok, l.Holder, l.Run)
			}
			equal(t, l.Token, alone.Lease.Token, "token of %s", alone.Lease.Lock)
			t.finish(g, succeeded)
			t.finish(alone, succeeded)
			equal(t, len(t.locks(t.ns)), 0, "locks that are listed when all are free")
		}},
		{"locks/a dead owner's is listed until somebody comes", func(t *trial) {
			g := t.orphan(manual(t.job("settle", day)))
			l, ok := t.locked(g.Lease.Lock)
			if !ok || l.Run == nil || !l.Run.Stale {
				t.failf("the listing of locks: expected %s with its stale run, got %v %v", g.Lease.Lock, ok, l.Run)
			}
		}},
		{"locks/waiting for one", func(t *trial) { t.waits() }},
	}
}

// waits: whoever asks again and again gets the lock when it comes free, and leaves
// no trace of asking. A store that can wait by itself is asked that way.
func (t *trial) waits() {
	holder := t.granted(t.job("settle", day))
	c := t.job("settle", "2026-09-16")
	c.Asking = true
	s := t.open()
	claim := s.Claim
	if w, ok := s.(onerun.WaitingClaimer); ok {
		claim = w.ClaimWaiting
	}
	asked := make(chan struct{})
	var g onerun.Grant
	t.together(2, func(i int) (err error) {
		if i == 1 { // the holder, who ends when the other one has asked
			<-asked
			return t.s.Finish(t.ctx, holder.Lease, succeeded)
		}
		for n := 0; ; n++ {
			if n == 0 {
				close(asked)
			}
			if g, err = claim(t.ctx, c); err == nil {
				return nil
			}
			var ref *onerun.Refusal
			if !errors.As(err, &ref) || ref.Reason != onerun.RefusedLocked {
				return err
			}
			t.moment()
		}
	})
	t.whole(c, g)
	equal(t, len(t.skips(c)), 0, "skips of a claim that was asking")
	t.must(s.Finish(t.ctx, g.Lease, succeeded), "finish the run that waited")
}

// moment is the moment between two questions of one who waits.
func (t *trial) moment() {
	timer := time.NewTimer(2 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
		t.failf("waiting for a lock: %w", t.ctx.Err())
	}
}
