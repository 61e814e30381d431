package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// leaseRow is a lease as the functions take it, with what one of them is told besides. What it
// doesn't say is NULL there.
type leaseRow struct {
	Namespace string          `json:"namespace"`
	Lock      onerun.LockName `json:"lock"`
	Owner     string          `json:"owner"`
	Token     int64           `json:"token"`
	RunID     *string         `json:"run_id,omitempty"`
	Attempt   *int            `json:"attempt,omitempty"`
	Outcome   *outcomeRow     `json:"outcome,omitempty"`
	Processed *int64          `json:"processed,omitempty"`
	Failed    *int64          `json:"failed,omitempty"`
	Output    *outputRow      `json:"output,omitempty"`
}

func leaseOf(l onerun.Lease) leaseRow {
	return leaseRow{Namespace: l.Namespace, Lock: l.Lock, Owner: l.Owner, Token: l.Token, RunID: null(l.RunID), Attempt: null(l.Attempt)}
}

// Heartbeat implements onerun.Claimer, in one round trip.
func (s *Store) Heartbeat(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
	request, err := encode(leaseOf(l))
	if err != nil {
		return onerun.Beat{}, err
	}
	var text *string
	if err := s.call(ctx, "heartbeat", "onerun_heartbeat($1::jsonb)", []any{request}, &text); err != nil {
		return onerun.Beat{}, err
	}
	if text == nil {
		return onerun.Beat{}, fmt.Errorf("%w: %s of this owner is not in the store any more", onerun.ErrLost, l.Lock)
	}
	var a struct {
		NowUS int64  `json:"now_us"`
		Stop  string `json:"stop"`
	}
	if err := json.Unmarshal([]byte(*text), &a); err != nil {
		return onerun.Beat{}, badAnswer("heartbeat", err)
	}
	return onerun.Beat{Now: fromMicros(&a.NowUS), Stop: a.Stop}, nil
}

// Finish implements onerun.Claimer, in one round trip.
func (s *Store) Finish(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
	if l.RunID != "" && !sqlledger.Ended(o.Status) {
		return fmt.Errorf("%w: an attempt can't end as %q", onerun.ErrUsage, o.Status)
	}
	s.hook("record the end")
	err := s.finish(ctx, l, o)
	if o.Output != nil && refusedText(err) { // the status is never lost for the sake of its text
		o.Output = nil
		err = s.finish(ctx, l, o)
	}
	s.hook("recorded")
	return err
}

// refusedText reports whether an end could perhaps be recorded if it were shorter: whatever
// it was that the server refused, but not that it can't be reached, or that the end comes
// too late.
func refusedText(err error) bool {
	return errors.Is(err, onerun.ErrIO) || errors.Is(err, onerun.ErrInternal)
}

func (s *Store) finish(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
	p := leaseOf(l)
	end := outcomeOf(o)
	row, text := outputOf(o.Output)
	p.Outcome, p.Output = &end, row
	request, err := encode(p)
	if err != nil {
		return err
	}
	var answer string
	if err := s.call(ctx, "record the end", "onerun_finish($1::jsonb, $2)", []any{request, text}, &answer); err != nil {
		return err
	}
	var a struct {
		Result string  `json:"result"`
		Status *string `json:"status"`
		Token  *int64  `json:"token"`
	}
	if err := json.Unmarshal([]byte(answer), &a); err != nil {
		return badAnswer("record the end", err)
	}
	switch {
	case a.Result != "lost":
		return nil
	case a.Token != nil && *a.Token != l.Token:
		return fmt.Errorf("%w: the lock has a new owner with token %d", onerun.ErrLost, *a.Token)
	case a.Status != nil && onerun.Status(*a.Status) != onerun.Running:
		return fmt.Errorf("%w: the attempt is %s already", onerun.ErrLost, *a.Status)
	}
	return fmt.Errorf("%w: the lock or the run is not this owner's any more, or has vanished", onerun.ErrLost)
}

// outcomeRow is an outcome in a request, and as a late one is kept.
type outcomeRow struct {
	Status     onerun.Status `json:"status"`
	Reason     *string       `json:"reason,omitempty"`
	ExitCode   *int          `json:"exit_code,omitempty"`
	Signal     *string       `json:"signal,omitempty"`
	Error      *string       `json:"error,omitempty"`
	Processed  *int64        `json:"processed,omitempty"`
	Failed     *int64        `json:"failed,omitempty"`
	FinishedUS *int64        `json:"finished_us,omitempty"`
	Void       bool          `json:"void"`
}

func outcomeOf(o onerun.Outcome) outcomeRow {
	return outcomeRow{
		Status: o.Status, Reason: null(string(o.Reason)), ExitCode: sqlledger.ExitCode(o.ExitCode), Signal: null(o.Signal), Error: null(onerun.CutError(o.Error)),
		Processed: o.Processed, Failed: o.Failed, FinishedUS: micros(o.FinishedAt), Void: o.Void,
	}
}

func (r outcomeRow) outcome() onerun.Outcome {
	return onerun.Outcome{
		Status: r.Status, Reason: onerun.Reason(or(r.Reason)), ExitCode: r.ExitCode, Signal: or(r.Signal), Error: or(r.Error),
		Processed: r.Processed, Failed: r.Failed, FinishedAt: fromMicros(r.FinishedUS), Void: r.Void,
	}
}

// outputRow is what is to be known of an output in a request. Its text travels beside it.
type outputRow struct {
	Total     int64 `json:"total"`
	Truncated bool  `json:"truncated"`
}

func outputOf(o *onerun.Output) (*outputRow, string) {
	if o == nil {
		return nil, ""
	}
	c := o.Cleaned()
	return &outputRow{c.Total, c.Truncated}, c.Text
}

// Report implements onerun.Claimer, in one round trip. It doesn't wait for the disk: the
// numbers are written again with the end.
func (s *Store) Report(ctx context.Context, l onerun.Lease, pr onerun.Progress) error {
	if l.RunID == "" {
		return fmt.Errorf("%w: a lock alone has no progress", onerun.ErrUsage)
	}
	p := leaseOf(l)
	row, text := outputOf(pr.Output)
	p.Processed, p.Failed, p.Output = pr.Processed, pr.Failed, row
	request, err := encode(p)
	if err != nil {
		return err
	}
	var ours bool
	if err := s.call(ctx, "report progress", "onerun_report($1::jsonb, $2)", []any{request, text}, &ours); err != nil {
		return err
	}
	if !ours {
		return fmt.Errorf("%w: the run was closed by somebody else", onerun.ErrLost)
	}
	return nil
}

// Output implements onerun.Ledger.
func (s *Store) Output(ctx context.Context, namespace, runID string, attempt int) (onerun.Output, error) {
	var o onerun.Output
	err := s.read(ctx, "read an output", func(t *tx) error {
		var at int64
		err := t.row(`SELECT onerun_us(o.at), o.bytes_total, o.truncated, o.text FROM onerun_output o
			JOIN onerun_run r ON r.run_id = o.run_id WHERE o.run_id = $1 AND o.attempt = $2 AND r.namespace = $3`, runID, attempt, namespace).
			Scan(&at, &o.Total, &o.Truncated, &o.Text)
		if noRows(err) {
			return fmt.Errorf("output of attempt %d of run %s: %w", attempt, runID, onerun.ErrNotFound)
		}
		o.At = fromMicros(&at)
		return err
	})
	return o, err
}
