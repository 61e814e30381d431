package onerun_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

func waits(d time.Duration) onerun.Job { return onerun.Job{Name: "nightly", Wait: d} }

// finishAt ends what hold began.
func (b *bed) finishAt(at time.Duration, g onerun.Grant, out onerun.Outcome) {
	ctx := b.t.Context()
	go func() {
		if pass(ctx, at-b.at()); ctx.Err() != nil {
			return
		}
		if err := b.mem.Finish(ctx, g.Lease, out); err != nil {
			b.t.Errorf("finish: %v", err)
		}
	}()
}

func TestWaitUntilFree(t *testing.T) {
	for name, job := range map[string]onerun.Job{
		"a while":           waits(5 * time.Second),
		"for ever":          waits(onerun.Forever),
		"the longest there": waits(math.MaxInt64),
	} {
		t.Run(name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				b.finishAt(3*time.Second, b.hold("nightly", "", onerun.Policy{}), onerun.Outcome{Status: onerun.Succeeded})
				var started time.Duration
				owners, last := map[string]int{}, time.Duration(0)
				b.store.beat = func(context.Context, onerun.Lease) (onerun.Beat, error) {
					t.Error("a heartbeat; want the lease to count from the claim that was granted, not from the first one")
					return onerun.Beat{}, down()
				}
				b.store.claim = func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
					if b.at()-last > time.Second {
						t.Errorf("asked at %s and at %s; want it at most 1 s apart", last, b.at())
					}
					last = b.at()
					owners[c.Owner]++
					return b.store.Store.Claim(ctx, c)
				}
				job.TTL = 2 * time.Second
				err := b.do(job, func(context.Context, *onerun.Owner) error { started = b.at(); return nil })
				if err != nil || len(owners) != 1 || b.skips("nightly", "") != 0 {
					t.Errorf("Do: %v; owner ids %v; %d skips recorded", err, owners, b.skips("nightly", ""))
				}
				within(t, "started", started, 3*time.Second, time.Second)
			})
		})
	}
}

func TestWaitUntilItIsOver(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.hold("nightly", "", onerun.Policy{})
		var j journal
		err := b.do(waits(5*time.Second), never(t), onerun.WithObserver(&j))
		var refusal *onerun.Refusal
		if !errors.As(err, &refusal) || refusal.Reason != onerun.RefusedLocked || refusal.Count != 1 {
			t.Errorf("Do: %#v; want it refused as locked, and recorded", err)
		}
		within(t, "refused", b.at(), 5*time.Second, 0)
		if n := b.skips("nightly", ""); n != 1 || j.count(onerun.EventSkipped) != 1 {
			t.Errorf("recorded %d times, observed %v; want both once", n, j.events())
		}
	})
}

func TestWaitForARunningKey(t *testing.T) {
	for name, c := range map[string]struct {
		end  onerun.Outcome
		want onerun.Reason
	}{
		"that succeeds": {onerun.Outcome{Status: onerun.Succeeded}, onerun.RefusedSucceeded},
		"that fails":    {onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit}, onerun.RefusedFailed},
	} {
		t.Run(name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				b.finishAt(3*time.Second, b.hold("daily", "p", onerun.Policy{}), c.end)
				job := daily("p")
				job.Wait = onerun.Forever
				err := b.do(job, never(t))
				var refusal *onerun.Refusal
				if !errors.As(err, &refusal) || refusal.Reason != c.want || b.skips("daily", "p") != 1 {
					t.Errorf("Do: %v, recorded %d times; want it refused as %s", err, b.skips("daily", "p"), c.want)
				}
				within(t, "refused", b.at(), 3*time.Second, time.Second)
			})
		})
	}
}

