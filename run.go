package onerun

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Status is the state of a run or of an attempt. There are no others.
type Status string

// The states. A run moves RUNNING → SUCCEEDED, FAILED or SKIPPED by its owner;
// RUNNING → any by resolve when its owner is dead; FAILED → SUCCEEDED or SKIPPED
// by resolve; nothing → SKIPPED by resolve; any end → RUNNING by a claim that may
// (a due retry, an approved rerun).
const (
	Running   Status = "RUNNING"
	Succeeded Status = "SUCCEEDED"
	Failed    Status = "FAILED"
	Skipped   Status = "SKIPPED"
)

// Reason is why an attempt FAILED, or why a claim was refused.
type Reason string

// Reasons of a FAILED attempt.
const (
	ReasonExit          Reason = "exit"           // a status other than 0, or a function's error
	ReasonSignal        Reason = "signal"         // ended by a signal
	ReasonTimeout       Reason = "timeout"        // stopped at --timeout
	ReasonStopped       Reason = "stopped"        // stopped by an operator; never retried
	ReasonOwnerDied     Reason = "owner_died"     // its worker and its processes are proven gone
	ReasonLeaseExpired  Reason = "lease_expired"  // its lease ran out: the outcome is unknown
	ReasonLeaseLost     Reason = "lease_lost"     // the owner itself saw that its lease was lost; never retried
	ReasonNotFound      Reason = "not_found"      // no such command; never retried
	ReasonNotExecutable Reason = "not_executable" // the command can't be executed; never retried
	ReasonCanceled      Reason = "canceled"       // the caller gave up, or the wrapper was told to stop
)

// MaxReason is the greatest length of a Reason, in bytes.
const MaxReason = 32

// kept is the reason of a failure as every store can keep it: a status must never be lost for
// the sake of a word that somebody else chose.
func (r Reason) kept() Reason {
	bad := func(c rune) bool { return c == utf8.RuneError || !unicode.IsPrint(c) }
	if r == "" || len(r) > MaxReason || strings.ContainsFunc(string(r), bad) {
		return ReasonExit
	}
	return r
}

// Reasons of a refusal, in the order of the claim table.
const (
	RefusedRunning     Reason = "running"
	RefusedStale       Reason = "stale"
	RefusedSucceeded   Reason = "succeeded"
	RefusedSkipped     Reason = "skipped"
	RefusedFailed      Reason = "failed"
	RefusedPaused      Reason = "paused"
	RefusedRetryNotDue Reason = "retry_not_due"
	RefusedLocked      Reason = "locked"
)

// Blocked reports whether a refusal means that the work is not done and this call
// won't do it, so that somebody should look (exit 79, level warn); the other
// refusals are everyday ones.
func (r Reason) Blocked() bool {
	return r == RefusedFailed || r == RefusedStale || r == RefusedRetryNotDue
}

// Worker says who executes. Boot, namespaces, process and start time together
// name one process of one kernel for ever; a field that could not be read is zero
// and proves nothing.
type Worker struct {
	Label      string // --worker-label, else empty
	Host       string // host name
	Machine    string // machine-id(5), if there is one
	Boot       string // the kernel's boot id
	PIDNS      uint64 // inode of the pid namespace
	TimeNS     uint64 // inode of the time namespace, in which start times count
	PID        int
	StartTicks uint64 // start time of PID in clock ticks since boot, proc_pid_stat(5) field 22
}

// String is the worker's id in listings: its label, else HOST/PID.
func (w Worker) String() string {
	if w.Label != "" {
		return w.Label
	}
	if w.Host == "" && w.PID == 0 {
		return ""
	}
	return fmt.Sprintf("%s/%d", w.Host, w.PID)
}

// Run is the one record of a key, or of one start of an unkeyed job. Its fields
// about an execution are those of its last attempt.
type Run struct {
	RunID        string
	Namespace    string
	Job          string
	Partition    string // empty: unkeyed
	BusinessDate string // YYYY-MM-DD, or empty
	Lock         LockName
	Status       Status
	Attempt      int // the last attempt, from 1; 0: none (cancelled in advance)
	ScheduledAt  time.Time
	NextRetryAt  time.Time // FAILED with a retry left: when it is due
	Skips        int64     // refusals counted on this run's key (unkeyed: on this run as holder)
	VersionLabel string
	Labels       map[string]string
	Pruned       time.Time // when all but this was removed; zero: it wasn't

	Execution

	// What a store found out about a RUNNING run when it was read.
	Stale    bool
	Liveness Liveness
	Evidence string
}

// Key returns JOB:PARTITION, or "" for an unkeyed run.
func (r Run) Key() string { return MakeKey(r.Job, r.Partition) }

// Name is the key, or the job of an unkeyed run: what a person calls it.
func (r Run) Name() string {
	if k := r.Key(); k != "" {
		return k
	}
	return r.Job
}

// Execution is what is recorded of one attempt.
type Execution struct {
	Owner          string // random id of this acquisition
	Token          int64  // fencing token
	Worker         Worker
	StartedAt      time.Time
	FinishedAt     time.Time // zero while RUNNING
	LeaseExpiresAt time.Time // zero: no lease (embedded store) or not RUNNING
	StaleAfter     time.Duration
	OnCrash        OnCrash
	TwoPeople      bool // a rerun needs two people
	Reason         Reason
	ExitCode       *int
	Signal         string
	Error          string
	Processed      *int64
	Failed         *int64
}

