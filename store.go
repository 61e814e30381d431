package onerun

import (
	"context"
	"time"
)

// Store keeps claims and what became of them. This file is the whole contract;
// package storetest checks it.
//
// Every method decides in one atomic step in the store and by the store's clock.
// Every change of state names what it expects to find (compare-and-set): a caller
// whose expectation no longer holds changes nothing and is told so.
//
// Any method may return a StoreError (ErrUnavailable, ErrPermission, ErrCreate,
// ErrIO, ErrConfig, ErrInternal), after which the change may or may not have been
// made: ask again with the same owner id or expectation. Further errors are listed
// at each method; ctx ends a call early with ErrUnavailable. All methods are safe
// for concurrent use.
type Store interface {
	Claimer
	Ledger
	Operator

	// Close releases the store. Leases of this process stay recorded and are lost
	// when they run out.
	Close() error
}

// Claimer is what the owner of a run needs.
type Claimer interface {
	// Claim settles what is known and then decides by the table at Decide. It
	// returns a Grant; or a *Refusal, which it has recorded unless c.Asking is set.
	// A refused claim never creates or changes the run it was for.
	//
	// A claim with the owner id of one that was granted before, and is still held,
	// returns that grant again (a lost reply). A claim without a Job is for the lock
	// alone: rows 1 to 6 don't exist for it, and neither run, attempt nor skip is
	// recorded.
	//
	// Errors: ErrUsage for a malformed claim.
	Claim(ctx context.Context, c Claim) (Grant, error)

	// Heartbeat extends the lease by its TTL from now. It never re-creates a lease.
	//
	// Errors: ErrLost when lock, owner, token or run are not the lease's any more.
	Heartbeat(ctx context.Context, l Lease) (Beat, error)

	// Finish records the end of the lease's attempt and frees the lock. The same
	// outcome again is no error (a lost reply). For a claim of the lock alone, it
	// frees the lock and takes no notice of the outcome.
	//
	// Errors: ErrLost when the attempt was closed by somebody else or vanished;
	// then nothing is changed.
	Finish(ctx context.Context, l Lease, o Outcome) error
}

// Ledger is what can be looked at. Looking changes nothing and takes no lock that
// a start might want at that instant.
type Ledger interface {
	// Explain answers as Claim would now, without changing or recording anything:
	// nil for "it would run", or the refusal.
	Explain(ctx context.Context, c Claim) (*Refusal, error)

	// Runs lists runs, newest first.
	Runs(ctx context.Context, q Query) ([]Run, error)

	// Detail gives one run in full. Errors: ErrNotFound.
	Detail(ctx context.Context, namespace, runID string) (Detail, error)

	// Skips lists the refusals of a key, or of an unkeyed job (empty partition),
	// oldest first: those of a key that never ran too.
	Skips(ctx context.Context, namespace, job, partition string) ([]Skip, error)

	// Jobs lists jobs with a state of their own (paused).
	Jobs(ctx context.Context, namespace string) ([]JobState, error)

	// Locks lists the locks that are held, or that a dead owner left behind.
	Locks(ctx context.Context, namespace string) ([]LockState, error)
}

// Operator is what people decide. Each action needs a reason and is kept as an
// event with who and when.
type Operator interface {
	// Resolve closes a run by decision, by the rules of ResolveAllowed, and frees
	// its lock if it held one.
	//
	// Errors: ErrState when the rules forbid it or the run isn't as expected any
	// more.
	Resolve(ctx context.Context, r Resolution) (Run, error)

	// Approve lets exactly one later claim of the key execute it again.
	//
	// Errors: ErrState when the run is RUNNING, unkeyed, has an open approval
	// already, or isn't as expected any more; ErrNotFound.
	Approve(ctx context.Context, a ApprovalRequest) (Approval, error)

	// Pause refuses further claims of a job until Resume. Pausing a paused job is
	// ErrState, as is resuming one that isn't.
	Pause(ctx context.Context, p PauseRequest) error
	Resume(ctx context.Context, p PauseRequest) error
}

// WaitingClaimer is an optional ability of a store: to wait for a lock without
// polling.
type WaitingClaimer interface {
	// ClaimWaiting is Claim, but may block until ctx ends when the lock is held, and
	// then decides with the lock in hand. It may also refuse at once with running or
	// locked; the caller asks again later then.
	ClaimWaiting(ctx context.Context, c Claim) (Grant, error)
}

