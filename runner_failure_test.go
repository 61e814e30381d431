package onerun_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// How a job ended that was started within another one says nothing of that: it is retried.
func TestFailureOfAnotherJob(t *testing.T) {
	boom := errors.New("boom")
	inBed(t, func(t *testing.T, b *bed) {
		tries := 0
		job := daily("p")
		job.Retries = 1
		err := b.do(job, func(ctx context.Context, _ *onerun.Owner) error {
			tries++
			return b.runner().Do(ctx, onerun.Job{Name: "inner"}, func(context.Context, *onerun.Owner) error {
				return &onerun.Failure{Reason: onerun.ReasonStopped, Signal: "SIGTERM", Void: true, Err: boom}
			})
		})
		var f *onerun.Failure
		if !errors.As(err, &f) || f.Reason != onerun.ReasonExit || f.Signal != "" || f.Void || !errors.Is(err, boom) {
			t.Errorf("Do: %#v; want an ordinary failure with its cause", err)
		}
		if run := b.last("daily"); run.Reason != onerun.ReasonExit || run.Attempt != 2 || tries != 2 {
			t.Errorf("the run: %s, attempt %d, after %d calls; want it retried", run.Reason, run.Attempt, tries)
		}
		if run := b.last("inner"); run.Reason != onerun.ReasonStopped {
			t.Errorf("the inner run: %s", run.Reason)
		}
	})
}

// A status is not lost for a word that a store has no room for.
func TestReasonThatIsNone(t *testing.T) {
	for _, bad := range []onerun.Reason{onerun.Reason(strings.Repeat("x", onerun.MaxReason+1)), "a\x00b", "a\nb", "\xff"} {
		inBed(t, func(t *testing.T, b *bed) {
			err := b.do(daily("p"), func(context.Context, *onerun.Owner) error {
				return &onerun.Failure{Reason: bad, Signal: strings.Repeat("SIG", 100)}
			})
			var f *onerun.Failure
			if run := b.last("daily"); !errors.As(err, &f) || f.Reason != onerun.ReasonExit || run.Reason != onerun.ReasonExit || run.Signal != "" {
				t.Errorf("%q: %v, recorded as %q %q", bad, err, run.Reason, run.Signal)
			}
		})
	}
	inBed(t, func(t *testing.T, b *bed) {
		_ = b.do(daily("p"), func(context.Context, *onerun.Owner) error { return &onerun.Failure{Reason: "bank_closed"} })
		if run := b.last("daily"); run.Reason != "bank_closed" {
			t.Errorf("recorded as %q", run.Reason)
		}
	})
}

// Observers are told no secret that WithRedaction masks; the caller has its own error back.
func TestObserversAreToldNoSecret(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		var j journal
		refused := errors.New("card 4111-1111 is refused")
		err := b.do(daily("p"), func(context.Context, *onerun.Owner) error { return refused }, onerun.WithObserver(&j),
			onerun.WithRedaction(func(s string) string { return strings.ReplaceAll(s, "4111-1111", "***") }))
		if !errors.Is(err, refused) || !strings.Contains(err.Error(), "4111-1111") {
			t.Errorf("Do: %v", err)
		}
		for _, o := range j.all() {
			if o.Err != nil && (strings.Contains(o.Err.Error(), "4111") || !errors.Is(o.Err, refused)) || o.Outcome != nil && strings.Contains(o.Outcome.Error, "4111") {
				t.Errorf("told: %+v", o)
			}
		}
		if j.count(onerun.EventFailed) != 1 {
			t.Errorf("told: %v", j.events())
		}
	})
}

// stopFile is a store that has a request to stop in two places: beside the lock, and for the heartbeat.
type stopFile struct{ *hooks }

func (stopFile) StopRequested(onerun.Lease) string { return "ops: enough" }

// A stop that comes by both ways is one.
func TestStoppedOnce(t *testing.T) {
	for what, ttl := range map[string]time.Duration{"file first": time.Minute, "heartbeat first": 2 * time.Second} {
		t.Run(what, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				var j journal
				b.store.beat = func(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
					beat, err := b.mem.Heartbeat(ctx, l)
					beat.Stop = "ops: enough"
					return beat, err
				}
				job := daily("p")
				job.TTL = ttl
				err := onerun.NewRunner(stopFile{b.store}, onerun.WithClock(b.clock), onerun.WithObserver(&j)).Do(t.Context(), job, func(ctx context.Context, _ *onerun.Owner) error {
					<-ctx.Done()
					time.Sleep(20 * time.Second) // it takes its time
					return context.Cause(ctx)
				})
				if !errors.Is(err, onerun.ErrStopped) || j.count(onerun.EventStopped) != 1 {
					t.Errorf("Do: %v, told: %v; want it stopped once", err, j.events())
				}
			})
		})
	}
}

// Work that returns why it was told to stop says that once.
func TestLossIsSaidOnce(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.store.beat = func(context.Context, onerun.Lease) (onerun.Beat, error) { return onerun.Beat{}, down() }
		err := b.do(daily("p"), works(time.Hour))
		if !errors.Is(err, onerun.ErrLost) || !errors.As(err, new(*onerun.Failure)) || strings.Count(err.Error(), onerun.ErrLost.Error()) != 1 {
			t.Errorf("Do: %v", err)
		}
	})
}
