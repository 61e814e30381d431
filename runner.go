package onerun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Runner carries a job through its life: claim → heartbeat → execute → finish. The
// command line uses it too, so there is one owner of the truth.
//
// The states of an owner, who moves them, and what a death of the process leaves:
//
//	asking     Claim is sent, perhaps again and again with one owner id. Death: the
//	           claim was granted or not; if it was, it is a lease without an owner,
//	           which the store's next claim judges.
//	granted    the lease runs. Death: as above; the job never started.
//	executing  the work runs, the keeper renews the lease. Death: the work dies with
//	           a function; a process group is judged by the note beside the lock.
//	stopping   the lease is lost, or ctx was cancelled: the work has been asked to
//	           stop. The lease is renewed on, until the work has ended. Death: as
//	           executing.
//	finishing  the outcome is known, and is being recorded; the lease is still
//	           renewed. Death: the store has the outcome, or a note of it (where the
//	           store keeps notes), or judges as executing.
//	waiting    for the retry of an attempt whose failure is recorded. Nothing is held
//	           or kept but what is recorded: the run is FAILED with the time of its
//	           retry. Death: any start may take the attempt when it is due; this
//	           process is not missed. From here it goes on with asking, for a new
//	           owner id.
//	ended      recorded, or given up after FinishWait; or the wait for a retry is over
//	           because there is none left, others took it, or it may not start.
type Runner struct {
	store        Store
	clock        Clock
	observers    []Observer
	storeTimeout time.Duration
	redact       func(string) string
	masks        bool // redact is somebody's own
	inProcess    bool
	exitOnLoss   bool
	exit         func(int)
	renewal      func(l Lease, sent time.Duration) // nil: nobody wants to know
}

// Option changes a Runner.
type Option func(*Runner)

// WithClock replaces the system's clock, for tests. A nil one doesn't.
func WithClock(c Clock) Option {
	return func(r *Runner) {
		if c != nil {
			r.clock = c
		}
	}
}

// WithObserver tells an observer what happens; see also Tracer. Several may be given; a nil one
// is none.
func WithObserver(o Observer) Option {
	return func(r *Runner) {
		if o != nil {
			r.observers = append(r.observers, o)
		}
	}
}

// WithStoreTimeout bounds how long a claim may take before it fails with
// ErrUnavailable, not counting a wait for the lock, and how long each try to record
// an end may take; default 10 s, as for 0 or less.
func WithStoreTimeout(d time.Duration) Option {
	return func(r *Runner) {
		if d > 0 {
			r.storeTimeout = d
		}
	}
}

// WithRedaction masks further secrets, beside what Redact knows, in the errors of jobs
// before they are kept, or told to observers. What Do returns is as fn returned it.
func WithRedaction(f func(string) string) Option {
	return func(r *Runner) {
		if f != nil {
			r.redact, r.masks = f, true
		}
	}
}

// WithProcess says that the work is a process of its own, which the function notes
// with Owner.NoteGroup; otherwise the work is the function itself and dies with
// this process.
func WithProcess() Option { return func(r *Runner) { r.inProcess = false } }

// WithExitOnLoss ends this process with status 75 when the lease is lost and the
// function has not returned when the lease's safe time is over: for functions that
// may ignore their context.
func WithExitOnLoss() Option { return func(r *Runner) { r.exitOnLoss = true } }

// WithRenewal tells f how far each lease has come: once with the grant, before the work
// begins, and then once after each heartbeat that succeeded, until the work's end is
// recorded. sent is the moment right before that claim or heartbeat was sent, by the
// Clock's Elapsed, from which TermAfter and KillAfter count; for one lease it only grows. A
// lease without a TTL has no deadline, and f isn't told of it. The last f that is given counts.
//
// It is for whoever holds the same deadline outside of this process, or beside it, and
// acts when the keeper of the lease doesn't. So the new deadline counts for the keeper before f
// is told: nobody believes in a longer lease than the keeper does, and when this process stops
// for good in between, whoever was told acts by the earlier deadline, which is safe.
//
// f must be quick, must not block and must not panic: it is called on the owner's path, one call at a
// time for one lease. While it blocks no further heartbeat is sent, so that the lease is lost in the
// end; the work is still told to stop in time then.
func WithRenewal(f func(l Lease, sent time.Duration)) Option {
	return func(r *Runner) { r.renewal = f }
}

