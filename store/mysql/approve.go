package mysql

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
	return t.exec("UPDATE onerun_approval SET used_at = ?, used_attempt = 0, open_run = NULL WHERE id = ?", micros(t.now), id)
}

// GrantApproval implements sqlledger.Approver.
func (t *tx) GrantApproval(a onerun.Approval) error {
	return t.exec("UPDATE onerun_approval SET approved_by = ?, reason = ?, created_at = ?, expires_at = ? WHERE id = ?",
		a.By, a.Reason, micros(t.now), micros(a.ExpiresAt), a.ID)
}

// AddApproval implements sqlledger.Approver.
func (t *tx) AddApproval(a *onerun.Approval) error {
	r, err := t.conn.ExecContext(t.ctx, `INSERT INTO onerun_approval (run_id, open_run, status, attempt, reason, approved_by, created_at, expires_at, requested_by,
		request_reason, requested_at) VALUES (`+places(11)+")", sqlledger.Params([]any{
		a.RunID, a.RunID, a.Status, a.Attempt, a.Reason, a.By, micros(a.CreatedAt), micros(a.ExpiresAt),
		null(a.RequestedBy), null(a.RequestReason), micros(a.RequestedAt),
	})...)
	if err == nil {
		a.ID, err = r.LastInsertId()
	}
	return err
}
