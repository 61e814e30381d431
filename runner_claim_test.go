package onerun_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// never is a function that must not be called.
func never(t *testing.T) func(context.Context, *onerun.Owner) error {
	return func(context.Context, *onerun.Owner) error {
		t.Error("the function was called")
		return nil
	}
}

func daily(partition string) onerun.Job { return onerun.Job{Name: "daily", Partition: partition} }

func TestRefusalComesThrough(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		if err := b.do(daily("p"), works(0)); err != nil {
			t.Fatal(err)
		}
		for n := int64(1); n < 3; n++ {
			err := b.do(daily("p"), never(t))
			var refusal *onerun.Refusal
			if !errors.As(err, &refusal) || refusal.Reason != onerun.RefusedSucceeded || refusal.Key != "daily:p" || refusal.Count != n {
				t.Errorf("Do: %#v; want it refused as succeeded, for the %d. time", err, n)
			}
			onlyKind(t, err, nil)
			if refusal.Holder.RunID != b.last("daily").RunID {
				t.Errorf("the refusal names %+v", refusal.Holder)
			}
		}
		if n := b.skips("daily", "p"); n != 2 {
			t.Errorf("%d refusals are recorded; want 2", n)
		}
	})
}

// An error of the store is no refusal, and reaches the caller as it is.
func TestStoreErrorComesThrough(t *testing.T) {
	for _, kind := range kinds {
		if errors.Is(kind, onerun.ErrUnavailable) {
			continue
		}
		inBed(t, func(t *testing.T, b *bed) {
			calls := 0
			b.store.claim = func(context.Context, onerun.Claim) (onerun.Grant, error) {
				calls++
				return onerun.Grant{}, &onerun.StoreError{Kind: kind, What: "the store"}
			}
			var j journal
			err := b.do(nightly, never(t), onerun.WithObserver(&j))
			onlyKind(t, err, kind)
			if calls != 1 || len(j.all()) != 0 {
				t.Errorf("%v: asked %d times, observed %v; want it asked once", kind, calls, j.events())
			}
		})
	}
}

// A store that can't be reached is asked again with the same owner id, for as long
// as its time limit allows.
func TestUnreachableStore(t *testing.T) {
	for name, fail := range map[string]func(context.Context) error{
		"refused": func(context.Context) error { return down() },
		"hanging": hang,
	} {
		t.Run(name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				owners, asking := map[string]int{}, 0
				b.store.claim = func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
					owners[c.Owner]++
					if c.Asking {
						asking++
					}
					return onerun.Grant{}, fail(ctx)
				}
				err := b.do(nightly, never(t), onerun.WithStoreTimeout(5*time.Second))
				onlyKind(t, err, onerun.ErrUnavailable)
				within(t, "gave up", b.at(), 4*time.Second, time.Second)
				if len(owners) != 1 || asking != 0 {
					t.Errorf("asked with the owner ids %v, %d times as one who asks again", owners, asking)
				}
			})
		})
	}
}

func TestLostClaimReply(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		calls := 0
		b.store.claim = func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
			grant, err := b.store.Store.Claim(ctx, c)
			if calls++; calls == 1 {
				return onerun.Grant{}, down()
			}
			if err == nil && !grant.Adopted {
				t.Errorf("the second claim was granted as a new one: %+v", grant)
			}
			return grant, err
		}
		if err := b.do(daily("p"), works(time.Hour)); err != nil {
			t.Errorf("Do: %v", err)
		}
		d, err := b.mem.Detail(t.Context(), onerun.DefaultNamespace, b.last("daily").RunID)
		if err != nil || len(d.Attempts) != 1 || len(d.Skips) != 0 || d.Run.Status != onerun.Succeeded || calls != 2 {
			t.Errorf("after %d claims: %+v, %v; want one attempt that succeeded", calls, d, err)
		}
		b.free()
	})
}

// The lease counts from the request that was granted. When its reply is lost, and the
// grant is adopted later, most of the lease is gone, and may be gone altogether.
func TestAdoptedLeaseCountsFromTheFirstRequest(t *testing.T) {
	const ttl = time.Second
	for _, lostFor := range []time.Duration{700 * time.Millisecond, 990 * time.Millisecond, 1100 * time.Millisecond} {
		for _, broken := range []bool{false, true} {
			t.Run(fmt.Sprint(lostFor, broken), func(t *testing.T) {
				inBed(t, func(t *testing.T, b *bed) {
					calls := 0
					b.store.claim = func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
						grant, err := b.store.Store.Claim(ctx, c)
						if calls++; calls == 1 {
							pass(ctx, lostFor)
							return onerun.Grant{}, down()
						}
						return grant, err
					}
					var renewed, started time.Duration
					b.store.beat = func(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
						if broken {
							return onerun.Beat{}, down()
						}
						renewed = b.at()
						return b.store.Store.Heartbeat(ctx, l)
					}
					err := b.do(leased(ttl), func(ctx context.Context, _ *onerun.Owner) error {
						started = b.at()
						return nil
					})
					switch {
					case broken && (started != 0 || !errors.Is(err, onerun.ErrLost)):
						t.Errorf("started at %s on a lease that could not be renewed; Do: %v", started, err)
					case !broken && (err != nil || renewed == 0 || started < renewed || started > renewed+onerun.TermAfter(ttl, onerun.DefaultGrace)):
						t.Errorf("started at %s on a lease renewed at %s; Do: %v", started, renewed, err)
					}
				})
			})
		}
	}
}

