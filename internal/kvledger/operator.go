package kvledger

import (
	"context"
	"fmt"

	"github.com/onerun-dev/onerun"
)

// Resolve implements onerun.Operator.
func (l *Ledger) Resolve(ctx context.Context, q onerun.Resolution) (run onerun.Run, err error) {
	err = l.decide(ctx, "resolve", nil, func(t *tx) error {
		r, err := t.resolved(q)
		if err != nil {
			return err
		}
		if err := t.clock(); err != nil {
			return err
		}
		detail := "cancelled in advance"
		if r != nil {
			detail = fmt.Sprintf("%s to %s", r.Run.Status, q.As)
		}
		if r == nil {
			if r, err = t.cancelled(q); err != nil {
				return err
			}
		} else if err := t.mayResolve(r, q); err != nil {
			return err
		}
		// The attempt stays what it was. A decision is final: no retry follows from it.
		r.Run.Status = q.As
		r.Run.NextRetryAt = onerun.Run{}.NextRetryAt
		if q.As != onerun.Failed {
			r.Run.Reason = ""
		}
		if r.Run.FinishedAt.IsZero() {
			r.Run.FinishedAt = t.now
		}
		if err := t.runEvent(r, onerun.EventResolved, q.Who, detail); err != nil {
			return err
		}
		t.putRun(r)
		if _, err := t.commit("resolve"); err != nil {
			return err
		}
		runs, err := t.fresh().shown(r)
		if err == nil {
			run = runs[0]
		}
		return err
	})
	return run, err
}

// resolved finds the run that a resolution is about; nil: its key has none.
func (t *tx) resolved(q onerun.Resolution) (*runRecord, error) {
	id := q.RunID
	switch {
	case id == "" && (q.Job == "" || q.Partition == ""):
		return nil, &onerun.StateError{Why: "only a key can be cancelled in advance; an unkeyed job has none"}
	case id == "":
		key, err := load[keyRecord](t, keyOf(q.Namespace, q.Job, q.Partition))
		if err != nil || key == nil {
			return nil, err
		}
		id = key.RunID
	}
	r, err := load[runRecord](t, keyRun(id))
	switch {
	case err != nil:
		return nil, err
	case r == nil || r.Run.Namespace != q.Namespace:
		return nil, fmt.Errorf("run %s: %w", id, onerun.ErrNotFound)
	case r.pruned():
		if err := onerun.ResolveAllowed(&r.Run, q.As, false); err != nil {
			return nil, err
		}
		return nil, &onerun.StateError{Why: r.Run.Name() + " is pruned"}
	}
	return r, nil
}

// cancelled makes the run of a key that had none.
func (t *tx) cancelled(q onerun.Resolution) (*runRecord, error) {
	if err := onerun.ResolveAllowed(nil, q.As, false); err != nil {
		return nil, err
	}
	if q.Expect.Status != "" {
		return nil, &onerun.StateError{Why: "the run is gone"}
	}
	r := newRun(onerun.Claim{
		Namespace: q.Namespace, Job: q.Job, Partition: q.Partition, BusinessDate: q.BusinessDate,
		Lock: onerun.JobLock(q.Job), RunID: onerun.NewRunID(t.now),
	}, t.now)
	t.put(keyOf(q.Namespace, q.Job, q.Partition), keyRecord{RunID: r.Run.RunID})
	return r, nil
}

// mayResolve checks a resolution, and closes the run if it is RUNNING.
func (t *tx) mayResolve(r *runRecord, q onerun.Resolution) error {
	if onerun.Expected(r.Run) != q.Expect {
		return changed(r.Run)
	}
	var h held
	var over bool
	seen := r.Run
	if r.Run.Status == onerun.Running {
		var err error
		if h, err = t.lock(r.Run.Namespace, r.Run.Lock); err != nil {
			return err
		}
		over = h.over() || h.owner() != r.Run.Owner || h.owner() == q.OwnerDead
		if h.owner() != "" {
			seen.Evidence = "its lease runs until " + h.Expires.Format("2006-01-02T15:04:05Z07:00")
		}
	}
	if err := onerun.ResolveAllowed(&seen, q.As, over); err != nil {
		return err
	}
	if r.Run.Status != onerun.Running {
		return nil
	}
	out := onerun.Outcome{Status: q.As}
	if q.As == onerun.Failed {
		out.Reason = onerun.ReasonLeaseExpired
		if q.OwnerDead != "" && h.owner() == q.OwnerDead {
			out.Reason = onerun.ReasonOwnerDied
		}
	}
	if h.owner() == r.Run.Owner {
		t.free(&h)
	}
	return t.close(r, out, onerun.ByOperator)
}

func changed(r onerun.Run) error {
	return &onerun.StateError{Why: fmt.Sprintf("%s changed meanwhile: it is %s now, attempt %d; look again", r.Name(), r.Status, r.Attempt)}
}