// NewRunner makes a Runner on a store.
func NewRunner(store Store, opts ...Option) *Runner {
	r := &Runner{
		store: store, clock: systemClock{}, storeTimeout: 10 * time.Second,
		inProcess: true, exit: os.Exit, redact: Redact,
	}
	for _, o := range opts {
		if o != nil {
			o(r)
		}
	}
	return r
}

// Owner is what the work gets to know about itself while it runs.
type Owner struct {
	r     *Runner
	grant Grant

	mu       sync.Mutex
	output   *Output
	progress Progress
	skipped  bool
	why      string
	startAt  time.Time // of the job's process; zero: nothing was noted
	endedAt  time.Time // zero: when fn returns
}

// KeepOutput hands over what the work printed, to be recorded with its end. The last one
// counts.
func (o *Owner) KeepOutput(out Output) {
	out.Text = o.r.redact(out.Text)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.output = &out
}

// Run is the run as it was recorded at the claim.
func (o *Owner) Run() Run { return o.grant.Run }

// Lease is the owner's lease, with the fencing token.
func (o *Owner) Lease() Lease { return o.grant.Lease }

// NoteGroup notes the leader of the job's process group right after the fork, so
// that a later claim can prove it dead.
func (o *Owner) NoteGroup(pid int, startTicks uint64) error {
	var err error
	if n, ok := o.r.store.(Noter); ok {
		err = n.NoteGroup(o.grant.Lease, pid, startTicks)
	}
	o.mu.Lock()
	at := o.startAt
	o.mu.Unlock()
	o.r.observe(Observation{Event: EventStarted, At: at, Run: o.grant.Run, Lease: o.grant.Lease, LockPath: o.grant.LockPath, PID: pid})
	return err
}

// NoteStart is to be called right before the job's process is started: from then on
// a death of this process leaves it open whether the job ran. After an error the job
// must not be started; return a Failure that is Void then.
func (o *Owner) NoteStart() error {
	var err error
	if n, ok := o.r.store.(Noter); ok {
		err = n.NoteStart(o.grant.Lease)
	}
	o.mu.Lock()
	o.startAt = o.r.clock.Now()
	o.mu.Unlock()
	return err
}

// Do claims the job, executes fn on the calling goroutine, and records how it
// ended. The lease is released however fn ends, panic included. fn's context is
// cancelled, with a cause that matches ErrLost, when the lease is lost.
//
// It returns nil when fn returned nil and that is recorded; a *Refusal when the
// claim was refused; a *Failure when fn returned an error; an error that matches
// ErrLost when the lease was lost before the outcome could be recorded; a
// *NotRecordedError when the store could not be told; the cause of ctx's end when that
// came first, before the claim was answered or while Do waited (but ErrUnavailable, where a
// deadline passed before a store had given any answer); else an error of the store. A
// *Refusal that fn itself got, from a claim inside the job, is never found in what Do returns.
//
// fn is not called when ctx ended before it could be. The attempt is void then: it has
// cost no retry, and the key may start again at once (see Failure.Void).
//
// With Policy.Retries, Do waits after a failure for the time of the next attempt, and
// calls fn again for it, until it succeeds or no retry is left; what it returns is how
// the last attempt ended here. Nothing is held while it waits, so any other start may
// take the due attempt: Do then returns the failure that it has, as it does when ctx
// ends, when the attempt may not start (the job is paused, say), or when the store
// can't be asked. fn that panics is not called again. Job.RetryLater leaves retries to
// later starts.
func (r *Runner) Do(ctx context.Context, job Job, fn func(ctx context.Context, o *Owner) error) error {
	job, c, err := r.prepare(job)
	if err == nil && fn == nil { // before it costs the key an attempt
		err = errNoFunction
	}
	if err != nil {
		return err
	}
	sent, grant, err := r.claim(ctx, c, job.Wait)
	if err != nil {
		var refusal *Refusal
		if errors.As(err, &refusal) {
			r.observeClosed(refusal.Closed, refusal.Delivered, Grant{})
			r.observe(Observation{Event: EventSkipped, Run: asked(c), Refusal: refusal})
		}
		return err
	}
	retries := r.retry(job, c)
	for again := true; again; {
		r.observeClosed(grant.TakenOver, grant.Delivered, grant)
		r.observe(Observation{Event: EventClaimed, At: grant.At, Run: grant.Run, Lease: grant.Lease, LockPath: grant.LockPath})
		var recorded bool
		recorded, err = r.own(ctx, job, grant, sent, fn)
		if again = recorded && err != nil; again {
			sent, grant, again = retries.next(ctx, grant, err)
		}
	}
	return err
}

