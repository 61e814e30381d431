package memory

import (
	"slices"
	"sync"
	"time"

	"github.com/onerun-dev/onerun"
)

// Rules are the decisions that a store must get right, one by one, so that a test
// can replace one by a wrong one. A nil rule is the right one. They exist for the
// test of the conformance suite; nothing else should set them.
type Rules struct {
	// Gap is called between deciding on a claim and writing it down, with the lock
	// of the whole store held; releasing it there makes a store that checks and
	// then acts.
	Gap func(mu sync.Locker)
	// Decide is the claim table.
	Decide func(onerun.Facts) onerun.Verdict
	// Facts changes the facts that are decided on: a store that forgets a row.
	Facts func(onerun.Claim, *onerun.Facts)
	// Adopt reports whether a claim is the one that holds the lock already.
	Adopt func(holder, caller string) bool
	// BeatOwns, FinishOwns and ReportOwns report whether a lease is still the lock's.
	BeatOwns, FinishOwns, ReportOwns func(held, lease onerun.Lease) bool
	// ExpiryClock gives the time by which a lease is judged to be over.
	ExpiryClock func(store time.Time) time.Time
	// Dead reports whether a holder is proven dead. The right rule for a store in
	// memory is that nobody is: only the lease speaks. A test that knows better
	// makes a store of it whose exclusion ends with the holder.
	Dead func(holder onerun.Lease) bool
	// Expires gives the end of a lease that is granted (was is now) or extended.
	Expires func(now, was time.Time, ttl time.Duration) time.Time
	// Judge gives the policy by which a holder is judged.
	Judge func(holder, caller onerun.Policy) onerun.Policy
	// NextToken makes the token of a new owner, ReleaseToken what stays of it when
	// the lock is freed.
	NextToken    func(last int64, now time.Time) int64
	ReleaseToken func(last int64) int64
	// Spend uses an approval up.
	Spend func(a *onerun.Approval, attempt int, now time.Time)
	// RefusalCreates reports whether a refused claim leaves a run behind.
	RefusalCreates func(onerun.Claim) bool
	// SkipKey makes equal refusals one row.
	SkipKey func(onerun.Skip) onerun.Skip
	// Namespace and Name give the form in which names are compared.
	Namespace, Name func(string) string
	// Resolve says whether an operator may close a run.
	Resolve func(run *onerun.Run, as onerun.Status, over bool) error
	// Approve says whether a step towards a rerun may be taken.
	Approve func(run onerun.Run, open *onerun.Approval, q onerun.ApprovalRequest, now time.Time) error
	// Deliver says what becomes of an end that comes late.
	Deliver func(run onerun.Run, a onerun.Attempt, decided bool, o onerun.Outcome) onerun.DeliveryKind
	// Unclaimed says what becomes of the end of a run that was executed without a claim; nil:
	// its key has no run.
	Unclaimed func(run *onerun.Run) onerun.DeliveryKind
	// PruneStatus reports whether a run of this status may be removed, Prunable whether it
	// may with what is open for it, Bury whether a key that is removed leaves a tombstone.
	PruneStatus func(onerun.Status) bool
	Prunable    func(run onerun.Run, open *onerun.Approval) bool
	Bury        func(run onerun.Run) bool

	// RefusalGoes reports whether a refusal may be removed; ran: its key has a run.
	RefusalGoes func(k onerun.Skip, ran bool, before time.Time) bool

	// TakesTwo reports whether a key is not for one person to forget.
	TakesTwo func(run onerun.Run, jobs []string) bool
	// Usual gives those of a job's runs that have ended, newest first, from which the
	// default of stale-after is reckoned.
	Usual func(ended []onerun.Run) []onerun.Run
	// Expected reports whether a run is still what an operator looked at.
	Expected func(run onerun.Run, e onerun.Expect) bool
	// Item decides about an item that is there, DecideItem about a person's word.
	Item       func(it onerun.Item, c onerun.ItemClaim) onerun.Reason
	DecideItem func(it onerun.Item, d onerun.ItemDecision) error
	// Retry says when the next execution is due.
	Retry func(p onerun.Policy, now time.Time, failures int, reason onerun.Reason) (time.Time, bool)
}

