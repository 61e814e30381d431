package mysql

import (
	"encoding/json"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// Attempts implements sqlledger.Deliverer and sqlledger.DetailReader.
func (t *tx) Attempts(runID string) ([]onerun.Attempt, error) {
	return sqlledger.Attempts(t.each, late, `SELECT a.attempt, a.status, a.void, a.owner, a.token, a.worker_id, a.host, a.machine, a.boot, a.pid_ns, a.time_ns, a.pid, a.start_ticks,
			a.on_crash, a.stale_after, a.started_at, a.finished_at, l.expires_at, COALESCE(a.reason, ''), a.exit_code,
			COALESCE(a."signal", ''), COALESCE(a.error, ''), a.processed, a.failed, a.two_people, COALESCE(a.closed_by, ''), a.late
		FROM onerun_attempt a JOIN onerun_run r ON r.run_id = a.run_id
		LEFT JOIN onerun_lock l ON a.status = 'RUNNING' AND l.namespace = r.namespace AND l."lock" = a."lock" AND l.owner = a.owner
		WHERE a.run_id = ? ORDER BY a.attempt`, runID)
}

// late reads an end that came too late.
func late(text string) (onerun.Outcome, error) {
	var o outcomeRow
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return onerun.Outcome{}, badAnswer("read an attempt", err)
	}
	return o.outcome(), nil
}

// Approvals implements sqlledger.DetailReader.
func (t *tx) Approvals(runID string) ([]onerun.Approval, error) {
	return sqlledger.Approvals(t.each, fromMicros, `SELECT id, status, attempt, reason, approved_by, created_at, expires_at, used_at, COALESCE(used_attempt, 0),
			COALESCE(requested_by, ''), COALESCE(request_reason, ''), requested_at
		FROM onerun_approval WHERE run_id = ? ORDER BY id`, runID)
}

// OpenApproval implements sqlledger.Approver and sqlledger.StateReader.
func (t *tx) OpenApproval(runID string) (*onerun.Approval, error) {
	return sqlledger.Unspent(t.Approvals(runID))
}

// EventsOf implements sqlledger.DetailReader.
func (t *tx) EventsOf(runID string) ([]onerun.Event, error) {
	return t.events("WHERE run_id = ?", runID)
}

// events reads events, oldest first.
func (t *tx) events(where string, args ...any) ([]onerun.Event, error) {
	return sqlledger.Events(t.each, fromMicros, `SELECT COALESCE(run_id, ''), namespace, id, at, event, job, COALESCE("key", ''), COALESCE("by", ''), COALESCE(reason, ''),
			COALESCE(detail, ''), COALESCE(terminal, '')
		FROM onerun_event `+where+" ORDER BY id", args...)
}

// Skips implements sqlledger.DetailReader.
func (t *tx) Skips(namespace, job, key string) ([]onerun.Skip, error) {
	return sqlledger.Skips(t.each, fromMicros, `SELECT reason, holder, detail, count, first_at, last_at FROM onerun_skip
		WHERE namespace = ? AND job = ? AND "key" = ? ORDER BY first_at, reason, holder`, namespace, job, key)
}