// Noter is an optional ability: of a store whose exclusion is on this host. Beside
// the lock it keeps a note of the processes that do the work, from which a later
// claim can prove them dead.
type Noter interface {
	// NoteStart notes that the job is about to be started. If the owner dies before,
	// the job never ran, and the attempt is void; from here on nobody can know.
	NoteStart(l Lease) error

	// NoteGroup notes the leader of the job's process group, right after the fork.
	NoteGroup(l Lease, pid int, startTicks uint64) error
}

// LockWatcher is an optional ability: of a store with lock files.
type LockWatcher interface {
	// LockDeleted reports whether somebody deleted the lock's file under its holder.
	// Others are kept out all the same, but an operator should hear of it.
	LockDeleted(l Lease) bool
}

// Unlocker is an optional ability: of a store with lock files.
type Unlocker interface {
	// Unlock removes a plain lock file (mode create) that nobody can prove dead, on
	// the word of an operator.
	//
	// Errors: ErrNotFound when there is none; ErrState when its owner is alive.
	Unlock(ctx context.Context, namespace string, lock LockName, by, reason string) error
}

// Claim is what a caller asks for. Names are in the form that CleanName returns.
type Claim struct {
	Namespace    string
	Job          string // empty: the lock alone
	Partition    string // empty: unkeyed
	BusinessDate string // YYYY-MM-DD, or empty
	Lock         LockName
	LockMode     LockMode
	Owner        string // random, made anew for every acquisition; see NewID
	RunID        string // the id a new run gets; see NewRunID
	ScheduledAt  time.Time
	Policy
	InProcess    bool // the work is a function of this process, no process of its own
	Asking       bool // the caller will ask again: don't record a refusal running or locked
	WorkerLabel  string
	VersionLabel string
	Labels       map[string]string
}

// Key is the key that is claimed, or "".
func (c Claim) Key() string { return MakeKey(c.Job, c.Partition) }

// Grant is a claim that was won.
type Grant struct {
	Lease     Lease
	Run       Run       // as it is recorded now
	At        time.Time // when it was granted, by the store's clock
	LockPath  string    // the lock file on this host, if there is one
	Adopted   bool      // an earlier claim of the same owner, whose reply was lost
	TakenOver []Run     // runs that were closed on the way, their owners being dead
}

// Lease is the owner's right: an immutable value. It is extended by a heartbeat,
// which makes a later deadline, not another lease.
type Lease struct {
	Namespace string
	Lock      LockName
	Owner     string
	Token     int64
	RunID     string // empty: the lock alone
	Attempt   int
	TTL       time.Duration // 0: the lock itself ends with its holder, there is no deadline
}

// Beat is the answer to a heartbeat.
type Beat struct {
	Now time.Time // the store's clock
}

// Query selects runs.
type Query struct {
	Namespace string
	RunID     string
	Job       string
	Partition string    // with Job: one key
	Statuses  []Status  // empty: all
	Since     time.Time // started at or after
	RetryDue  bool      // FAILED with a retry left only
	Limit     int       // 0: no limit
}

// Detail is a run with everything that is kept of it.
type Detail struct {
	Run       Run
	Attempts  []Attempt
	Skips     []Skip
	Approvals []Approval
	Events    []Event
}

// Expect is the state that an operator looked at before deciding.
type Expect struct {
	Status  Status // empty: no run
	Attempt int
	Token   int64
}

// Expected takes the expectation from a run that was read.
func Expected(r Run) Expect { return Expect{Status: r.Status, Attempt: r.Attempt, Token: r.Token} }

// Resolution is a request to close a run by decision.
type Resolution struct {
	Namespace    string
	RunID        string // the run; empty with Job and Partition: a key that has none
	Job          string
	Partition    string
	BusinessDate string
	Expect       Expect
	As           Status
	By           string
	Reason       string
}

// ApprovalRequest is a request to let a run be executed once more.
type ApprovalRequest struct {
	Namespace string
	RunID     string
	Expect    Expect
	By        string
	Reason    string
	ExpiresAt time.Time // zero: never
}

// PauseRequest pauses or resumes a job.
type PauseRequest struct {
	Namespace string
	Job       string
	By        string
	Reason    string
}
