package storetest

import (
	"errors"
	"time"

	"github.com/onerun-dev/onerun"
)

// skipCases: a refusal is recorded, equal ones in one counted row; and it changes
// no run.
func skipCases() []check {
	return []check{
		{"skips/counted in one row", func(t *trial) {
			c := t.job("settle", day)
			r := t.ended(c, succeeded)
			for n := int64(1); n <= 5; n++ {
				t.tick()
				equal(t, t.refused(again(c), onerun.RefusedSucceeded).Count, n, "Refusal.Count")
			}
			ks := t.skips(c)
			equal(t, len(ks), 1, "rows of equal refusals")
			k := ks[0]
			equal(t, k.Count, 5, "Skip.Count")
			equal(t, k.Namespace, t.ns, "Skip.Namespace")
			equal(t, k.Job, c.Job, "Skip.Job")
			equal(t, k.Key, c.Key(), "Skip.Key")
			equal(t, k.Reason, onerun.RefusedSucceeded, "Skip.Reason")
			equal(t, k.Holder, r.Holder().ID(), "Skip.Holder")
			if k.Detail == "" || !k.FirstAt.Before(k.LastAt) {
				t.failf("skip: expected words, and the first before the last, got %q, %s, %s", k.Detail, k.FirstAt, k.LastAt)
			}
			d := t.detail(r.RunID)
			equal(t, d.Run.Skips, 5, "Run.Skips")
			equal(t, len(d.Skips), 1, "Detail.Skips")
			equal(t, t.runs(onerun.Query{Namespace: t.ns})[0].Skips, 5, "Run.Skips in a listing")
		}},
		{"skips/by key, reason and holder", func(t *trial) {
			c := retrying(t.job("settle", day), 1, time.Hour)
			g := t.granted(c)
			equal(t, t.refused(again(c), onerun.RefusedRunning).Count, 1, "Count of running, attempt 1")
			equal(t, t.refused(t.job("settle", "2026-09-16"), onerun.RefusedLocked).Count, 1, "Count of another key")
			t.finish(g, failed)
			equal(t, t.refused(again(c), onerun.RefusedRetryNotDue).Count, 1, "Count of another reason")
			t.approve(t.run(g.Lease.RunID))
			t.granted(again(c))
			equal(t, t.refused(again(c), onerun.RefusedRunning).Count, 1, "Count of running, attempt 2: another holder")
			equal(t, t.refused(again(c), onerun.RefusedRunning).Count, 2, "Count of running, attempt 2, again")
			equal(t, len(t.skips(c)), 3, "rows of the key")
			equal(t, len(t.skips(t.job("settle", "2026-09-16"))), 1, "rows of a key that never ran")
			equal(t, t.run(g.Lease.RunID).Skips, 4, "Run.Skips: all of its key's")
		}},
		{"skips/of an unkeyed job", func(t *trial) {
			c := t.job("sweep", "")
			first := t.granted(c)
			t.refused(again(c), onerun.RefusedLocked)
			equal(t, t.refused(again(c), onerun.RefusedLocked).Count, 2, "Count")
			t.finish(first, succeeded)
			second := t.granted(again(c))
			equal(t, t.refused(again(c), onerun.RefusedLocked).Count, 1, "Count with another holder")
			equal(t, len(t.skips(c)), 2, "rows of the job")
			equal(t, t.run(first.Lease.RunID).Skips, 2, "Run.Skips of the first run: as holder")
			equal(t, t.run(second.Lease.RunID).Skips, 1, "Run.Skips of the second run: as holder")
			equal(t, len(t.detail(first.Lease.RunID).Skips), 1, "Detail.Skips of the first run")
		}},
		{"skips/of a paused job", func(t *trial) {
			t.pause("settle")
			t.refused(t.job("settle", day), onerun.RefusedPaused)
			equal(t, t.refused(t.job("settle", day), onerun.RefusedPaused).Count, 2, "Count")
			t.refused(t.job("settle", ""), onerun.RefusedPaused)
			equal(t, len(t.skips(t.job("settle", day))), 1, "rows of the key")
			equal(t, len(t.skips(t.job("settle", ""))), 1, "rows of the unkeyed job")
		}},
		{"skips/asking records neither running nor locked", func(t *trial) {
			held, good, bad := t.job("settle", day), t.job("report", day), retrying(t.job("close", day), 1, time.Hour)
			t.ended(good, succeeded)
			t.ended(bad, failed)
			t.granted(held)
			for _, x := range []struct {
				c    onerun.Claim
				want onerun.Reason
				n    int64
			}{
				{held, onerun.RefusedRunning, 0},
				{t.job("settle", "2026-09-16"), onerun.RefusedLocked, 0},
				{good, onerun.RefusedSucceeded, 1},
				{bad, onerun.RefusedRetryNotDue, 1},
			} {
				c := again(x.c)
				c.Asking = true
				equal(t, t.refused(c, x.want).Count, x.n, "Count of a refusal %s while asking", x.want)
				equal(t, int64(len(t.skips(c))), x.n, "rows of a refusal %s while asking", x.want)
			}
		}},
		{"skips/a refused start creates nothing", func(t *trial) {
			t.granted(t.job("settle", day))
			c := t.job("settle", "2026-09-16")
			t.refused(c, onerun.RefusedLocked)
			equal(t, len(t.runs(onerun.Query{Namespace: t.ns, Job: "settle", Partition: c.Partition})), 0, "runs of a key that was refused")
			_, err := t.s.Detail(t.ctx, t.ns, c.RunID)
			t.is(err, onerun.ErrNotFound, "read the run of a refused claim")
			t.refused(under(t.job("sweep", ""), onerun.JobLock("settle")), onerun.RefusedLocked)
			equal(t, len(t.runs(onerun.Query{Namespace: t.ns})), 1, "runs")
		}},
		{"skips/a flood is one row", func(t *trial) {
			stores := t.opens(4)
			c := t.job("settle", day)
			t.ended(c, succeeded)
			const each = 10
			seen := make([][]int64, t.h.Clients)
			t.together(t.h.Clients, func(i int) error {
				for range each {
					_, err := stores[i%len(stores)].Claim(t.ctx, again(c))
					var ref *onerun.Refusal
					switch {
					case !errors.As(err, &ref):
						t.failf("claim: expected refused succeeded, got %s", said(err))
					case ref.Reason == onerun.RefusedSucceeded:
						seen[i] = append(seen[i], ref.Count)
					}
				}
				return nil
			})
			ks := t.skips(c)
			equal(t, len(ks), 1, "rows of a flood")
			counts := map[int64]bool{}
			for _, s := range seen {
				for _, n := range s {
					equal(t, counts[n], false, "whether count %d was told before", n)
					counts[n] = true
				}
			}
			equal(t, ks[0].Count, int64(len(counts)), "count of the one row")
			equal(t, len(counts), t.h.Clients*each, "refusals that were counted")
		}},
		{"skips/Explain needs neither owner nor run id", func(t *trial) {
			c := t.job("settle", day)
			t.ended(c, succeeded)
			c.Owner, c.RunID = "", ""
			t.foretold(c, onerun.RefusedSucceeded)
			equal(t, len(t.skips(c)), 0, "rows after Explain")
			c.Partition = "2026-09-16"
			ref, err := t.s.Explain(t.ctx, c)
			t.must(err, "explain")
			if ref != nil {
				t.failf("explain: expected that it would run, got %s", said(ref))
			}
		}},
		{"skips/Explain of a dead owner settles nothing", func(t *trial) {
			c := retrying(t.job("settle", day), 1, 0)
			c.RetryLost = true
			g := t.orphan(c)
			for range 2 {
				ref, err := t.s.Explain(t.ctx, again(c))
				t.must(err, "explain")
				if ref != nil {
					t.failf("explain: expected that it would run, got %s", said(ref))
				}
				equal(t, t.run(g.Lease.RunID).Status, onerun.Running, "status after Explain")
			}
			poor := t.job("report", day)
			g = t.orphan(poor)
			t.foretold(again(poor), onerun.RefusedFailed)
			equal(t, t.run(g.Lease.RunID).Status, onerun.Running, "status after Explain")
			t.refusedAfterDeath(again(poor), onerun.RefusedFailed)
		}},
	}
}
