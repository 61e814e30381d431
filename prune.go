package onerun

import (
	"fmt"
	"strings"
	"time"
)

// PruneRequest says what may be removed. Each limit holds by itself: a run that is
// over one of them goes.
type PruneRequest struct {
	Namespace string
	Job       string    // empty: every job
	Partition string    // with Job: this key alone, which needs no limit
	Before    time.Time // runs that ended before this; and, without Partition, refusals before this of keys that have no run, or of unkeyed jobs
	Keep      int       // all but this many SUCCEEDED runs of each job; 0: no limit
	Oldest    bool      // the oldest, up to Limit: for a store that has grown too large
	Limit     int       // runs, or tombstones, in this one step; 0: 500
	Cursor    string    // what the step before gave; empty: the first step

	// TwoPeople names jobs whose reruns need two people by what the caller knows.
	TwoPeople []string

	// ForgetKeys leaves no tombstones, and removes those that are there: the keys may
	// run again. It needs a reason, and passes over keys whose reruns need two people: one
	// is not to do what takes two.
	ForgetKeys bool
	Who
}

// Pruned is what one step of Prune did.
type Pruned struct {
	Runs      int64         // removed
	Keys      int64         // of them: keys that left a tombstone
	Forgotten int64         // keys that may run again
	Refusals  int64         // of keys without a run: equal ones count once
	More      bool          // there is more to remove by this request
	Held      time.Duration // for how long it kept others from writing
	Cursor    string        // for the next step: what this one found out, in the store's own form
}

// String says what was done, for the record.
func (p Pruned) String() string {
	s := fmt.Sprintf("%d runs removed, %d keys kept from running again, %d forgotten", p.Runs, p.Keys, p.Forgotten)
	if p.Refusals > 0 {
		s += fmt.Sprintf(", %d refusals of keys that have no run", p.Refusals)
	}
	return s
}

// Words say what a request is about, for the record.
func (q PruneRequest) Words() string {
	var words []string
	if q.Partition != "" {
		words = append(words, "the key "+MakeKey(q.Job, q.Partition))
	}
	if !q.Before.IsZero() {
		words = append(words, "successes that ended before "+q.Before.UTC().Format(time.RFC3339))
	}
	if q.Keep > 0 {
		words = append(words, fmt.Sprintf("all but the newest %d successes of a job", q.Keep))
	}
	if q.Oldest {
		words = append(words, "the oldest successes, until the store is small enough")
	}
	if q.ForgetKeys {
		words = append(words, "their keys may run again")
	}
	return strings.Join(words, "; ")
}

// pruneStep is how many runs one step of Prune removes unless it is told.
const pruneStep = 500

// Checked checks a request and fills in what it left open.
func (q PruneRequest) Checked() (PruneRequest, error) {
	switch {
	case q.Partition != "" && q.Job == "":
		return q, fmt.Errorf("%w: a partition needs a job", ErrUsage)
	case q.Partition == "" && q.Before.IsZero() && q.Keep == 0 && !q.Oldest:
		return q, fmt.Errorf("%w: a request to prune needs a limit: an age, a number to keep, or a size", ErrUsage)
	case q.Keep < 0 || q.Limit < 0:
		return q, fmt.Errorf("%w: a limit is negative", ErrUsage)
	case q.ForgetKeys && (q.By == "" || q.Reason == ""):
		return q, fmt.Errorf("%w: to forget keys needs a reason", ErrUsage)
	}
	if q.Limit == 0 {
		q.Limit = pruneStep
	}
	return q, nil
}
