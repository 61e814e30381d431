package sqlite

import (
	"encoding/json"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// Attempts implements sqlledger.Deliverer and sqlledger.DetailReader.
func (t *tx) Attempts(runID string) ([]onerun.Attempt, error) {
	var out []onerun.Attempt
	err := t.each(func(scan func(...any) error) error {
		var a onerun.Attempt
		var started, finished, stale *int64
		var pidns, timens, ticks int64
		var late string
		err := scan(&a.Number, &a.Status, &a.Void, &a.Owner, &a.Token, &a.Worker.Label, &a.Worker.Host, &a.Worker.Machine,
			&a.Worker.Boot, &pidns, &timens, &a.Worker.PID, &ticks, &a.OnCrash, &stale, &started, &finished,
			&a.Reason, &a.ExitCode, &a.Signal, &a.Error, &a.Processed, &a.Failed, &a.TwoPeople, &a.ClosedBy, &late)
		a.Worker.PIDNS, a.Worker.TimeNS, a.Worker.StartTicks = uint64(pidns), uint64(timens), uint64(ticks)
		a.Worker.Label = labelOf(a.Worker)
		a.StartedAt, a.FinishedAt = fromMicros(started), fromMicros(finished)
		if stale != nil {
			a.StaleAfter = time.Duration(*stale) * time.Microsecond
		}
		if err == nil && late != "" {
			var o filelock.Outcome
			err = json.Unmarshal([]byte(late), &o)
			out := o.Outcome()
			a.Late = &out
		}
		out = append(out, a)
		return err
	}, `SELECT attempt, status, void, owner, token, coalesce(worker_id, ''), coalesce(host, ''), coalesce(machine, ''),
		coalesce(boot, ''), coalesce(pid_ns, 0), coalesce(time_ns, 0), coalesce(pid, 0), coalesce(start_ticks, 0), on_crash, stale_after, started_at, finished_at,
		coalesce(reason, ''), exit_code, coalesce(signal, ''), coalesce(error, ''), processed, failed, two_people, coalesce(closed_by, ''), coalesce(late, '')
		FROM onerun_attempt WHERE run_id = ?1 ORDER BY attempt`, runID)
	return out, err
}

// Approvals implements sqlledger.DetailReader.
func (t *tx) Approvals(runID string) ([]onerun.Approval, error) {
	return sqlledger.Approvals(t.each, fromMicros, `SELECT id, status, attempt, reason, approved_by, created_at, expires_at, used_at, coalesce(used_attempt, 0),
		coalesce(requested_by, ''), coalesce(request_reason, ''), requested_at
		FROM onerun_approval WHERE run_id = ?1 ORDER BY id`, runID)
}

// EventsOf implements sqlledger.DetailReader.
func (t *tx) EventsOf(runID string) ([]onerun.Event, error) {
	return t.eventsWhere("run_id = ?1", runID)
}

// decisions reads what people decided about a job as a whole, or about a lock of its name.
func (t *tx) decisions(namespace, job string) ([]onerun.Event, error) {
	return t.eventsWhere("chain = ?1 AND namespace = ?2 AND job = ?3 AND run_id IS NULL", sqlledger.OperatorsChain, namespace, job)
}

func (t *tx) eventsWhere(where string, args ...any) ([]onerun.Event, error) {
	return sqlledger.Events(t.each, fromMicros, `SELECT coalesce(run_id, ''), namespace, id, at, event, job, coalesce(key, ''), coalesce(by, ''), coalesce(reason, ''), coalesce(detail, ''), coalesce(terminal, '')
		FROM onerun_event WHERE `+where+` ORDER BY id`, args...)
}

// Skips implements sqlledger.DetailReader.
func (t *tx) Skips(namespace, job, key string) ([]onerun.Skip, error) {
	return sqlledger.Skips(t.each, fromMicros, `SELECT reason, holder, detail, count, first_at, last_at FROM onerun_skip
		WHERE namespace = ?1 AND job = ?2 AND key = ?3 ORDER BY first_at, reason, holder`, namespace, job, key)
}
