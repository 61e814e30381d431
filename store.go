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
	ItemKeeper
	Ledger
	Operator

	// Close releases the store. Leases of this process stay recorded and are lost when they
	// run out, so let its jobs end before: what needs the store afterwards fails with ErrClosed.
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

	// Report records how far the lease's attempt has come. What it says stays when the
	// attempt ends, unless the end says otherwise, and can get lost with the store's
	// machine.
	//
	// Errors: ErrLost when the attempt isn't RUNNING or not the lease's any more; ErrUsage
	// for a lease of a lock alone.
	Report(ctx context.Context, l Lease, p Progress) error

	// Finish records the end of the lease's attempt and frees the lock. The same
	// outcome again is no error (a lost reply). For a claim of the lock alone, it
	// frees the lock and takes no notice of the outcome. The outcome's Output is kept in
	// the same step; where that can't be (no room, say), the end is recorded without it.
	//
	// Errors: ErrLost when the attempt was closed by somebody else or vanished;
	// then nothing is changed.
	Finish(ctx context.Context, l Lease, o Outcome) error

	// Deliver records, for an owner that is gone, the end that it could not record
	// itself. It needs no lease, and decides by DeliveryOf:
	//
	//	the attempt is RUNNING          the end is recorded as by Finish
	//	it has that end                 nothing is changed
	//	closed by a machine             corrected, if it is still the run's last attempt
	//	                                and no person has decided about the run since
	//	else                            kept beside the attempt; the run is unchanged,
	//	                                and its work may have been done twice
	//
	// All but the second are journalled as late_outcome. An Output is kept by the first
	// and the third.
	//
	// Errors: ErrLost when there is no such attempt of that owner.
	Deliver(ctx context.Context, l Lease, o Outcome) (Delivery, error)
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

	// Decisions lists what people decided about a job as a whole (paused, resumed,
	// pruned), or about a lock of that name (unlocked), oldest first.
	Decisions(ctx context.Context, namespace, job string) ([]Event, error)

	// Output gives what an attempt printed, as its Outcome had it, or so far as its owner
	// has reported it, in the form of Output.Cleaned. It goes when its run is pruned.
	//
	// Errors: ErrNotFound when nothing is kept.
	Output(ctx context.Context, namespace, runID string, attempt int) (Output, error)

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

	// Approve lets exactly one later claim of the key execute it again, or takes one
	// of the two steps to that: see ApprovalStep, and the rules at ApproveAllowed. A
	// run that was pruned comes back for it, as far as its tombstone knows it.
	//
	// Errors: ErrState when the rules forbid it or the run isn't as expected any more;
	// ErrNotFound.
	Approve(ctx context.Context, a ApprovalRequest) (Approval, error)

	// Pause refuses further claims of a job until Resume. Pausing a paused job is
	// ErrState, as is resuming one that isn't.
	Pause(ctx context.Context, p PauseRequest) error
	Resume(ctx context.Context, p PauseRequest) error

	// Stop asks the owner of a RUNNING run to stop its work, which then ends as FAILED
	// stopped and is never retried. It returns when the request is kept; the owner hears
	// of it by its next heartbeat, or by StopRequested.
	//
	// Errors: ErrState when the run isn't RUNNING or isn't as expected, or when its owner
	// is dead or its lease over, so that nobody would hear; ErrNotFound.
	Stop(ctx context.Context, q StopRequest) error

	// Prune removes SUCCEEDED runs with all that is kept of them, those that began
	// first first, at most PruneRequest.Limit in one step that is short enough not to
	// hold up a claim. Of a key a tombstone stays: the key can't be claimed, and what
	// was known of it is still found by its key or run id. RUNNING, FAILED and SKIPPED
	// runs, and runs with an approval that is open, are never removed.
	//
	// Errors: ErrUsage for a request that limits nothing.
	Prune(ctx context.Context, q PruneRequest) (Pruned, error)
}

