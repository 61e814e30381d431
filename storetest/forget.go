package storetest

import (
	"time"

	"github.com/onerun-dev/onerun"
)

// forgetCases: keys that may run again, because a person says so.
func forgetCases() []check {
	return []check{
		{"forget/not what takes two people", func(t *trial) {
			c := t.job("settle", day)
			c.TwoPeople = true
			kept := t.ended(c, succeeded)
			other := t.ended(t.job("report", day), succeeded)
			q := onerun.PruneRequest{Oldest: true, ForgetKeys: true, TwoPeople: []string{"report"}, Who: onerun.Who{By: operator, Reason: because}}
			equal(t, t.pruned(q), onerun.Pruned{}, "what was pruned of keys that take two people")
			t.prune(onerun.PruneRequest{Oldest: true})
			equal(t, t.pruned(q), onerun.Pruned{}, "what was forgotten of keys that take two people")
			for _, r := range []onerun.Run{kept, other} {
				t.refused(t.job(r.Job, day), onerun.RefusedSucceeded)
			}
			q.TwoPeople = nil
			equal(t, t.prune(q).Forgotten, 1, "keys forgotten when only the run's own rule holds")
			t.granted(t.job("report", day))
			t.refused(again(c), onerun.RefusedSucceeded)
		}},
		{"forget/a key runs again", func(t *trial) {
			for _, scope := range []onerun.LockName{onerun.JobLock("settle"), onerun.KeyLock(onerun.MakeKey("settle", "key"))} {
				c := under(t.job("settle", scope.Kind()), scope)
				r := t.ended(c, succeeded)
				p := t.pruned(onerun.PruneRequest{Job: "settle", Partition: c.Partition, ForgetKeys: true}, r.RunID)
				equal(t, p, onerun.Pruned{Runs: 1, Forgotten: 1}, "what was pruned")
				t.runsAnew(c, r)
			}
		}},
		{"forget/a tombstone of one key", func(t *trial) {
			c := t.job("settle", day)
			r := t.ended(c, succeeded)
			other := t.ended(t.job("settle", "2026-09-16"), succeeded)
			t.pruned(onerun.PruneRequest{Oldest: true}, r.RunID, other.RunID)
			equal(t, t.pruned(onerun.PruneRequest{Job: "settle", Partition: day}), onerun.Pruned{}, "what was pruned of a key that is pruned")
			t.refused(again(c), onerun.RefusedSucceeded)
			p := t.pruned(onerun.PruneRequest{Job: "settle", Partition: day, ForgetKeys: true})
			equal(t, p, onerun.Pruned{Forgotten: 1}, "what was pruned")
			t.runsAnew(c, r)
			t.refused(t.job("settle", "2026-09-16"), onerun.RefusedSucceeded)
		}},
		{"forget/tombstones by age", func(t *trial) {
			ids := t.history("settle", 2)
			cut := t.now()
			young := t.history("settle", 3)[2]
			other := t.history("report", 1)[0]
			t.pruned(onerun.PruneRequest{Oldest: true}, ids[0], ids[1], young, other)
			equal(t, t.prune(onerun.PruneRequest{Keep: 1, ForgetKeys: true}).Forgotten, 0, "keys that a number to keep forgets of those that are gone")
			p := t.pruned(onerun.PruneRequest{Before: cut, Job: "settle", ForgetKeys: true})
			equal(t, p, onerun.Pruned{Forgotten: 2}, "what was pruned")
			for i := range 2 {
				c := t.job("settle", partition(i))
				equal(t, t.granted(under(c, onerun.KeyLock(c.Key()))).Lease.Attempt, 1, "attempt of a key that was forgotten")
			}
			t.refused(t.job("settle", partition(2)), onerun.RefusedSucceeded)
			t.refused(t.job("report", partition(0)), onerun.RefusedSucceeded)
			p = t.pruned(onerun.PruneRequest{Oldest: true, Job: "report", ForgetKeys: true})
			equal(t, p, onerun.Pruned{Forgotten: 1}, "what was pruned of one job")
			t.refused(t.job("settle", partition(2)), onerun.RefusedSucceeded)
		}},
		{"forget/step by step", func(t *trial) {
			t.pruned(onerun.PruneRequest{Before: t.now().Add(time.Hour), Limit: 3}, t.history("settle", 3)...)
			t.history("report", 2)
			q := onerun.PruneRequest{Before: t.now().Add(time.Hour), Limit: 2, ForgetKeys: true}
			sum := onerun.Pruned{More: true}
			for steps := 0; sum.More; steps++ {
				if steps > 8 {
					t.failf("prune step by step: expected an end, got More after %d steps", steps)
				}
				p := t.prune(q)
				if p.Runs > 2 || p.Forgotten-p.Runs > 2 {
					t.failf("one step of two: expected no more than two runs, and tombstones, got %+v", p)
				}
				sum.Runs, sum.Forgotten, sum.More = sum.Runs+p.Runs, sum.Forgotten+p.Forgotten, p.More
			}
			equal(t, sum, onerun.Pruned{Runs: 2, Forgotten: 5}, "what was pruned in all steps")
			equal(t, len(t.runs(onerun.Query{Namespace: t.ns, Pruned: true})), 0, "runs and tombstones that are left")
		}},
		{"forget/what the key was before", func(t *trial) {
			c := t.job("settle", day)
			c.BusinessDate, c.Retries = day, 3
			first := t.ended(c, succeeded)
			t.refused(again(c), onerun.RefusedSucceeded)
			t.pruned(onerun.PruneRequest{Oldest: true, ForgetKeys: true}, first.RunID)
			equal(t, len(t.runs(onerun.Query{Namespace: t.ns, RunID: first.RunID})), 0, "runs of the id that is forgotten")
			_, err := t.s.Detail(t.ctx, t.ns, first.RunID)
			t.is(err, onerun.ErrNotFound, "read a run that is forgotten")
			_, err = t.s.Approve(t.ctx, approval(first))
			t.is(err, onerun.ErrNotFound, "approve a rerun of a run that is forgotten")
			t.cancel("settle", day)
			t.refused(again(c), onerun.RefusedSkipped)
		}},
	}
}

// runsAnew starts a key that was forgotten.
func (t *trial) runsAnew(c onerun.Claim, before onerun.Run) {
	g := t.granted(again(c))
	equal(t, g.Lease.Attempt, 1, "attempt of a key that was forgotten")
	if g.Lease.RunID == before.RunID {
		t.failf("run id of a key that was forgotten: expected another one than %s, got that", before.RunID)
	}
	if g.Lease.Token <= before.Token {
		t.failf("token of a key that was forgotten: expected more than %d, got %d", before.Token, g.Lease.Token)
	}
	t.finish(g, succeeded)
	t.refused(again(c), onerun.RefusedSucceeded)
}
