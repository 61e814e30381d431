package sqlledger

import (
	"time"

	"github.com/onerun-dev/onerun"
)

// Attempts reads attempts. late reads an end that came too late, as the store keeps it.
func Attempts(each Each, late func(text string) (onerun.Outcome, error), query string, args ...any) ([]onerun.Attempt, error) {
	return Rows(each, func(scan func(...any) error) (onerun.Attempt, error) {
		var a onerun.Attempt
		var w WorkerRow
		var id, text *string
		var started, finished, expires, stale *int64
		var status, crash, reason, by string
		err := scan(&a.Number, &status, &a.Void, &a.Owner, &a.Token, &id, &w.Host, &w.Machine, &w.Boot, &w.PIDNS, &w.TimeNS, &w.PID, &w.StartTicks,
			&crash, &stale, &started, &finished, &expires, &reason, &a.ExitCode, &a.Signal, &a.Error, &a.Processed, &a.Failed, &a.TwoPeople, &by, &text)
		a.Status, a.OnCrash, a.Reason, a.ClosedBy = onerun.Status(status), onerun.OnCrash(crash), onerun.Reason(reason), onerun.ClosedBy(by)
		a.Worker, a.StaleAfter = w.Worker(id), Micro(Or(stale))
		a.StartedAt, a.FinishedAt, a.LeaseExpiresAt = FromMicros(started), FromMicros(finished), FromMicros(expires)
		if err == nil && text != nil {
			var o onerun.Outcome
			if o, err = late(*text); err == nil {
				a.Late = &o
			}
		}
		return a, err
	}, query, args...)
}

// The readers below are told how a store gives times back: at, which is FromMicros for those on
// servers.

// Approvals reads the approvals of a run.
func Approvals(each Each, at func(us *int64) time.Time, query, runID string) ([]onerun.Approval, error) {
	return Rows(each, func(scan func(...any) error) (onerun.Approval, error) {
		a := onerun.Approval{RunID: runID}
		var created, expires, used, requested *int64
		var status string
		err := scan(&a.ID, &status, &a.Attempt, &a.Reason, &a.By, &created, &expires, &used, &a.UsedBy, &a.RequestedBy, &a.RequestReason, &requested)
		a.Status = onerun.Status(status)
		a.CreatedAt, a.ExpiresAt, a.UsedAt, a.RequestedAt = at(created), at(expires), at(used), at(requested)
		return a, err
	}, query, runID)
}

// Unspent is the approval of a run that is unspent, or the request for one; nil: there is none.
func Unspent(all []onerun.Approval, err error) (*onerun.Approval, error) {
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		if a.UsedAt.IsZero() {
			return &a, nil
		}
	}
	return nil, nil
}

// Events reads events.
func Events(each Each, at func(us *int64) time.Time, query string, args ...any) ([]onerun.Event, error) {
	return Rows(each, func(scan func(...any) error) (onerun.Event, error) {
		var e onerun.Event
		var us *int64
		err := scan(&e.RunID, &e.Namespace, &e.ID, &us, &e.Name, &e.Job, &e.Key, &e.By, &e.Reason, &e.Detail, &e.Terminal)
		e.At = at(us)
		return e, err
	}, query, args...)
}

// Skips reads the refusals of a key, or of an unkeyed job.
func Skips(each Each, at func(us *int64) time.Time, query, namespace, job, key string) ([]onerun.Skip, error) {
	return Rows(each, func(scan func(...any) error) (onerun.Skip, error) {
		k := onerun.Skip{Namespace: namespace, Job: job, Key: key}
		var first, last *int64
		var reason string
		err := scan(&reason, &k.Holder, &k.Detail, &k.Count, &first, &last)
		k.Reason, k.FirstAt, k.LastAt = onerun.Reason(reason), at(first), at(last)
		return k, err
	}, query, namespace, job, key)
}

// Jobs reads the jobs that are paused.
func Jobs(each Each, at func(us *int64) time.Time, query, namespace string) ([]onerun.JobState, error) {
	return Rows(each, func(scan func(...any) error) (onerun.JobState, error) {
		j := onerun.JobState{Namespace: namespace}
		var us *int64
		err := scan(&j.Job, &us, &j.PausedBy, &j.Reason)
		j.PausedAt = at(us)
		return j, err
	}, query, namespace)
}

// Tomb reads a tombstone: what is left of a run that was pruned.
func Tomb(scan func(...any) error, at func(us *int64) time.Time) (onerun.Run, error) {
	var r onerun.Run
	var scheduled, started, finished, pruned *int64
	var lock, status, crash string
	err := scan(&r.RunID, &r.Namespace, &r.Job, &r.Partition, &r.BusinessDate, &lock, &status, &r.Attempt, &r.Token, &r.TwoPeople, &crash,
		&scheduled, &started, &finished, &pruned)
	r.Lock, r.Status, r.OnCrash = onerun.LockName(lock), onerun.Status(status), onerun.OnCrash(crash)
	r.ScheduledAt, r.StartedAt, r.FinishedAt, r.Pruned = at(scheduled), at(started), at(finished), at(pruned)
	if !r.Pruned.IsZero() {
		r.Evidence = "its history was pruned on " + r.Pruned.UTC().Format("2006-01-02")
	}
	return r, err
}

// Notes reads notes.
func Notes(each Each, query string, args ...any) ([]onerun.Note, error) {
	return Rows(each, func(scan func(...any) error) (onerun.Note, error) {
		var n onerun.Note
		var us int64
		err := scan(&n.Name, &n.Version, &n.Text, &us)
		n.At = FromMicros(&us)
		return n, err
	}, query, args...)
}
