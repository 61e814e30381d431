package gocronlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/adapter/gocronlock"
	"github.com/onerun-dev/onerun/schedule"
	"github.com/onerun-dev/onerun/store/memory"
)

// at is a clock that stands.
func at(t *testing.T, text string) gocronlock.Option {
	t.Helper()
	now, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return gocronlock.WithNow(func() time.Time { return now })
}

func mustTask(t *testing.T, store onerun.Store, job onerun.Job, fn func(context.Context, *onerun.Owner) error, opts ...gocronlock.Option) gocron.Task {
	t.Helper()
	return taskOf(t, onerun.NewRunner(store), job, fn, opts...)
}

func taskOf(t *testing.T, runner *onerun.Runner, job onerun.Job, fn func(context.Context, *onerun.Owner) error, opts ...gocronlock.Option) gocron.Task {
	t.Helper()
	task, err := gocronlock.Task(runner, job, fn, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// TestTaskOncePerKey: of two programs that fire one second apart, before and after the hour, one
// does the work, and for the other that is no error.
func TestTaskOncePerKey(t *testing.T) {
	store := memory.New()
	ran := make(chan onerun.Run, 10)
	for _, now := range []string{"2026-09-15T00:59:59.9Z", "2026-09-15T01:00:00.9Z"} {
		p := newProgram(t)
		p.fire(mustTask(t, store, onerun.Job{Name: "daily"}, func(_ context.Context, o *onerun.Owner) error {
			ran <- o.Run()
			return nil
		}, gocronlock.Keyed(schedule.Spec{Period: "hour", Zone: "UTC"}), at(t, now)), p.listening())
		if err := <-p.ended; err != nil {
			t.Errorf("at %s: %v", now, err)
		}
	}
	close(ran)
	n := 0
	for r := range ran {
		if n++; r.Partition != "2026-09-15T01+00:00" {
			t.Errorf("the partition is %s", r.Partition)
		}
	}
	if n != 1 {
		t.Errorf("ran %d times", n)
	}
}

// TestTaskUnkeyed: each fire is a run, but never two at a time.
func TestTaskUnkeyed(t *testing.T) {
	store := memory.New()
	p, other := newProgram(t), newProgram(t)
	up, end := make(chan struct{}), make(chan struct{})
	p.fire(mustTask(t, store, onerun.Job{Name: "daily"}, func(context.Context, *onerun.Owner) error {
		close(up)
		<-end
		return nil
	}), p.listening())
	<-up
	other.fire(mustTask(t, store, onerun.Job{Name: "daily"}, func(context.Context, *onerun.Owner) error {
		return errors.New("beside it")
	}), other.listening())
	if err := <-other.ended; err != nil {
		t.Errorf("the second: %v", err)
	}
	close(end)
	if err := <-p.ended; err != nil {
		t.Errorf("the first: %v", err)
	}
	other.fire(mustTask(t, store, onerun.Job{Name: "daily"}, func(context.Context, *onerun.Owner) error { return nil }), other.listening())
	if err := <-other.ended; err != nil || len(runs(t, store)) != 2 {
		t.Errorf("the third: %v, %d runs", err, len(runs(t, store)))
	}
}

// TestTaskErrors: gocron hears of the work's failure, and of a skip that somebody should look at.
func TestTaskErrors(t *testing.T) {
	store := memory.New()
	p := newProgram(t)
	boom := errors.New("boom")
	job := onerun.Job{Name: "daily", Partition: "p"}
	p.fire(mustTask(t, store, job, func(context.Context, *onerun.Owner) error { return boom }), p.listening())
	if err := <-p.ended; !errors.Is(err, boom) {
		t.Errorf("a failure: %v", err)
	}
	p.fire(mustTask(t, store, job, func(context.Context, *onerun.Owner) error { return nil }), p.listening())
	if err := <-p.ended; reason(err) != onerun.RefusedFailed {
		t.Errorf("the next: %v", err)
	}
}

// TestTaskContext: the work is told of a lost lease, and of the scheduler's end.
func TestTaskContext(t *testing.T) {
	p := newProgram(t)
	waits := func(up chan struct{}) func(context.Context, *onerun.Owner) error {
		return func(ctx context.Context, _ *onerun.Owner) error {
			close(up)
			<-ctx.Done()
			return context.Cause(ctx)
		}
	}
	p.fire(mustTask(t, gone{memory.New()}, onerun.Job{Name: "daily", Policy: onerun.Policy{TTL: onerun.MinTTL}}, waits(make(chan struct{}))), p.listening())
	if err := <-p.ended; !errors.Is(err, onerun.ErrLost) {
		t.Errorf("a lost lease: %v", err)
	}
	store := memory.New()
	s, err := gocron.NewScheduler()
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	up, ended := make(chan struct{}), make(ends, 1)
	task := taskOf(t, onerun.NewRunner(store, onerun.WithObserver(ended)), onerun.Job{Name: "daily"}, waits(up))
	if _, err := s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), task); err != nil {
		t.Fatal(err)
	}
	<-up
	if err := s.Shutdown(); err != nil {
		t.Errorf("shut down: %v", err)
	}
	if r := ended.wait(t, store); r.Status != onerun.Failed || r.Reason != onerun.ReasonCanceled {
		t.Errorf("after the scheduler's end: %+v", r)
	}
}

// TestKeysThatAreNone: what can't be keyed is refused where it is written.
func TestKeysThatAreNone(t *testing.T) {
	runner := onerun.NewRunner(nil)
	for what, spec := range map[string]schedule.Spec{
		"nothing":     {},
		"a partition": {Partition: "p"},
		"an instant":  {Period: "5m", At: "2026-09-15T01:00:00Z"},
		"no zone":     {Date: "yesterday"},
		"no period":   {Period: "fortnight"},
	} {
		if _, err := gocronlock.Task(runner, onerun.Job{Name: "daily"}, nil, gocronlock.Keyed(spec)); !errors.Is(err, onerun.ErrUsage) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := gocronlock.NewLocker(runner, gocronlock.Keyed(spec)); !errors.Is(err, onerun.ErrUsage) {
			t.Errorf("%s, of a Locker: %v", what, err)
		}
	}
}
