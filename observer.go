package onerun

import "time"

// Names of events, as logs and journals carry them.
const (
	EventClaimed         = "claimed"
	EventSkipped         = "skipped"
	EventStarted         = "started"
	EventHeartbeatFailed = "heartbeat_failed"
	EventClockStep       = "clock_step"
	EventLeaseLost       = "lease_lost"
	EventTimeout         = "timeout"
	EventStopped         = "stopped"
	EventFinished        = "finished"
	EventFailed          = "failed"
	EventTakenOver       = "taken_over"
	EventLateOutcome     = "late_outcome"
	EventResolved        = "resolved"
	EventRerunApproved   = "rerun_approved"
	EventRerunRequested  = "rerun_requested"
	EventPruned          = "pruned"
	EventStopRequested   = "stop_requested"
	EventPaused          = "paused"
	EventResumed         = "resumed"
	EventUnlocked        = "unlocked"
	EventLockDeleted     = "lock_deleted"
)

// Observation is something that happened to a claim, a run or its owner.
type Observation struct {
	Event    string
	At       time.Time
	Run      Run       // as far as known; for a refusal: what was asked for
	Lease    Lease     // of the owner; zero for a refusal
	LockPath string    // the lock file on this host, if there is one
	Refusal  *Refusal  // skipped
	Outcome  *Outcome  // finished, failed
	Delivery *Delivery // late_outcome
	PID      int       // started: the job's process, or this one
	Detail   string    // clock_step: how far; taken_over: the evidence
	Err      error     // heartbeat_failed, lease_lost, failed
}

// Observer is told what happens. Observe is called from several goroutines, and on
// the owner's path: it must be quick and must not panic.
type Observer interface{ Observe(Observation) }

// ObserverFunc makes a function an Observer.
type ObserverFunc func(Observation)

// Observe calls f.
func (f ObserverFunc) Observe(o Observation) { f(o) }
