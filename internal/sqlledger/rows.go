package sqlledger

import (
	"fmt"
	"time"

	"github.com/onerun-dev/onerun"
)

// RunRow is a run as it is kept, with its last attempt and its lease.
type RunRow struct {
	onerun.Run
	Policy onerun.Policy // of the last attempt's owner, as far as a retry goes by it
	Usual  *int64        // RUNNING, without a stale-after: the longest of the job's last successes, in microseconds

	Expires  *int64 // of its lease; nil: it has none
	ReadAt   int64  // the store's time when it was read
	Failures int    // attempts that failed and cost a retry
}

// Over reports whether the lease of a RUNNING run is over, or has vanished.
func (r *RunRow) Over() bool { return r.Expires == nil || *r.Expires <= r.ReadAt }

// Seen is the run with what is found out about it when it is read.
func (r *RunRow) Seen() onerun.Run {
	run := r.Run
	if run.Status == onerun.Running {
		r.judge(&run)
	}
	return run
}

// SeenOrNil is a run that was looked for; nil: there is none.
func SeenOrNil(r *RunRow, err error) (*onerun.Run, error) {
	if r == nil || err != nil {
		return nil, err
	}
	run := r.Seen()
	return &run, nil
}

// SeenOrNone is a run that was looked for, or the zero value.
func SeenOrNone(r *RunRow, err error) (onerun.Run, error) {
	if r == nil || err != nil {
		return onerun.Run{}, err
	}
	return r.Seen(), nil
}

// judge says what is known of a RUNNING run's owner: on another host only the lease speaks.
func (r *RunRow) judge(run *onerun.Run) {
	run.Liveness, run.LeaseExpiresAt = onerun.Unknown, FromMicros(r.Expires)
	switch {
	case r.Expires == nil:
		run.Stale, run.Evidence = true, "its lock has vanished from the store"
	case r.Over():
		run.Stale, run.Evidence = true, "its lease ran out at "+run.LeaseExpiresAt.Format(time.RFC3339)
	default:
		run.Evidence = "its lease runs until " + run.LeaseExpiresAt.Format(time.RFC3339)
	}
	if run.StaleAfter == 0 {
		run.StaleAfter = onerun.UsualStaleAfter(Micro(Or(r.Usual)))
	}
	if age := FromMicros(&r.ReadAt).Sub(run.StartedAt); age > run.StaleAfter {
		run.Stale = true
		run.Evidence += fmt.Sprintf("; RUNNING for %s, over its stale-after of %s", age.Round(time.Second), run.StaleAfter)
	}
}

// WorkerRow is a worker as it is kept, in columns or in JSON.
type WorkerRow struct {
	Host       *string `json:"host,omitempty"`
	Machine    *string `json:"machine,omitempty"`
	Boot       *string `json:"boot,omitempty"`
	PIDNS      *int64  `json:"pid_ns,omitempty"`
	TimeNS     *int64  `json:"time_ns,omitempty"`
	PID        *int    `json:"pid,omitempty"`
	StartTicks *int64  `json:"start_ticks,omitempty"`
}

// WorkerOf is a worker's row, without its label.
func WorkerOf(w onerun.Worker) WorkerRow {
	return WorkerRow{Null(w.Host), Null(w.Machine), Null(w.Boot), Null(int64(w.PIDNS)), Null(int64(w.TimeNS)), Null(w.PID), Null(int64(w.StartTicks))}
}

// Worker gives a worker with its label, which stands where else HOST/PID does.
func (r WorkerRow) Worker(id *string) onerun.Worker {
	w := onerun.Worker{
		Host: Or(r.Host), Machine: Or(r.Machine), Boot: Or(r.Boot), PIDNS: uint64(Or(r.PIDNS)), TimeNS: uint64(Or(r.TimeNS)),
		PID: Or(r.PID), StartTicks: uint64(Or(r.StartTicks)),
	}
	if Or(id) != w.String() {
		w.Label = Or(id)
	}
	return w
}

// LockRow is a lock that has an owner.
type LockRow struct {
	Name              string
	Owner, RunID      string
	Attempt           int // of the run, where the store keeps it beside the lock
	Mode              onerun.OnCrash
	Fenced            bool // somebody has made sure of it in a transaction of their own, where the store notes that
	Token             int64
	Expires, Acquired *int64
	WorkerID          *string
	Worker            WorkerRow
}

// Over reports whether its lease is.
func (l *LockRow) Over(now time.Time) bool {
	return l != nil && l.Expires != nil && !FromMicros(l.Expires).After(now)
}

// Holder describes the owner of a lock alone.
func (l *LockRow) Holder() onerun.Holder {
	return onerun.Holder{
		Name: onerun.LockName(l.Name).Name(), Worker: l.Worker.Worker(l.WorkerID), Since: FromMicros(l.Acquired), Detail: "owner " + l.Owner,
	}
}
