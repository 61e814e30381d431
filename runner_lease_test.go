package onerun_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

func leased(ttl time.Duration) onerun.Job {
	return onerun.Job{Name: "nightly", Policy: onerun.Policy{TTL: ttl}}
}

func TestHeartbeatsKeepALongJob(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, time.Minute, time.Hour} {
		t.Run(ttl.String(), func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				var beats []time.Duration
				b.store.beat = func(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
					beats = append(beats, b.at())
					return b.store.Store.Heartbeat(ctx, l)
				}
				stop := make(chan struct{})
				go func() { // somebody else, ten times in each lease
					for range 99 {
						pass(t.Context(), ttl/10)
						var refusal *onerun.Refusal
						if _, err := b.mem.Claim(t.Context(), claimOf("nightly", "", onerun.Policy{})); !errors.As(err, &refusal) || refusal.Reason != onerun.RefusedLocked {
							t.Errorf("at %s another start got %v; want locked", b.at(), err)
						}
					}
					close(stop)
				}()
				err := b.do(leased(ttl), works(10*ttl))
				<-stop
				if err != nil {
					t.Errorf("Do: %v", err)
				}
				if len(beats) < 59 || len(beats) > 60 {
					t.Errorf("%d heartbeats in ten leases; want one every sixth of a lease", len(beats))
				}
				for i, at := range beats {
					within(t, fmt.Sprintf("heartbeat %d", i), at, time.Duration(i+1)*(ttl/6), 60)
				}
				b.free()
			})
		})
	}
}

// B30: one failed heartbeat is tried again inside the margin, and kills nothing.
func TestOneFailedHeartbeatIsNoLoss(t *testing.T) {
	for name, fail := range map[string]func(context.Context) error{
		"refused": func(context.Context) error { return down() },
		"hanging": hang,
		"an error of no kind": func(context.Context) error {
			return errors.New("Error 1205: Lock wait timeout exceeded")
		},
	} {
		for _, ttl := range []time.Duration{time.Second, time.Minute} {
			t.Run(name+" "+ttl.String(), func(t *testing.T) {
				inBed(t, func(t *testing.T, b *bed) {
					var beats int
					b.store.beat = func(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
						if beats++; beats%2 == 1 {
							return onerun.Beat{}, fail(ctx)
						}
						return b.store.Store.Heartbeat(ctx, l)
					}
					var j journal
					if err := b.do(leased(ttl), works(10*ttl), onerun.WithObserver(&j)); err != nil {
						t.Errorf("Do: %v", err)
					}
					if n := j.count(onerun.EventHeartbeatFailed); n < 20 || j.count(onerun.EventLeaseLost) != 0 {
						t.Errorf("%d failed heartbeats were observed in %v", n, j.events())
					}
				})
			})
		}
	}
}

// The safety rule. From some moment on no heartbeat comes through. The work is told
// to stop at sent+T-m-g, by a look that is at most LookEvery late; the next owner is
// granted the lock no earlier than T after the last heartbeat that came through.
func TestHeartbeatsFailForGood(t *testing.T) {
	for name, fail := range map[string]func(context.Context) error{
		"refused":             func(context.Context) error { return down() },
		"hanging":             hang,
		"deaf to its context": nil, // see below
	} {
		for _, c := range []struct{ ttl, grace time.Duration }{
			{time.Second, 0}, {time.Second, time.Millisecond}, {5 * time.Second, 0}, {time.Minute, 0}, {time.Minute, time.Hour}, {time.Hour, 0},
		} {
			t.Run(fmt.Sprint(name, c), func(t *testing.T) {
				inBed(t, func(t *testing.T, b *bed) {
					fail, deaf := fail, make(chan struct{})
					if fail == nil {
						fail = func(context.Context) error { <-deaf; return down() }
					}
					var sent time.Duration
					beats := 0
					b.store.beat = func(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
						if beats++; beats > 2 {
							return onerun.Beat{}, fail(ctx)
						}
						sent = b.at()
						pass(ctx, c.ttl/60) // on its way
						return b.store.Store.Heartbeat(ctx, l)
					}
					job := leased(c.ttl)
					job.Grace = c.grace
					var told time.Duration
					var cause error
					err := b.do(job, func(ctx context.Context, _ *onerun.Owner) error {
						granted, _ := b.contend("nightly", c.ttl/1000)
						pass(ctx, 3*c.ttl)
						told, cause = b.at(), context.Cause(ctx)
						at, _ := granted() // deaf itself: it returns when the other has begun
						within(t, "the grant to another", at, sent+c.ttl+c.ttl/60, c.ttl/1000)
						if told >= at {
							t.Errorf("told to stop at %s, another was granted the lock at %s", told, at)
						}
						return ctx.Err()
					})
					if c.grace == 0 {
						c.grace = onerun.DefaultGrace
					}
					within(t, "told to stop", told, sent+onerun.TermAfter(c.ttl, c.grace), onerun.LookEvery(c.ttl))
					if told >= sent+onerun.KillAfter(c.ttl) {
						t.Errorf("told to stop at %s, after the time to be ended", told)
					}
					if !errors.Is(cause, onerun.ErrLost) || !errors.Is(err, onerun.ErrLost) {
						t.Errorf("cause %v, Do: %v; want both to be ErrLost", cause, err)
					}
					close(deaf)
				})
			})
		}
	}
}

