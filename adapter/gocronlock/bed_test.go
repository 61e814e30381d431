package gocronlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
)

// program is one with a scheduler: a replica of others that have the same jobs.
type program struct {
	t       *testing.T
	s       gocron.Scheduler
	ended   chan error // of tasks: nil for a success
	refused chan error // what Lock said
}

func newProgram(t *testing.T, opts ...gocron.SchedulerOption) *program {
	t.Helper()
	s, err := gocron.NewScheduler(opts...)
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, s: s, ended: make(chan error, 10), refused: make(chan error, 10)}
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Errorf("shut down: %v", err)
		}
	})
	s.Start()
	return p
}

// fire adds a job that is fired once, now.
func (p *program) fire(task gocron.Task, opts ...gocron.JobOption) {
	p.t.Helper()
	opts = append(opts, gocron.WithName("daily"))
	if _, err := p.s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), task, opts...); err != nil {
		p.t.Fatal(err)
	}
}

// listening tells the program's channels.
func (p *program) listening() gocron.JobOption {
	return gocron.WithEventListeners(
		gocron.AfterJobRuns(func(uuid.UUID, string) { p.ended <- nil }),
		gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { p.ended <- err }),
		p.locking(),
	)
}

// locking tells only of what Lock said, and leaves room for the Locker's own listeners.
func (p *program) locking() gocron.EventListener {
	return gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { p.refused <- err })
}

// ends is an observer of the ends of runs.
type ends chan onerun.Observation

func (e ends) Observe(o onerun.Observation) {
	if o.Outcome != nil {
		e <- o
	}
}

// wait gives the run that ends next, as it is recorded.
func (e ends) wait(t *testing.T, store onerun.Store) onerun.Run {
	t.Helper()
	o := <-e
	d, err := store.Detail(t.Context(), o.Lease.Namespace, o.Lease.RunID)
	if err != nil {
		t.Fatal(err)
	}
	return d.Run
}

func runs(t *testing.T, store *memory.Store) []onerun.Run {
	t.Helper()
	runs, err := store.Runs(t.Context(), onerun.Query{Namespace: onerun.DefaultNamespace})
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

func reason(err error) onerun.Reason {
	var skip *onerun.Refusal
	if !errors.As(err, &skip) {
		return ""
	}
	return skip.Reason
}

// beats is a store that tells of heartbeats.
type beats struct {
	*memory.Store
	now chan time.Time
}

func (b beats) Heartbeat(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
	beat, err := b.Store.Heartbeat(ctx, l)
	if err == nil {
		b.now <- beat.Now
	}
	return beat, err
}

// gone is a store in which every lease is lost at its first heartbeat, or when it ends.
type gone struct{ *memory.Store }

func (gone) Heartbeat(context.Context, onerun.Lease) (onerun.Beat, error) {
	return onerun.Beat{}, onerun.ErrLost
}

func (gone) Finish(context.Context, onerun.Lease, onerun.Outcome) error { return onerun.ErrLost }

func (gone) Deliver(context.Context, onerun.Lease, onerun.Outcome) (onerun.Delivery, error) {
	return onerun.Delivery{}, onerun.ErrLost
}
