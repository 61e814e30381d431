package scheduler

import (
	"hash/fnv"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/schedule"
)

// Job is a job with a schedule.
type Job struct {
	Name     string
	Schedule schedule.Schedule
	Spec     schedule.Spec // how the key of a slot is found; its At is the slot; @reboot has no use for it
	Boot     string        // of @reboot: the id of this boot
	Digest   string        // of what decides when it fires: the schedule counts from the edit when this changes

	Jitter   time.Duration // a start is up to this late: the same on every instance
	CatchUp  CatchUp
	Overlap  Overlap
	Group    string        // with a limit of its own; "": none
	StartBy  time.Duration // after the slot, else an alert; 0: none
	FinishBy time.Duration
	Alerts   []Alert

	RetryLater bool // no process waits for a retry of it
	Beside     bool // fires of different keys may run side by side: none waits for another one
	AtMost     AtMost

	With any // what the caller needs to start it, by the configuration that it is of

	of *entry
}

// Overlap says what becomes of a fire while the job still runs.
type Overlap struct {
	Kind  OverlapKind
	Queue int // of OverlapQueue: how many may wait; 0: any number
}

// OverlapKind is a kind of Overlap.
type OverlapKind string

// The kinds.
const (
	OverlapSkip    OverlapKind = "skip"    // it is refused, and that is recorded
	OverlapQueue   OverlapKind = "queue"   // it waits
	OverlapReplace OverlapKind = "replace" // what runs is stopped
)

// Fire is a job at a slot.
type Fire struct {
	Job          *Job
	Slot         time.Time
	Partition    string
	BusinessDate string
	Own          bool     // the partition is the slot's own, and nothing that the job's settings say
	Skipped      bool     // it is of a time that the clock skips, so that the slot alone may tell another key
	Late         bool     // it was missed, and is caught up with
	Again        bool     // a retry that is due, or a rerun that was approved
	Wait         bool     // it may wait for the lock
	Request      *Request // somebody asked for it; nil: its schedule did

	Drop <-chan struct{} // closed when its process is to end, if that waits yet; nil: never

	kept bool // the memo keeps its slot
}

// Key is JOB:PARTITION.
func (f *Fire) Key() string { return onerun.MakeKey(f.Job.Name, f.Partition) }

// out reports whether the configuration doesn't have the job any more.
func (j *Job) out() bool { return j.of != nil && j.of.out.Load() }

// fire finds the key of a slot.
func (j *Job) fire(slot time.Time) (*Fire, error) {
	f := &Fire{Job: j, Slot: slot}
	if j.Schedule.Cron.Reboot() { // a date or period of when the scheduler starts would be another one at each start
		f.Own, f.Partition = true, "boot-"+j.Boot
		return f, nil
	}
	if j.Spec.Date != "" || j.Spec.Period != "" || j.Spec.Partition != "" {
		found, err := j.Schedule.Slot(j.Spec, slot)
		f.Partition, f.BusinessDate, f.Skipped = found.Partition, found.BusinessDate, found.Skipped
		return f, err
	}
	f.Own, f.Partition = true, slot.UTC().Format(time.RFC3339)
	return f, nil
}

// time is when a fire starts: as much later than its slot as its jitter says.
func (f *Fire) time() time.Time {
	if f.Job.Jitter <= 0 {
		return f.Slot
	}
	return f.Slot.Add(share(f.Key(), f.Job.Jitter))
}

// share is a part of a duration that goes by a name, so that it is the same on every instance.
func share(name string, most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return time.Duration(h.Sum64() % uint64(most))
}

// Try finds the key of a slot, to see whether there is one.
func (j *Job) Try(slot time.Time) (*Fire, error) { return j.fire(slot) }