// Approve implements onerun.Operator.
func (l *Ledger) Approve(ctx context.Context, q onerun.ApprovalRequest) (a onerun.Approval, err error) {
	err = l.decide(ctx, "approve", nil, func(t *tx) error {
		r, err := load[runRecord](t, keyRun(q.RunID))
		if err != nil {
			return err
		}
		if err := t.clock(); err != nil {
			return err
		}
		switch {
		case r == nil || r.Run.Namespace != q.Namespace:
			return fmt.Errorf("run %s: %w", q.RunID, onerun.ErrNotFound)
		case onerun.Expected(r.Run) != q.Expect:
			return changed(r.Run)
		}
		open := r.lastApproval()
		if err := onerun.ApproveAllowed(r.Run, open, q, t.now); err != nil {
			return err
		}
		r.comeBack()
		event := onerun.EventRerunApproved
		switch {
		case q.Step == onerun.ApproveRequest:
			event = onerun.EventRerunRequested
			open = t.approval(r, q)
			open.RequestedBy, open.RequestReason, open.RequestedAt = q.By, q.Reason, t.now
		case open != nil && open.By == "" && open.Status == r.Run.Status && open.Attempt == r.Run.Attempt &&
			(open.ExpiresAt.IsZero() || t.now.Before(open.ExpiresAt)): // what was requested is approved
			open.By, open.Reason, open.CreatedAt, open.ExpiresAt = q.By, q.Reason, t.now, q.ExpiresAt
		default:
			open = t.approval(r, q)
			open.By, open.Reason = q.By, q.Reason
		}
		a = *open
		t.putSpent(r)
		if err := t.runEvent(r, event, q.Who, ""); err != nil {
			return err
		}
		t.putRun(r)
		_, err = t.commit("approve")
		return err
	})
	if err != nil {
		return onerun.Approval{}, err
	}
	return a, nil
}

// approval makes one for a run as it is now.
func (t *tx) approval(r *runRecord, q onerun.ApprovalRequest) *onerun.Approval {
	id := t.now.UnixMicro()
	if n := len(r.Approvals); n > 0 {
		id = max(id, r.Approvals[n-1].ID+1)
	}
	r.Approvals = append(r.Approvals, onerun.Approval{
		ID: id, RunID: r.Run.RunID, Status: r.Run.Status, Attempt: r.Run.Attempt, CreatedAt: t.now, ExpiresAt: q.ExpiresAt,
	})
	return &r.Approvals[len(r.Approvals)-1]
}

// comeBack makes a run of a tombstone again, which knows the last attempt alone.
func (r *runRecord) comeBack() {
	if !r.pruned() {
		return
	}
	r.Run.Pruned = onerun.Run{}.Pruned
	if r.Run.Attempt > 0 {
		r.Attempts = []attemptRecord{{Attempt: onerun.Attempt{Number: r.Run.Attempt, Status: r.Run.Status, Execution: r.Run.Execution}}}
	}
}

// Stop implements onerun.Operator.
func (l *Ledger) Stop(ctx context.Context, q onerun.StopRequest) error {
	return l.decide(ctx, "stop", nil, func(t *tx) error {
		r, err := load[runRecord](t, keyRun(q.RunID))
		if err != nil {
			return err
		}
		if r == nil || r.pruned() || r.Run.Namespace != q.Namespace {
			return fmt.Errorf("run %s: %w", q.RunID, onerun.ErrNotFound)
		}
		h, err := t.lock(r.Run.Namespace, r.Run.Lock)
		if err != nil {
			return err
		}
		if err := t.clock(); err != nil {
			return err
		}
		if onerun.Expected(r.Run) != q.Expect {
			return changed(r.Run)
		}
		runs, err := t.fresh().shown(r)
		if err != nil {
			return err
		}
		over := r.Run.Status == onerun.Running && (h.over() || h.vanished || h.owner() != r.Run.Owner)
		if err := onerun.StopAllowed(runs[0], over); err != nil {
			return err
		}
		h.Stop = q.By + ": " + q.Reason
		t.put(keyLock(h.Namespace, h.Lock), h.lockRecord)
		if err := t.runEvent(r, onerun.EventStopRequested, q.Who, ""); err != nil {
			return err
		}
		t.putRun(r)
		_, err = t.commit("stop")
		return err
	})
}

// Pause implements onerun.Operator.
func (l *Ledger) Pause(ctx context.Context, q onerun.PauseRequest) error {
	return l.decide(ctx, "pause", nil, func(t *tx) error {
		key := keyJob(q.Namespace, q.Job)
		j, err := load[onerun.JobState](t, key)
		if err != nil {
			return err
		}
		if j != nil {
			return &onerun.StateError{Why: fmt.Sprintf("%s is paused already, by %s: %s", j.Job, j.PausedBy, j.Reason)}
		}
		if err := t.clock(); err != nil {
			return err
		}
		t.put(key, onerun.JobState{Namespace: q.Namespace, Job: q.Job, PausedAt: t.now, PausedBy: q.By, Reason: q.Reason})
		if err := t.event(nil, onerun.Run{Namespace: q.Namespace, Job: q.Job}, onerun.EventPaused, q.Who, ""); err != nil {
			return err
		}
		_, err = t.commit("pause")
		return err
	})
}

// Resume implements onerun.Operator.
func (l *Ledger) Resume(ctx context.Context, q onerun.PauseRequest) error {
	return l.decide(ctx, "resume", nil, func(t *tx) error {
		key := keyJob(q.Namespace, q.Job)
		j, err := load[onerun.JobState](t, key)
		if err != nil {
			return err
		}
		if j == nil {
			return &onerun.StateError{Why: q.Job + " is not paused"}
		}
		if err := t.clock(); err != nil {
			return err
		}
		t.delete(key)
		if err := t.event(nil, onerun.Run{Namespace: q.Namespace, Job: q.Job}, onerun.EventResumed, q.Who, ""); err != nil {
			return err
		}
		_, err = t.commit("resume")
		return err
	})
}
