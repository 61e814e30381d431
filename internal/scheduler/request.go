package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
)

// Request is a start of a job that somebody asked the scheduler for, whatever its schedule says. Requests are in a
// note of the job (asks); its ID makes that one of them is one start, however often it is asked.
//
//	(nothing) → asked     by Ask
//	asked → taken         by compare-and-set on the note, by one instance, which starts the job then
//	taken → taken         a minute later, by any instance, when the ledger doesn't know of the start: whoever took it died, or failed
//	                      (or waits for a place, where the same instance doesn't take it twice)
//	taken → done          when the ledger knows of it: it ran, runs, or was refused
//	asked, taken → done   without a start, when it is too old: one SKIPPED run tells of it
type Request struct {
	ID     string    `json:"id"`
	At     time.Time `json:"at"` // the slot: the key and the date count from it; by the clock of whoever asked
	By     string    `json:"by"`
	Reason string    `json:"reason"`

	Taken   time.Time `json:"taken,omitzero"`
	TakenBy string    `json:"taken_by,omitempty"` // an instance, for people
	Key     string    `json:"key,omitempty"`
	Done    time.Time `json:"done,omitzero"`
	Missed  bool      `json:"missed,omitempty"` // it was not started
}

const (
	requestAgain   = time.Minute     // a start that the ledger doesn't know by then is tried again
	requestLooked  = 2 * time.Second // nobody is known to have started before
	requestKept    = 24 * time.Hour  // after its end an ID is still known
	mostRequests   = 100             // that are open, of one job
	mostOfRequests = 300             // that are kept
)

// MaxRequestID is how long an ID may be: it is a part of a key.
const MaxRequestID = 60

// Ask asks the scheduler to start a job now. Who asks with an ID that is known gets that request as it is, and
// nothing is started a second time.
//
// Errors: onerun.ErrNotFound when no scheduler has ever known the job on this store; onerun.ErrState when too
// many are open.
func Ask(ctx context.Context, notes onerun.Notebook, namespace, job string, r Request) (Request, error) {
	known, err := notes.Note(ctx, namespace, memoPrefix+job)
	if err != nil {
		return r, err
	}
	if known.Version == 0 {
		return r, onerun.ErrNotFound
	}
	r.At = r.At.UTC().Truncate(time.Second)
	err = change(ctx, notes, namespace, job, func(a *asks) (bool, error) {
		if i := slices.IndexFunc(a.Starts, func(o Request) bool { return o.ID == r.ID }); i >= 0 {
			r = a.Starts[i]
			return false, nil
		}
		return true, a.add(r, job)
	})
	return r, err
}

// add adds a request, and forgets old ones.
func (a *asks) add(r Request, job string) error {
	a.Starts = slices.DeleteFunc(a.Starts, func(o Request) bool { return !o.Done.IsZero() && r.At.Sub(o.Done) > requestKept })
	if over := len(a.Starts) + 1 - mostOfRequests; over > 0 { // the oldest that are done
		a.Starts = slices.DeleteFunc(a.Starts, func(o Request) bool {
			if over == 0 || o.Done.IsZero() {
				return false
			}
			over--
			return true
		})
	}
	open := 0
	for _, o := range a.Starts {
		if o.Done.IsZero() {
			open++
		}
	}
	if open >= mostRequests {
		return &onerun.StateError{Why: fmt.Sprintf("%d starts of %s are asked for, and none of them has begun", open, job)}
	}
	a.Starts = append(a.Starts, r)
	return nil
}

// Asked gives a request as it is now.
func Asked(ctx context.Context, notes onerun.Notebook, namespace, job, id string) (Request, error) {
	n, err := notes.Note(ctx, namespace, askPrefix+job)
	if err != nil {
		return Request{}, err
	}
	for _, r := range parseAsks(n).Starts {
		if r.ID == id {
			return r, nil
		}
	}
	return Request{}, onerun.ErrNotFound
}

// watchRequests deals with the starts of a job that were asked for, and gives the note as it is then. An error is that of another
// instance that was faster, or of the store's: the next look goes on.
func (e *Engine) watchRequests(ctx context.Context, j *Job, n onerun.Note, a asks, now time.Time) (onerun.Note, error) {
	var changed []Request
	for i := range a.Starts {
		if r := &a.Starts[i]; r.Done.IsZero() && e.request(ctx, j, r, now) {
			if r.Missed { // told before it is done: whoever dies in between leaves it to the next
				e.missRequest(ctx, j, *r)
			}
			changed = append(changed, *r)
		}
	}
	if changed == nil {
		return n, nil
	}
	n, err := writeAsks(ctx, e.Store, e.Namespace, n, a)
	if err != nil {
		return n, err
	}
	for _, r := range changed {
		if f, err := j.asked(r); r.Done.IsZero() && err == nil {
			e.report(j, f.Slot, Requested, nil)
			e.starts.Go(func() { e.startAgain(ctx, f) })
		}
	}
	return n, nil
}

// request looks at a request that isn't done, and changes it; false: there is nothing to change.
func (e *Engine) request(ctx context.Context, j *Job, r *Request, now time.Time) bool {
	f, err := j.asked(*r)
	if err != nil {
		e.report(j, r.At, BadFire, err)
		r.Done, r.Missed = now, true
		return true
	}
	if !r.Taken.IsZero() {
		since := now.Sub(r.Taken).Abs()
		if since < requestLooked {
			return false
		}
		known, err := e.began(ctx, f)
		if err != nil || !known && (since < requestAgain || e.underWay(f)) {
			return false
		}
		if known {
			r.Done = now
			return true
		}
	}
	if now.Sub(r.At) > max(j.CatchUp.Window, newestOnTime) {
		r.Done, r.Missed = now, true
		return true
	}
	r.Taken, r.TakenBy, r.Key = now, e.Who, f.Key()
	return true
}

// began reports whether the ledger has a start, or a refusal, of a fire from its slot on. The key may be
// an older run's.
func (e *Engine) began(ctx context.Context, f *Fire) (bool, error) {
	from := f.Slot.Add(-requestAgain) // clocks differ
	runs, err := e.Store.Runs(ctx, onerun.Query{Namespace: e.Namespace, Job: f.Job.Name, Partition: f.Partition, Limit: 1})
	if err != nil || len(runs) > 0 && !runs[0].StartedAt.Before(from) {
		return err == nil, err
	}
	skips, err := e.Store.Skips(ctx, e.Namespace, f.Job.Name, f.Partition)
	return err == nil && slices.ContainsFunc(skips, func(s onerun.Skip) bool { return !s.LastAt.Before(from) }), err
}

// asked is the fire of a request: the job's date or period at its time, else a key of its own, which is no slot's.
func (j *Job) asked(r Request) (*Fire, error) {
	f, err := j.fire(r.At)
	if err != nil {
		return nil, err
	}
	if f.Own {
		f.Partition = "start+" + r.ID
	}
	f.Again, f.Request = true, &r
	return f, nil
}

// missRequest records that nobody could start what was asked for.
func (e *Engine) missRequest(ctx context.Context, j *Job, r Request) {
	what := fmt.Sprintf("not started: the request %s of %s by %s: no scheduler could start it in time", r.ID, r.At.Format(time.RFC3339), r.By)
	e.Report(Event{Kind: MissedAny, At: e.Clock.Now(), Job: j.Name, Slot: r.At, Detail: what})
	e.tellMissed(ctx, j, r.At, "missed+start+"+r.ID, what)
}
