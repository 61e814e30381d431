package sqlite

import (
	"context"
	"fmt"

	"github.com/onerun-dev/onerun"
)

// Approve implements onerun.Operator.
func (s *Store) Approve(ctx context.Context, q onerun.ApprovalRequest) (onerun.Approval, error) {
	var a onerun.Approval
	err := s.write(ctx, "approve a rerun", func(t *tx) (err error) {
		a, err = t.approve(q)
		return err
	})
	return a, err
}

func (t *tx) approve(q onerun.ApprovalRequest) (a onerun.Approval, err error) {
	run, err := t.runToApprove(q)
	if err != nil {
		return a, err
	}
	open, err := t.openApproval(run.RunID)
	if err != nil {
		return a, err
	}
	if err := onerun.ApproveAllowed(run, open, q, t.now); err != nil {
		return a, err
	}
	requested := open != nil && open.By == "" && open.Status == run.Status && open.Attempt == run.Attempt &&
		(open.ExpiresAt.IsZero() || t.now.Before(open.ExpiresAt))
	if open != nil && !requested { // outdated: the run is not what its author saw, or the time is over
		if err := t.exec("UPDATE onerun_approval SET used_at = ?2, used_attempt = 0 WHERE id = ?1", open.ID, t.now.UnixMicro()); err != nil {
			return a, err
		}
	}
	a = onerun.Approval{RunID: run.RunID, Status: run.Status, Attempt: run.Attempt, CreatedAt: t.now, ExpiresAt: q.ExpiresAt}
	event := onerun.EventRerunApproved
	switch {
	case q.Step == onerun.ApproveRequest:
		event = onerun.EventRerunRequested
		a.RequestedBy, a.RequestReason, a.RequestedAt = q.By, q.Reason, t.now
		err = t.insertApproval(&a)
	case requested:
		a = *open
		a.By, a.Reason, a.CreatedAt, a.ExpiresAt = q.By, q.Reason, t.now, q.ExpiresAt
		err = t.exec("UPDATE onerun_approval SET approved_by = ?2, reason = ?3, created_at = ?4, expires_at = ?5 WHERE id = ?1",
			a.ID, a.By, a.Reason, t.now.UnixMicro(), micros(a.ExpiresAt))
	default:
		a.By, a.Reason = q.By, q.Reason
		err = t.insertApproval(&a)
	}
	if err != nil {
		return a, err
	}
	return a, t.event(decision(event, q.Who, ""), run)
}

// runToApprove reads the run, as its operator expects it. One that was pruned comes back
// from its tombstone.
func (t *tx) runToApprove(q onerun.ApprovalRequest) (onerun.Run, error) {
	found, err := t.runs("WHERE r.namespace = ?1 AND r.run_id = ?2", q.Namespace, q.RunID)
	if err != nil {
		return onerun.Run{}, err
	}
	if len(found) == 1 {
		run := found[0].Run
		if onerun.Expected(run) != q.Expect {
			return run, changed(run)
		}
		return run, nil
	}
	tomb, err := t.tombstoneOf(q.Namespace, "", q.RunID)
	switch {
	case err != nil:
		return onerun.Run{}, err
	case tomb == nil:
		return onerun.Run{}, fmt.Errorf("run %s: %w", q.RunID, onerun.ErrNotFound)
	case onerun.Expected(*tomb) != q.Expect:
		return *tomb, changed(*tomb)
	}
	return *tomb, t.revive(*tomb)
}

func (t *tx) insertApproval(a *onerun.Approval) error {
	return t.row(`INSERT INTO onerun_approval (run_id, status, attempt, reason, approved_by, created_at, expires_at, requested_by, request_reason, requested_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) RETURNING id`,
		a.RunID, a.Status, a.Attempt, a.Reason, a.By, a.CreatedAt.UnixMicro(), micros(a.ExpiresAt),
		null(a.RequestedBy), null(a.RequestReason), micros(a.RequestedAt)).Scan(&a.ID)
}
