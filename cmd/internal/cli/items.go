package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

type itemsCmd struct {
	Job   word       `arg:"" optional:"" help:"Items of this job alone."`
	State itemStates `placeholder:"STATE" help:"Only items that are started, done or failed; a list with commas; may be repeated."`
	Limit int        `default:"50" placeholder:"N" help:"At most N items; 0: all (50)."`
	JSON  bool       `name:"json" help:"One JSON document instead of a table."`
}

// Help explains the command.
func (itemsCmd) Help() string {
	return `Items are units of work inside of jobs that are done once ever; see onerun item. Those begun last come first. Of a started
one the evidence says whether its owner still works.`
}

// itemStates are the states that a listing is narrowed to.
type itemStates []onerun.ItemState

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *itemStates) UnmarshalText(text []byte) error {
	for name := range strings.SplitSeq(string(text), ",") {
		state := onerun.ItemState(strings.ToLower(name))
		switch state {
		case onerun.ItemStarted, onerun.ItemDone, onerun.ItemFailed:
			*s = append(*s, state)
		default:
			return fmt.Errorf("%q is no state of an item; use started, done or failed", name)
		}
	}
	return nil
}

// itemView is an item as documented.
type itemView struct {
	Item       string           `json:"item"`
	Job        string           `json:"job"`
	Namespace  string           `json:"namespace"`
	State      onerun.ItemState `json:"state"`
	Tries      int              `json:"tries"`
	RunID      string           `json:"run_id"`
	Attempt    int              `json:"attempt"`
	Payload    *string          `json:"payload"`
	PID        *int             `json:"pid"`
	OnCrash    onerun.OnCrash   `json:"on_crash"`
	StartedAt  *string          `json:"started_at"`
	FinishedAt *string          `json:"finished_at"`
	DurationMS *int64           `json:"duration_ms"`
	ExitCode   *int             `json:"exit_code"`
	Signal     *string          `json:"signal"`
	Error      *string          `json:"error"`
	Liveness   *string          `json:"liveness"`
	Evidence   *string          `json:"evidence"`
}

func viewItem(it onerun.Item) itemView {
	return itemView{
		Item: it.Name, Job: it.Job, Namespace: it.Namespace, State: it.State, Tries: it.Tries, RunID: it.RunID, Attempt: it.Attempt,
		Payload: nilIf(it.Payload, ""), PID: nilIf(it.Worker.PID, 0), OnCrash: it.OnCrash,
		StartedAt: stampOrNil(it.StartedAt), FinishedAt: stampOrNil(it.FinishedAt),
		DurationMS: durationMS(onerun.Execution{StartedAt: it.StartedAt, FinishedAt: it.FinishedAt}),
		ExitCode:   it.ExitCode, Signal: nilIf(it.Signal, ""), Error: nilIf(it.Error, ""),
		Liveness: nilIf(string(it.Liveness), ""), Evidence: nilIf(it.Evidence, ""),
	}
}

func (c *itemsCmd) run(ctx context.Context, e *env) error {
	if c.Limit < 0 {
		return usage("--limit %d is negative", c.Limit)
	}
	q := onerun.ItemQuery{States: c.State, Limit: c.Limit}
	var err error
	if c.Job != "" {
		if q.Job, err = onerun.CleanName("job", string(c.Job)); err != nil {
			return err
		}
	}
	ctx, s, leave, err := e.consult(ctx, "")
	if err != nil {
		return err
	}
	defer leave()
	q.Namespace = e.Namespace
	items, err := s.Items(ctx, q)
	if err != nil {
		return err
	}
	if c.JSON {
		views := make([]itemView, len(items))
		for i, it := range items {
			views[i] = viewItem(it)
		}
		return writeJSON(e.out, views)
	}
	if len(items) == 0 {
		return say(e, "no items")
	}
	rows := [][]string{{"ITEM", "JOB", "STATE", "TRIES", "STARTED", "TOOK", "EXIT", "EVIDENCE"}}
	now := time.Now()
	for _, it := range items {
		took, end := span(it.FinishedAt.Sub(it.StartedAt)), it.Signal
		if it.State == onerun.ItemStarted {
			took = span(now.Sub(it.StartedAt)) + " so far"
		}
		if end == "" && it.ExitCode != nil {
			end = fmt.Sprint(*it.ExitCode)
		}
		evidence := it.Error
		if it.State == onerun.ItemStarted {
			evidence = string(it.Liveness) + ": " + it.Evidence
		}
		rows = append(rows, []string{it.Name, it.Job, string(it.State), fmt.Sprint(it.Tries), clock(it.StartedAt), took, end, evidence})
	}
	return writeTable(e.out, rows)
}
