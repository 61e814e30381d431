package mysql

import (
	"encoding/json"
	"fmt"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// runColumns are the columns of a run, as scanRun reads them. How often it was refused: with all
// reasons named, the second is a few look-ups and no walk over the job's skips.
const runColumns = `SELECT r.run_id, r.namespace, r.job, COALESCE(r."partition", ''), COALESCE(r.business_date, ''), r."lock", r.status, r.attempt,
	r.scheduled_at, r.started_at, r.finished_at, r.next_retry_at, COALESCE(r.token, 0), COALESCE(r.stale_after, 0), COALESCE(r.reason, ''), r.exit_code,
	COALESCE(r."signal", ''), COALESCE(r.error, ''), r.processed, r.failed, COALESCE(r.version_label, ''), COALESCE(r.labels, ''),
	COALESCE(a.owner, ''), a.worker_id, a.host, a.machine, a.boot, a.pid_ns, a.time_ns, a.pid, a.start_ticks, COALESCE(a.on_crash, ''), COALESCE(a.two_people, FALSE),
	COALESCE(a.retries, 0), COALESCE(a.backoff_min, 0), COALESCE(a.backoff_max, 0), COALESCE(a.retry_lost, FALSE), l.expires_at, ` + now + `,
	CASE WHEN r."key" IS NOT NULL THEN (
		SELECT COALESCE(SUM(s.count), 0) FROM onerun_skip s WHERE s.namespace = r.namespace AND s.job = r.job AND s."key" = r."key")
	ELSE (
		SELECT COALESCE(SUM(s.count), 0) FROM onerun_skip s WHERE s.namespace = r.namespace AND s.job = r.job AND s."key" = ''
			AND s.reason IN ('running', 'locked', 'stale') AND s.holder_hash = UNHEX(SHA2(CONCAT(r.run_id, '/', r.attempt), 256)))
	END,
	CASE WHEN r.status = 'RUNNING' THEN (
		SELECT COUNT(*) FROM onerun_attempt f WHERE f.run_id = r.run_id AND f.status = 'FAILED' AND NOT f.void)
	ELSE 0 END
FROM onerun_run r
LEFT JOIN onerun_attempt a ON a.run_id = r.run_id AND a.attempt = r.attempt
LEFT JOIN onerun_lock l ON r.status = 'RUNNING' AND l.namespace = r.namespace AND l."lock" = r."lock" AND l.owner = a.owner `

// runs reads runs.
func (t *tx) runs(tail string, args ...any) ([]*sqlledger.RunRow, error) {
	found, err := sqlledger.Rows(t.each, scanRun, runColumns+tail, args...)
	if err != nil {
		return nil, err
	}
	for _, r := range found {
		if r.Status == onerun.Running && r.StaleAfter == 0 {
			if r.Usual, err = t.usualOf(r.Namespace, r.Job); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// usualOf is the longest of a job's last successes, from which stale-after is reckoned.
func (t *tx) usualOf(namespace, job string) (longest *int64, err error) {
	err = t.row(`SELECT COALESCE(MAX(u.finished_at - u.started_at), 0) FROM (
		SELECT started_at, finished_at FROM onerun_run WHERE namespace = ? AND job = ? AND status = 'SUCCEEDED'
		ORDER BY started_at DESC, run_id DESC LIMIT ?) u`, namespace, job, onerun.UsualRuns).Scan(&longest)
	return longest, err
}

func scanRun(scan func(...any) error) (*sqlledger.RunRow, error) {
	r := &sqlledger.RunRow{}
	var scheduled, started, finished, retry *int64
	var stale, least, most int64
	var labels string
	var w sqlledger.WorkerRow
	var id *string
	err := scan(&r.RunID, &r.Namespace, &r.Job, &r.Partition, &r.BusinessDate, &r.Lock, &r.Status, &r.Attempt,
		&scheduled, &started, &finished, &retry, &r.Token, &stale, &r.Reason, &r.ExitCode,
		&r.Signal, &r.Error, &r.Processed, &r.Failed, &r.VersionLabel, &labels,
		&r.Owner, &id, &w.Host, &w.Machine, &w.Boot, &w.PIDNS, &w.TimeNS, &w.PID, &w.StartTicks, &r.OnCrash, &r.TwoPeople,
		&r.Policy.Retries, &least, &most, &r.Policy.RetryLost, &r.Expires, &r.ReadAt, &r.Skips, &r.Failures)
	if err != nil {
		return nil, err
	}
	r.ScheduledAt, r.StartedAt, r.FinishedAt, r.NextRetryAt = fromMicros(scheduled), fromMicros(started), fromMicros(finished), fromMicros(retry)
	r.StaleAfter, r.Policy.BackoffMin, r.Policy.BackoffMax = sqlledger.Micro(stale), sqlledger.Micro(least), sqlledger.Micro(most)
	r.Worker = w.Worker(id)
	if labels != "" {
		if err := json.Unmarshal([]byte(labels), &r.Labels); err != nil {
			return nil, badAnswer("read a run", err)
		}
	}
	return r, nil
}

// badAnswer can't happen: what is read this program has written.
func badAnswer(what string, err error) error {
	return &onerun.StoreError{
		Kind: onerun.ErrInternal, What: what, Err: fmt.Errorf("what the store holds can't be read: %w", err), Do: "please report this",
	}
}

// outcomeRow is an outcome that came too late, as it is kept.
type outcomeRow struct {
	Status     onerun.Status `json:"status"`
	Reason     onerun.Reason `json:"reason,omitempty"`
	ExitCode   *int          `json:"exit_code,omitempty"`
	Signal     string        `json:"signal,omitempty"`
	Error      string        `json:"error,omitempty"`
	Processed  *int64        `json:"processed,omitempty"`
	Failed     *int64        `json:"failed,omitempty"`
	FinishedUS *int64        `json:"finished_us,omitempty"`
	Void       bool          `json:"void,omitempty"`
}

func outcomeOf(o onerun.Outcome) outcomeRow {
	return outcomeRow{
		Status: o.Status, Reason: o.Reason, Signal: o.Signal, Error: onerun.CutError(o.Error), ExitCode: sqlledger.ExitCode(o.ExitCode),
		Processed: o.Processed, Failed: o.Failed, FinishedUS: micros(o.FinishedAt), Void: o.Void,
	}
}

func (r outcomeRow) outcome() onerun.Outcome {
	return onerun.Outcome{
		Status: r.Status, Reason: r.Reason, ExitCode: r.ExitCode, Signal: r.Signal, Error: r.Error,
		Processed: r.Processed, Failed: r.Failed, FinishedAt: fromMicros(r.FinishedUS), Void: r.Void,
	}
}
