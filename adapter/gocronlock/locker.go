package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/onerun-dev/onerun"
)

// errNoWord is how a task ended of which nothing was told.
var errNoWord = errors.New("gocron didn't tell how the task ended: it panicked, or a BeforeJobRuns listener kept it back, or Locker.Listeners is not among the job's options, or others of its own replace them")

// Locker is a gocron.Locker. Make it with NewLocker.
type Locker struct {
	runner *onerun.Runner
	opts   options

	mu   sync.Mutex
	held map[string]*lock // by the job's name
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker makes a Locker: gocron.WithDistributedLocker, or for one job
// gocron.WithDistributedJobLocker. The job needs its Listeners too, or all its runs are FAILED.
//
// A retry is a new fire's: Policy.Retries are left to later starts of the same key.
//
// Errors: onerun.ErrUsage when keys can't be made of what Keyed says.
func NewLocker(runner *onerun.Runner, opts ...Option) (*Locker, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	return &Locker{runner: runner, opts: o, held: map[string]*lock{}}, nil
}

// Listeners tell the Locker how tasks end: gocron.WithGlobalJobOptions, or an option of each
// job. gocron has room for one listener of a kind, so a job with an AfterJobRuns or
// AfterJobRunsWithError of its own must call TaskEnded in it.
func (l *Locker) Listeners() gocron.JobOption {
	return gocron.WithEventListeners(
		gocron.AfterJobRuns(func(_ uuid.UUID, name string) { l.TaskEnded(name, nil) }),
		gocron.AfterJobRunsWithError(func(_ uuid.UUID, name string, err error) { l.TaskEnded(name, err) }),
	)
}

// TaskEnded notes how the task of that name ended, before gocron unlocks it.
func (l *Locker) TaskEnded(name string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.held[name]; h != nil {
		h.end = err
	}
}

// Lock implements gocron.Locker: it claims the job.
//
// Errors: a *onerun.Refusal, the skip; else what Runner.Do says of a claim that could not be
// made.
func (l *Locker) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	h, err := l.lock(ctx, name)
	if err != nil {
		if !everyday(err) {
			l.opts.report(name, err)
		}
		return nil, err
	}
	return h, nil
}

func (l *Locker) lock(ctx context.Context, name string) (*lock, error) {
	job := l.opts.job(name)
	job.RetryLater = true
	if err := l.opts.name(&job); err != nil {
		return nil, err
	}
	h := &lock{locker: l, name: name, end: errNoWord, unlock: make(chan struct{}), done: make(chan error, 1)}
	granted := make(chan struct{})
	go func() {
		h.done <- l.runner.Do(ctx, job, func(context.Context, *onerun.Owner) error {
			close(granted)
			<-h.unlock // the task runs
			return h.end
		})
	}()
	select {
	case <-granted:
	case err := <-h.done:
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[name] != nil {
		h.end = &onerun.Failure{Reason: onerun.ReasonCanceled, Void: true, Err: errors.New("not started")}
		close(h.unlock)
		_ = unrecorded(<-h.done) // if it is not: its lease runs out
		return nil, fmt.Errorf("%w: a task that is called %s runs already under a lock of its own; gocron couldn't tell the ends of the two apart", onerun.ErrUsage, name)
	}
	l.held[name] = h
	return h, nil
}

// lock is one that is held.
type lock struct {
	locker *Locker
	name   string
	end    error // how the task ended; guarded by Locker.mu until unlock is closed
	over   bool  // it was unlocked; guarded by Locker.mu
	unlock chan struct{}
	done   chan error // what Runner.Do said
}

// Unlock implements gocron.Lock: it records how the task ended, and says if that can't be done.
// It takes no notice of ctx, which has ended when the scheduler shuts down. Once is enough: what comes after
// that does nothing.
func (h *lock) Unlock(context.Context) error {
	h.locker.mu.Lock()
	if h.over {
		h.locker.mu.Unlock()
		return nil
	}
	h.over = true
	end := h.end
	delete(h.locker.held, h.name)
	h.locker.mu.Unlock()
	close(h.unlock)
	err := unrecorded(<-h.done)
	if errors.Is(end, errNoWord) {
		h.locker.opts.report(h.name, end)
	}
	if err != nil {
		h.locker.opts.report(h.name, err)
	}
	return err
}

// unrecorded is what Runner.Do says, unless that is the task's own failure, which gocron knows
// and the store has.
func unrecorded(err error) error {
	if errors.As(err, new(*onerun.Failure)) && !errors.Is(err, onerun.ErrLost) && !errors.As(err, new(*onerun.NotRecordedError)) {
		return nil
	}
	return err
}
