package redis

import (
	"cmp"
	"context"
	"fmt"

	"github.com/onerun-dev/onerun"
)

// Approve implements onerun.Operator.
func (s *Store) Approve(ctx context.Context, q onerun.ApprovalRequest) (onerun.Approval, error) {
	var a onerun.Approval
	err := s.change(ctx, "approve a rerun", q.Namespace, func(c *change) (err error) {
		a, err = c.approve(q)
		return err
	})
	return a, err
}

func (c *change) approve(q onerun.ApprovalRequest) (a onerun.Approval, err error) {
	r, err := c.runToApprove(q)
	if err != nil {
		return a, err
	}
	run := r.run()
	all := r.approvals()
	n := int(number(r.f["open"]))
	var open *onerun.Approval
	if n > 0 && n <= len(all) {
		open = &all[n-1]
	}
	if err := onerun.ApproveAllowed(run, open, q, c.now); err != nil {
		return a, err
	}
	requested := open != nil && open.By == "" && open.Status == run.Status && open.Attempt == run.Attempt &&
		(open.ExpiresAt.IsZero() || c.now.Before(open.ExpiresAt))
	key := c.k.run(r.id)
	if open != nil && !requested { // outdated: the run is not what its author saw, or the time is over
		c.set(key, fmtField("u", n), micros(c.now)+" 0")
	}
	a = onerun.Approval{RunID: run.RunID, Status: run.Status, Attempt: run.Attempt, CreatedAt: c.now, ExpiresAt: q.ExpiresAt}
	event := onerun.EventRerunApproved
	switch {
	case q.Step == onerun.ApproveRequest:
		event = onerun.EventRerunRequested
		n = len(all) + 1
		a.RequestedBy, a.RequestReason, a.RequestedAt = q.By, q.Reason, c.now
	case requested:
		a = *open
		a.By, a.Reason, a.CreatedAt, a.ExpiresAt = q.By, q.Reason, c.now, q.ExpiresAt
	default:
		n = len(all) + 1
		a.By, a.Reason = q.By, q.Reason
	}
	if err := c.event(event, run, q.Who, ""); err != nil {
		return a, err
	}
	if a.ID == 0 {
		found, err := c.get([]string{"HGET", c.k.dir(), "approvals"})
		if err != nil {
			return a, err
		}
		a.ID = number(found[0]) + 1
		c.set(c.k.dir(), "approvals", digits(a.ID))
	}
	c.set(key, fmtField("p", n), encode(approvalOf(a)), "open", digits(n), "v", next(r.f["v"]))
	if a.By != "" {
		c.set(key, "approved", fmt.Sprintf("%s %d %s", a.Status, a.Attempt, cmp.Or(micros(a.ExpiresAt), "-")))
	} else {
		c.write("HDEL", key, "approved")
	}
	return a, nil
}

// runToApprove reads the run, as its operator expects it. One that was pruned comes back from
// its tombstone.
func (c *change) runToApprove(q onerun.ApprovalRequest) (*record, error) {
	r, err := c.run(q.RunID)
	if err != nil {
		return nil, err
	}
	if r != nil {
		if run := r.run(); onerun.Expected(run) != q.Expect {
			return nil, changed(run)
		}
		return r, nil
	}
	tomb, err := c.tomb(q.RunID, "")
	if err != nil {
		return nil, err
	}
	if tomb == nil {
		return nil, fmt.Errorf("run %s: %w", q.RunID, onerun.ErrNotFound)
	}
	run := tomb.run()
	if onerun.Expected(run) != q.Expect {
		return nil, changed(run)
	}
	// Whether it is allowed is asked of the run that it will be.
	return c.revive(tomb)
}
