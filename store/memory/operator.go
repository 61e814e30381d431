package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/onerun-dev/onerun"
)

// Resolve implements onerun.Operator.
func (s *Store) Resolve(ctx context.Context, q onerun.Resolution) (onerun.Run, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return onerun.Run{}, err
	}
	defer s.mu.Unlock()
	r := s.runs[q.RunID]
	if t := s.tombOf(q.Namespace, q.RunID, q.Job, q.Partition); t != nil {
		return onerun.Run{}, s.rules.Resolve(t, q.As, false)
	}
	switch {
	case q.RunID != "" && (r == nil || r.Namespace != q.Namespace):
		return onerun.Run{}, fmt.Errorf("run %s: %w", q.RunID, onerun.ErrNotFound)
	case q.RunID == "" && (q.Job == "" || q.Partition == ""):
		return onerun.Run{}, &onerun.StateError{Why: "only a key can be cancelled in advance; an unkeyed job has none"}
	case q.RunID == "":
		r = s.keys[s.id(q.Namespace, onerun.MakeKey(q.Job, q.Partition))]
	}
	detail := "cancelled in advance"
	if r == nil {
		if err := s.rules.Resolve(nil, q.As, false); err != nil {
			return onerun.Run{}, err
		}
		if q.Expect.Status != "" {
			return onerun.Run{}, &onerun.StateError{Why: "the run is gone"}
		}
		c := onerun.Claim{
			Namespace: q.Namespace, Job: q.Job, Partition: q.Partition, BusinessDate: q.BusinessDate,
			Lock: onerun.JobLock(q.Job), RunID: onerun.NewRunID(now),
		}
		r = s.create(c, now)
	} else {
		detail = fmt.Sprintf("%s to %s", r.Status, q.As)
		if !s.rules.Expected(r.Run, q.Expect) {
			return onerun.Run{}, changed(r.Run)
		}
		over := s.over(s.lockOf(r.Namespace, r.Lock), now)
		if err := s.rules.Resolve(&r.Run, q.As, over); err != nil {
			return onerun.Run{}, err
		}
	}
	if r.Status == onerun.Running {
		out := onerun.Outcome{Status: q.As}
		if q.As == onerun.Failed {
			out.Reason = onerun.ReasonLeaseExpired
		}
		s.free(s.lockOf(r.Namespace, r.Lock))
		s.close(r, out, onerun.ByOperator, now)
	}
	// The attempt stays what it was. A decision is final: no retry follows from it.
	r.Status, r.NextRetryAt = q.As, time.Time{}
	if q.As != onerun.Failed {
		r.Reason = ""
	}
	if r.FinishedAt.IsZero() {
		r.FinishedAt = now
	}
	s.event(now, onerun.EventResolved, r.Run, q.Who, detail)
	return s.look(r, now), nil
}

func changed(r onerun.Run) error {
	return &onerun.StateError{Why: fmt.Sprintf("%s changed meanwhile: it is %s now, attempt %d; look again", r.Name(), r.Status, r.Attempt)}
}

// Approve implements onerun.Operator.
func (s *Store) Approve(ctx context.Context, q onerun.ApprovalRequest) (onerun.Approval, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return onerun.Approval{}, err
	}
	defer s.mu.Unlock()
	r, pruned := s.runs[q.RunID], false
	if r == nil {
		r = s.buriedRun(q.Namespace, q.RunID)
		pruned = r != nil
	}
	switch {
	case r == nil || r.Namespace != q.Namespace:
		return onerun.Approval{}, fmt.Errorf("run %s: %w", q.RunID, onerun.ErrNotFound)
	case !s.rules.Expected(r.Run, q.Expect):
		return onerun.Approval{}, changed(r.Run)
	}
	open := s.lastApproval(r.RunID)
	if err := s.rules.Approve(r.Run, open, q, now); err != nil {
		return onerun.Approval{}, err
	}
	if pruned {
		s.unbury(r)
	}
	var a *onerun.Approval
	event := onerun.EventRerunApproved
	switch {
	case q.Step == onerun.ApproveRequest:
		event = onerun.EventRerunRequested
		a = s.approval(r, q, now)
		a.RequestedBy, a.RequestReason, a.RequestedAt = q.By, q.Reason, now
	case open != nil && open.By == "" && open.Status == r.Status && open.Attempt == r.Attempt &&
		(open.ExpiresAt.IsZero() || now.Before(open.ExpiresAt)): // what was requested is approved
		a = open
		a.By, a.Reason, a.CreatedAt, a.ExpiresAt = q.By, q.Reason, now, q.ExpiresAt
	default:
		a = s.approval(r, q, now)
		a.By, a.Reason = q.By, q.Reason
	}
	s.event(now, event, r.Run, q.Who, "")
	return *a, nil
}

// approval makes one for a run as it is now.
func (s *Store) approval(r *record, q onerun.ApprovalRequest, now time.Time) *onerun.Approval {
	a := &onerun.Approval{
		ID: int64(len(s.approvals) + 1), RunID: r.RunID, Status: r.Status, Attempt: r.Attempt, CreatedAt: now, ExpiresAt: q.ExpiresAt,
	}
	s.approvals = append(s.approvals, a)
	return a
}

// Stop implements onerun.Operator.
func (s *Store) Stop(ctx context.Context, q onerun.StopRequest) error {
	now, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	r := s.runs[q.RunID]
	if r == nil || r.Namespace != q.Namespace {
		return fmt.Errorf("run %s: %w", q.RunID, onerun.ErrNotFound)
	}
	if !s.rules.Expected(r.Run, q.Expect) {
		return changed(r.Run)
	}
	l := s.lockOf(r.Namespace, r.Lock)
	if err := onerun.StopAllowed(s.look(r, now), s.over(l, now)); err != nil {
		return err
	}
	l.stop = q.By + ": " + q.Reason
	s.event(now, onerun.EventStopRequested, r.Run, q.Who, "")
	return nil
}

// Pause implements onerun.Operator.
func (s *Store) Pause(ctx context.Context, q onerun.PauseRequest) error {
	now, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	id := s.id(q.Namespace, q.Job)
	if j := s.jobs[id]; j != nil {
		return &onerun.StateError{Why: fmt.Sprintf("%s is paused already, by %s: %s", j.Job, j.PausedBy, j.Reason)}
	}
	s.jobs[id] = &onerun.JobState{Namespace: q.Namespace, Job: q.Job, PausedAt: now, PausedBy: q.By, Reason: q.Reason}
	s.event(now, onerun.EventPaused, onerun.Run{Namespace: q.Namespace, Job: q.Job}, q.Who, "")
	return nil
}

// Resume implements onerun.Operator.
func (s *Store) Resume(ctx context.Context, q onerun.PauseRequest) error {
	now, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	id := s.id(q.Namespace, q.Job)
	if s.jobs[id] == nil {
		return &onerun.StateError{Why: q.Job + " is not paused"}
	}
	delete(s.jobs, id)
	s.event(now, onerun.EventResumed, onerun.Run{Namespace: q.Namespace, Job: q.Job}, q.Who, "")
	return nil
}
