package onerun

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// own executes the work under a grant and records its end. It reports whether that is
// recorded.
func (r *Runner) own(ctx context.Context, job Job, grant Grant, sent time.Duration, fn func(context.Context, *Owner) error) (bool, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	k := newKeeper(r, grant, job.Grace, sent, cancel)
	if err := k.begin(ctx); err != nil {
		if n, ok := r.store.(EndNoter); ok { // or this process, which lives on, would seem to be at work
			_ = n.NoteEnd(grant.Lease, Outcome{Status: Failed, Reason: ReasonLeaseLost, Void: true, FinishedAt: r.clock.Now(), Error: CutError(err.Error())})
		}
		r.leave(grant)
		return false, err
	}
	defer k.end()
	unwatch := r.watchLock(grant, k)
	defer unwatch()

	end := r.execute(ctx, job, k, fn)
	unwatch() // nothing is told after the end
	if end.panicked {
		defer panic(end.value)
	}
	return r.finish(ctx, job, k, end)
}

// watchLock looks every second whether the lock's file is still there, and tells when
// it is not, once; and whether somebody wants the work stopped. It returns what ends the
// watch. Nothing is started for work that lasts less than a second.
func (r *Runner) watchLock(grant Grant, k *keeper) (stop func()) {
	w, files := r.store.(LockWatcher)
	files = files && len(r.observers) > 0
	s, stops := r.store.(StopWatcher)
	if !files && !stops {
		return func() {}
	}
	var t *time.Timer
	var mu sync.Mutex // the timer may fire before it is stored, or when it is being stopped
	over := false
	mu.Lock()
	defer mu.Unlock()
	t = time.AfterFunc(time.Second, func() {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		if files && w.LockDeleted(grant.Lease) {
			files = false
			r.observe(Observation{Event: EventLockDeleted, Run: grant.Run, Lease: grant.Lease, LockPath: grant.LockPath})
		}
		if stops {
			if by := s.StopRequested(grant.Lease); by != "" {
				stops = false
				k.stopWork(by)
			}
		}
		if files || stops {
			t.Reset(time.Second)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		t.Stop()
	}
}

// ending is how the work ended.
type ending struct {
	outcome  Outcome
	failure  error // the job's own; nil: it succeeded
	panicked bool
	value    any // what it panicked with
}

// execute calls fn and turns however it ended into an outcome. After
// runtime.Goexit nobody would come back to record that, so it is recorded here.
func (r *Runner) execute(ctx context.Context, job Job, k *keeper, fn func(context.Context, *Owner) error) (end ending) {
	returned := false
	o := &Owner{r: r, grant: k.grant}
	defer func() { end.outcome = o.complete(end.outcome) }() // however it ends
	defer func() {
		k.ended.Store(true)
		if returned {
			return
		}
		v := recover() // nil after runtime.Goexit, which goes on after this
		if v != nil {
			end = broken(fmt.Sprintf("panic: %v", v), "\n"+string(debug.Stack()))
			end.panicked, end.value = true, v
			return
		}
		gone := broken("the function ended its goroutine (runtime.Goexit)", "")
		gone.outcome = o.complete(gone.outcome)
		_, _ = r.finish(ctx, job, k, gone)
	}()
	if r.inProcess && ctx.Err() != nil { // the caller gave up while the grant was on its way
		end = endingOf(ctx, &Failure{Reason: ReasonCanceled, Void: true, Err: fmt.Errorf("not started: %w", context.Cause(ctx))})
		returned = true
		return end
	}
	work := r.traced(ctx, k.grant)
	if r.inProcess {
		k.observe(Observation{Event: EventStarted, PID: k.grant.Run.Worker.PID})
	}
	err := fn(work, o)
	if err != nil { // after a freeze, what is left of a lost lease is seen before anything else
		k.overdue(r.clock.Elapsed())
	}
	end = endingOf(ctx, err) // within reach of recover: it calls the error's methods
	returned = true
	return end
}

// broken is the end of a function that didn't return.
func broken(why, stack string) ending {
	return ending{
		outcome: Outcome{Status: Failed, Reason: ReasonExit, Error: CutError(why + stack)},
		failure: &Failure{Reason: ReasonExit, Err: errors.New(why), done: true},
	}
}

// endingOf describes how a function returned. A Failure of its own is copied: it
// may be one that others hold too.
func endingOf(ctx context.Context, err error) ending {
	if err == nil {
		return ending{outcome: Outcome{Status: Succeeded}}
	}
	f := &Failure{Reason: ReasonExit, Err: err, done: true}
	var own *Failure
	if errors.As(err, &own) && !own.done {
		f.Reason, f.ExitCode, f.Signal, f.Void, f.RetryLater = own.Reason.kept(), own.ExitCode, own.Signal, own.Void, own.RetryLater
		if len(f.Signal) > MaxReason { // no signal is called so
			f.Signal = ""
		}
	}
	// What asking to stop looks like from inside is an exit or a signal; any other
	// reason is known better by whoever gave it.
	switch cause := context.Cause(ctx); f.Reason {
	case ReasonExit, ReasonSignal, ReasonCanceled:
		switch {
		case errors.Is(cause, ErrLost):
			f.Reason = ReasonLeaseLost
		case errors.Is(cause, ErrStopped):
			f.Reason = ReasonStopped
		case cause != nil:
			f.Reason = ReasonCanceled
		}
	}
	return ending{
		outcome: Outcome{Status: Failed, Reason: f.Reason, ExitCode: f.ExitCode, Signal: f.Signal, Void: f.Void, Error: CutError(f.Error())},
		failure: f,
	}
}

// finish records the outcome and says how it all ended. The lease is renewed until
// it is recorded, or given up; the first result says which.
func (r *Runner) finish(ctx context.Context, job Job, k *keeper, end ending) (recorded bool, err error) {
	out, failure := end.outcome, end.failure
	out.Error = r.redact(out.Error)
	if out.FinishedAt.IsZero() {
		out.FinishedAt = r.clock.Now()
	}
	alone := k.grant.Lease.RunID == ""
	wait := job.FinishWait
	if alone { // there is no end to be kept, and the lock is free when its lease is over
		wait = min(wait, freeWait)
	}
	late, err := r.record(ctx, k.grant, out, wait)
	recorded = err == nil
	k.end() // what the keeper saw is told first
	r.observeClosed(nil, late, k.grant)
	seen := Observation{Event: EventFinished, Outcome: &out, Err: r.masked(failure)}
	if out.Status == Failed {
		seen.Event = EventFailed
	}
	switch {
	case errors.Is(err, ErrLost):
		seen.Event, seen.Err = EventLeaseLost, err
		err = both(err, failure)
	case err != nil && alone:
		k.observe(Observation{Event: EventHeartbeatFailed, Err: fmt.Errorf("the lock could not be given back, and is free when its lease is over: %w", err)})
		r.leave(k.grant)
		err = failure
	case err != nil:
		if cause := context.Cause(ctx); errors.Is(cause, ErrLost) && !errors.Is(failure, ErrLost) { // whatever the work made of it
			err = fmt.Errorf("%w; %w", cause, err)
		}
		err = &NotRecordedError{Outcome: out, Job: failure, Err: err}
		seen.Event, seen.Err = EventFailed, err
	case failure != nil && out.Reason == ReasonLeaseLost:
		err = both(context.Cause(ctx), failure)
	default:
		err = failure
	}
	k.observe(seen)
	if !recorded {
		r.leave(k.grant)
	}
	return recorded, err
}

// freeWait is how long it is tried to give a lock alone back.
const freeWait = 2 * time.Second

// leave gives up a lease whose end this owner could not record. This process may go on for
// long, and nobody else on this host could deliver the end meanwhile.
func (r *Runner) leave(grant Grant) {
	if l, ok := r.store.(Leaver); ok {
		l.Leave(grant.Lease)
	}
}

// both joins what became of the lease and of the job, on one line.
func both(lease, job error) error {
	switch {
	case job == nil:
		return lease
	case lease == nil:
		return job
	case job.Error() == lease.Error(): // it has returned why it was told to stop
		return &worded{lease.Error(), []error{lease, job}}
	}
	return fmt.Errorf("%w; the job: %w", lease, job)
}

// worded is an error in other words than its causes'.
type worded struct {
	words  string
	causes []error
}

func (w *worded) Error() string   { return w.words }
func (w *worded) Unwrap() []error { return w.causes }

// masked is the error of a job for whoever observes: without what WithRedaction masks.
func (r *Runner) masked(err error) error {
	if err == nil || !r.masks {
		return err
	}
	if words := r.redact(err.Error()); words != err.Error() {
		return &worded{words, []error{err}}
	}
	return err
}

// record tells the store, for up to wait, whatever became of the job's context.
// Each try has the store's time limit, so that one lost reply doesn't use up all of
// it. A lost reply is no trouble: finishing twice is finishing once. An attempt that others
// have closed meanwhile gets its true end as whoever comes late delivers it, which is to be told.
func (r *Runner) record(ctx context.Context, grant Grant, out Outcome, wait time.Duration) (late []Delivery, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(wait, time.Second))
	defer cancel()
	pause := newBackoff(20*time.Millisecond, time.Second)
	for {
		try, cancel := context.WithTimeout(ctx, r.storeTimeout)
		err := r.store.Finish(try, grant.Lease, out)
		cancel()
		if errors.Is(err, ErrLost) && grant.Lease.RunID != "" {
			lost := err
			try, cancel = context.WithTimeout(ctx, r.storeTimeout)
			late, err = r.recordLate(try, grant, out, lost)
			cancel()
		}
		if err == nil || errors.Is(err, ErrLost) || errors.Is(err, ErrUsage) || errors.Is(err, ErrClosed) {
			return late, err
		}
		if sleep(ctx, pause.next()) != nil {
			return late, err
		}
	}
}

// recordLate delivers the end of an attempt that is not this owner's any more: lost says so,
// and is what it returns, unless the store can't be told.
func (r *Runner) recordLate(ctx context.Context, grant Grant, out Outcome, lost error) ([]Delivery, error) {
	d, err := r.store.Deliver(ctx, grant.Lease, out)
	switch {
	case err != nil && !errors.Is(err, ErrLost):
		return nil, err
	case err == nil && d.Kind != DeliveredBefore:
		return []Delivery{d}, lost
	}
	return nil, lost
}
