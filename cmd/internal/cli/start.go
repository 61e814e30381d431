package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/scheduler"
)

type startCmd struct {
	Job       string `arg:"" help:"Name of the job."`
	RequestID word   `name:"request-id" placeholder:"ID" help:"Asked again with the same id, nothing is started a second time (a new id each time)."`
	reasonFlag
	JSON bool `name:"json" help:"Print the request as one JSON document."`
}

// Help explains the command.
func (startCmd) Help() string {
	return `Asks a scheduler (onerun serve) on this store to start a job of its configuration now, as its schedule would. The key is that of
the job's date or period at this moment, so what has run today doesn't run again; a job without either gets the key JOB:start+ID.
The answer comes when a scheduler has taken the request, or after three seconds; a request that nobody has taken waits.

To execute a job here and now, without a scheduler: onerun run JOB.`
}

func (c *startCmd) run(ctx context.Context, e *env) error {
	reason, err := c.text(e)
	if err != nil {
		return err
	}
	job, err := onerun.CleanName("job", c.Job)
	if err != nil {
		return err
	}
	id := onerun.NewID()
	if c.RequestID != "" {
		if id, err = onerun.CleanName("request id", string(c.RequestID)); err != nil {
			return err
		}
		if len(id) > scheduler.MaxRequestID {
			return usage("the request id has %d bytes; at most %d are allowed", len(id), scheduler.MaxRequestID)
		}
	}
	ctx, d, leave, err := e.sit(ctx, "")
	if err != nil {
		return err
	}
	defer leave()
	notes, ok := onerun.Ability[onerun.Notebook](d.Store)
	if !ok {
		return &onerun.StateError{Why: "this store has no place for what a scheduler has to keep"}
	}
	by := operator()
	r, err := scheduler.Ask(ctx, notes, e.Namespace, job, scheduler.Request{ID: id, At: time.Now(), By: by, Reason: reason})
	switch {
	case errors.Is(err, onerun.ErrNotFound):
		return &onerun.StateError{Why: fmt.Sprintf("no scheduler has ever had the job %s in the namespace %s of this store: onerun serve starts those of its configuration file that have a schedule", job, e.Namespace)}
	case err != nil:
		return err
	}
	d.decided(string(scheduler.Requested), onerun.Run{Namespace: e.Namespace, Job: job}, "start requested", reason)
	r = taken(ctx, notes, e.Namespace, job, r)
	if c.JSON {
		err = writeJSON(e.out, requestView{
			Job: job, RequestID: r.ID, RequestedAt: stamp(r.At), RequestedBy: r.By, Reason: r.Reason, Key: nilIf(r.Key, ""), TakenBy: nilIf(r.TakenBy, ""), Started: !r.Taken.IsZero() && !r.Missed,
		})
	}
	switch {
	case err != nil, c.JSON && !r.Missed:
		return err
	case r.Missed:
		return &onerun.StateError{Why: fmt.Sprintf("the request %s is too old: no scheduler could start it in time", r.ID)}
	case r.Taken.IsZero():
		return say(e, "%s: request %s waits: no scheduler has taken it yet; one that runs does so within a second", job, r.ID)
	}
	return say(e, "%s: request %s was taken by %s; see: onerun show %s", job, r.ID, r.TakenBy, r.Key)
}

// taken waits a little until somebody has taken a request.
func taken(ctx context.Context, notes onerun.Notebook, namespace, job string, r scheduler.Request) scheduler.Request {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	for r.Taken.IsZero() && r.Done.IsZero() {
		select {
		case <-ctx.Done():
			return r
		case <-time.After(100 * time.Millisecond): // no store tells
		}
		if now, err := scheduler.Asked(ctx, notes, namespace, job, r.ID); err == nil {
			r = now
		}
	}
	return r
}

// requestView is a request as JSON.
type requestView struct {
	Job         string  `json:"job"`
	RequestID   string  `json:"request_id"`
	RequestedAt string  `json:"requested_at"`
	RequestedBy string  `json:"requested_by"`
	Reason      string  `json:"reason"`
	Key         *string `json:"key"`
	TakenBy     *string `json:"taken_by"`
	Started     bool    `json:"started"`
}
