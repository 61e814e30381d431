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

// remote is a store of many machines without lock files before it.
type remote struct {
	*hooks
	onerun.HostClaimer
}

// TestGivenUpWhileClaiming: a caller that gives up while its claim is on its way leaves nothing
// behind that blocks others for a lease's time, whether the claim was granted or not.
func TestGivenUpWhileClaiming(t *testing.T) {
	gone := errors.New("gone")
	for what, job := range map[string]onerun.Job{
		"a key":       {Name: "daily", Partition: "p", Policy: onerun.Policy{OnCrash: onerun.CrashManual}},
		"a job alone": {Name: "daily"},
	} {
		for _, granted := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, granted %t", what, granted), func(t *testing.T) {
				inBed(t, func(t *testing.T, b *bed) {
					ctx, cancel := context.WithCancelCause(t.Context())
					b.store.claim = func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
						if granted {
							if _, err := b.mem.Claim(ctx, c); err != nil {
								t.Error(err)
							}
						}
						cancel(gone)
						return onerun.Grant{}, hang(ctx) // the reply doesn't come
					}
					s := remote{b.store, b.mem}
					if err := onerun.NewRunner(s, onerun.WithClock(b.clock)).Do(ctx, job, never(t)); err == nil {
						t.Error("Do: no error")
					}
					b.free()
					if d, err := b.mem.Runs(t.Context(), onerun.Query{Namespace: onerun.DefaultNamespace, Job: job.Name}); err != nil || len(d) > 0 != granted {
						t.Errorf("runs: %v, %v; granted: %t", d, err, granted)
					}
					if n := b.skips(job.Name, job.Partition); n != 0 {
						t.Errorf("%d refusals are recorded; want none", n)
					}
					b.store.claim = nil
					if err := b.do(job, works(0)); err != nil {
						t.Errorf("the next start: %v", err)
					}
				})
			})
		}
	}
	t.Run("a lock alone", func(t *testing.T) {
		inBed(t, func(t *testing.T, b *bed) {
			ctx, cancel := context.WithCancelCause(t.Context())
			b.store.claim = func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
				_, err := b.mem.Claim(ctx, c)
				cancel(gone)
				return onerun.Grant{}, errors.Join(err, hang(ctx))
			}
			s := remote{b.store, b.mem}
			if err := onerun.WithLock(ctx, s, "db", func(context.Context) error { t.Error("it was executed"); return nil }, onerun.WithClock(b.clock)); err == nil {
				t.Error("WithLock: no error")
			}
			b.free()
		})
	})
}

// noting is a store with lock files that keeps what is noted in them.
type noting struct {
	*hooks
	ends []onerun.Outcome
	left int // how many ends were noted when the lock was left
}

func (n *noting) NoteEnd(_ onerun.Lease, o onerun.Outcome) error {
	n.ends = append(n.ends, o)
	return nil
}

func (n *noting) NoteSkip(onerun.Lease, string) error { return nil }

func (n *noting) Leave(onerun.Lease) { n.left = len(n.ends) }

// TestLateGrantIsNoted: of a grant that came too late, and can't be renewed, the host knows that
// nothing was begun, though this process lives on.
func TestLateGrantIsNoted(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		const ttl = 10 * time.Second
		b.store.claim = func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
			grant, err := b.mem.Claim(ctx, c)
			pass(ctx, 5*ttl)
			return grant, err
		}
		b.store.beat = func(ctx context.Context, _ onerun.Lease) (onerun.Beat, error) { return onerun.Beat{}, hang(ctx) }
		s := &noting{hooks: b.store}
		if err := onerun.NewRunner(s, onerun.WithClock(b.clock)).Do(t.Context(), leased(ttl), never(t)); !errors.Is(err, onerun.ErrLost) {
			t.Errorf("Do: %v", err)
		}
		if len(s.ends) != 1 || !s.ends[0].Void || s.ends[0].Status != onerun.Failed || s.left != 1 {
			t.Errorf("noted: %+v, left with %d of them", s.ends, s.left)
		}
	})
}
