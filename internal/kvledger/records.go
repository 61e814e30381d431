package kvledger

import (
	"time"

	"github.com/onerun-dev/onerun"
)

// format is what stands in keyMeta; a ledger with a larger one is a newer program's.
const format = 1

type metaRecord struct {
	Format int `json:"format"`
}

// lockRecord outlives its owners: the token is kept. It is beside the mortal key, so that of a
// dead owner it is known who it was and how it wanted to be judged.
type lockRecord struct {
	Namespace string
	Lock      onerun.LockName
	Token     int64
	Owner     string         `json:",omitempty"` // "": free
	RunID     string         `json:",omitempty"` // "": a claim of the lock alone
	Attempt   int            `json:",omitempty"`
	Policy    *onerun.Policy `json:",omitempty"`
	At        time.Time      `json:",omitzero"`  // of the grant
	Expires   time.Time      `json:",omitzero"`  // as the owner reckoned it; the mortal key decides
	Stop      string         `json:",omitempty"` // who wants it stopped, and why
}

func (l *lockRecord) lease() onerun.Lease {
	return onerun.Lease{Namespace: l.Namespace, Lock: l.Lock, Owner: l.Owner, Token: l.Token, RunID: l.RunID, Attempt: l.Attempt, TTL: l.Policy.TTL}
}

// owns reports whether a lease is still the lock's.
func (l *lockRecord) owns(lease onerun.Lease) bool {
	return l != nil && l.Owner != "" && l.lease() == lease
}

// sound reports whether it can be one that this package wrote: what says so is relied upon.
func (l *lockRecord) sound() bool { return l.Owner == "" || l.Policy != nil }

// free is the lock without its owner.
func (l *lockRecord) free() *lockRecord {
	return &lockRecord{Namespace: l.Namespace, Lock: l.Lock, Token: l.Token}
}

type lifeRecord struct {
	Owner   string
	Expires time.Time
}

type keyRecord struct{ RunID string }

// runRecord is a run with its attempts; the last one's execution is the run's. A tombstone is one
// of which only Run is left.
type runRecord struct {
	Run       onerun.Run
	Policy    onerun.Policy // of the last attempt's owner
	Attempts  []attemptRecord
	Earlier   int               `json:",omitempty"` // how many attempts have keys of their own
	Failures  int               `json:",omitempty"` // how many of those cost a retry
	Approvals []onerun.Approval // but for those that are spent and have keys of their own
	Spent     int               `json:",omitempty"` // how many have
	Decided   int               `json:",omitempty"` // the last attempt that one of those was about
	EventID   int64             // of the last event of the run's own chain
	EventHash string            // its hash
}

type attemptRecord struct {
	onerun.Attempt
	Output *outputRecord `json:",omitempty"`
}

// outputRecord says where an output is.
type outputRecord struct {
	Write     string // each writing has keys of its own
	Chunks    int
	Total     int64
	Truncated bool
	At        time.Time
}

// mostChunks is more than any output has, which is a megabyte at most.
const mostChunks = 100

// keptAttempts is how many attempts stand in the record of their run; earlier ones get keys of
// their own, so that the record stays small however often a run is executed.
const keptAttempts = 8

// keptApprovals is how many approvals stand in the record of their run; earlier ones that are spent get keys
// of their own, no more than movedAtOnce in one transaction: a record of a program that left them all there
// can hold thousands.
const (
	keptApprovals = 8
	movedAtOnce   = 16
)

// sound: see lockRecord.
func (r *runRecord) sound() bool {
	for _, a := range r.Attempts {
		if a.Output != nil && (a.Output.Chunks < 0 || a.Output.Chunks > mostChunks) {
			return false
		}
	}
	return r.Earlier >= 0 && (r.Run.Status != onerun.Running || len(r.Attempts) > 0)
}

func (r *runRecord) last() *attemptRecord {
	if len(r.Attempts) == 0 {
		return nil
	}
	return &r.Attempts[len(r.Attempts)-1]
}

// lastApproval is the last approval of the run that is unspent. An earlier one can't be usable:
// the last was only given because it was not.
func (r *runRecord) lastApproval() *onerun.Approval {
	for i := len(r.Approvals) - 1; i >= 0; i-- {
		if r.Approvals[i].UsedAt.IsZero() {
			return &r.Approvals[i]
		}
	}
	return nil
}

func (r *runRecord) pruned() bool { return r != nil && !r.Run.Pruned.IsZero() }

type countRecord struct{ Count int64 }

type chainRecord struct {
	ID   int64
	Hash string
}

// eventRecord is an event with the hash over it and the one before it in its chain.
type eventRecord struct {
	onerun.Event
	Hash string
}
