package scheduler

import (
	"errors"
	"time"

	"github.com/onerun-dev/onerun"
)

// EventKind is a kind of Event.
type EventKind string

// The kinds.
const (
	Fired     EventKind = "fired"           // a slot was taken by this instance, and is being started
	Late      EventKind = "caught_up"       // the same, of one that was missed
	Elsewhere EventKind = "fired_elsewhere" // another instance has it
	Retried   EventKind = "started_again"   // a retry that was due, or a rerun that was approved
	Requested EventKind = "start_requested" // a start that somebody asked for
	Rescued   EventKind = "rescued"         // a slot of an instance that died is started
	MissedAny EventKind = "missed"          // fires that don't run
	StoodDown EventKind = "stood_down"      // another instance has a newer configuration of the job
	StoreAway EventKind = "store_away"      // the store can't be asked; it is tried again
	NotRun    EventKind = "start_failed"    // a start came to nothing; it is tried again
	BadFire   EventKind = "bad_fire"        // a slot that has no key
	ClockBack EventKind = "clock_back"      // the wall clock was set back
	Alerted   EventKind = "alerted"         // people were told
)

// Event is something that an engine did.
type Event struct {
	Kind   EventKind
	At     time.Time
	Job    string
	Slot   time.Time // zero: none
	Lag    time.Duration
	Detail string
	Err    error
}

func (e *Engine) report(j *Job, slot time.Time, kind EventKind, err error) {
	now := e.Clock.Now()
	e.Report(Event{Kind: kind, At: now, Job: j.Name, Slot: slot, Lag: now.Sub(slot), Err: err})
}

func isState(err error) bool { return errors.Is(err, onerun.ErrState) }
