package onerun_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

func TestLostFinishReply(t *testing.T) {
	for name, returned := range map[string]error{"success": nil, "failure": errors.New("boom")} {
		t.Run(name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				calls := 0
				b.store.finish = func(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
					err := b.store.Store.Finish(ctx, l, o)
					if calls++; calls == 1 {
						return down()
					}
					return err
				}
				err := b.do(nightly, func(context.Context, *onerun.Owner) error { return returned })
				if (returned == nil) != (err == nil) || !errors.Is(err, returned) || errors.As(err, new(*onerun.NotRecordedError)) || calls != 2 {
					t.Errorf("Do: %v after %d calls", err, calls)
				}
				b.free()
			})
		})
	}
}

// The store is slow to take the outcome. Renewing goes on meanwhile, so nobody else
// gets the lock.
func TestFinishIsRetriedUnderTheLease(t *testing.T) {
	const ttl = time.Second
	for name, fail := range map[string]func(context.Context) error{
		"refused": func(context.Context) error { return down() },
		"hanging": hang,
		"an error of no kind": func(context.Context) error {
			return errors.New("Error 1205: Lock wait timeout exceeded")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				finished := time.Duration(0)
				b.store.finish = func(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
					if b.at() < 9*ttl {
						return fail(ctx)
					}
					finished = b.at()
					return b.store.Store.Finish(ctx, l, o)
				}
				granted := func() (time.Duration, onerun.Grant) { return 0, onerun.Grant{} }
				err := b.do(leased(ttl), func(context.Context, *onerun.Owner) error {
					granted, _ = b.contend("nightly", ttl/1000)
					return nil
				})
				if err != nil {
					t.Errorf("Do: %v", err)
				}
				within(t, "recorded", finished, 9*ttl, 2*ttl)
				if at, _ := granted(); at < finished {
					t.Errorf("another was granted the lock at %s, the end was recorded at %s", at, finished)
				}
			})
		})
	}
}

func TestFinishFailsForGood(t *testing.T) {
	boom := errors.New("boom")
	for name, returned := range map[string]error{"success": nil, "failure": boom} {
		for _, wait := range []time.Duration{0, 5 * time.Second} {
			t.Run(name+" "+wait.String(), func(t *testing.T) {
				inBed(t, func(t *testing.T, b *bed) {
					b.store.finish = func(context.Context, onerun.Lease, onerun.Outcome) error { return down() }
					job := nightly
					job.FinishWait = wait
					var j journal
					err := b.do(job, func(context.Context, *onerun.Owner) error { return returned }, onerun.WithObserver(&j))
					var not *onerun.NotRecordedError
					if !errors.As(err, &not) || !errors.Is(err, onerun.ErrUnavailable) {
						t.Fatalf("Do: %v; want a NotRecordedError that leads to ErrUnavailable", err)
					}
					want := onerun.Succeeded
					if returned != nil {
						want = onerun.Failed
					}
					if not.Outcome.Status != want || (returned == nil) != (not.Job == nil) || errors.Is(err, boom) != (returned != nil) {
						t.Errorf("Do: %#v", not)
					}
					if errors.As(err, new(*onerun.Failure)) != (returned != nil) {
						t.Errorf("Do: %v; the job's own failure: %v", err, returned)
					}
					checkLine(t, err.Error())
					if wait == 0 {
						wait = onerun.DefaultFinishWait
					}
					within(t, "gave up", b.at(), wait-time.Second, time.Second)
					if run := b.last("nightly"); run.Status != onerun.Running || j.count(onerun.EventFailed) != 1 {
						t.Errorf("recorded: %s; observed: %v", run.Status, j.events())
					}
				})
			})
		}
	}
}

// What is wrong for good is not tried again.
func TestFinishIsRefusedForGood(t *testing.T) {
	for _, refuse := range []error{onerun.ErrLost, onerun.ErrUsage} {
		inBed(t, func(t *testing.T, b *bed) {
			calls := 0
			b.store.finish = func(context.Context, onerun.Lease, onerun.Outcome) error { calls++; return refuse }
			err := b.do(nightly, works(0))
			if !errors.Is(err, refuse) || calls != 1 || b.at() != 0 {
				t.Errorf("Do: %v after %d calls in %s", err, calls, b.at())
			}
		})
	}
}

// The end is recorded whatever became of the caller's context.
func TestFinishAfterTheCallerGaveUp(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		b.store.finish = func(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
			if calls++; calls < 5 {
				return down()
			}
			if ctx.Err() != nil {
				t.Errorf("finish has a context that is over: %v", ctx.Err())
			}
			return b.store.Store.Finish(ctx, l, o)
		}
		err := b.runner().Do(ctx, nightly, func(context.Context, *onerun.Owner) error { cancel(); return nil })
		if run := b.last("nightly"); err != nil || run.Status != onerun.Succeeded {
			t.Errorf("Do: %v; recorded: %s", err, run.Status)
		}
	})
}

