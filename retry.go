package onerun

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// lookForRetry is how often whoever waits for a retry asks whether there still is one,
// and how long it is until then: a person may have decided about the run, another start
// may have taken the attempt, and the store's clock may have been set.
const lookForRetry = time.Minute

// LabelRetryOf is the label that tells of which run an unkeyed run is the retry.
const LabelRetryOf = "retry_of"

// retrying is a job with a budget of retries, from its first claim on.
type retrying struct {
	r     *Runner
	job   Job
	claim Claim
	first string // the run id of the first attempt
	spent int    // attempts that failed here; only an unkeyed job's budget is reckoned by it

	// Of the wait under way.
	grant Grant         // of the attempt that failed
	due   time.Duration // when the retry is due, by the owner's clock
	at    time.Time     // the same by the store's clock, to be told
	known bool          // both have been found out
	told  bool          // the observer knows
	taken string        // who took it, if no refusal says so
}

// verdict is what becomes of a wait.
type verdict int

const (
	retryWaits   verdict = iota // it is not due yet
	retryBusy                   // it is due, and another run holds the lock
	retryReady                  // it may be claimed
	retryNone                   // there is none
	retryTaken                  // somebody else has decided about it, or takes care of it
	retryRefused                // it is due, and may not start
)

// retry returns what waits for the retries of a job; nil if none is ever waited for here.
func (r *Runner) retry(job Job, c Claim) *retrying {
	if job.Retries == 0 || job.RetryLater || job.Name == "" {
		return nil
	}
	return &retrying{r: r, job: job, claim: c}
}

// next waits for the retry of an attempt that failed, and claims it. It returns false
// when that is not for this caller: there is none, somebody else takes it, or ctx ended.
// What failed then stays as it is, and any later start may take the attempt.
func (w *retrying) next(ctx context.Context, grant Grant, failed error) (time.Duration, Grant, bool) {
	var f *Failure
	if w == nil || !errors.As(failed, &f) || f.Void || f.RetryLater {
		return 0, Grant{}, false
	}
	w.grant, w.known, w.told, w.taken = grant, false, false, ""
	if w.spent++; w.spent == 1 {
		w.first = grant.Run.RunID
	}
	if w.job.Partition == "" && !w.reckon(f.Reason) {
		return 0, Grant{}, false
	}
	w.claim.Owner, w.claim.RunID = NewID(), NewRunID(w.r.clock.Now())
	pause := newBackoff(20*time.Millisecond, time.Second)
	for {
		v, refusal, err := w.look(ctx)
		if err == nil && (v == retryReady || v == retryBusy && w.r.clock.Elapsed() >= w.patience()) {
			w.tell() // before the claim, so that an observer hears of every wait
			sent, next, refused := w.r.claim(ctx, w.claim, 0)
			if refused == nil {
				return sent, next, true
			}
			v, refusal, err = w.refused(refused)
		}
		if ctx.Err() != nil || !w.goesOn(v, refusal, err) {
			return 0, Grant{}, false
		}
		rest := pause.next()
		if v != retryBusy {
			rest = min(lookForRetry, max(0, w.due-w.r.clock.Elapsed()))
		}
		if sleep(ctx, rest) != nil {
			return 0, Grant{}, false
		}
	}
}

// refused judges a claim that was not granted.
func (w *retrying) refused(err error) (verdict, *Refusal, error) {
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		return retryNone, nil, err
	}
	w.r.observeClosed(refusal.Closed, refusal.Delivered, Grant{})
	return w.judge(refusal), refusal, nil
}

// goesOn reports whether the wait does, and tells why not.
func (w *retrying) goesOn(v verdict, refusal *Refusal, err error) bool {
	now := w.r.clock.Elapsed()
	switch {
	case err != nil && w.known && now < w.due: // there is time left to ask again
		return true
	case err != nil:
		w.observe(Observation{Event: EventRetryLeft, Err: err, Detail: "a later start takes the retry"})
	case v == retryWaits, v == retryBusy && now < w.patience():
		w.tell()
		return true
	case v == retryTaken:
		w.observe(Observation{Event: EventRetrySuperseded, Refusal: refusal, Detail: w.taken})
	case v == retryBusy, v == retryRefused:
		w.r.observe(Observation{Event: EventSkipped, Run: asked(w.claim), Refusal: refusal})
	}
	return false
}

// reckon decides about the retry of an unkeyed job, of which the store keeps none: its
// retry is a run of its own, with a label that says of which. It tells whether there is one.
func (w *retrying) reckon(reason Reason) bool {
	now := w.r.clock.Now()
	at, ok := w.job.NextRetry(now, w.spent, reason, rand.Float64())
	w.set(at, now)
	w.claim.Labels = maps.Clone(w.job.Labels)
	if w.claim.Labels == nil {
		w.claim.Labels = map[string]string{}
	}
	w.claim.Labels[LabelRetryOf] = w.first
	return ok
}