// Waiting is for what passes by itself. Nothing else is waited for.
func TestNoWait(t *testing.T) {
	for name, c := range map[string]struct {
		arrange func(*bed)
		want    onerun.Reason
	}{
		"succeeded": {func(b *bed) {
			b.finishAt(0, b.hold("daily", "p", onerun.Policy{}), onerun.Outcome{Status: onerun.Succeeded})
		}, onerun.RefusedSucceeded},
		"failed": {func(b *bed) {
			b.finishAt(0, b.hold("daily", "p", onerun.Policy{}), onerun.Outcome{Status: onerun.Failed})
		}, onerun.RefusedFailed},
		"retry_not_due": {func(b *bed) {
			b.finishAt(0, b.hold("daily", "p", onerun.Policy{Retries: 1, BackoffMin: time.Hour}), onerun.Outcome{Status: onerun.Failed})
		}, onerun.RefusedRetryNotDue},
		"paused": {func(b *bed) {
			q := onerun.PauseRequest{Namespace: onerun.DefaultNamespace, Job: "daily", Who: onerun.Who{By: "kim", Reason: "r"}}
			if err := b.mem.Pause(context.Background(), q); err != nil {
				b.t.Fatal(err)
			}
		}, onerun.RefusedPaused},
		"stale": {func(b *bed) { b.hold("daily", "p", onerun.Policy{TTL: time.Second, OnCrash: onerun.CrashManual}) }, onerun.RefusedStale},
	} {
		for _, wait := range []time.Duration{0, time.Hour, onerun.Forever} {
			t.Run(fmt.Sprint(name, wait), func(t *testing.T) {
				inBed(t, func(t *testing.T, b *bed) {
					c.arrange(b)
					pass(t.Context(), time.Minute)
					job := daily("p")
					job.Wait = wait
					err := b.do(job, never(t))
					var refusal *onerun.Refusal
					if !errors.As(err, &refusal) || refusal.Reason != c.want || refusal.Count != 1 {
						t.Errorf("Do: %v; want it refused as %s, and recorded", err, c.want)
					}
					within(t, "refused", b.at(), time.Minute, 0)
				})
			})
		}
	}
}

// The time until a moment that has passed is no reason to wait for ever.
func TestNegativeWaitIsNone(t *testing.T) {
	for _, wait := range []time.Duration{0, -2, -time.Second, math.MinInt64} {
		inBed(t, func(t *testing.T, b *bed) {
			b.hold("nightly", "", onerun.Policy{})
			err := b.do(waits(wait), never(t))
			if !errors.As(err, new(*onerun.Refusal)) || b.skips("nightly", "") != 1 {
				t.Errorf("wait %s: Do: %v; want it refused and recorded", wait, err)
			}
			within(t, "refused", b.at(), 0, 0)
		})
	}
}

func TestCallerGivesUpWaiting(t *testing.T) {
	gaveUp := errors.New("gave up")
	inBed(t, func(t *testing.T, b *bed) {
		b.hold("nightly", "", onerun.Policy{})
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(3*time.Second, func() { cancel(gaveUp) })
		var j journal
		err := b.runner(onerun.WithObserver(&j)).Do(ctx, waits(onerun.Forever), never(t))
		if !errors.Is(err, gaveUp) || errors.As(err, new(*onerun.Refusal)) {
			t.Errorf("Do: %v; want the cause", err)
		}
		within(t, "returned", b.at(), 3*time.Second, 0)
		if n := b.skips("nightly", ""); n != 0 || len(j.all()) != 0 {
			t.Errorf("recorded %d times, observed %v; want neither", n, j.events())
		}
	})
	inBed(t, func(t *testing.T, b *bed) { // in the instant of a refusal
		b.hold("nightly", "", onerun.Policy{})
		ctx, cancel := context.WithCancelCause(t.Context())
		b.store.claim = func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
			defer cancel(gaveUp)
			return b.store.Store.Claim(ctx, c)
		}
		if err := b.runner().Do(ctx, waits(onerun.Forever), never(t)); !errors.Is(err, gaveUp) {
			t.Errorf("Do: %v; want the cause", err)
		}
	})
}

// While it waits, a store that fails for a moment is no end of the waiting.
func TestStoreFailsWhileWaiting(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.finishAt(time.Minute, b.hold("nightly", "", onerun.Policy{}), onerun.Outcome{Status: onerun.Succeeded})
		b.store.claim = func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
			if at := b.at(); at > 20*time.Second && at < 28*time.Second {
				return onerun.Grant{}, down()
			}
			return b.store.Store.Claim(ctx, c)
		}
		if err := b.do(waits(2*time.Minute), works(0)); err != nil {
			t.Errorf("Do: %v", err)
		}
	})
}

// A job without a name, but with a lock, waits for that lock alone; nothing is recorded.
func TestWaitForALockAlone(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		held, err := b.mem.Claim(t.Context(), onerun.Claim{
			Namespace: onerun.DefaultNamespace, Lock: onerun.NamedLock("reports"), Owner: onerun.NewID(), Policy: onerun.Policy{TTL: time.Hour},
		})
		if err != nil {
			t.Fatal(err)
		}
		b.finishAt(time.Second, held, onerun.Outcome{})
		if err := b.do(onerun.Job{Lock: onerun.NamedLock("reports"), Wait: time.Minute}, works(0)); err != nil {
			t.Errorf("Do: %v", err)
		}
		within(t, "granted", b.at(), time.Second, time.Second)
		if runs, err := b.mem.Runs(t.Context(), onerun.Query{Namespace: onerun.DefaultNamespace}); err != nil || len(runs) != 0 {
			t.Errorf("runs: %+v, %v; want none", runs, err)
		}
	})
}
