package sqlledger

import (
	"context"
	"fmt"

	"github.com/onerun-dev/onerun"
)

// Approver is a transaction in which a rerun is approved, or requested.
type Approver interface {
	Journal
	// ToApprove reads a run, and takes it in hand; nil: there is none.
	ToApprove(namespace, runID string) (*onerun.Run, error)
	// TombstoneOf reads the tombstone of a run; nil: there is none.
	TombstoneOf(namespace, key, runID string) (*onerun.Run, error)
	// Revive makes a run of a tombstone again.
	Revive(r onerun.Run) error
	// OpenApproval reads the approval of a run that is unspent, or the request for one; nil: there is none.
	OpenApproval(runID string) (*onerun.Approval, error)
	// CloseApproval spends an approval on nothing.
	CloseApproval(id int64) error
	// GrantApproval writes down who approved what was requested.
	GrantApproval(a onerun.Approval) error
	// AddApproval writes a new one down, and gives it its id.
	AddApproval(a *onerun.Approval) error
}

// Approve approves a rerun, or requests one.
func Approve[T Approver](ctx context.Context, write Transact[T], q onerun.ApprovalRequest) (a onerun.Approval, err error) {
	err = write(ctx, "approve a rerun", func(t T) (err error) {
		a, err = approve(t, q)
		return err
	})
	return a, err
}

func approve(t Approver, q onerun.ApprovalRequest) (a onerun.Approval, err error) {
	run, err := runToApprove(t, q)
	if err != nil {
		return a, err
	}
	open, err := t.OpenApproval(run.RunID)
	if err != nil {
		return a, err
	}
	now := t.Now()
	if err := onerun.ApproveAllowed(run, open, q, now); err != nil {
		return a, err
	}
	requested := open != nil && open.By == "" && open.Status == run.Status && open.Attempt == run.Attempt &&
		(open.ExpiresAt.IsZero() || now.Before(open.ExpiresAt))
	if open != nil && !requested { // outdated: the run is not what its author saw, or the time is over
		if err := t.CloseApproval(open.ID); err != nil {
			return a, err
		}
	}
	a = onerun.Approval{RunID: run.RunID, Status: run.Status, Attempt: run.Attempt, CreatedAt: now, ExpiresAt: q.ExpiresAt}
	event := onerun.EventRerunApproved
	switch {
	case q.Step == onerun.ApproveRequest:
		event = onerun.EventRerunRequested
		a.RequestedBy, a.RequestReason, a.RequestedAt = q.By, q.Reason, now
		err = t.AddApproval(&a)
	case requested:
		a = *open
		a.By, a.Reason, a.CreatedAt, a.ExpiresAt = q.By, q.Reason, now, q.ExpiresAt
		err = t.GrantApproval(a)
	default:
		a.By, a.Reason = q.By, q.Reason
		err = t.AddApproval(&a)
	}
	if err != nil {
		return a, err
	}
	return a, t.Event(decision(event, q.Who, ""), run)
}

// runToApprove reads the run, as its operator expects it, and keeps its row in hand. One
// that was pruned comes back from its tombstone.
func runToApprove(t Approver, q onerun.ApprovalRequest) (onerun.Run, error) {
	run, err := t.ToApprove(q.Namespace, q.RunID)
	if err != nil {
		return onerun.Run{}, err
	}
	if run != nil {
		return *run, Expect(*run, q.Expect)
	}
	tomb, err := t.TombstoneOf(q.Namespace, "", q.RunID)
	if err == nil && tomb == nil {
		err = fmt.Errorf("run %s: %w", q.RunID, onerun.ErrNotFound)
	}
	if err != nil {
		return onerun.Run{}, err
	}
	if err := Expect(*tomb, q.Expect); err != nil {
		return *tomb, err
	}
	return *tomb, t.Revive(*tomb)
}
