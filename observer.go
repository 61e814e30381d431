package onerun

import (
	"context"
	"time"
)

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
	EventItemResolved    = "item_resolved"
	EventRerunApproved   = "rerun_approved"
	EventRerunRequested  = "rerun_requested"
	EventPruned          = "pruned"
	EventStopRequested   = "stop_requested"
	EventPaused          = "paused"
	EventResumed         = "resumed"
	EventUnlocked        = "unlocked"
	EventLockDeleted     = "lock_deleted"
	EventRetryWaiting    = "retry_waiting"    // an attempt failed, and its retry is waited for
	EventRetrySuperseded = "retry_superseded" // others took the retry that was waited for, or decided about it
	EventRetryLeft       = "retry_left"       // the store can't be asked; the retry is left to a later start
)

// Observation is something that happened to a claim, a run or its owner.
type Observation struct {
	Event    string
	At       time.Time
	Run      Run       // as far as known; for a refusal: what was asked for; retry_waiting: with NextRetryAt
	Lease    Lease     // of the owner; zero for a refusal
	LockPath string    // the lock file on this host, if there is one
	Refusal  *Refusal  // skipped; retry_superseded, if a refusal told of it
	Outcome  *Outcome  // finished, failed
	Delivery *Delivery // late_outcome
	PID      int       // started: the job's process, or this one
	Detail   string    // clock_step: how far; taken_over: the evidence; retry_superseded: by whom
	Err      error     // heartbeat_failed, lease_lost, failed, retry_left
}

// Observer is told what happens. Observe is called from several goroutines, and on
// the owner's path: it must be quick and must not panic.
type Observer interface{ Observe(Observation) }

// ObserverFunc makes a function an Observer.
type ObserverFunc func(Observation)

// Observe calls f.
func (f ObserverFunc) Observe(o Observation) { f(o) }

// Tracer is an optional ability of an Observer: to put something of its own into the context
// of the work, such as the span of a trace.
type Tracer interface {
	// Trace is called right before the work of an attempt begins, on its goroutine, and
	// gives the work's context, which must be made of ctx. However the work ends, one
	// Observation tells of it: finished, failed or lease_lost, with an Outcome and this lease.
	Trace(ctx context.Context, run Run, lease Lease) context.Context
}
