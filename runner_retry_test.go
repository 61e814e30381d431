package onerun_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

var errBoom = errors.New("boom")

// retried is a job with a budget, and a wait of a minute that doubles up to ten.
func retried(partition string, retries int) onerun.Job {
	return onerun.Job{Name: "daily", Partition: partition, Policy: onerun.Policy{
		TTL: time.Hour, Retries: retries, BackoffMin: time.Minute, BackoffMax: 10 * time.Minute,
	}}
}

// failing fails n times, and counts how often it was called.
func failing(n int, calls *int) func(context.Context, *onerun.Owner) error {
	return func(context.Context, *onerun.Owner) error {
		if *calls++; *calls <= n {
			return fmt.Errorf("%w %d", errBoom, *calls)
		}
		return nil
	}
}

// after does something while a test's job is waited for.
func after(d time.Duration, do func()) {
	go func() { pass(context.Background(), d); do() }()
}

func TestRetriedUntilItSucceeds(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		var began, ended []time.Duration
		var leases []onerun.Lease
		var looked time.Duration
		var j journal
		after(10*time.Second+time.Minute/2, func() {
			looked = b.at()
			if run := b.last("daily"); run.Status != onerun.Failed || run.NextRetryAt.IsZero() {
				t.Errorf("while it waits, the run is %s, due %s", run.Status, run.NextRetryAt)
			}
			b.free()
		})
		err := b.do(retried("p", 5), func(ctx context.Context, o *onerun.Owner) error {
			began, leases = append(began, b.at()), append(leases, o.Lease())
			pass(ctx, 10*time.Second)
			ended = append(ended, b.at())
			if len(began) < 4 {
				return errBoom
			}
			return nil
		}, onerun.WithObserver(&j))
		if err != nil || len(began) != 4 || looked == 0 {
			t.Fatalf("Do: %v after %d attempts", err, len(began))
		}
		for i := 1; i < len(began); i++ {
			whole := time.Minute << (i - 1)
			within(t, fmt.Sprintf("attempt %d", i+1), began[i]-ended[i-1], max(time.Minute, whole/2), whole/2)
			a, c := leases[i-1], leases[i]
			if c.Attempt != i+1 || c.Token <= a.Token || c.Owner == a.Owner || c.RunID != a.RunID {
				t.Errorf("attempt %d: %+v after %+v", i+1, c, a)
			}
		}
		if run := b.last("daily"); run.Status != onerun.Succeeded || run.Attempt != 4 || b.skips("daily", "p") != 0 {
			t.Errorf("recorded: %s, attempt %d, %d skips", run.Status, run.Attempt, b.skips("daily", "p"))
		}
		b.free()
		want := []string{"claimed", "started", "failed", "retry_waiting"}
		want = append(slices.Concat(want, want, want), "claimed", "started", "finished")
		if !slices.Equal(j.events(), want) {
			t.Errorf("observed: %v", j.events())
		}
		for _, o := range j.all() {
			if o.Event == onerun.EventRetryWaiting && !o.Run.NextRetryAt.After(o.At) {
				t.Errorf("waits at %s for %s", o.At, o.Run.NextRetryAt)
			}
		}
	})
}

// What comes back is how the last attempt ended.
func TestRetriesAreUsedUp(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		calls := 0
		var j journal
		err := b.do(retried("p", 2), failing(99, &calls), onerun.WithObserver(&j))
		if err == nil || err.Error() != "boom 3" || calls != 3 || j.count(onerun.EventRetrySuperseded) != 0 {
			t.Errorf("Do: %v after %d attempts; observed: %v", err, calls, j.events())
		}
		if run := b.last("daily"); run.Status != onerun.Failed || run.Attempt != 3 || !run.NextRetryAt.IsZero() {
			t.Errorf("recorded: %s, attempt %d, due %s", run.Status, run.Attempt, run.NextRetryAt)
		}
	})
}

