package onerun_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
)

// bed is what the tests of a Runner lie in: a store in memory that is reached
// through hooks, a clock for the owner, and a clock for the store.
type bed struct {
	t     *testing.T
	mem   *memory.Store
	store *hooks
	clock *clock
	ahead atomic.Int64 // how far the store's clock was moved, in ns
}

// inBed runs a test in a bubble of testing/synctest, in which time passes only when
// every goroutine waits. A goroutine that stays behind fails the test.
func inBed(t *testing.T, test func(*testing.T, *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bed{t: t, clock: &clock{start: time.Now()}}
		b.mem = memory.New(memory.WithNow(func() time.Time { return b.clock.Now().Add(time.Duration(b.ahead.Load())) }))
		b.store = &hooks{Store: b.mem}
		test(t, b)
	})
}

// runner makes a Runner that sees the store through the hooks.
func (b *bed) runner(opts ...onerun.Option) *onerun.Runner {
	return onerun.NewRunner(b.store, append([]onerun.Option{onerun.WithClock(b.clock)}, opts...)...)
}

// do runs a job on the owner's Runner.
func (b *bed) do(job onerun.Job, fn func(context.Context, *onerun.Owner) error, opts ...onerun.Option) error {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 48*time.Hour) // so that a fault is no endless test
	defer cancel()
	return b.runner(opts...).Do(ctx, job, fn)
}

// at is the time since the test began, by the owner's clock.
func (b *bed) at() time.Duration { return b.clock.Elapsed() }

// last reads the newest run of a job.
func (b *bed) last(job string) onerun.Run {
	b.t.Helper()
	runs, err := b.mem.Runs(context.Background(), onerun.Query{Namespace: onerun.DefaultNamespace, Job: job, Limit: 1})
	if err != nil || len(runs) != 1 {
		b.t.Fatalf("the runs of %s: %v, %v; want one", job, runs, err)
	}
	return runs[0]
}

// skips counts the recorded refusals of a key.
func (b *bed) skips(job, partition string) (n int64) {
	b.t.Helper()
	skips, err := b.mem.Skips(context.Background(), onerun.DefaultNamespace, job, partition)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, s := range skips {
		n += s.Count
	}
	return n
}

// free checks that nobody holds a lock.
func (b *bed) free() {
	b.t.Helper()
	locks, err := b.mem.Locks(context.Background(), onerun.DefaultNamespace)
	if err != nil || len(locks) != 0 {
		b.t.Errorf("held locks: %+v, %v; want none", locks, err)
	}
}

// hold claims a lock for somebody who does nothing with it, and never beats.
func (b *bed) hold(job, partition string, policy onerun.Policy) onerun.Grant {
	b.t.Helper()
	grant, err := b.mem.Claim(context.Background(), claimOf(job, partition, policy))
	if err != nil {
		b.t.Fatal(err)
	}
	return grant
}

func claimOf(job, partition string, policy onerun.Policy) onerun.Claim {
	if policy.TTL == 0 {
		policy.TTL = time.Hour
	}
	return onerun.Claim{
		Namespace: onerun.DefaultNamespace, Job: job, Partition: partition, Lock: onerun.JobLock(job),
		Owner: onerun.NewID(), RunID: onerun.NewRunID(time.Now()), Policy: policy,
	}
}

// contend asks for a job's lock again and again in the background. What it returns
// waits for the grant and gives its time; giveUp ends the asking.
func (b *bed) contend(job string, every time.Duration) (granted func() (time.Duration, onerun.Grant), giveUp func() bool) {
	ctx, cancel := context.WithCancel(context.Background())
	var at time.Duration
	var grant onerun.Grant
	var won atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20_000 {
			c := claimOf(job, "", onerun.Policy{TTL: onerun.MaxTTL})
			c.Asking = true
			g, err := b.mem.Claim(ctx, c)
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				at, grant = b.at(), g
				won.Store(true)
				return
			}
			if !errors.As(err, new(*onerun.Refusal)) {
				b.t.Errorf("the contender's claim: %v", err)
				return
			}
			pass(ctx, every)
		}
	}()
	granted = func() (time.Duration, onerun.Grant) { <-done; return at, grant }
	giveUp = func() bool { cancel(); <-done; return won.Load() }
	return granted, giveUp
}

// pass lets time pass, in a bubble, until ctx ends.
func pass(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// works is a function that works for a while and heeds its context.
func works(d time.Duration) func(context.Context, *onerun.Owner) error {
	return func(ctx context.Context, _ *onerun.Owner) error {
		pass(ctx, d)
		return context.Cause(ctx)
	}
}

// clock is an owner's clock in a bubble. It can jump, as a clock that counts suspend
// does, while no timer fires.
type clock struct {
	start  time.Time
	jumped atomic.Int64
}

func (c *clock) jump(d time.Duration)   { c.jumped.Add(int64(d)) }
func (c *clock) Elapsed() time.Duration { return time.Since(c.start) + time.Duration(c.jumped.Load()) }
func (c *clock) Now() time.Time         { return c.start.Add(c.Elapsed()) }

// hooks is a store with a way to come between it and its caller. A hook that is nil
// passes the call on. They are set before the store is used.
type hooks struct {
	onerun.Store
	claim  func(context.Context, onerun.Claim) (onerun.Grant, error)
	beat   func(context.Context, onerun.Lease) (onerun.Beat, error)
	finish func(context.Context, onerun.Lease, onerun.Outcome) error
	asked  func(context.Context, onerun.Claim) (*onerun.Refusal, error) // Explain
}

func (h *hooks) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	if h.claim != nil {
		return h.claim(ctx, c)
	}
	return h.Store.Claim(ctx, c)
}

func (h *hooks) Heartbeat(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
	if h.beat != nil {
		return h.beat(ctx, l)
	}
	return h.Store.Heartbeat(ctx, l)
}

func (h *hooks) Finish(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
	if h.finish != nil {
		return h.finish(ctx, l, o)
	}
	return h.Store.Finish(ctx, l, o)
}

func (h *hooks) Explain(ctx context.Context, c onerun.Claim) (*onerun.Refusal, error) {
	if h.asked != nil {
		return h.asked(ctx, c)
	}
	return h.Store.Explain(ctx, c)
}

// down is the error of a store that can't be reached.
func down() error {
	return &onerun.StoreError{Kind: onerun.ErrUnavailable, What: "the store", Err: errors.New("connection refused")}
}

// hang waits, as a call over a cut network does, for its context to end.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return &onerun.StoreError{Kind: onerun.ErrUnavailable, What: "the store", Err: context.Cause(ctx)}
}

// journal is an observer that keeps what it is told.
type journal struct {
	mu   sync.Mutex
	seen []onerun.Observation
}

func (j *journal) Observe(o onerun.Observation) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seen = append(j.seen, o)
}

func (j *journal) all() []onerun.Observation {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.seen)
}

func (j *journal) events() []string {
	var names []string
	for _, o := range j.all() {
		names = append(names, o.Event)
	}
	return names
}

func (j *journal) count(event string) (n int) {
	for _, e := range j.events() {
		if e == event {
			n++
		}
	}
	return n
}

// within checks a time against the moment it must not precede and how late it may be.
func within(t *testing.T, what string, got, from, late time.Duration) {
	t.Helper()
	if got < from || got > from+late {
		t.Errorf("%s at %s; want it from %s to %s", what, got, from, from+late)
	}
}