func TestLostLeaseStopsAtOnce(t *testing.T) {
	boom := errors.New("boom")
	inBed(t, func(t *testing.T, b *bed) {
		b.store.beat = func(context.Context, onerun.Lease) (onerun.Beat, error) {
			return onerun.Beat{}, fmt.Errorf("%w: the row is gone", onerun.ErrLost)
		}
		var j journal
		err := b.do(nightly, func(ctx context.Context, _ *onerun.Owner) error {
			pass(ctx, time.Minute)
			within(t, "told to stop", b.at(), 10*time.Second, 0)
			pass(context.Background(), time.Hour) // a slow end isn't told again
			return boom
		}, onerun.WithObserver(&j))
		// The store says on that it knows the lease, and so takes the outcome.
		if run := b.last("nightly"); !errors.Is(err, onerun.ErrLost) || !errors.Is(err, boom) || run.Reason != onerun.ReasonLeaseLost {
			t.Errorf("Do: %v; recorded: %s", err, run.Reason)
		}
		if !errors.As(err, new(*onerun.Failure)) || j.count(onerun.EventLeaseLost) != 1 || j.count(onerun.EventHeartbeatFailed) != 0 {
			t.Errorf("Do: %v; observed: %v", err, j.events())
		}
		checkLine(t, err.Error())
	})
}

// However the function puts it that it was stopped, the lease was lost; but a reason
// that has nothing to do with that stays.
func TestReasonOfLostWork(t *testing.T) {
	for returned, want := range map[onerun.Reason]onerun.Reason{
		"":                     onerun.ReasonLeaseLost,
		onerun.ReasonExit:      onerun.ReasonLeaseLost,
		onerun.ReasonSignal:    onerun.ReasonLeaseLost,
		onerun.ReasonCanceled:  onerun.ReasonLeaseLost,
		onerun.ReasonLeaseLost: onerun.ReasonLeaseLost,
		onerun.ReasonTimeout:   onerun.ReasonTimeout,
		onerun.ReasonStopped:   onerun.ReasonStopped,
		onerun.ReasonOwnerDied: onerun.ReasonOwnerDied,
		onerun.ReasonNotFound:  onerun.ReasonNotFound,
	} {
		inBed(t, func(t *testing.T, b *bed) {
			b.store.beat = func(context.Context, onerun.Lease) (onerun.Beat, error) { return onerun.Beat{}, onerun.ErrLost }
			_ = b.do(nightly, func(ctx context.Context, _ *onerun.Owner) error {
				pass(ctx, time.Minute)
				return &onerun.Failure{Reason: returned}
			})
			if run := b.last("nightly"); run.Reason != want {
				t.Errorf("%q was recorded as %s; want %s", returned, run.Reason, want)
			}
		})
	}
}

// B25, B26: A's heartbeats are cut off, B takes over, A ends late: B's row is
// untouched, and C is refused. How A's work really ended is delivered to A's own run.
func TestLateOwnerChangesNothing(t *testing.T) {
	for name, returned := range map[string]error{"success": nil, "failure": errors.New("boom")} {
		t.Run(name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				b.store.beat = func(ctx context.Context, _ onerun.Lease) (onerun.Beat, error) { return onerun.Beat{}, hang(ctx) }
				var grant onerun.Grant
				var j journal
				err := b.do(leased(2*time.Second), func(context.Context, *onerun.Owner) error {
					granted, _ := b.contend("nightly", time.Millisecond)
					_, grant = granted()
					pass(t.Context(), time.Second)
					return returned
				}, onerun.WithObserver(&j))
				if !errors.Is(err, onerun.ErrLost) || (returned != nil) != errors.Is(err, boomOr(returned)) {
					t.Errorf("Do: %v; want ErrLost with the job's own error", err)
				}
				run := b.last("nightly")
				if run.RunID != grant.Run.RunID || run.Status != onerun.Running || run.Token != grant.Lease.Token || run.Owner != grant.Lease.Owner {
					t.Errorf("B's run became %+v", run)
				}
				a, err := b.mem.Detail(t.Context(), onerun.DefaultNamespace, j.all()[0].Run.RunID)
				status, reason := onerun.Succeeded, onerun.Reason("")
				if returned != nil { // it failed because, or after, it was told to stop: no more is known than before
					status, reason = onerun.Failed, onerun.ReasonLeaseExpired
				}
				if err != nil || a.Run.Status != status || a.Run.Reason != reason || a.Run.Token >= run.Token {
					t.Errorf("A's run is %+v, %v", a.Run, err)
				}
				if late := j.count(onerun.EventLateOutcome); (late == 1) != (returned == nil) {
					t.Errorf("late_outcome was observed %d times: %v", late, j.events())
				}
				if _, err := b.mem.Claim(t.Context(), claimOf("nightly", "", onerun.Policy{})); !errors.As(err, new(*onerun.Refusal)) {
					t.Errorf("C got %v; want it refused", err)
				}
				if _, err := b.mem.Heartbeat(t.Context(), grant.Lease); err != nil {
					t.Errorf("B's heartbeat: %v", err)
				}
			})
		})
	}
}

