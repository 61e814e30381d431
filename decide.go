package onerun

import "time"

// Facts is what one atomic look at a store found about a claim, after it settled
// what was known (lost replies, dead owners).
type Facts struct {
	Now      time.Time // the store's
	Run      *Run      // the run of the key; nil: none, or unkeyed
	RunStale bool      // that run is RUNNING, and its lease is over or its owner dead under policy manual
	Approval *Approval // an approval of that run that is open; nil: none
	Paused   *JobState // the job's pause; nil: not paused

	// LockHolder is the other run (or lock command) that holds the lock the claim
	// wants; nil: the lock is free.
	LockHolder *Holder
	LockStale  bool
}

// Verdict is the row of the claim table that matched.
type Verdict struct {
	Reason  Reason // empty: claimed
	Attempt int    // claimed: the number of the new attempt
	Holder  Holder // refused: who stands in the way
	RetryAt time.Time
	Spend   *Approval // claimed: the approval that this claim uses up
}

// Decide is the claim table, the first matching row. Every store decides by it, or
// (where the decision runs inside a server) by the same table, which the
// conformance suite checks row by row.
//
//	1  the run is RUNNING                  running, or stale
//	2  SUCCEEDED                           succeeded        lifted by an approval
//	3  SKIPPED                             skipped          lifted by an approval
//	4  FAILED, no retry left               failed           lifted by an approval
//	5  job paused                          paused
//	6  FAILED, retry not yet due           retry_not_due    lifted by an approval
//	7  another run holds the lock          locked, or stale
//	8  otherwise                           claimed; an approval is spent only here
func Decide(f Facts) Verdict {
	run := f.Run
	approved := run != nil && f.Approval.usable(run, f.Now)
	if run != nil {
		holder := run.Holder()
		switch {
		case run.Status == Running && f.RunStale:
			return Verdict{Reason: RefusedStale, Holder: holder}
		case run.Status == Running:
			return Verdict{Reason: RefusedRunning, Holder: holder}
		case approved:
		case run.Status == Succeeded:
			return Verdict{Reason: RefusedSucceeded, Holder: holder}
		case run.Status == Skipped:
			return Verdict{Reason: RefusedSkipped, Holder: holder}
		case run.NextRetryAt.IsZero():
			return Verdict{Reason: RefusedFailed, Holder: holder}
		}
	}
	if p := f.Paused; p != nil {
		return Verdict{Reason: RefusedPaused, Holder: Holder{
			Name: p.Job, Since: p.PausedAt, Detail: "paused by " + p.PausedBy + ": " + p.Reason,
		}}
	}
	if run != nil && !approved && f.Now.Before(run.NextRetryAt) {
		return Verdict{Reason: RefusedRetryNotDue, Holder: run.Holder(), RetryAt: run.NextRetryAt}
	}
	if f.LockHolder != nil {
		reason := RefusedLocked
		if f.LockStale {
			reason = RefusedStale
		}
		return Verdict{Reason: reason, Holder: *f.LockHolder}
	}
	v := Verdict{Attempt: 1}
	if run != nil {
		v.Attempt = run.Attempt + 1
		if approved {
			v.Spend = f.Approval
		}
	}
	return v
}

// usable reports whether an approval still fits the run that its approver saw.
func (a *Approval) usable(run *Run, now time.Time) bool {
	return a.open(run, now) && a.By != ""
}

// open reports whether an approval, or a request for one, still fits the run.
func (a *Approval) open(run *Run, now time.Time) bool {
	return a != nil && a.UsedAt.IsZero() && a.RunID == run.RunID &&
		a.Status == run.Status && a.Attempt == run.Attempt &&
		(a.ExpiresAt.IsZero() || now.Before(a.ExpiresAt))
}

// Holder describes a run as the one that stands in the way.
func (r Run) Holder() Holder {
	since := r.FinishedAt
	if r.Status == Running || since.IsZero() {
		since = r.StartedAt
	}
	return Holder{
		RunID: r.RunID, Name: r.Name(), Attempt: r.Attempt, Status: r.Status,
		Worker: r.Worker, Since: since, Detail: r.Evidence,
	}
}

// NextToken is the fencing token of a new owner: larger than the last one under
// the same lock, and never under the store's time in milliseconds, so that a lock
// whose history was lost goes on above it.
func NextToken(last int64, now time.Time) int64 { return max(last+1, now.UnixMilli()) }

// ResolveAllowed checks an operator's resolution against the state that was found.
// run is nil when the key has no run. over says that a RUNNING run's lease is over
// or that its owner is proven dead. It returns nil, or a StateError in words.
func ResolveAllowed(run *Run, as Status, over bool) error {
	switch {
	case as != Failed && as != Succeeded && as != Skipped:
		return &StateError{Why: "can't resolve as " + string(as) + "; use failed, succeeded or skipped"}
	case run == nil && as == Skipped:
		return nil
	case run == nil:
		return &StateError{Why: "no such run; only --as skipped cancels a key in advance"}
	case run.Status == Running && !over:
		return &StateError{Why: run.Name() + " is RUNNING and its owner is not proven dead" + parens(run.Evidence) + "; stop it first: onerun stop " + run.Name() + " --reason TEXT; or if that finds no owner, look from the account that started it, or as root"}
	case run.Status == Running:
		return nil
	case run.Status == Failed && as != Failed:
		return nil
	case run.Status == Failed:
		return &StateError{Why: run.Name() + " is FAILED already"}
	}
	return &StateError{Why: run.Name() + " is " + string(run.Status) + "; that changes only by an approved rerun: onerun rerun " + run.Name()}
}

// StopAllowed checks a request to stop a run. over says that its lease is over or that its
// owner is proven dead. It returns nil, or a StateError in words.
func StopAllowed(run Run, over bool) error {
	switch {
	case run.Status != Running:
		return &StateError{Why: run.Name() + " is " + string(run.Status) + ", so there is nothing to stop"}
	case over:
		return &StateError{Why: run.Name() + " has no owner any more that could stop" + parens(run.Evidence) + "; see: onerun explain " + run.Name()}
	}
	return nil
}

func parens(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}