// A grant that arrives when its time was over already.
func TestLateGrant(t *testing.T) {
	const ttl = time.Second
	late := func(b *bed, by time.Duration) {
		b.store.claim = func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
			grant, err := b.store.Store.Claim(ctx, c)
			pass(ctx, by)
			return grant, err
		}
	}
	t.Run("is renewed first", func(t *testing.T) {
		inBed(t, func(t *testing.T, b *bed) {
			late(b, 5*ttl)
			var beats []time.Duration
			b.store.beat = func(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
				beats = append(beats, b.at())
				return b.store.Store.Heartbeat(ctx, l)
			}
			err := b.do(leased(ttl), func(context.Context, *onerun.Owner) error {
				if len(beats) != 1 || beats[0] < 5*ttl || b.at() != beats[0] {
					t.Errorf("started at %s after heartbeats at %v", b.at(), beats)
				}
				return nil
			})
			if err != nil {
				t.Errorf("Do: %v", err)
			}
		})
	})
	t.Run("in time needs no renewal", func(t *testing.T) {
		inBed(t, func(t *testing.T, b *bed) {
			late(b, ttl/10)
			b.store.beat = func(context.Context, onerun.Lease) (onerun.Beat, error) {
				t.Errorf("a heartbeat at %s", b.at())
				return onerun.Beat{}, down()
			}
			if err := b.do(leased(ttl), works(0)); err != nil {
				t.Errorf("Do: %v", err)
			}
		})
	})
	t.Run("and taken by another", func(t *testing.T) {
		inBed(t, func(t *testing.T, b *bed) {
			late(b, 5*ttl)
			go func() {
				pass(t.Context(), 2*ttl)
				b.hold("nightly", "", onerun.Policy{})
			}()
			var j journal
			err := b.do(leased(ttl), never(t), onerun.WithObserver(&j))
			if !errors.Is(err, onerun.ErrLost) || j.count(onerun.EventLeaseLost) != 1 || j.count(onerun.EventStarted) != 0 {
				t.Errorf("Do: %v; observed: %v", err, j.events())
			}
			checkLine(t, err.Error())
			if run := b.last("nightly"); run.Status != onerun.Running {
				t.Errorf("the other's run is %s", run.Status)
			}
		})
	})
	t.Run("and renewed late again", func(t *testing.T) {
		inBed(t, func(t *testing.T, b *bed) {
			late(b, 5*ttl)
			beats := 0
			b.store.beat = func(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
				beat, err := b.store.Store.Heartbeat(ctx, l)
				if beats++; beats < 4 { // deaf to its context, and much too slow
					pass(context.Background(), ttl)
				}
				return beat, err
			}
			if err := b.do(leased(ttl), works(0)); err != nil || beats != 4 {
				t.Errorf("Do: %v after %d heartbeats", err, beats)
			}
		})
	})
	t.Run("and cut off for a while", func(t *testing.T) {
		inBed(t, func(t *testing.T, b *bed) {
			late(b, 5*ttl)
			b.store.beat = func(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
				if b.at() < 8*ttl {
					return onerun.Beat{}, hang(ctx)
				}
				return b.store.Store.Heartbeat(ctx, l)
			}
			if err := b.do(leased(ttl), works(0)); err != nil {
				t.Errorf("Do: %v", err)
			}
		})
	})
	t.Run("and cut off for good", func(t *testing.T) {
		inBed(t, func(t *testing.T, b *bed) {
			late(b, 5*ttl)
			b.store.beat = func(ctx context.Context, _ onerun.Lease) (onerun.Beat, error) { return onerun.Beat{}, hang(ctx) }
			err := b.do(leased(ttl), never(t), onerun.WithStoreTimeout(7*time.Second))
			within(t, "gave up", b.at(), 12*time.Second, 0)
			if !errors.Is(err, onerun.ErrLost) || !errors.Is(err, onerun.ErrUnavailable) {
				t.Errorf("Do: %v; want ErrLost, because the store was unavailable", err)
			}
		})
	})
	t.Run("to a caller who gave up", func(t *testing.T) {
		inBed(t, func(t *testing.T, b *bed) {
			ctx, cancel := context.WithCancel(t.Context())
			b.store.claim = func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
				grant, err := b.store.Store.Claim(ctx, c)
				pass(ctx, 5*ttl)
				cancel()
				return grant, err
			}
			err := b.runner().Do(ctx, leased(ttl), works(time.Hour))
			if run := b.last("nightly"); !errors.Is(err, context.Canceled) || run.Reason != onerun.ReasonCanceled {
				t.Errorf("Do: %v; recorded: %s %s", err, run.Status, run.Reason)
			}
			b.free() // it left no lease behind
		})
	})
}