// What is not retried here is not waited for, and nobody is asked about it.
func TestNotRetriedHere(t *testing.T) {
	late := retried("p", 3)
	late.RetryLater = true
	for _, c := range []struct {
		name     string
		job      onerun.Job
		returned error
		due      bool // a later start may take it
	}{
		{"without a budget", retried("p", 0), errBoom, false},
		{"left to a later start", late, errBoom, true},
		{"left to a later start by the function", retried("p", 3), &onerun.Failure{Err: errBoom, RetryLater: true}, true},
		{"never started", retried("p", 3), &onerun.Failure{Err: errBoom, Void: true}, true},
		{"not found", retried("p", 3), &onerun.Failure{Err: errBoom, Reason: onerun.ReasonNotFound}, false},
		{"not executable", retried("p", 3), &onerun.Failure{Err: errBoom, Reason: onerun.ReasonNotExecutable}, false},
		{"stopped", retried("p", 3), &onerun.Failure{Err: errBoom, Reason: onerun.ReasonStopped}, false},
		{"unkeyed and not found", retried("", 3), &onerun.Failure{Err: errBoom, Reason: onerun.ReasonNotFound}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				calls := 0
				err := b.do(c.job, func(context.Context, *onerun.Owner) error { calls++; return c.returned })
				if !errors.Is(err, errBoom) || calls != 1 || b.at() != 0 {
					t.Errorf("Do: %v after %d calls in %s", err, calls, b.at())
				}
				if run := b.last("daily"); run.NextRetryAt.IsZero() == c.due {
					t.Errorf("recorded: %s, due %s", run.Status, run.NextRetryAt)
				}
			})
		})
	}
	t.Run("a panic", func(t *testing.T) {
		inBed(t, func(t *testing.T, b *bed) {
			calls := 0
			defer func() {
				if run := b.last("daily"); recover() == nil || calls != 1 || run.NextRetryAt.IsZero() {
					t.Errorf("%d calls, the run is due %s", calls, run.NextRetryAt)
				}
			}()
			_ = b.do(retried("p", 3), func(context.Context, *onerun.Owner) error { calls++; panic("oops") })
		})
	})
	t.Run("an end that is not recorded", func(t *testing.T) {
		inBed(t, func(t *testing.T, b *bed) {
			calls := 0
			b.store.finish = func(context.Context, onerun.Lease, onerun.Outcome) error { return down() }
			var j journal
			err := b.do(retried("p", 3), failing(9, &calls), onerun.WithObserver(&j))
			if !errors.As(err, new(*onerun.NotRecordedError)) || calls != 1 || j.count(onerun.EventRetrySuperseded) != 0 {
				t.Errorf("Do: %v after %d calls; observed: %v", err, calls, j.events())
			}
		})
	})
	t.Run("a lost lease", func(t *testing.T) {
		inBed(t, func(t *testing.T, b *bed) {
			calls := 0
			b.store.beat = func(context.Context, onerun.Lease) (onerun.Beat, error) { return onerun.Beat{}, onerun.ErrLost }
			job := retried("p", 3)
			job.TTL = time.Minute
			err := b.do(job, func(ctx context.Context, o *onerun.Owner) error { calls++; return works(time.Hour)(ctx, o) })
			if !errors.Is(err, onerun.ErrLost) || calls != 1 || !b.last("daily").NextRetryAt.IsZero() {
				t.Errorf("Do: %v after %d calls, due %s", err, calls, b.last("daily").NextRetryAt)
			}
		})
	})
}

func TestCallerGivesUpWhileItWaits(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		ctx, cancel := context.WithCancel(t.Context())
		after(30*time.Second, cancel)
		calls := 0
		var j journal
		err := b.runner(onerun.WithObserver(&j)).Do(ctx, retried("p", 3), failing(9, &calls))
		if err == nil || err.Error() != "boom 1" || calls != 1 {
			t.Errorf("Do: %v after %d calls", err, calls)
		}
		within(t, "ended", b.at(), 30*time.Second, 0)
		if run := b.last("daily"); run.NextRetryAt.IsZero() || j.events()[len(j.events())-1] != onerun.EventRetryWaiting {
			t.Errorf("due %s; observed: %v", run.NextRetryAt, j.events())
		}
		pass(t.Context(), time.Minute)
		if g := b.hold("daily", "p", onerun.Policy{}); g.Lease.Attempt != 2 { // a later start
			t.Errorf("the due attempt is %d", g.Lease.Attempt)
		}
	})
	inBed(t, func(t *testing.T, b *bed) { // and while the work still ran
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		err := b.runner().Do(ctx, retried("p", 3), func(ctx context.Context, _ *onerun.Owner) error { calls++; cancel(); return ctx.Err() })
		if !errors.Is(err, context.Canceled) || calls != 1 || b.at() != 0 {
			t.Errorf("Do: %v after %d calls in %s", err, calls, b.at())
		}
	})
}

