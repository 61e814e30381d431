package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

type listing struct {
	JSON bool `name:"json" help:"One JSON document instead of a table."`
}

func (l listing) runs(e *env, runs []onerun.Run, none string) error {
	if l.JSON {
		return writeJSON(e.out, viewRuns(runs))
	}
	if len(runs) == 0 {
		return say(e, "%s", none)
	}
	return writeTable(e.out, runTable(runs, time.Now()))
}

type historyCmd struct {
	Job    word     `arg:"" optional:"" help:"Job, key, or run id."`
	Status statuses `placeholder:"STATUS" help:"Only runs in this state, or in one of a list with commas; may be repeated."`
	Since  word     `placeholder:"TIME|D" help:"Only runs started since: RFC 3339, YYYY-MM-DD (local), or a duration back from now."`
	Until  word     `placeholder:"TIME|D" help:"Only runs started before: a page further back begins where the last one ended."`
	Limit  int      `default:"50" placeholder:"N" help:"At most N runs; 0: all (50)."`
	listing
}

func (c *historyCmd) run(ctx context.Context, e *env) error {
	q := onerun.Query{Limit: c.Limit}
	if c.Limit < 0 {
		return usage("--limit %d is negative", c.Limit)
	}
	q.Statuses = c.Status
	var err error
	if q.Since, err = moment("--since", string(c.Since)); err != nil {
		return err
	}
	if q.Until, err = moment("--until", string(c.Until)); err != nil {
		return err
	}
	if err := narrow(&q, c.Job); err != nil {
		return err
	}
	ctx, s, leave, err := e.consult(ctx, "")
	if err != nil {
		return err
	}
	defer leave()
	q.Namespace = e.Namespace
	runs, err := s.Runs(ctx, q)
	if err != nil {
		return err
	}
	return c.runs(e, runs, "no runs")
}

// statuses are the states that a listing is narrowed to.
type statuses []onerun.Status

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *statuses) UnmarshalText(text []byte) error {
	for name := range strings.SplitSeq(string(text), ",") {
		status := onerun.Status(strings.ToUpper(name))
		switch status {
		case onerun.Running, onerun.Succeeded, onerun.Failed, onerun.Skipped:
			*s = append(*s, status)
		default:
			return fmt.Errorf("%q is no state; use running, succeeded, failed or skipped", name)
		}
	}
	return nil
}

// moment reads a time, or how long ago it was.
func moment(flag, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, s, time.Local); err == nil {
		return t, nil
	}
	var d duration
	if err := d.UnmarshalText([]byte(s)); err != nil {
		return time.Time{}, usage("%s %q is no time; write 2026-09-15T01:00:00Z, 2026-09-15, or 2d", flag, s)
	}
	return time.Now().Add(-time.Duration(d)), nil
}

type statusCmd struct {
	Job word `arg:"" optional:"" help:"Only this job, key or run."`
	listing
}

// statusView is a run, or a job that is paused and has none to show.
type statusView struct {
	runView
	Paused      bool    `json:"paused"`
	PausedAt    *string `json:"paused_at"`
	PausedBy    *string `json:"paused_by"`
	PauseReason *string `json:"pause_reason"`
}

func (c *statusCmd) run(ctx context.Context, e *env) error {
	q := onerun.Query{Statuses: []onerun.Status{onerun.Running}}
	if err := narrow(&q, c.Job); err != nil {
		return err
	}
	ctx, s, leave, err := e.consult(ctx, "")
	if err != nil {
		return err
	}
	defer leave()
	q.Namespace = e.Namespace
	runs, err := s.Runs(ctx, q)
	if err != nil {
		return err
	}
	q.Statuses, q.RetryDue = nil, true
	due, err := s.Runs(ctx, q)
	if err != nil {
		return err
	}
	runs = append(runs, due...)
	jobs, err := s.Jobs(ctx, e.Namespace)
	if err != nil {
		return err
	}
	jobs = slices.DeleteFunc(jobs, func(j onerun.JobState) bool { return q.Job != "" && j.Job != q.Job })
	if c.JSON {
		return writeJSON(e.out, statusViews(runs, jobs))
	}
	if len(runs) == 0 && len(jobs) == 0 {
		return say(e, "nothing is running, due for a retry, or paused")
	}
	if len(runs) > 0 {
		if err := writeTable(e.out, runTable(runs, time.Now())); err != nil {
			return err
		}
	}
	for _, j := range jobs {
		if err := say(e, "%s is paused since %s by %s: %s", j.Job, clock(j.PausedAt), j.PausedBy, j.Reason); err != nil {
			return err
		}
	}
	return nil
}

func statusViews(runs []onerun.Run, jobs []onerun.JobState) []map[string]any {
	views := []map[string]any{}
	add := func(v statusView, hasRun bool) {
		m := fieldsOf(v)
		if !hasRun {
			m["run_id"], m["status"], m["lock"] = nil, nil, nil
		}
		views = append(views, m)
	}
	shown := map[string]bool{}
	for _, r := range runs {
		v := statusView{runView: viewRun(r)}
		for _, j := range jobs {
			if j.Job == r.Job {
				v.pause(j)
				shown[j.Job] = true
			}
		}
		add(v, true)
	}
	for _, j := range jobs {
		if !shown[j.Job] {
			v := statusView{runView: viewRun(onerun.Run{Namespace: j.Namespace, Job: j.Job})}
			v.pause(j)
			add(v, false)
		}
	}
	return views
}

func (v *statusView) pause(j onerun.JobState) {
	v.Paused, v.PausedAt, v.PausedBy, v.PauseReason = true, stampOrNil(j.PausedAt), &j.PausedBy, &j.Reason
}

type locksCmd struct{ listing }

func (c *locksCmd) run(ctx context.Context, e *env) error {
	ctx, s, leave, err := e.consult(ctx, "")
	if err != nil {
		return err
	}
	defer leave()
	locks, err := s.Locks(ctx, e.Namespace)
	if err != nil {
		return err
	}
	if c.JSON {
		views := []map[string]any{}
		for _, l := range locks {
			views = append(views, viewLock(l))
		}
		return writeJSON(e.out, views)
	}
	if len(locks) == 0 {
		return say(e, "no locks are held")
	}
	rows := [][]string{{"LOCK", "HOLDER", "WORKER", "SINCE", "LIVENESS", "FILE"}}
	for _, l := range locks {
		rows = append(rows, []string{string(l.Lock), l.Holder.Name, l.Holder.Worker.String(), clock(l.Holder.Since), string(l.Liveness), l.Path})
	}
	return writeTable(e.out, rows)
}

// viewLock is a lock with the fields of the run that holds it, null where a lock
// command holds it, which has none.
func viewLock(l onerun.LockState) map[string]any {
	var m map[string]any
	if l.Run != nil {
		m = fieldsOf(viewRun(*l.Run))
	} else {
		h := l.Holder
		m = fieldsOf(viewRun(onerun.Run{
			Namespace: l.Namespace, Lock: l.Lock,
			Execution: onerun.Execution{Worker: h.Worker, Token: l.Token, StartedAt: h.Since}, Attempt: 1,
		}))
		m["run_id"], m["job"], m["status"], m["attempt"] = nil, nil, nil, nil
	}
	m["lock_path"] = nilIf(l.Path, "")
	m["lock_mode"] = nilIf(string(l.Mode), "")
	m["liveness"], m["evidence"] = l.Liveness, l.Evidence
	return m
}
