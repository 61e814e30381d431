package onerun_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// waitingStore can wait for a lock by itself, as a store does that is woken.
type waitingStore struct {
	*hooks
	waiting func(context.Context, onerun.Claim) (onerun.Grant, error)
}

func (w *waitingStore) ClaimWaiting(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	return w.waiting(ctx, c)
}

// blocks waits in the store until the lock is free.
func (b *bed) blocks(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	for {
		grant, err := b.mem.Claim(ctx, c)
		if !errors.As(err, new(*onerun.Refusal)) {
			return grant, err
		}
		if pass(ctx, 100*time.Millisecond); ctx.Err() != nil {
			return onerun.Grant{}, hang(ctx)
		}
	}
}

func (b *bed) waitingRunner(waiting func(context.Context, onerun.Claim) (onerun.Grant, error), opts ...onerun.Option) *onerun.Runner {
	store := &waitingStore{hooks: b.store, waiting: waiting}
	return onerun.NewRunner(store, append(opts, onerun.WithClock(b.clock))...)
}

func TestWaitInTheStore(t *testing.T) {
	for name, wait := range map[string]time.Duration{"a while": time.Hour, "for ever": onerun.Forever} {
		t.Run(name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				b.finishAt(30*time.Minute, b.hold("nightly", "", onerun.Policy{}), onerun.Outcome{Status: onerun.Succeeded})
				calls := 0
				r := b.waitingRunner(func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
					calls++
					return b.blocks(ctx, c)
				})
				var started time.Duration
				err := r.Do(t.Context(), waits(wait), func(context.Context, *onerun.Owner) error { started = b.at(); return nil })
				if err != nil || calls != 1 {
					t.Errorf("Do: %v after %d calls; want one that waits", err, calls)
				}
				within(t, "started", started, 30*time.Minute, 100*time.Millisecond)
			})
		})
	}
}

func TestWaitInTheStoreIsOver(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.hold("nightly", "", onerun.Policy{})
		calls := 0
		r := b.waitingRunner(func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
			calls++
			return b.blocks(ctx, c)
		})
		err := r.Do(t.Context(), waits(time.Minute), never(t))
		if !errors.As(err, new(*onerun.Refusal)) || calls != 1 || b.skips("nightly", "") != 1 {
			t.Errorf("Do: %v after %d calls, recorded %d times; want one call and one refusal", err, calls, b.skips("nightly", ""))
		}
		within(t, "refused", b.at(), time.Minute, 0)
	})
}

// Without a wait the store isn't asked to wait.
func TestNoWaitInTheStore(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.hold("nightly", "", onerun.Policy{})
		r := b.waitingRunner(func(context.Context, onerun.Claim) (onerun.Grant, error) {
			t.Error("asked to wait")
			return onerun.Grant{}, down()
		})
		if err := r.Do(t.Context(), nightly, never(t)); !errors.As(err, new(*onerun.Refusal)) {
			t.Errorf("Do: %v; want it refused", err)
		}
	})
}

// A store may wait for ever in vain: whoever waits for ever asks again.
func TestWaitForeverAsksAgain(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		calls := 0
		r := b.waitingRunner(func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
			if calls++; calls < 4 {
				return onerun.Grant{}, hang(ctx)
			}
			return b.blocks(ctx, c)
		})
		if err := r.Do(t.Context(), waits(onerun.Forever), works(0)); err != nil || calls != 4 {
			t.Errorf("Do: %v after %d calls", err, calls)
		}
		within(t, "asked for the fourth time", b.at(), 3*onerun.MaxTTL, 0)
	})
}

// Who waits in line for ever isn't asked to begin again at the end of it.
func TestWaitInLineForever(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		calls := 0
		r := b.waitingRunner(func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
			calls++
			pass(ctx, 10*onerun.MaxTTL)
			if ctx.Err() != nil {
				return onerun.Grant{}, hang(ctx)
			}
			c.Order = onerun.OrderAny // the store below keeps none
			return b.mem.Claim(ctx, c)
		})
		job := waits(onerun.Forever)
		job.Order = onerun.OrderFIFO
		job.TTL = onerun.MaxTTL
		if err := r.Do(t.Context(), job, works(0)); err != nil || calls != 1 {
			t.Errorf("Do: %v after %d calls; want one that waits", err, calls)
		}
	})
}

// A store that waits may also answer at once that it can't; it isn't asked in a
// tight loop then.
func TestWaitingStoreRefuses(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.hold("nightly", "", onerun.Policy{})
		calls := 0
		r := b.waitingRunner(func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
			calls++
			return b.mem.Claim(ctx, c)
		})
		err := r.Do(t.Context(), waits(time.Minute), never(t))
		if !errors.As(err, new(*onerun.Refusal)) || calls < 60 || calls > 150 {
			t.Errorf("Do: %v after %d calls in a minute", err, calls)
		}
	})
}

// The connection breaks after a long wait: the time that was waited is not held
// against the store, and not waited twice.
func TestWaitIsCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		back time.Duration // when the store comes back
		ok   bool
	}{"for a moment": {64 * time.Second, true}, "for good": {24 * time.Hour, false}} {
		t.Run(name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				b.finishAt(80*time.Second, b.hold("nightly", "", onerun.Policy{}), onerun.Outcome{Status: onerun.Succeeded})
				r := b.waitingRunner(func(ctx context.Context, claim onerun.Claim) (onerun.Grant, error) {
					if at := b.at(); at < time.Minute {
						pass(ctx, time.Minute-at)
						return onerun.Grant{}, down()
					} else if at < c.back {
						return onerun.Grant{}, down()
					}
					return b.blocks(ctx, claim)
				})
				err := r.Do(t.Context(), waits(90*time.Second), works(0))
				if c.ok != (err == nil) || !c.ok && !errors.Is(err, onerun.ErrUnavailable) {
					t.Errorf("Do: %v", err)
				}
				if !c.ok {
					within(t, "gave up", b.at(), 69*time.Second, time.Second)
				}
			})
		})
	}
	inBed(t, func(t *testing.T, b *bed) {
		b.hold("nightly", "", onerun.Policy{})
		r := b.waitingRunner(func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
			if b.at() < 50*time.Second {
				pass(ctx, 50*time.Second-b.at())
				return onerun.Grant{}, down()
			}
			return b.blocks(ctx, c)
		})
		if err := r.Do(t.Context(), waits(time.Minute), never(t)); !errors.As(err, new(*onerun.Refusal)) {
			t.Errorf("Do: %v; want it refused", err)
		}
		within(t, "refused", b.at(), time.Minute, 0)
	})
}

// A lock that was won in the store when the wait was over there, with the reply lost,
// is adopted by the last claim; its lease counts from the request that waited.
func TestWonAsTheWaitWasOver(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		r := b.waitingRunner(func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
			pass(ctx, 4*time.Second)
			if _, err := b.mem.Claim(ctx, c); err != nil {
				t.Errorf("claim: %v", err)
			}
			return onerun.Grant{}, hang(ctx)
		})
		beats := 0
		b.store.beat = func(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
			beats++
			return b.mem.Heartbeat(ctx, l)
		}
		job := waits(5 * time.Second)
		job.TTL = 2 * time.Second
		err := r.Do(t.Context(), job, func(context.Context, *onerun.Owner) error {
			if beats != 1 {
				t.Errorf("started after %d heartbeats; want one first", beats)
			}
			return nil
		})
		if err != nil || b.last("nightly").Attempt != 1 {
			t.Errorf("Do: %v; recorded: %+v", err, b.last("nightly"))
		}
		b.free()
	})
}
