package storetest

import (
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// rowCases are the claim table (see onerun.Decide), row by row.
func rowCases() []check {
	return []check{
		{"rows/1 running", func(t *trial) {
			c := t.job("settle", day)
			g := t.granted(c)
			ref := t.refused(again(c), onerun.RefusedRunning)
			t.stoodBy(ref, g.Run)
			// Nobody's lock matters for a key that runs.
			t.refused(under(again(c), onerun.NamedLock("other")), onerun.RefusedRunning)
		}},
		{"rows/1 stale", func(t *trial) {
			c := manual(t.job("settle", day))
			g := t.orphan(c)
			ref := t.refused(again(c), onerun.RefusedStale)
			t.stoodBy(ref, g.Run)
			equal(t, t.run(g.Lease.RunID).Stale, true, "Run.Stale")
		}},
		{"rows/2 succeeded", func(t *trial) {
			c := t.job("settle", day)
			r := t.ended(c, succeeded)
			t.stoodBy(t.refused(again(c), onerun.RefusedSucceeded), r)
		}},
		{"rows/3 skipped", func(t *trial) {
			r := t.cancel("settle", day)
			c := t.job("settle", day)
			ref := t.refused(c, onerun.RefusedSkipped)
			equal(t, ref.Holder.RunID, r.RunID, "Holder.RunID")
			byOwner := t.job("settle", "2026-09-16")
			r = t.ended(byOwner, skipped)
			t.stoodBy(t.refused(again(byOwner), onerun.RefusedSkipped), r)
		}},
		{"rows/4 failed", func(t *trial) {
			c := t.job("settle", day)
			r := t.ended(c, failed)
			t.stoodBy(t.refused(again(c), onerun.RefusedFailed), r)
		}},
		{"rows/5 paused", func(t *trial) {
			t.pause("settle")
			for _, c := range []onerun.Claim{t.job("settle", day), t.job("settle", "")} {
				ref := t.refused(c, onerun.RefusedPaused)
				equal(t, ref.Holder.RunID, "", "Holder.RunID of a pause")
				if d := ref.Holder.String(); !strings.Contains(d, operator) || !strings.Contains(d, because) {
					t.failf("the holder of a pause: expected who and why (%s, %s), got %q", operator, because, d)
				}
			}
		}},
		{"rows/6 retry not due", func(t *trial) {
			c := retrying(t.job("settle", day), 1, time.Hour)
			r := t.ended(c, failed)
			ref := t.refused(again(c), onerun.RefusedRetryNotDue)
			t.stoodBy(ref, r)
			if r.NextRetryAt.IsZero() || !ref.RetryAt.Equal(r.NextRetryAt) {
				t.failf("Refusal.RetryAt: expected Run.NextRetryAt %s, got %s", r.NextRetryAt, ref.RetryAt)
			}
		}},
		{"rows/7 locked", func(t *trial) {
			g := t.granted(t.job("settle", day))
			ref := t.refused(t.job("settle", "2026-09-16"), onerun.RefusedLocked)
			t.stoodBy(ref, g.Run)
			t.stoodBy(t.refused(t.job("settle", ""), onerun.RefusedLocked), g.Run)
		}},
		{"rows/7 locked, an unkeyed job beside itself", func(t *trial) {
			c := t.job("sweep", "")
			g := t.granted(c)
			t.stoodBy(t.refused(again(c), onerun.RefusedLocked), g.Run)
			t.finish(g, succeeded)
			t.granted(again(c))
		}},
		{"rows/7 stale", func(t *trial) {
			keyed, unkeyed := manual(t.job("settle", day)), manual(t.job("sweep", ""))
			gs := t.orphans(keyed, unkeyed)
			t.stoodBy(t.refused(t.job("settle", "2026-09-16"), onerun.RefusedStale), gs[0].Run)
			t.stoodBy(t.refused(t.job("sweep", ""), onerun.RefusedStale), gs[1].Run)
		}},
		{"rows/8 claimed", func(t *trial) {
			c := retrying(t.job("settle", day), 1, 0)
			g := t.granted(c)
			equal(t, g.Lease.Attempt, 1, "attempt of a first claim")
			equal(t, g.Lease.RunID, c.RunID, "run id of a first claim")
			t.finish(g, failed)
			next := t.granted(again(c))
			equal(t, next.Lease.Attempt, 2, "attempt of a due retry")
			equal(t, next.Lease.RunID, c.RunID, "run id of a due retry")
			equal(t, len(next.TakenOver), 0, "runs taken over")
		}},
		{"rows/2 3 4 6 don't exist for unkeyed runs", func(t *trial) {
			c := retrying(t.job("sweep", ""), 3, time.Hour)
			seen := map[string]bool{}
			for _, o := range []onerun.Outcome{succeeded, skipped, failed, succeeded} {
				c = again(c)
				g := t.granted(c)
				equal(t, g.Lease.Attempt, 1, "attempt of an unkeyed run")
				equal(t, seen[g.Lease.RunID], false, "whether the run id was used before")
				seen[g.Lease.RunID] = true
				t.finish(g, o)
				r := t.run(g.Lease.RunID)
				equal(t, r.NextRetryAt.IsZero(), true, "whether an unkeyed run has no retry")
			}
			equal(t, len(t.runs(onerun.Query{Namespace: t.ns})), 4, "unkeyed runs")
		}},
	}
}

// orderCases are the pairs of rows that can hold at once: the first one decides.
func orderCases() []check {
	return []check{
		{"order/running before paused", func(t *trial) {
			c := t.job("settle", day)
			t.granted(c)
			t.pause("settle")
			t.refused(again(c), onerun.RefusedRunning)
		}},
		{"order/stale before paused", func(t *trial) {
			c := manual(t.job("settle", day))
			t.orphan(c)
			t.pause("settle")
			t.refused(again(c), onerun.RefusedStale)
		}},
		{"order/running before locked", func(t *trial) {
			c := t.job("settle", day)
			g := t.granted(c)
			t.granted(under(t.job("report", day), onerun.NamedLock("db")))
			ref := t.refused(under(again(c), onerun.NamedLock("db")), onerun.RefusedRunning)
			t.stoodBy(ref, g.Run)
		}},
		{"order/succeeded, skipped, failed before paused", func(t *trial) {
			good, bad := t.job("settle", day), t.job("settle", "2026-09-16")
			t.ended(good, succeeded)
			t.ended(bad, failed)
			t.cancel("settle", "2026-09-17")
			t.pause("settle")
			t.refused(again(good), onerun.RefusedSucceeded)
			t.refused(again(bad), onerun.RefusedFailed)
			t.refused(t.job("settle", "2026-09-17"), onerun.RefusedSkipped)
		}},
		{"order/paused before retry not due", func(t *trial) {
			c := retrying(t.job("settle", day), 1, time.Hour)
			t.ended(c, failed)
			t.pause("settle")
			t.refused(again(c), onerun.RefusedPaused)
			t.resume("settle")
			t.refused(again(c), onerun.RefusedRetryNotDue)
		}},
		{"order/paused before locked", func(t *trial) {
			t.granted(t.job("settle", day))
			t.granted(t.job("sweep", ""))
			t.pause("settle")
			t.pause("sweep")
			t.refused(t.job("settle", "2026-09-16"), onerun.RefusedPaused)
			t.refused(t.job("sweep", ""), onerun.RefusedPaused)
		}},
		{"order/succeeded, skipped, failed before locked", func(t *trial) {
			good, bad := t.job("settle", day), t.job("settle", "2026-09-16")
			t.ended(good, succeeded)
			t.ended(bad, failed)
			t.cancel("settle", "2026-09-17")
			t.granted(t.job("settle", "2026-09-18"))
			t.refused(again(good), onerun.RefusedSucceeded)
			t.refused(again(bad), onerun.RefusedFailed)
			t.refused(t.job("settle", "2026-09-17"), onerun.RefusedSkipped)
		}},
		{"order/retry not due before locked", func(t *trial) {
			c := retrying(t.job("settle", day), 1, time.Hour)
			t.ended(c, failed)
			t.granted(t.job("settle", "2026-09-16"))
			t.refused(again(c), onerun.RefusedRetryNotDue)
		}},
		{"order/a due retry is locked out", func(t *trial) {
			c := retrying(t.job("settle", day), 1, 0)
			t.ended(c, failed)
			g := t.granted(t.job("settle", "2026-09-16"))
			t.stoodBy(t.refused(again(c), onerun.RefusedLocked), g.Run)
			t.finish(g, succeeded)
			equal(t, t.granted(again(c)).Lease.Attempt, 2, "attempt of the retry")
		}},
	}
}
