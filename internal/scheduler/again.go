package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
)

const (
	// Between two looks passes at least a second, and more where looking is much work: it takes a fiftieth of the time.
	againLeast = time.Second
	againMost  = 5 * time.Second
	againShare = 50

	// againAfter leaves a retry to the process that waits for it, if there is one, and to another instance
	// that has taken it.
	againAfter = 10 * time.Second
	againOnce  = time.Minute

	mostDue = 500 // retries in one look
)

// watchAgain starts the retries that are due and that nobody waits for, reruns that were approved, and what
// somebody asked for, until ctx ends.
func (e *Engine) watchAgain(ctx context.Context) {
	rest, due := againLeast, time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.Clock.After(rest):
		}
		now := e.Clock.Now()
		err := e.watchAsks(ctx, now)
		if err == nil && (e.laterRetries() || now.Sub(due).Abs() >= againMost) {
			due = now
			err = e.watchRetries(ctx, now)
		}
		if err != nil {
			rest = againMost
			continue
		}
		rest = min(max(againShare*e.Clock.Now().Sub(now), againLeast), againMost)
	}
}

// laterRetries reports whether there is a job for whose retries nobody waits.
func (e *Engine) laterRetries() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.later
}

// watchRetries starts the retries that are due.
func (e *Engine) watchRetries(ctx context.Context, now time.Time) error {
	due, err := e.Store.Runs(ctx, onerun.Query{Namespace: e.Namespace, RetryDue: true, Limit: mostDue})
	if err != nil {
		return err
	}
	for _, r := range due {
		if r.Status == onerun.Failed && !r.NextRetryAt.IsZero() && now.Sub(r.NextRetryAt) >= e.waitedFor(r.Job) {
			e.retry(ctx, r.Job, r.Partition, r.ScheduledAt, r.NextRetryAt, now)
		}
	}
	return nil
}

// waitedFor is for how long a job's retry is left to a process that may wait for it.
func (e *Engine) waitedFor(job string) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.jobs[job]; x != nil && x.job.Load().RetryLater {
		return 0
	}
	return againAfter
}

// AskRerun lets the scheduler know of a rerun that was approved. Without its help the next start executes it.
func AskRerun(ctx context.Context, notes onerun.Notebook, namespace, job, partition string, now time.Time) error {
	return change(ctx, notes, namespace, job, func(a *asks) (bool, error) {
		if len(a.Reruns) >= mostRequests || slices.ContainsFunc(a.Reruns, func(r rerun) bool { return r.Partition == partition }) {
			return false, nil
		}
		a.Reruns = append(a.Reruns, rerun{partition, now.UTC()})
		return true, nil
	})
}

// watchReruns starts the keys of a job whose reruns were approved, and forgets those that are over.
func (e *Engine) watchReruns(ctx context.Context, job string, n onerun.Note, a asks, now time.Time) {
	was := len(a.Reruns)
	a.Reruns = slices.DeleteFunc(a.Reruns, func(r rerun) bool { return e.rerun(ctx, job, r, now) })
	if len(a.Reruns) < was {
		_, _ = writeAsks(ctx, e.Store, e.Namespace, n, a) // else by the next look
	}
}

// rerun starts a key whose rerun was approved, for as long as the ledger says that it would run. It is the ledger that tells when
// the approval was used, or is void, and not that something was started: that may have died before its claim.
func (e *Engine) rerun(ctx context.Context, job string, a rerun, now time.Time) (over bool) {
	runs, err := e.Store.Runs(ctx, onerun.Query{Namespace: e.Namespace, Job: job, Partition: a.Partition, Limit: 1})
	if err != nil || len(runs) == 0 {
		return err == nil
	}
	refused, err := e.Store.Explain(ctx, onerun.Claim{Namespace: e.Namespace, Job: job, Partition: a.Partition, Lock: runs[0].Lock, LockMode: onerun.LockFlock, Policy: onerun.Policy{TTL: onerun.DefaultTTL}})
	switch {
	case err != nil:
	case refused == nil:
		e.retry(ctx, job, a.Partition, runs[0].ScheduledAt, a.At, now)
	default:
		switch refused.Reason {
		case onerun.RefusedSucceeded, onerun.RefusedSkipped, onerun.RefusedFailed, onerun.RefusedRetryNotDue:
			return true // there is no approval any more
		}
	}
	return false
}

// retry starts a key once more that could be since a time. One instance does: it takes the minute.
func (e *Engine) retry(ctx context.Context, job, partition string, scheduled, since, now time.Time) {
	x := e.mine(job)
	if x == nil || partition == "" {
		return
	}
	if scheduled.IsZero() {
		scheduled = since
	}
	j := x.job.Load()
	f, err := j.fire(scheduled)
	if err != nil || f.Partition != partition {
		f = &Fire{Job: j, Slot: scheduled, Partition: partition, Own: true}
	}
	f.Again = true
	if e.underWay(f) {
		return
	}
	minute := since.Add(max(0, now.Sub(since)).Truncate(againOnce))
	e.starts.Go(func() {
		if e.take(ctx, x, taken{Slot: minute, By: e.self, Again: true}) {
			e.report(j, scheduled, Retried, nil)
			e.startAgain(ctx, f)
		}
	})
}

// underWay reports whether a key is being started again here. While it waits for a place it can be taken each minute, and would
// be started as often, and refused, when there is one. Once its process has had a minute, the ledger knows of it, or it is stuck.
func (e *Engine) underWay(f *Fire) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	since, ok := e.again[f.Key()]
	return ok && (since.IsZero() || e.Clock.Now().Sub(since).Abs() < againOnce)
}

// setAgain says since when a key that is started again has a place.
func (e *Engine) setAgain(f *Fire, since time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.again[f.Key()] = since
}

// startAgain is start, of what can be taken again.
func (e *Engine) startAgain(ctx context.Context, f *Fire) {
	e.setAgain(f, time.Time{})
	e.start(ctx, f)
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.again, f.Key())
}