// Attempt is one execution of a run.
type Attempt struct {
	Number int
	Status Status
	Void   bool // it was claimed, but its job never started: it costs no retry
	Execution
	ClosedBy ClosedBy
	Late     *Outcome // the end that came too late to be recorded as the attempt's own
}

// ClosedBy says who recorded an attempt's end.
type ClosedBy string

// Who can.
const (
	ByOwner    ClosedBy = ""         // its owner, or who delivered for it
	ByMachine  ClosedBy = "machine"  // a later claim, which found the owner dead or its lease over
	ByOperator ClosedBy = "operator" // a person, by resolve
)

// Outcome is how an attempt ended.
type Outcome struct {
	Status     Status // not RUNNING
	Reason     Reason // of FAILED
	ExitCode   *int
	Signal     string
	Error      string
	Processed  *int64
	Failed     *int64
	FinishedAt time.Time // by the worker's clock; zero: the store's time of recording
	Void       bool      // FAILED before the job was started: it costs no retry, and the key may start again at once
	Output     *Output   // what it printed; nil: nothing, or it is not kept
}

// MaxError is the greatest length of a recorded error, in characters.
const MaxError = 1000

// CutError makes a text fit to be kept: secrets are masked (see Redact); it is cut to
// MaxError characters at a character boundary, and made valid text that every store
// can hold (NUL and broken UTF-8 become the replacement character). A status must
// never be lost for the sake of its text.
func CutError(s string) string {
	s = Redact(s)
	out := make([]rune, 0, min(len(s), MaxError))
	for _, r := range s { // ranging over a string yields U+FFFD for broken bytes
		if r == 0 {
			r = '\uFFFD'
		}
		if len(out) == MaxError {
			break
		}
		out = append(out, r)
	}
	return string(out)
}

// Liveness is what could be found out about the work of a run.
type Liveness string

// The three answers. Unknown is treated as alive wherever something would be
// started or closed.
const (
	Alive   Liveness = "alive"
	Dead    Liveness = "dead"
	Unknown Liveness = "unknown"
)

// Holder says who stands in the way of a claim.
type Holder struct {
	RunID   string
	Name    string // its key, or the job of an unkeyed run, or a lock's name
	Attempt int
	Status  Status
	Worker  Worker
	Since   time.Time
	Detail  string // evidence or an operator's words
}

// ID identifies a holder: refusals with the same reason and the same ID are equal
// and share one counted row.
func (h Holder) ID() string {
	switch {
	case h.RunID != "":
		return fmt.Sprintf("%s/%d", h.RunID, h.Attempt)
	case h.Worker.PID != 0:
		return h.Worker.String()
	}
	return h.Detail
}

// String describes a holder for people, on one line.
func (h Holder) String() string {
	s := h.Name
	if w := h.Worker.String(); w != "" {
		s = join(s, " by ", w)
		if h.Worker.Label != "" && h.Worker.PID != 0 {
			s += fmt.Sprintf(" (%s/%d)", h.Worker.Host, h.Worker.PID)
		}
	}
	if !h.Since.IsZero() {
		s = join(s, " ", "since "+h.Since.Format(time.RFC3339))
	}
	if h.RunID != "" {
		s = join(s, ", ", fmt.Sprintf("run %s attempt %d", h.RunID, h.Attempt))
	}
	return oneLine(join(s, ": ", h.Detail))
}

func join(a, sep, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + sep + b
}

// Skip counts equal refusals in one row.
type Skip struct {
	Namespace string
	Job       string
	Key       string
	Reason    Reason
	Holder    string // Holder.ID
	Detail    string // Holder.String when it was last refused
	Count     int64
	FirstAt   time.Time
	LastAt    time.Time
}

// Approval lets exactly one claim pass rows 2, 3, 4 and 6 of the claim table, as
// long as the run is still what the approver saw.
type Approval struct {
	ID        int64
	RunID     string
	Status    Status // the run's status when approved
	Attempt   int    // the run's last attempt when approved
	Reason    string
	By        string // empty: it is only a request so far, which lifts nothing
	CreatedAt time.Time
	ExpiresAt time.Time // zero: never
	UsedAt    time.Time // zero: open
	UsedBy    int       // the attempt that spent it

	// Of a rerun for which two people were asked.
	RequestedBy   string
	RequestReason string
	RequestedAt   time.Time
}

// Event is one line of the append-only journal.
type Event struct {
	ID        int64
	At        time.Time
	Name      string // as in the log: taken_over, resolved, rerun_approved, …
	Namespace string
	RunID     string
	Job       string
	Key       string
	By        string // the operator; empty for the machine
	Reason    string
	Detail    string

	Terminal string // where the operator sat, or empty
}

// JobState is what is kept of a job beside its runs.
type JobState struct {
	Namespace string
	Job       string
	PausedAt  time.Time // zero: not paused
	PausedBy  string
	Reason    string
}

// LockState is one lock and its holder.
type LockState struct {
	Namespace string
	Lock      LockName
	Path      string // the lock file; empty on a store without files
	Mode      LockMode
	Token     int64
	Run       *Run   // the RUNNING run that holds it; nil for `onerun lock` and for a leftover
	Holder    Holder // who holds it, as far as known
	Liveness  Liveness
	Evidence  string
}