// set notes when the retry is due: a moment of the same clock as now. How long it is
// until then is all that is taken from it.
func (w *retrying) set(at, now time.Time) {
	w.due, w.at, w.known = w.r.clock.Elapsed()+max(0, at.Sub(now)), at, true
}

// patience is until when a due retry waits for a lock that another run holds: as long as
// the greatest backoff, or as the job's own wait if that is longer.
func (w *retrying) patience() time.Duration {
	if w.job.Wait == Forever {
		return math.MaxInt64
	}
	return w.due + min(max(w.job.BackoffMin, w.job.BackoffMax, w.job.Wait), math.MaxInt64-w.due)
}

// tell says, once for each wait, that there is one.
func (w *retrying) tell() {
	if w.told {
		return
	}
	w.told = true
	run := w.grant.Run
	run.Status, run.NextRetryAt = Failed, w.at
	w.r.observe(Observation{Event: EventRetryWaiting, Run: run, Lease: w.grant.Lease})
}

func (w *retrying) observe(o Observation) {
	o.Run, o.Lease = w.grant.Run, w.grant.Lease
	w.r.observe(o)
}

// look asks the store, without changing anything there, for as long as its time limit
// allows.
func (w *retrying) look(ctx context.Context) (v verdict, refusal *Refusal, err error) {
	if w.job.Partition == "" && w.r.clock.Elapsed() < w.due {
		return retryWaits, nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.r.storeTimeout)
	defer cancel()
	pause := newBackoff(20*time.Millisecond, time.Second)
	for {
		if v, refusal, err = w.ask(ctx); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrClosed) || sleep(ctx, pause.next()) != nil {
			return v, refusal, err
		}
	}
}

// ask is one look. The claim table answers all but two questions: when the retry of a
// paused job is due, and whether a claim that would be granted is the one waited for.
func (w *retrying) ask(ctx context.Context) (verdict, *Refusal, error) {
	refusal, err := w.r.store.Explain(ctx, w.claim)
	if err != nil {
		return retryNone, nil, err
	}
	v := retryReady
	if refusal != nil {
		v = w.judge(refusal)
	}
	switch {
	case v == retryWaits, v == retryNone, v == retryTaken:
		return v, refusal, nil
	case w.job.Partition == "":
		return w.unkeyed(ctx, v, refusal)
	}
	d, err := w.r.store.Detail(ctx, w.claim.Namespace, w.grant.Run.RunID)
	if err != nil {
		return retryNone, nil, err
	}
	open := slices.ContainsFunc(d.Approvals, func(a Approval) bool { return a.UsedAt.IsZero() })
	switch {
	case d.Run.Status != Failed || d.Run.Attempt != w.grant.Lease.Attempt:
		w.taken = fmt.Sprintf("another start took it: attempt %d is %s", d.Run.Attempt, d.Run.Status)
		return retryTaken, nil, nil
	case refusal != nil && refusal.Reason == RefusedPaused && refusal.At.Before(d.Run.NextRetryAt):
		w.set(d.Run.NextRetryAt, refusal.At)
		return retryWaits, refusal, nil
	case open && w.known && w.r.clock.Elapsed() < w.due:
		return retryWaits, refusal, nil // who approves a rerun means the next start, not this wait
	case !w.known:
		w.set(d.Run.NextRetryAt, d.Run.NextRetryAt)
	}
	return ready(v), refusal, nil
}

// ready is a verdict of a look for which a claim is to be made: one that is refused for
// good is refused, and recorded, by the claim.
func ready(v verdict) verdict {
	if v == retryRefused {
		return retryReady
	}
	return v
}

// unkeyed looks whether the job has been started by others since its run failed: then
// the work is in their hands.
func (w *retrying) unkeyed(ctx context.Context, v verdict, refusal *Refusal) (verdict, *Refusal, error) {
	runs, err := w.r.store.Runs(ctx, Query{Namespace: w.claim.Namespace, Job: w.job.Name, Since: w.grant.Run.StartedAt, Limit: 100})
	if err != nil {
		return retryNone, nil, err
	}
	for _, r := range runs {
		if r.Partition == "" && r.RunID != w.first && r.Labels[LabelRetryOf] != w.first {
			w.taken = "another start took it: run " + r.RunID + " is " + string(r.Status)
			return retryTaken, nil, nil
		}
	}
	return ready(v), refusal, nil
}

// judge says what a refusal means to whoever waits for the attempt after the one that
// failed.
func (w *retrying) judge(r *Refusal) verdict {
	own := r.Holder.RunID == w.grant.Run.RunID
	same := own && r.Holder.Attempt == w.grant.Lease.Attempt
	switch r.Reason {
	case RefusedRetryNotDue:
		if same {
			w.set(r.RetryAt, r.At)
			return retryWaits
		}
	case RefusedFailed:
		if same {
			return retryNone
		}
	case RefusedLocked:
		if w.job.Partition != "" || r.Holder.Name != w.job.Name {
			return retryBusy
		}
	case RefusedPaused:
		return retryRefused
	case RefusedStale:
		if !own {
			return retryRefused
		}
	}
	return retryTaken
}
