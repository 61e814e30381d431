package storetest_test

import (
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
)

// decides puts something before the claim table.
func decides(first func(f onerun.Facts) onerun.Reason) memory.Rules {
	return memory.Rules{Decide: func(f onerun.Facts) onerun.Verdict {
		if r := first(f); r != "" {
			v := onerun.Verdict{Reason: r}
			if f.Run != nil {
				v.Holder = f.Run.Holder()
			}
			return v
		}
		return onerun.Decide(f)
	}}
}

// forgets changes the facts that a claim is decided on.
func forgets(change func(c onerun.Claim, f *onerun.Facts)) memory.Rules {
	return memory.Rules{Facts: change}
}

func tableBugs() []bug {
	is := func(f onerun.Facts, s onerun.Status) bool { return f.Run != nil && f.Run.Status == s }
	return []bug{
		{name: "paused before running", caught: "order/running before paused", rules: decides(func(f onerun.Facts) onerun.Reason {
			if f.Paused != nil {
				return onerun.RefusedPaused
			}
			return ""
		})},
		{name: "paused before succeeded", caught: "order/succeeded, skipped, failed before paused", rules: decides(func(f onerun.Facts) onerun.Reason {
			if f.Paused != nil && !is(f, onerun.Running) {
				return onerun.RefusedPaused
			}
			return ""
		})},
		{name: "locked before running", caught: "order/running before locked", rules: decides(func(f onerun.Facts) onerun.Reason {
			if f.LockHolder != nil {
				return onerun.RefusedLocked
			}
			return ""
		})},
		{name: "locked before succeeded", caught: "order/succeeded, skipped, failed before locked", rules: decides(func(f onerun.Facts) onerun.Reason {
			if f.LockHolder != nil && is(f, onerun.Succeeded) {
				return onerun.RefusedLocked
			}
			return ""
		})},
		{name: "locked before paused", caught: "order/paused before locked", rules: decides(func(f onerun.Facts) onerun.Reason {
			if f.LockHolder != nil && f.Paused != nil {
				return onerun.RefusedLocked
			}
			return ""
		})},
		{name: "locked before retry not due", caught: "order/retry not due before locked", rules: decides(func(f onerun.Facts) onerun.Reason {
			if f.LockHolder != nil && is(f, onerun.Failed) {
				return onerun.RefusedLocked
			}
			return ""
		})},
		{name: "retry not due before paused", caught: "order/paused before retry not due", rules: forgets(func(_ onerun.Claim, f *onerun.Facts) {
			if is(*f, onerun.Failed) && f.Now.Before(f.Run.NextRetryAt) {
				f.Paused = nil
			}
		})},
		{name: "succeeded is executed again", caught: "rows/2 succeeded", rules: forgets(func(_ onerun.Claim, f *onerun.Facts) {
			if is(*f, onerun.Succeeded) {
				f.Run.Status, f.Run.NextRetryAt = onerun.Failed, f.Now
			}
		})},
		{name: "skipped is executed", caught: "rows/3 skipped", rules: forgets(func(_ onerun.Claim, f *onerun.Facts) {
			if is(*f, onerun.Skipped) {
				f.Run.Status, f.Run.NextRetryAt = onerun.Failed, f.Now
			}
		})},
		{name: "failed is executed again", caught: "rows/4 failed", rules: forgets(func(_ onerun.Claim, f *onerun.Facts) {
			if is(*f, onerun.Failed) && f.Run.NextRetryAt.IsZero() {
				f.Run.NextRetryAt = f.Now
			}
		})},
		{name: "a pause is forgotten", caught: "rows/5 paused", rules: forgets(func(_ onerun.Claim, f *onerun.Facts) { f.Paused = nil })},
		{name: "a retry doesn't wait", caught: "rows/6 retry not due", rules: forgets(func(_ onerun.Claim, f *onerun.Facts) {
			if is(*f, onerun.Failed) && !f.Run.NextRetryAt.IsZero() {
				f.Run.NextRetryAt = f.Now
			}
		})},
		{name: "the lock is forgotten", caught: "rows/7 locked", rules: forgets(func(_ onerun.Claim, f *onerun.Facts) { f.LockHolder = nil })},
		{name: "the lock is forgotten for unkeyed runs", caught: "rows/7 locked, an unkeyed job beside itself", rules: forgets(func(c onerun.Claim, f *onerun.Facts) {
			if c.Partition == "" {
				f.LockHolder = nil
			}
		})},
		{name: "a lock alone doesn't exclude", caught: "locks/a lock alone excludes runs, and runs it", rules: forgets(func(_ onerun.Claim, f *onerun.Facts) {
			if f.LockHolder != nil && f.LockHolder.RunID == "" {
				f.LockHolder = nil
			}
		})},
		{name: "stale is called running", caught: "rows/1 stale", rules: forgets(func(_ onerun.Claim, f *onerun.Facts) { f.RunStale = false })},
		{name: "stale is called locked", caught: "rows/7 stale", rules: forgets(func(_ onerun.Claim, f *onerun.Facts) { f.LockStale = false })},
		{name: "the caller's retries count", caught: "retries/by the holder's policy, not the caller's", rules: forgets(func(c onerun.Claim, f *onerun.Facts) {
			if is(*f, onerun.Failed) && c.Retries > 0 {
				f.Run.NextRetryAt = f.Now
			}
		})},
		{name: "old is taken for dead", caught: "leases/age alone is no proof", rules: forgets(func(_ onerun.Claim, f *onerun.Facts) {
			if is(*f, onerun.Running) && f.Run.StaleAfter > 0 && f.Now.Sub(f.Run.StartedAt) > f.Run.StaleAfter {
				f.RunStale = true
			}
		})},
		{name: "approvals lift nothing", caught: "approvals/lift succeeded, skipped, failed, retry not due", rules: forgets(func(_ onerun.Claim, f *onerun.Facts) { f.Approval = nil })},
		{name: "approvals lift a pause", caught: "approvals/don't lift paused", rules: forgets(func(_ onerun.Claim, f *onerun.Facts) {
			if f.Approval != nil {
				f.Paused = nil
			}
		})},
		{name: "approvals lift a lock", caught: "approvals/don't lift locked", rules: forgets(func(_ onerun.Claim, f *onerun.Facts) {
			if f.Approval != nil {
				f.LockHolder = nil
			}
		})},
		{name: "approvals aren't bound to a status", caught: "approvals/bound to the status that was seen", rules: bound(func(a *onerun.Approval, r *onerun.Run) { a.Status = r.Status })},
		{name: "approvals aren't bound to an attempt", caught: "approvals/bound to the attempt that was seen", rules: bound(func(a *onerun.Approval, r *onerun.Run) { a.Attempt = r.Attempt })},
		{name: "approvals don't expire", caught: "approvals/expired", rules: bound(func(a *onerun.Approval, _ *onerun.Run) { a.ExpiresAt = time.Time{} })},
		{name: "approvals aren't spent", caught: "approvals/lift succeeded, skipped, failed, retry not due", rules: memory.Rules{Spend: func(*onerun.Approval, int, time.Time) {}}},
		{name: "approvals are spent by a refusal", caught: "approvals/don't lift locked", rules: forgets(func(_ onerun.Claim, f *onerun.Facts) {
			if f.Approval != nil && f.LockHolder != nil {
				f.Approval.UsedAt = f.Now
			}
		})},
	}
}

// bound loosens what an approval is bound to. It is the kept one that is spent, not
// the loosened copy.
func bound(loosen func(*onerun.Approval, *onerun.Run)) memory.Rules {
	kept := map[int64]*onerun.Approval{} // the store's lock is held throughout
	return memory.Rules{
		Facts: func(_ onerun.Claim, f *onerun.Facts) {
			if f.Approval != nil && f.Run != nil {
				a := *f.Approval
				kept[a.ID] = f.Approval
				loosen(&a, f.Run)
				f.Approval = &a
			}
		},
		Spend: func(a *onerun.Approval, attempt int, now time.Time) {
			kept[a.ID].UsedAt, kept[a.ID].UsedBy = now, attempt
		},
	}
}