// complete fills in the right rules.
func (r Rules) complete() Rules {
	r.Gap = or(r.Gap != nil, r.Gap, func(sync.Locker) {})
	r.Decide = or(r.Decide != nil, r.Decide, onerun.Decide)
	r.Facts = or(r.Facts != nil, r.Facts, func(onerun.Claim, *onerun.Facts) {})
	r.Adopt = or(r.Adopt != nil, r.Adopt, func(holder, caller string) bool { return holder == caller })
	same := func(held, lease onerun.Lease) bool { return held == lease }
	r.BeatOwns = or(r.BeatOwns != nil, r.BeatOwns, same)
	r.FinishOwns = or(r.FinishOwns != nil, r.FinishOwns, same)
	r.ReportOwns = or(r.ReportOwns != nil, r.ReportOwns, same)
	r.Item = or(r.Item != nil, r.Item, onerun.ItemVerdict)
	r.DecideItem = or(r.DecideItem != nil, r.DecideItem, onerun.ItemDecisionAllowed)
	r.ExpiryClock = or(r.ExpiryClock != nil, r.ExpiryClock, func(t time.Time) time.Time { return t })
	r.Dead = or(r.Dead != nil, r.Dead, func(onerun.Lease) bool { return false })
	r.Expires = or(r.Expires != nil, r.Expires, func(now, _ time.Time, ttl time.Duration) time.Time { return now.Add(ttl) })
	r.Judge = or(r.Judge != nil, r.Judge, func(holder, _ onerun.Policy) onerun.Policy { return holder })
	r.NextToken = or(r.NextToken != nil, r.NextToken, onerun.NextToken)
	r.ReleaseToken = or(r.ReleaseToken != nil, r.ReleaseToken, func(last int64) int64 { return last })
	r.Spend = or(r.Spend != nil, r.Spend, func(a *onerun.Approval, attempt int, now time.Time) { a.UsedAt, a.UsedBy = now, attempt })
	r.RefusalCreates = or(r.RefusalCreates != nil, r.RefusalCreates, func(onerun.Claim) bool { return false })
	r.SkipKey = or(r.SkipKey != nil, r.SkipKey, func(s onerun.Skip) onerun.Skip {
		return onerun.Skip{Namespace: s.Namespace, Job: s.Job, Key: s.Key, Reason: s.Reason, Holder: s.Holder}
	})
	r.Namespace = or(r.Namespace != nil, r.Namespace, func(s string) string { return s })
	r.Name = or(r.Name != nil, r.Name, func(s string) string { return s })
	r.Resolve = or(r.Resolve != nil, r.Resolve, onerun.ResolveAllowed)
	r.Approve = or(r.Approve != nil, r.Approve, onerun.ApproveAllowed)
	r.Deliver = or(r.Deliver != nil, r.Deliver, onerun.DeliveryOf)
	r.Unclaimed = or(r.Unclaimed != nil, r.Unclaimed, onerun.UnclaimedDelivery)
	r.PruneStatus = or(r.PruneStatus != nil, r.PruneStatus, func(s onerun.Status) bool { return s == onerun.Succeeded })
	r.Prunable = or(r.Prunable != nil, r.Prunable, func(_ onerun.Run, open *onerun.Approval) bool { return open == nil })
	r.Usual = or(r.Usual != nil, r.Usual, func(ended []onerun.Run) []onerun.Run {
		ended = slices.DeleteFunc(ended, func(run onerun.Run) bool { return run.Status != onerun.Succeeded })
		return ended[:min(len(ended), onerun.UsualRuns)]
	})
	r.TakesTwo = or(r.TakesTwo != nil, r.TakesTwo, func(run onerun.Run, jobs []string) bool {
		return run.TwoPeople || slices.Contains(jobs, run.Job)
	})
	r.RefusalGoes = or(r.RefusalGoes != nil, r.RefusalGoes, func(k onerun.Skip, ran bool, before time.Time) bool { return !ran && k.LastAt.Before(before) })
	r.Bury = or(r.Bury != nil, r.Bury, func(onerun.Run) bool { return true })
	r.Expected = or(r.Expected != nil, r.Expected, func(run onerun.Run, e onerun.Expect) bool { return onerun.Expected(run) == e })
	r.Retry = or(r.Retry != nil, r.Retry, func(p onerun.Policy, now time.Time, failures int, reason onerun.Reason) (time.Time, bool) {
		return p.NextRetry(now, failures, reason, 0.5)
	})
	return r
}

// or picks the given rule if there is one. Functions can't be compared but with
// nil, which a type parameter can't express, so the caller says it.
func or[F any](given bool, f, right F) F {
	if given {
		return f
	}
	return right
}
