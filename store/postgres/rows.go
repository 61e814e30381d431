package postgres

import (
	"encoding/json"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// runRow is a row of the view onerun_look.
type runRow struct {
	RunID        string            `json:"run_id"`
	Namespace    string            `json:"namespace"`
	Job          string            `json:"job"`
	Partition    *string           `json:"partition"`
	BusinessDate *string           `json:"business_date"`
	Lock         string            `json:"lock"`
	Status       string            `json:"status"`
	Attempt      int               `json:"attempt"`
	ScheduledUS  *int64            `json:"scheduled_us"`
	StartedUS    *int64            `json:"started_us"`
	FinishedUS   *int64            `json:"finished_us"`
	RetryUS      *int64            `json:"retry_us"`
	Token        *int64            `json:"token"`
	StaleAfter   *int64            `json:"stale_after"`
	Reason       *string           `json:"reason"`
	ExitCode     *int              `json:"exit_code"`
	Signal       *string           `json:"signal"`
	Error        *string           `json:"error"`
	Processed    *int64            `json:"processed"`
	Failed       *int64            `json:"failed"`
	VersionLabel *string           `json:"version_label"`
	Labels       map[string]string `json:"labels"`
	Owner        *string           `json:"owner"`
	WorkerID     *string           `json:"worker_id"`
	OnCrash      *string           `json:"on_crash"`
	TwoPeople    *bool             `json:"two_people"`
	Retries      int               `json:"retries"`
	BackoffMin   int64             `json:"backoff_min"`
	BackoffMax   int64             `json:"backoff_max"`
	RetryLost    bool              `json:"retry_lost"`
	ExpiresUS    *int64            `json:"expires_us"`
	NowUS        int64             `json:"now_us"`
	Skips        int64             `json:"skips"`
	Usual        *int64            `json:"usual"`
	Failures     int               `json:"failures"`
	Evidence     string            `json:"evidence"` // of a run that was closed just now
	sqlledger.WorkerRow
}

// runs reads rows of the view.
func (t *tx) runs(where string, args ...any) ([]*sqlledger.RunRow, error) {
	return sqlledger.Rows(t.each, scanRun, "SELECT to_jsonb(v)::text FROM onerun_look v "+where, args...)
}

func scanRun(scan func(...any) error) (*sqlledger.RunRow, error) {
	var text string
	if err := scan(&text); err != nil {
		return nil, err
	}
	r := &runRow{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, badAnswer("read a run", err)
	}
	return r.row(), nil
}

// row is the row as it is read in a transaction.
func (r *runRow) row() *sqlledger.RunRow {
	return &sqlledger.RunRow{
		Run: onerun.Run{
			RunID: r.RunID, Namespace: r.Namespace, Job: r.Job, Partition: or(r.Partition), BusinessDate: or(r.BusinessDate),
			Lock: onerun.LockName(r.Lock), Status: onerun.Status(r.Status), Attempt: r.Attempt, ScheduledAt: fromMicros(r.ScheduledUS),
			NextRetryAt: fromMicros(r.RetryUS), Skips: r.Skips, VersionLabel: or(r.VersionLabel), Labels: r.Labels, Evidence: r.Evidence,
			Execution: onerun.Execution{
				Owner: or(r.Owner), Token: or(r.Token), Worker: r.Worker(r.WorkerID), StartedAt: fromMicros(r.StartedUS), FinishedAt: fromMicros(r.FinishedUS),
				StaleAfter: sqlledger.Micro(or(r.StaleAfter)), OnCrash: onerun.OnCrash(or(r.OnCrash)), TwoPeople: or(r.TwoPeople),
				Reason: onerun.Reason(or(r.Reason)), ExitCode: r.ExitCode, Signal: or(r.Signal), Error: or(r.Error), Processed: r.Processed, Failed: r.Failed,
			},
		},
		Policy: onerun.Policy{
			Retries: r.Retries, BackoffMin: sqlledger.Micro(r.BackoffMin), BackoffMax: sqlledger.Micro(r.BackoffMax), RetryLost: r.RetryLost,
		},
		Usual: r.Usual, Expires: r.ExpiresUS, ReadAt: r.NowUS, Failures: r.Failures,
	}
}

// run is the run with what is found out about it when it is read.
func (r *runRow) run() onerun.Run { return r.row().Seen() }