// WaitingClaimer is an optional ability of a store: to wait for a lock without
// polling.
type WaitingClaimer interface {
	// ClaimWaiting is Claim, but may block until ctx ends when the lock is held, and
	// then decides with the lock in hand. It may also refuse at once with running or
	// locked; the caller asks again later then.
	//
	// With OrderFIFO it doesn't do that: the place in line is had from the beginning of the
	// call to its end, however it ends, so it waits on until the claim is granted, refused
	// for another reason, or ctx ends.
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

// EndNoter is an optional ability: of a store that can keep the end of a job on this host
// before the ledger is told.
type EndNoter interface {
	// NoteEnd notes how the lease's attempt has ended. Should the owner die before Finish,
	// whoever comes next records that.
	NoteEnd(l Lease, o Outcome) error

	// NoteSkip notes that the work has said that there is nothing to do, and why: if whoever
	// comes next saw it succeed, it was SKIPPED.
	NoteSkip(l Lease, why string) error
}

// LockWatcher is an optional ability: of a store with lock files.
type LockWatcher interface {
	// LockDeleted reports whether somebody deleted the lock's file under its holder.
	// Others are kept out all the same, but an operator should hear of it.
	LockDeleted(l Lease) bool
}

// StopWatcher is an optional ability: of a store whose owners need no heartbeats.
type StopWatcher interface {
	// StopRequested says who asked the owner of a lease to stop, and why; "": nobody.
	StopRequested(l Lease) string
}

// Unlocker is an optional ability: of a store with lock files.
type Unlocker interface {
	// Unlock removes a plain lock file (mode create) that nobody can prove dead, on
	// the word of an operator.
	//
	// Errors: ErrNotFound when there is none; ErrState when its owner is alive.
	Unlock(ctx context.Context, u UnlockRequest) error
}

// Spooler is an optional ability: of a store that keeps the ends of jobs on this host,
// when the ledger could not be told, until somebody delivers them. A claim on this
// host does that by itself.
type Spooler interface {
	// Spooled lists the ends that wait here, without delivering them.
	Spooled(ctx context.Context) ([]Spooled, error)

	// Flush delivers what waits, and says what became of each. An end whose owner
	// still lives, and tries to record it, is left to that owner. An error of one
	// doesn't keep the others back.
	Flush(ctx context.Context) ([]Delivery, error)
}

// Sizer is an optional ability: of a store that knows how much room it takes.
type Sizer interface {
	// Size is the room that the ledger takes, in bytes, without what is free inside it.
	Size(ctx context.Context) (int64, error)
}

// Shrinker is an optional ability: of a store that can give free room back.
type Shrinker interface {
	// Shrink gives back some of the room that is free inside the store, in one step that
	// is short enough not to hold up a claim, and says whether there is more.
	Shrink(ctx context.Context) (more bool, err error)
}

// Migrator is an optional ability: of a store with a schema.
type Migrator interface {
	// Migrate brings the schema up to this program's version, as the first use would, and
	// says which it was; 0: there was none.
	Migrate(ctx context.Context) (from, to int, err error)
}

// Examiner is an optional ability: of a store that can look for what would make it
// unsafe.
type Examiner interface {
	// Examine looks at the store without changing it, and gives one finding for each
	// thing that it looked at.
	Examine(ctx context.Context) ([]Finding, error)
}

// Claim is what a caller asks for. Names are in the form that CleanName returns.
type Claim struct {
	Namespace    string
	Job          string // empty: the lock alone
	Partition    string // empty: unkeyed
	BusinessDate string // YYYY-MM-DD, or empty
	Lock         LockName
	LockMode     LockMode

	// Order OrderFIFO is first come, first served, among the claims that say so: one that
	// waits (see WaitingClaimer) is not granted before those that were waiting when it came,
	// and one that doesn't wait is refused with locked (or what the table at Decide says
	// first) while another waits. A waiter that is proven dead keeps nobody waiting; one
	// that lives keeps its place, whatever it does, on a store that can know (see LineWaiter
	// for one that can't). Claims of OrderAny take the lock when it is free, whoever waits. A
	// store that can't keep the order refuses such a claim, and Explain of it, with ErrUsage.
	Order Order

	Owner       string // random, made anew for every acquisition; see NewID
	RunID       string // the id a new run gets; see NewRunID
	ScheduledAt time.Time
	Policy
	InProcess    bool // the work is a function of this process, no process of its own
	Asking       bool // the caller will ask again: don't record a refusal running or locked
	WorkerLabel  string
	VersionLabel string
	Labels       map[string]string

	// Granted is the token that the claim was granted with, of a run that the store has forgotten
	// since; 0 but in what is given to UnclaimedKeeper.
	Granted int64
}

// Key is the key that is claimed, or "".
func (c Claim) Key() string { return MakeKey(c.Job, c.Partition) }

// Grant is a claim that was won.
type Grant struct {
	Lease     Lease
	Run       Run        // as it is recorded now
	At        time.Time  // when it was granted, by the store's clock
	LockPath  string     // the lock file on this host, if there is one
	Adopted   bool       // an earlier claim of the same owner, whose reply was lost
	TakenOver []Run      // runs that were closed on the way, their owners being dead
	Delivered []Delivery // ends of earlier owners that were delivered on the way
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
	Now  time.Time // the store's clock
	Stop string    // who asked the owner to stop, and why; "": nobody
}

// Query selects runs.
type Query struct {
	Namespace string
	RunID     string
	Job       string
	Partition string    // with Job: one key
	Statuses  []Status  // empty: all
	Since     time.Time // started at or after
	Until     time.Time // started before; zero: no limit
	RetryDue  bool      // FAILED with a retry left only
	Limit     int       // 0: no limit
	Pruned    bool      // tombstones as well; a query for one run or key finds them always
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

// Who is a person who decides, for the record.
type Who struct {
	By       string // the account at its host; see Person
	Terminal string // where it sat, or empty
	Reason   string
}

// Resolution is a request to close a run by decision.
type Resolution struct {
	Namespace    string
	RunID        string // the run; empty with Job and Partition: a key that has none
	Job          string
	Partition    string
	BusinessDate string
	Expect       Expect
	As           Status
	OwnerDead    string // the owner that the caller's host has proven dead, whatever its lease says; empty: none
	Who
}

// ApprovalStep is one of the ways to a rerun.
type ApprovalStep string

// The steps. A job that needs two people (Policy.TwoPeople) takes the second and the
// third; the third is always somebody else's than the second.
const (
	ApproveAlone   ApprovalStep = ""        // one person decides
	ApproveRequest ApprovalStep = "request" // the first of two people asks
	ApproveSecond  ApprovalStep = "approve" // the second agrees
)

// ApprovalRequest is a request to let a run be executed once more.
type ApprovalRequest struct {
	Namespace string
	RunID     string
	Expect    Expect
	Step      ApprovalStep
	TwoPeople bool // the job needs two people by what its caller knows, whatever its last owner said
	Who
	ExpiresAt time.Time // zero: never
}

// PauseRequest pauses or resumes a job.
type PauseRequest struct {
	Namespace string
	Job       string
	Who
}

// StopRequest asks the owner of a run to stop.
type StopRequest struct {
	Namespace string
	RunID     string
	Expect    Expect
	Who
}

// UnlockRequest removes a plain lock file.
type UnlockRequest struct {
	Namespace string
	Lock      LockName
	Who
}
