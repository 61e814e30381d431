package storetest

import (
	"slices"

	"github.com/onerun-dev/onerun"
)

// history makes n runs of a job that SUCCEEDED, one after the other, of the partitions
// 0 to n-1, or of an unkeyed job for job "". Those that are there already are left out of
// what it makes, and are named too.
func (t *trial) history(job string, n int) (ids []string) {
	for i := range n {
		c := t.job(job, partition(i))
		if job == "" {
			c = t.job("sweep", "")
		} else if found := t.runs(onerun.Query{Namespace: t.ns, Job: job, Partition: c.Partition}); len(found) == 1 {
			ids = append(ids, found[0].RunID)
			continue
		}
		t.tick()
		g := t.grantedBy(t.s, c)
		t.tick()
		t.finish(g, succeeded)
		ids = append(ids, g.Lease.RunID)
	}
	t.tick()
	return ids
}

// prune prunes, as the suite's operator.
func (t *trial) prune(q onerun.PruneRequest) onerun.Pruned {
	q.Namespace, q.Who = t.ns, onerun.Who{By: operator, Reason: because}
	p, err := t.s.Prune(t.ctx, q)
	t.must(err, "prune")
	return p
}

// pruned prunes, and checks that exactly these runs went, and nothing else changed.
func (t *trial) pruned(q onerun.PruneRequest, gone ...string) onerun.Pruned {
	before := t.look()
	p := t.prune(q)
	p.Held, p.Cursor = 0, "" // the store's own
	after := t.look()
	left := slices.DeleteFunc(slices.Clone(before.Runs), func(d onerun.Detail) bool { return slices.Contains(gone, d.Run.RunID) })
	var names, want, got []string
	for _, d := range before.Runs {
		if slices.Contains(gone, d.Run.RunID) {
			names = append(names, d.Run.Name())
		}
	}
	for _, d := range left {
		want = append(want, d.Run.Name())
	}
	for _, d := range after.Runs {
		got = append(got, d.Run.Name())
	}
	if !slices.Equal(got, want) {
		t.failf("prune: expected %v to go and %v to stay, got %v", names, want, got)
	}
	equal(t, p.Runs, int64(len(gone)), "Pruned.Runs")
	equal(t, len(names), len(gone), "runs that were there to be pruned")
	before.Runs, before.Skips, after.Skips = left, nil, nil
	if len(left) == 0 {
		before.Runs = nil
	}
	t.unchanged(before, after, "to the runs that it is not about, Prune")
	return p
}

// only is the one run that a query finds.
func (t *trial) only(q onerun.Query) onerun.Run {
	q.Namespace = t.ns
	rs := t.runs(q)
	equal(t, len(rs), 1, "runs found by %+v", q)
	return rs[0]
}

// cameBack notes that a run was made again of its tombstone, which doesn't know its
// attempts one by one.
func (t *trial) cameBack(runID string) {
	if t.revived == nil {
		t.revived = map[string]bool{}
	}
	t.revived[runID] = true
}
