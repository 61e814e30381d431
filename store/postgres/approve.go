package postgres

import (
	"context"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// Approve implements onerun.Operator.
func (s *Store) Approve(ctx context.Context, q onerun.ApprovalRequest) (onerun.Approval, error) {
	return sqlledger.Approve(ctx, s.write, q)
}

// ToApprove implements sqlledger.Approver.
func (t *tx) ToApprove(namespace, runID string) (*onerun.Run, error) {
	return sqlledger.SeenOrNil(t.InHand(namespace, runID))
}

// CloseApproval implements sqlledger.Approver.
func (t *tx) CloseApproval(id int64) error {
	return t.exec("UPDATE onerun_approval SET used_at = onerun_at($2), used_attempt = 0 WHERE id = $1", id, micros(t.now))
}

// GrantApproval implements sqlledger.Approver.
func (t *tx) GrantApproval(a onerun.Approval) error {
	return t.exec("UPDATE onerun_approval SET approved_by = $2, reason = $3, created_at = onerun_at($4), expires_at = onerun_at($5) WHERE id = $1",
		a.ID, a.By, a.Reason, micros(t.now), micros(a.ExpiresAt))
}

// AddApproval implements sqlledger.Approver.
func (t *tx) AddApproval(a *onerun.Approval) error {
	return t.row(`INSERT INTO onerun_approval (run_id, status, attempt, reason, approved_by, created_at, expires_at, requested_by, request_reason, requested_at)
		VALUES ($1, $2, $3, $4, $5, onerun_at($6), onerun_at($7), $8, $9, onerun_at($10)) RETURNING id`,
		a.RunID, a.Status, a.Attempt, a.Reason, a.By, micros(a.CreatedAt), micros(a.ExpiresAt),
		null(a.RequestedBy), null(a.RequestReason), micros(a.RequestedAt)).Scan(&a.ID)
}