func boomOr(err error) error {
	if err == nil {
		return errors.New("something else")
	}
	return err
}

// The machine is suspended: the clock that counts it jumps while no timer fires.
func TestSuspend(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, time.Minute, time.Hour} {
		t.Run(ttl.String(), func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				err := b.do(leased(ttl), func(ctx context.Context, _ *onerun.Owner) error {
					pass(ctx, ttl/2+ttl/12) // between two heartbeats
					b.clock.jump(10 * ttl)
					woken := b.at()
					pass(ctx, 3*ttl)
					within(t, "told to stop", b.at(), woken, onerun.LookEvery(ttl))
					return context.Cause(ctx)
				})
				if !errors.Is(err, onerun.ErrLost) {
					t.Errorf("Do: %v; want ErrLost", err)
				}
			})
		})
	}
}

// B25: a frozen process goes on, and the work is the first to do so: what it returns is
// judged by its lease, which is over, and not by what a guard's signal looked like. Work that
// says that it is done is believed.
func TestLossIsSeenBeforeTheEndIsJudged(t *testing.T) {
	for returned, want := range map[error]onerun.Reason{
		errBoom: onerun.ReasonLeaseLost,
		nil:     "",
	} {
		inBed(t, func(t *testing.T, b *bed) {
			var j journal
			job := leased(time.Minute)
			job.Retries = 1
			calls := 0
			err := b.do(job, func(ctx context.Context, _ *onerun.Owner) error {
				calls++
				pass(ctx, 25500*time.Millisecond)                                                // two heartbeats; the keeper looks next in half a second
				b.clock.jump(onerun.TermAfter(time.Minute, onerun.DefaultGrace) - 5*time.Second) // since the second
				return returned
			}, onerun.WithObserver(&j))
			run := b.last("nightly")
			if !errors.Is(err, returned) || errors.Is(err, onerun.ErrLost) != (want != "") || run.Reason != want || calls != 1 {
				t.Errorf("%v: Do: %v; recorded: %s; called %d times", returned, err, run.Reason, calls)
			}
			if n := j.count(onerun.EventLeaseLost); (n == 1) != (want != "") || n > 1 {
				t.Errorf("%v: observed: %v", returned, j.events())
			}
		})
	}
}

func TestClockStepIsShown(t *testing.T) {
	const ttl = time.Minute // a margin of 6 s
	for _, c := range []struct {
		name string
		step time.Duration
		want int
	}{
		{"none", 0, 0},
		{"within the margin", 5900 * time.Millisecond, 0},
		{"beyond the margin", 6100 * time.Millisecond, 1},
		{"far", 24 * time.Hour, 1},
		{"back within the margin", -5900 * time.Millisecond, 0},
		{"back", -6100 * time.Millisecond, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				var j journal
				err := b.do(leased(ttl), func(ctx context.Context, _ *onerun.Owner) error {
					pass(ctx, ttl/2)
					b.ahead.Add(int64(c.step))
					pass(ctx, ttl)
					return nil
				}, onerun.WithObserver(&j))
				if n := j.count(onerun.EventClockStep); err != nil || n != c.want {
					t.Errorf("Do: %v; clock_step %d times; want %d", err, n, c.want)
				}
				for _, o := range j.all() {
					if o.Event == onerun.EventClockStep && (o.Detail == "" || o.Lease.TTL != ttl || o.Run.Job != "nightly") {
						t.Errorf("clock_step says %+v", o)
					}
				}
			})
		})
	}
}

// Clocks that run at other rates, and heartbeats that are long on their way, are no
// steps.
func TestClockRatesAreNoSteps(t *testing.T) {
	const ttl = time.Minute
	for _, percent := range []time.Duration{-20, 20} {
		inBed(t, func(t *testing.T, b *bed) {
			beats := 0
			b.store.beat = func(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
				if beats++; beats%4 == 1 {
					pass(ctx, ttl/7) // on the way there
				}
				b.ahead.Store(int64(b.at() * percent / 100))
				beat, err := b.store.Store.Heartbeat(ctx, l)
				if beats%4 == 3 {
					pass(ctx, ttl/7) // on the way back
				}
				return beat, err
			}
			var j journal
			if err := b.do(leased(ttl), works(10*ttl), onerun.WithObserver(&j)); err != nil || j.count(onerun.EventClockStep) != 0 {
				t.Errorf("%d%%: Do: %v; observed: %v", percent, err, j.events())
			}
		})
	}
}