// WithLock executes fn while holding the named lock and nothing else: no run is
// recorded. It refuses with a *Refusal when the lock is held. To wait for it instead, or to choose
// its namespace or lease, give Runner.Do a Job without a name: Job{Lock: NamedLock(name), Wait: time.Minute}.
func WithLock(ctx context.Context, store Store, name string, fn func(ctx context.Context) error, opts ...Option) error {
	name, err := CleanName("lock", name)
	if err != nil {
		return err
	}
	if fn == nil {
		return errNoFunction
	}
	job := Job{Lock: NamedLock(name)}
	return NewRunner(store, opts...).Do(ctx, job, func(ctx context.Context, _ *Owner) error { return fn(ctx) })
}

var errNoFunction = fmt.Errorf("%w: there is no function to execute, it is nil", ErrUsage)

// prepare checks a job and fills in what it left open.
func (r *Runner) prepare(job Job) (Job, Claim, error) {
	if r == nil || r.store == nil {
		return job, Claim{}, fmt.Errorf("%w: this Runner has no store; make it with NewRunner, and a store that was opened without an error", ErrUsage)
	}
	if job.Namespace == "" {
		job.Namespace = DefaultNamespace
	}
	var err error
	if job.Namespace, err = CleanName("namespace", job.Namespace); err != nil {
		return job, Claim{}, err
	}
	if job.Name != "" || job.Lock == "" {
		if job.Name, err = CleanName("job", job.Name); err != nil {
			return job, Claim{}, err
		}
	}
	if job.Partition != "" {
		if job.Partition, err = CleanPartition(job.Partition); err != nil {
			return job, Claim{}, err
		}
	}
	if job.Lock == "" {
		job.Lock = JobLock(job.Name)
	}
	if job.Lock, err = cleanLock(job.Lock); err != nil {
		return job, Claim{}, err
	}
	setDefault(&job.LockMode, LockFlock)
	setDefault(&job.TTL, DefaultTTL)
	setDefault(&job.OnCrash, CrashAuto)
	setDefault(&job.Grace, DefaultGrace)
	setDefault(&job.FinishWait, DefaultFinishWait)
	if err := job.check(); err != nil {
		return job, Claim{}, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	return job, Claim{
		Namespace: job.Namespace, Job: job.Name, Partition: job.Partition, BusinessDate: job.BusinessDate,
		Lock: job.Lock, LockMode: job.LockMode, Order: job.Order, Owner: NewID(), RunID: NewRunID(r.clock.Now()),
		ScheduledAt: job.ScheduledAt, Policy: job.Policy, InProcess: r.inProcess,
		WorkerLabel: job.WorkerLabel, VersionLabel: job.VersionLabel, Labels: job.Labels,
	}, nil
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func (r *Runner) observe(o Observation) {
	if len(r.observers) == 0 {
		return
	}
	if o.At.IsZero() {
		o.At = r.clock.Now()
	}
	for _, to := range r.observers {
		to.Observe(o)
	}
}

// traced is the work's context with what observers put into it.
func (r *Runner) traced(ctx context.Context, grant Grant) context.Context {
	for _, o := range r.observers {
		if t, ok := o.(Tracer); ok {
			ctx = t.Trace(ctx, grant.Run, grant.Lease)
		}
	}
	return ctx
}

// observeClosed tells of runs that a claim closed, because their owners were dead, and
// of ends that it delivered.
func (r *Runner) observeClosed(closed []Run, delivered []Delivery, grant Grant) {
	for _, d := range closed {
		r.observe(Observation{Event: EventTakenOver, Run: d, Lease: grant.Lease, LockPath: grant.LockPath, Detail: d.Evidence})
	}
	for _, d := range delivered {
		r.observe(Observation{Event: EventLateOutcome, Run: d.Run, Lease: grant.Lease, LockPath: grant.LockPath, Delivery: &d, Detail: d.Words()})
	}
}

// asked describes a refused claim as the run it would have been.
func asked(c Claim) Run {
	return Run{
		Namespace: c.Namespace, Job: c.Job, Partition: c.Partition, BusinessDate: c.BusinessDate,
		Lock: c.Lock, ScheduledAt: c.ScheduledAt, VersionLabel: c.VersionLabel, Labels: c.Labels,
	}
}
