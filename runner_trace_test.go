package onerun_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/onerun-dev/onerun"
)

// tracer puts the number of an attempt into its context, under its own name.
type tracer struct {
	journal
	name string
}

type traceKey string

func (tr *tracer) Trace(ctx context.Context, run onerun.Run, lease onerun.Lease) context.Context {
	tr.Observe(onerun.Observation{Event: "trace", Run: run, Lease: lease})
	return context.WithValue(ctx, traceKey(tr.name), lease.Attempt)
}

// ends are those observations of a tracer that tell of an attempt's end.
func (tr *tracer) ends(owner string) (n int) {
	for _, o := range tr.all() {
		if o.Outcome != nil && o.Lease.Owner == owner {
			n++
		}
	}
	return n
}

// TestTracer: the work's context has what each observer put into it, every attempt anew, and
// is cancelled as it would be without.
func TestTracer(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		a, c := &tracer{name: "a"}, &tracer{name: "c"}
		job := daily("p")
		job.Retries = 1
		var seen []string
		err := b.do(job, func(ctx context.Context, o *onerun.Owner) error {
			seen = append(seen, fmt.Sprint(ctx.Value(traceKey("a")), ctx.Value(traceKey("c"))))
			if o.Run().Attempt == 1 {
				return errors.New("not yet")
			}
			return nil
		}, onerun.WithObserver(a), onerun.WithObserver(onerun.ObserverFunc(func(onerun.Observation) {})), onerun.WithObserver(c))
		if want := []string{"1 1", "2 2"}; err != nil || !slices.Equal(seen, want) {
			t.Errorf("Do: %v; the work saw %q, want %q", err, seen, want)
		}
		if got := a.events(); !slices.Equal(got, []string{"claimed", "trace", "started", "failed", "retry_waiting", "claimed", "trace", "started", "finished"}) {
			t.Errorf("told: %v", got)
		}
	})
	inBed(t, func(t *testing.T, b *bed) {
		b.store.beat = func(context.Context, onerun.Lease) (onerun.Beat, error) { return onerun.Beat{}, onerun.ErrLost }
		a := &tracer{name: "a"}
		err := b.do(daily("p"), func(ctx context.Context, _ *onerun.Owner) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}, onerun.WithObserver(a))
		if !errors.Is(err, onerun.ErrLost) {
			t.Errorf("Do: %v; want the loss", err)
		}
	})
}

// TestTraceEndsOnce: one observation with an Outcome follows each Trace, however the work ends.
func TestTraceEndsOnce(t *testing.T) {
	for name, fn := range map[string]func(context.Context, *onerun.Owner) error{
		"success": works(0),
		"error":   func(context.Context, *onerun.Owner) error { return errors.New("no") },
		"panic":   func(context.Context, *onerun.Owner) error { panic("no") },
		"goexit":  func(context.Context, *onerun.Owner) error { runtime.Goexit(); return nil },
		"lost":    works(2 * onerun.DefaultTTL),
	} {
		t.Run(name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				if name == "lost" {
					b.store.beat = func(context.Context, onerun.Lease) (onerun.Beat, error) { return onerun.Beat{}, onerun.ErrLost }
					b.store.finish = func(context.Context, onerun.Lease, onerun.Outcome) error { return onerun.ErrLost }
				}
				tr := &tracer{name: "a"}
				var group sync.WaitGroup
				group.Go(func() {
					defer func() { _ = recover() }()
					_ = b.do(daily("p"), fn, onerun.WithObserver(tr))
				})
				group.Wait()
				owner := ""
				for _, o := range tr.all() {
					if o.Event == "trace" {
						owner = o.Lease.Owner
					}
				}
				if owner == "" || tr.ends(owner) != 1 {
					t.Errorf("%d ends of owner %q: %v", tr.ends(owner), owner, tr.events())
				}
			})
		})
	}
}
