package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
)

type staleCmd struct {
	Job      word `arg:"" optional:"" help:"Only this job, key or run."`
	ExitCode bool `help:"Exit with 1 when there are suspects."`
	listing
}

// suspect is a stale run, with what its job's connections to the store's server are doing.
type suspect struct {
	onerun.Run
	sessions []onerun.Session
}

// staleView adds the evidence to a run.
type staleView struct {
	runView
	Liveness onerun.Liveness `json:"liveness"`
	Evidence string          `json:"evidence"`
	Sessions []sessionView   `json:"sessions"`
}

// sessionView is a session as documented. What the store's role may not see is null.
type sessionView struct {
	PID   int     `json:"pid"`
	State *string `json:"state"`
	Since *string `json:"since"`
	Wait  *string `json:"wait"`
	Query *string `json:"query"`
}

func (c *staleCmd) run(ctx context.Context, e *env) error {
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
	runs = slices.DeleteFunc(runs, func(r onerun.Run) bool { return !r.Stale })
	slices.Reverse(runs) // oldest first
	if err := c.write(e, suspects(ctx, e, s, runs)); err != nil {
		return err
	}
	if c.ExitCode && len(runs) > 0 {
		return &statusError{status: exitState}
	}
	return nil
}

// suspects adds the sessions, where the store's server knows them. They are evidence beside
// the rest, so the list is told without them too.
func suspects(ctx context.Context, e *env, s onerun.Store, runs []onerun.Run) []suspect {
	lister, known := onerun.Ability[onerun.SessionLister](s)
	all := make([]suspect, len(runs))
	for i, r := range runs {
		all[i].Run = r
		if !known {
			continue
		}
		found, err := lister.Sessions(ctx, r)
		if err != nil {
			complain(e, fmt.Errorf("the sessions of the suspects can't be told: %w", err))
			known = false
			continue
		}
		for j := range found {
			found[j].Query = e.redacted(found[j].Query)
		}
		all[i].sessions = found
	}
	return all
}

func (c *staleCmd) write(e *env, all []suspect) error {
	if c.JSON {
		views := make([]staleView, 0, len(all))
		for _, r := range all {
			v := staleView{runView: viewRun(r.Run), Liveness: r.Liveness, Evidence: r.Evidence, Sessions: []sessionView{}}
			for _, x := range r.sessions {
				v.Sessions = append(v.Sessions, sessionView{
					PID: x.PID, State: nilIf(x.State, ""), Since: stampOrNil(x.Since), Wait: nilIf(x.Wait, ""), Query: nilIf(x.Query, ""),
				})
			}
			views = append(views, v)
		}
		return writeJSON(e.out, views)
	}
	if len(all) == 0 {
		return say(e, "no suspects")
	}
	rows := [][]string{{"RUN", "STARTED", "FOR", "WORKER", "LIVENESS", "EVIDENCE"}}
	sessions := [][]string{{"SESSION OF", "PID", "STATE", "FOR", "WAIT", "QUERY"}}
	for _, r := range all {
		rows = append(rows, []string{r.Name(), clock(r.StartedAt), span(time.Since(r.StartedAt)), r.Worker.String(), string(r.Liveness), r.Evidence})
		for _, x := range r.sessions {
			since := ""
			if !x.Since.IsZero() {
				since = span(max(0, time.Since(x.Since)))
			}
			sessions = append(sessions, []string{r.Name(), fmt.Sprint(x.PID), x.State, since, x.Wait, x.Query})
		}
	}
	if err := writeTable(e.out, rows); err != nil || len(sessions) == 1 {
		return err
	}
	if err := say(e, ""); err != nil {
		return err
	}
	return writeTable(e.out, sessions)
}
