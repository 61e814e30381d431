package onerun_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// exits gives the option to end the process, and what was made of it.
func (b *bed) exits() (opt onerun.Option, code func() (int, time.Duration)) {
	type exit struct {
		code int
		at   time.Duration
	}
	seen := make(chan exit, 1)
	var first *exit
	opt = onerun.WithExit(func(code int) {
		select {
		case seen <- exit{code, b.at()}:
		default:
			b.t.Errorf("ended twice, at %s", b.at())
		}
	})
	code = func() (int, time.Duration) {
		select {
		case e := <-seen:
			first = &e
		default:
		}
		if first == nil {
			return -1, 0
		}
		return first.code, first.at
	}
	return opt, code
}

func TestExitOnLoss(t *testing.T) {
	const ttl = time.Minute // TERM after 44 s, KILL after 54 s, g = 10 s
	hangs := func(ctx context.Context, _ time.Duration) error { return hang(ctx) }
	lost := func(context.Context, time.Duration) error { return onerun.ErrLost }
	refused := func(context.Context, time.Duration) error { return down() }
	lostAtLast := func(_ context.Context, at time.Duration) error {
		if at < 48*time.Second {
			return down()
		}
		return onerun.ErrLost
	}
	for _, c := range []struct {
		name    string
		fail    func(ctx context.Context, at time.Duration) error
		stays   time.Duration // how long the function goes on after it was told
		suspend bool
		want    time.Duration // when the process is ended; 0: it isn't
	}{
		{"it ignores its context, nothing comes through", refused, time.Hour, false, 54 * time.Second},
		{"it ignores its context, all hangs", hangs, time.Hour, false, 54 * time.Second},
		{"it returns a moment before", refused, 9900 * time.Millisecond, false, 0},
		{"it returns at once", refused, 0, false, 0},
		{"it ignores its context, and then the lease is gone for certain", lostAtLast, time.Hour, false, 54 * time.Second},
		{"the lease is gone for certain", lost, time.Hour, false, 20 * time.Second},
		{"the lease is gone for certain, and it returns", lost, 9900 * time.Millisecond, false, 0},
		{"it wakes when all is over", refused, time.Hour, true, 605 * time.Second},
		{"it wakes when all is over and the lease is gone", lost, time.Hour, true, 605 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				b.store.beat = func(ctx context.Context, _ onerun.Lease) (onerun.Beat, error) {
					return onerun.Beat{}, c.fail(ctx, b.at())
				}
				exit, code := b.exits()
				_ = b.do(leased(ttl), func(ctx context.Context, _ *onerun.Owner) error {
					if c.suspend {
						pass(ctx, 5*time.Second)
						b.clock.jump(10 * ttl)
					}
					pass(ctx, 2*ttl)
					pass(context.Background(), c.stays)
					return ctx.Err()
				}, onerun.WithExitOnLoss(), exit)
				got, at := code()
				if (c.want != 0) != (got == 75) || got != 75 && got != -1 {
					t.Errorf("ended with %d", got)
				}
				if c.want != 0 {
					within(t, "ended", at, c.want, time.Second)
					if at >= ttl && !c.suspend {
						t.Errorf("ended at %s, after the lease", at)
					}
				}
			})
		})
	}
}

func TestNoExitUnlessWanted(t *testing.T) {
	for _, fail := range []func(context.Context) error{hang, func(context.Context) error { return onerun.ErrLost }} {
		inBed(t, func(t *testing.T, b *bed) {
			b.store.beat = func(ctx context.Context, _ onerun.Lease) (onerun.Beat, error) { return onerun.Beat{}, fail(ctx) }
			exit, code := b.exits()
			_ = b.do(nightly, func(context.Context, *onerun.Owner) error { pass(context.Background(), time.Hour); return nil }, exit)
			if got, at := code(); got != -1 {
				t.Errorf("ended with %d at %s", got, at)
			}
		})
	}
}

// The function has returned, and now the store is down for longer than the lease: its
// outcome is at stake, not the lock.
func TestNoExitWhileFinishing(t *testing.T) {
	const ttl = time.Second
	for name, beat := range map[string]func(context.Context) error{
		"store down": func(context.Context) error { return down() },
		"hanging":    hang,
		"lease gone": func(context.Context) error { return fmt.Errorf("%w: the row is gone", onerun.ErrLost) },
	} {
		for _, early := range []bool{false, true} {
			t.Run(fmt.Sprint(name, early), func(t *testing.T) {
				inBed(t, func(t *testing.T, b *bed) {
					b.store.beat = func(ctx context.Context, _ onerun.Lease) (onerun.Beat, error) { return onerun.Beat{}, beat(ctx) }
					b.store.finish = func(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
						if b.at() < 10*ttl {
							return down()
						}
						return b.store.Store.Finish(ctx, l, o)
					}
					exit, code := b.exits()
					var j journal
					err := b.do(leased(ttl), func(ctx context.Context, _ *onerun.Owner) error {
						if !early {
							pass(ctx, 2*ttl)
						}
						return nil
					}, onerun.WithExitOnLoss(), exit, onerun.WithObserver(&j))
					if got, at := code(); got != -1 {
						t.Errorf("ended with %d at %s", got, at)
					}
					if run := b.last("nightly"); err != nil || run.Status != onerun.Succeeded {
						t.Errorf("Do: %v; recorded: %s", err, run.Status)
					}
					if n := j.count(onerun.EventLeaseLost); early && n != 0 || !early && n != 1 {
						t.Errorf("observed: %v", j.events())
					}
				})
			})
		}
	}
}
