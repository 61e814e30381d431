package cronjob

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/schedule"
)

// Option changes what New and Wrapper make.
type Option func(*fires)

// Keyed gives each fire a key. at is the schedule that the job is added with, and in the
// location of its Cron, in which it is read; spec says what the slot's key is: see the package.
func Keyed(at cron.Schedule, in *time.Location, spec schedule.Spec) Option {
	return func(f *fires) { f.slots = &slots{at: at, in: in, spec: spec} }
}

// WithReport tells f what a fire came to that isn't a success: a *onerun.Refusal, which is a
// skip; a *onerun.Failure, the work's own; else what Runner.Do says. Without it refusals that
// somebody should look at (onerun.Reason.Blocked) and all else but skips are logged by
// slog.Default: cron gives an error no other place to go.
func WithReport(f func(error)) Option { return func(x *fires) { x.report = f } }

// fires are the fires of one job.
type fires struct {
	ctx    context.Context
	runner *onerun.Runner
	job    onerun.Job
	fn     func(context.Context, *onerun.Owner) error
	slots  *slots // nil: unkeyed
	report func(error)
	now    func() time.Time
}

// New makes a job of cron's of a function. Each fire is a Runner.Do of job, with ctx, so that
// the work is told to stop when ctx ends. The job's Partition, BusinessDate and ScheduledAt are
// those of the slot if it is Keyed.
//
// A panic of fn is recorded and goes on, to the chain's cron.Recover if there is one.
//
// Errors: onerun.ErrUsage when keys can't be made of what Keyed says.
func New(ctx context.Context, runner *onerun.Runner, job onerun.Job, fn func(context.Context, *onerun.Owner) error, opts ...Option) (cron.Job, error) {
	f, err := newFires(ctx, runner, job, opts)
	if err != nil {
		return nil, err
	}
	f.fn = fn
	return &f, nil
}

// Wrapper is New for a job that there is already: cron.NewChain(w).Then(job). Such a job knows no
// context and returns no error: its run succeeds unless it panics, and nothing tells it that
// its lease is lost, so let the Runner end the process then (onerun.WithExitOnLoss). In the chain
// of a whole Cron (cron.WithChain) all its jobs would be the one that is named here.
//
// Errors: as of New.
func Wrapper(ctx context.Context, runner *onerun.Runner, job onerun.Job, opts ...Option) (cron.JobWrapper, error) {
	f, err := newFires(ctx, runner, job, opts)
	if err != nil {
		return nil, err
	}
	return func(wrapped cron.Job) cron.Job {
		f := f
		f.fn = func(context.Context, *onerun.Owner) error {
			wrapped.Run()
			return nil
		}
		return &f
	}, nil
}

func newFires(ctx context.Context, runner *onerun.Runner, job onerun.Job, opts []Option) (fires, error) {
	f := fires{ctx: ctx, runner: runner, job: job, report: logged, now: time.Now}
	for _, o := range opts {
		o(&f)
	}
	if f.slots != nil {
		if err := f.slots.check(f.now()); err != nil {
			return fires{}, err
		}
	}
	return f, nil
}

// Run implements cron.Job: it is one fire.
func (f *fires) Run() {
	job := f.job
	if f.slots != nil {
		if err := f.slots.name(&job, f.now()); err != nil {
			f.report(err)
			return
		}
	}
	if err := f.runner.Do(f.ctx, job, f.fn); err != nil {
		f.report(err)
	}
}

// logged is where an error goes that nobody asked for.
func logged(err error) {
	var skip *onerun.Refusal
	switch {
	case !errors.As(err, &skip):
		slog.Error("scheduled job", "error", err)
	case skip.Reason.Blocked():
		slog.Warn("scheduled job", "error", err)
	}
}