// The work was asked to stop and takes its time: the lease is renewed until it has
// ended.
func TestRenewedWhileStopping(t *testing.T) {
	const ttl = time.Second
	inBed(t, func(t *testing.T, b *bed) {
		ctx, cancel := context.WithCancel(t.Context())
		giveUp := func() bool { return false }
		err := b.runner().Do(ctx, leased(ttl), func(ctx context.Context, _ *onerun.Owner) error {
			_, giveUp = b.contend("nightly", ttl/1000)
			cancel()
			pass(context.Background(), 10*ttl)
			if giveUp() {
				t.Error("another was granted the lock while the work was stopping")
			}
			return ctx.Err()
		})
		if run := b.last("nightly"); !errors.Is(err, context.Canceled) || run.Reason != onerun.ReasonCanceled {
			t.Errorf("Do: %v; recorded: %s", err, run.Reason)
		}
	})
	inBed(t, func(t *testing.T, b *bed) { // told by the clock that the lease is lost, it is renewed after all
		lost := false
		b.store.beat = func(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
			if b.at() < ttl/2 {
				return onerun.Beat{}, down()
			}
			return b.store.Store.Heartbeat(ctx, l)
		}
		err := b.do(leased(ttl), func(ctx context.Context, _ *onerun.Owner) error {
			_, giveUp := b.contend("nightly", ttl/1000)
			pass(ctx, 2*ttl)
			lost = errors.Is(context.Cause(ctx), onerun.ErrLost)
			pass(context.Background(), 10*ttl)
			if giveUp() {
				t.Error("another was granted the lock while the work was stopping")
			}
			return nil
		})
		if run := b.last("nightly"); err != nil || !lost || run.Status != onerun.Succeeded {
			t.Errorf("Do: %v, lost %v; recorded: %s", err, lost, run.Status)
		}
	})
}

// A heartbeat that is answered after the end was recorded is told that the lease is
// gone. That is no loss, and nobody hears of it.
func TestHeartbeatAnsweredAfterTheEnd(t *testing.T) {
	const ttl = time.Minute
	inBed(t, func(t *testing.T, b *bed) {
		b.store.beat = func(_ context.Context, l onerun.Lease) (onerun.Beat, error) {
			pass(context.Background(), 2*time.Second) // deaf to its context
			return b.store.Store.Heartbeat(context.Background(), l)
		}
		b.store.finish = func(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
			err := b.store.Store.Finish(ctx, l, o)
			pass(ctx, 5*time.Second) // its reply comes after the heartbeat's
			return err
		}
		var j journal
		err := b.do(leased(ttl), works(ttl/6+time.Second), onerun.WithObserver(&j), onerun.WithExitOnLoss(), onerun.WithExit(func(int) { t.Error("exit") }))
		if run := b.last("nightly"); err != nil || run.Status != onerun.Succeeded || j.count(onerun.EventLeaseLost) != 0 {
			t.Errorf("Do: %v; recorded: %s; observed: %v", err, run.Status, j.events())
		}
	})
}

// A heartbeat that heeds its context is waited for: a caller may close the store when
// Do has returned.
func TestHeartbeatIsOverWhenDoReturns(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		over := false
		b.store.beat = func(ctx context.Context, _ onerun.Lease) (onerun.Beat, error) {
			err := hang(ctx)
			pass(context.Background(), 100*time.Millisecond)
			over = true
			return onerun.Beat{}, err
		}
		if err := b.do(nightly, works(15*time.Second)); err != nil || !over {
			t.Errorf("Do: %v; the heartbeat is over: %v", err, over)
		}
	})
}

// A heartbeat hangs for ever, deaf to its context, and the work ends: Do returns.
func TestHangingHeartbeatHoldsNobodyUp(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		deaf := make(chan struct{})
		b.store.beat = func(context.Context, onerun.Lease) (onerun.Beat, error) { <-deaf; return onerun.Beat{}, down() }
		var j journal
		if err := b.do(nightly, works(15*time.Second), onerun.WithObserver(&j)); err != nil {
			t.Errorf("Do: %v", err)
		}
		within(t, "returned", b.at(), 15*time.Second, time.Second)
		seen := len(j.all())
		close(deaf)
		pass(t.Context(), time.Second)
		if n := len(j.all()); n != seen {
			t.Errorf("observed after the end: %v", j.events()[seen:])
		}
		b.free()
	})
}

// A store that was closed under a job is not asked again and again.
func TestClosedUnderTheJob(t *testing.T) {
	closed := &onerun.StoreError{Kind: onerun.ErrUnavailable, What: "the store", Err: onerun.ErrClosed}
	inBed(t, func(t *testing.T, b *bed) {
		b.store.finish = func(context.Context, onerun.Lease, onerun.Outcome) error { return closed }
		var unrecorded *onerun.NotRecordedError
		if err := b.do(daily("p"), works(0)); !errors.As(err, &unrecorded) || !errors.Is(err, onerun.ErrClosed) {
			t.Errorf("Do: %v; want it not recorded", err)
		}
		within(t, "given up", b.at(), 0, 0)
		b.store.claim = func(context.Context, onerun.Claim) (onerun.Grant, error) { return onerun.Grant{}, closed }
		if err := b.do(daily("q"), never(t)); !errors.Is(err, onerun.ErrClosed) {
			t.Errorf("Do: %v; want ErrClosed", err)
		}
		within(t, "refused", b.at(), 0, 0)
	})
}

// Whatever work makes of the loss of its lease, its caller hears of that, also where the end can't be recorded.
func TestLostAndNotRecorded(t *testing.T) {
	for what, returned := range map[string]error{"no error": nil, "one of its own": errors.New("boom")} {
		t.Run(what, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				b.store.beat = func(context.Context, onerun.Lease) (onerun.Beat, error) { return onerun.Beat{}, down() }
				b.store.finish = func(context.Context, onerun.Lease, onerun.Outcome) error { return down() }
				err := b.do(daily("p"), func(ctx context.Context, _ *onerun.Owner) error {
					<-ctx.Done()
					pass(context.Background(), time.Minute)
					return returned
				})
				if !errors.Is(err, onerun.ErrLost) || !errors.As(err, new(*onerun.NotRecordedError)) || returned != nil && !errors.Is(err, returned) {
					t.Errorf("Do: %v; want it lost and not recorded", err)
				}
			})
		})
	}
}
