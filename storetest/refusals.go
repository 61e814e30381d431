package storetest

import (
	"time"

	"github.com/onerun-dev/onerun"
)

// refusalsPruned: a key that has no run keeps its refusals until they are old; one that has a run keeps them as long as that.
func (t *trial) refusalsPruned() {
	held := t.job("settle", day)
	g := t.granted(held)
	beside := func(job, part string) onerun.Claim {
		c := t.job(job, part)
		c.Lock = held.Lock
		t.refused(c, onerun.RefusedLocked)
		return c
	}
	key, other, unkeyed := beside("settle", partition(1)), beside("report", day), beside("sweep", "")
	t.refused(again(held), onerun.RefusedRunning)
	left := func(what string, want ...int) {
		for i, c := range []onerun.Claim{held, key, other, unkeyed} {
			equal(t, len(t.skips(c)), want[i], "refusals of %s, %s", nameOf(c), what)
		}
	}
	later := t.now().Add(time.Hour)
	for what, q := range map[string]onerun.PruneRequest{"by number": {Keep: 1}, "by size": {Oldest: true}, "by an age that none has": {Before: g.At.Add(-time.Hour)}, "of one key": {Job: "settle", Partition: partition(1)}} {
		equal(t, t.pruned(q).Refusals, 0, "refusals removed %s", what)
	}
	left("before", 1, 1, 1, 1)
	equal(t, t.pruned(onerun.PruneRequest{Before: later, Job: "report"}).Refusals, 1, "refusals of one job")
	left("after those of report", 1, 1, 0, 1)
	p := t.pruned(onerun.PruneRequest{Before: later, Limit: 1})
	equal(t, p.Refusals, 1, "refusals removed in one step")
	equal(t, p.More, true, "More")
	p = t.pruned(onerun.PruneRequest{Before: later, Limit: 1})
	equal(t, p.Refusals, 1, "refusals removed in the next step")
	equal(t, p.More, false, "More after the last")
	left("afterwards", 1, 0, 0, 0)
	equal(t, t.refused(again(key), onerun.RefusedLocked).Count, 1, "how often it was refused since")
	t.finish(g, succeeded)
	equal(t, t.pruned(onerun.PruneRequest{Before: later}, g.Lease.RunID).Refusals, 1, "refusals removed beside a run")
	left("after the run", 0, 0, 0, 0)
	t.refused(again(held), onerun.RefusedSucceeded)
	equal(t, t.pruned(onerun.PruneRequest{Before: later}).Refusals, 1, "refusals by a tombstone")
	left("in the end", 0, 0, 0, 0)
	equal(t, t.granted(again(key)).Run.Skips, 0, "refusals of a key that runs at last")
}