// Clocks that stand hours apart don't change how long is waited; the store's says when.
func TestRetryByTheStoresClock(t *testing.T) {
	for _, ahead := range []time.Duration{-5 * time.Hour, 5 * time.Hour} {
		inBed(t, func(t *testing.T, b *bed) {
			b.ahead.Store(int64(ahead))
			calls := 0
			if err := b.do(retried("p", 1), failing(1, &calls)); err != nil || calls != 2 {
				t.Errorf("Do: %v after %d calls", err, calls)
			}
			within(t, "retried", b.at(), time.Minute, time.Millisecond)
		})
	}
	hour := retried("p", 1)
	hour.BackoffMin, hour.BackoffMax = time.Hour, time.Hour
	for _, step := range []struct{ by, from, late time.Duration }{
		{59 * time.Minute, 2 * time.Minute, time.Minute}, // seen at the next look
		{-2 * time.Hour, 3 * time.Hour, 0},
	} {
		inBed(t, func(t *testing.T, b *bed) {
			after(90*time.Second, func() { b.ahead.Store(int64(step.by)) })
			calls := 0
			if err := b.do(hour, failing(1, &calls)); err != nil || calls != 2 {
				t.Errorf("Do: %v after %d calls", err, calls)
			}
			within(t, "retried", b.at(), step.from, step.late)
		})
	}
	inBed(t, func(t *testing.T, b *bed) { // the host is suspended: the time in it counts
		after(90*time.Second, func() { b.clock.jump(3 * time.Hour) })
		calls := 0
		if err := b.do(hour, failing(1, &calls)); err != nil || calls != 2 {
			t.Errorf("Do: %v after %d calls", err, calls)
		}
		within(t, "retried", b.at(), 3*time.Hour, 3*time.Minute)
	})
}

// B42: however often it fails and whatever the bounds, it ends in FAILED when the budget
// is used up.
func TestHundredRetries(t *testing.T) {
	for _, c := range []struct{ least, most time.Duration }{{time.Second, time.Minute}, {0, 0}, {1, 10 * time.Minute}} {
		inBed(t, func(t *testing.T, b *bed) {
			job := retried("p", 100)
			job.BackoffMin, job.BackoffMax = c.least, c.most
			calls := 0
			if err := b.do(job, failing(math.MaxInt, &calls)); err == nil || calls != 101 {
				t.Errorf("Do: %v after %d calls", err, calls)
			}
			if run := b.last("daily"); run.Status != onerun.Failed || run.Attempt != 101 {
				t.Errorf("recorded: %s, attempt %d", run.Status, run.Attempt)
			}
		})
	}
}

// A claim of the retry whose reply is lost is one attempt all the same.
func TestLostReplyOfARetry(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		claims, calls := 0, 0
		b.store.claim = func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
			grant, err := b.store.Store.Claim(ctx, c)
			if claims++; claims == 2 {
				return onerun.Grant{}, down()
			}
			return grant, err
		}
		if err := b.do(retried("p", 3), failing(1, &calls)); err != nil || calls != 2 || claims != 3 || b.last("daily").Attempt != 2 {
			t.Errorf("Do: %v after %d calls and %d claims; recorded: %+v", err, calls, claims, b.last("daily"))
		}
		b.free()
	})
}

// The store is away while a retry is waited for.
func TestStoreAwayWhileARetryIsDue(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to time.Duration
		ok       bool
	}{
		{"only before", 100 * time.Second, 220 * time.Second, true},
		{"for a moment", 295 * time.Second, 305 * time.Second, true},
		{"for good", 295 * time.Second, 24 * time.Hour, false},
		{"from the failure on", time.Nanosecond, 24 * time.Hour, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				away := func() bool { return b.at() >= c.from && b.at() < c.to }
				b.store.asked = func(ctx context.Context, claim onerun.Claim) (*onerun.Refusal, error) {
					if away() {
						return nil, down()
					}
					return b.mem.Explain(ctx, claim)
				}
				b.store.claim = func(ctx context.Context, claim onerun.Claim) (onerun.Grant, error) {
					if away() {
						return onerun.Grant{}, down()
					}
					return b.mem.Claim(ctx, claim)
				}
				job := retried("p", 1)
				job.BackoffMin = 5 * time.Minute
				calls := 0
				var j journal
				err := b.do(job, func(ctx context.Context, o *onerun.Owner) error {
					pass(ctx, time.Nanosecond)
					return failing(1, &calls)(ctx, o)
				}, onerun.WithObserver(&j))
				if c.ok != (err == nil) || !c.ok && err.Error() != "boom 1" || j.count(onerun.EventRetryLeft) == 1 == c.ok {
					t.Errorf("Do: %v after %d calls; observed: %v", err, calls, j.events())
				}
				if run := b.last("daily"); !c.ok && (run.Attempt != 1 || run.NextRetryAt.IsZero()) {
					t.Errorf("recorded: attempt %d, due %s", run.Attempt, run.NextRetryAt)
				}
			})
		})
	}
	inBed(t, func(t *testing.T, b *bed) { // what is wrong for good is not asked again
		asked := 0
		b.store.asked = func(context.Context, onerun.Claim) (*onerun.Refusal, error) {
			asked++
			return nil, &onerun.StoreError{Kind: onerun.ErrPermission, What: "the store"}
		}
		calls := 0
		var j journal
		err := b.do(retried("p", 1), failing(9, &calls), onerun.WithObserver(&j))
		if err == nil || err.Error() != "boom 1" || asked != 1 || j.count(onerun.EventRetryLeft) != 1 {
			t.Errorf("Do: %v after asking %d times; observed: %v", err, asked, j.events())
		}
	})
}
