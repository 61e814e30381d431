package onerun_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

var nightly = onerun.Job{Name: "nightly"}

func TestDoRecordsHowItEnded(t *testing.T) {
	three, boom := 3, errors.New("boom")
	for _, c := range []struct {
		name     string
		returned error
		want     onerun.Run // status, reason, exit code, signal and error of it
	}{
		{"success", nil, onerun.Run{Status: onerun.Succeeded}},
		{"error", boom, ended(onerun.ReasonExit, nil, "", "boom")},
		{"wrapped error", fmt.Errorf("step 2: %w", boom), ended(onerun.ReasonExit, nil, "", "step 2: boom")},
		{"failure", &onerun.Failure{Reason: onerun.ReasonTimeout, Err: boom}, ended(onerun.ReasonTimeout, nil, "", "boom")},
		{"exit status", &onerun.Failure{Reason: onerun.ReasonExit, ExitCode: &three}, ended(onerun.ReasonExit, &three, "", "exit: status 3")},
		{"signal", &onerun.Failure{Reason: onerun.ReasonSignal, Signal: "SIGKILL"}, ended(onerun.ReasonSignal, nil, "SIGKILL", "signal: ended by SIGKILL")},
		{"failure without a reason", &onerun.Failure{ExitCode: &three, Err: boom}, ended(onerun.ReasonExit, &three, "", "boom")},
		{"wrapped failure", fmt.Errorf("step 2: %w", &onerun.Failure{Reason: onerun.ReasonNotFound, Err: boom}), ended(onerun.ReasonNotFound, nil, "", "step 2: boom")},
		{"text that no store could keep", errors.New("a\x00b\xff"), ended(onerun.ReasonExit, nil, "", "a\ufffdb\ufffd")},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				err := b.do(nightly, func(context.Context, *onerun.Owner) error { return c.returned })
				run := b.last("nightly")
				if run.Status != c.want.Status || run.Reason != c.want.Reason || run.Signal != c.want.Signal ||
					run.Error != c.want.Error || show(run.ExitCode) != show(c.want.ExitCode) {
					t.Errorf("recorded: %s %q, exit %s, signal %q, error %q", run.Status, run.Reason, show(run.ExitCode), run.Signal, run.Error)
				}
				b.free()
				if c.returned == nil {
					if err != nil {
						t.Errorf("Do: %v", err)
					}
					return
				}
				var f *onerun.Failure
				if !errors.As(err, &f) || f.Reason != c.want.Reason || f.Signal != c.want.Signal || show(f.ExitCode) != show(c.want.ExitCode) {
					t.Errorf("Do: %#v; want a Failure with reason %s", err, c.want.Reason)
				}
				if !errors.Is(err, c.returned) || err.Error() != c.returned.Error() {
					t.Errorf("Do: %q doesn't lead to %q", err, c.returned)
				}
			})
		})
	}
}

func ended(reason onerun.Reason, code *int, signal, text string) onerun.Run {
	return onerun.Run{Status: onerun.Failed, Execution: onerun.Execution{Reason: reason, ExitCode: code, Signal: signal, Error: text}}
}

func show(n *int) string {
	if n == nil {
		return "none"
	}
	return fmt.Sprint(*n)
}

// A failure may be a variable that many share.
func TestDoLeavesAFailureAsItIs(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		shared := &onerun.Failure{Err: errors.New("boom")}
		ctx, cancel := context.WithCancel(t.Context())
		_ = b.runner().Do(ctx, nightly, func(context.Context, *onerun.Owner) error { cancel(); return shared })
		if shared.Reason != "" {
			t.Errorf("the function's own Failure became %s", shared.Reason)
		}
	})
}

func TestPanicIsRecordedAndGoesOn(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		value := &struct{ n int }{7}
		var j journal
		got := recovered(func() {
			_ = b.do(nightly, func(context.Context, *onerun.Owner) error { panic(value) }, onerun.WithObserver(&j))
		})
		if got != any(value) {
			t.Errorf("the panic went on with %v; want the same value", got)
		}
		run := b.last("nightly")
		if run.Status != onerun.Failed || run.Reason != onerun.ReasonExit || !strings.HasPrefix(run.Error, "panic: &{7}\ngoroutine ") {
			t.Errorf("recorded: %s %s %q", run.Status, run.Reason, run.Error)
		}
		if j.count(onerun.EventFailed) != 1 {
			t.Errorf("observed: %v", j.events())
		}
		b.free()
	})
}

// An error that can't say what it is, such as a nil *Failure in an error, is no
// reason to lose the outcome.
func TestErrorThatPanicsIsRecorded(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		got := recovered(func() {
			_ = b.do(nightly, func(context.Context, *onerun.Owner) error { return (*onerun.Failure)(nil) })
		})
		if run := b.last("nightly"); got == nil || run.Status != onerun.Failed || !strings.HasPrefix(run.Error, "panic: ") {
			t.Errorf("panic %v; recorded: %s %q", got, run.Status, run.Error)
		}
		b.free()
	})
}

func recovered(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

// t.FailNow and t.SkipNow end a function like this.
func TestGoexitIsRecorded(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		var j journal
		after := false
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = b.do(nightly, func(context.Context, *onerun.Owner) error { runtime.Goexit(); return nil }, onerun.WithObserver(&j))
			after = true
		}()
		<-done
		if after {
			t.Error("the goroutine went on after its end")
		}
		run := b.last("nightly")
		if run.Status != onerun.Failed || run.Reason != onerun.ReasonExit || !strings.Contains(run.Error, "Goexit") || run.FinishedAt.IsZero() {
			t.Errorf("recorded: %s %s %q, finished %s", run.Status, run.Reason, run.Error, run.FinishedAt)
		}
		if j.count(onerun.EventFailed) != 1 {
			t.Errorf("observed: %v", j.events())
		}
		b.free()
	})
}

func TestCallerCancels(t *testing.T) {
	for _, c := range []struct {
		returned error
		want     onerun.Reason
	}{
		{context.Canceled, onerun.ReasonCanceled},
		{&onerun.Failure{Reason: onerun.ReasonSignal, Signal: "SIGTERM"}, onerun.ReasonCanceled},
		{&onerun.Failure{Reason: onerun.ReasonTimeout}, onerun.ReasonTimeout},
		{&onerun.Failure{Reason: onerun.ReasonStopped}, onerun.ReasonStopped},
		{&onerun.Failure{Reason: onerun.ReasonNotFound}, onerun.ReasonNotFound},
	} {
		t.Run(string(c.want), func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Minute, cancel)
				err := b.runner().Do(ctx, nightly, func(ctx context.Context, _ *onerun.Owner) error { <-ctx.Done(); return c.returned })
				var f *onerun.Failure
				if !errors.As(err, &f) || f.Reason != c.want {
					t.Errorf("Do: %#v; want reason %s", err, c.want)
				}
				if run := b.last("nightly"); run.Status != onerun.Failed || run.Reason != c.want {
					t.Errorf("recorded: %s %s; want %s", run.Status, run.Reason, c.want)
				}
				b.free()
			})
		})
	}
}

// Success is success, whatever was asked meanwhile.
func TestCancelledButDone(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		ctx, cancel := context.WithCancel(t.Context())
		err := b.runner().Do(ctx, nightly, func(context.Context, *onerun.Owner) error { cancel(); return nil })
		if run := b.last("nightly"); err != nil || run.Status != onerun.Succeeded {
			t.Errorf("Do: %v; recorded: %s", err, run.Status)
		}
	})
}

// The context carries the caller's values, and ends with Do.
func TestContextOfTheFunction(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		type key struct{}
		var inner context.Context
		err := b.runner().Do(context.WithValue(t.Context(), key{}, "v"), nightly, func(ctx context.Context, o *onerun.Owner) error {
			inner = ctx
			if ctx.Value(key{}) != "v" || ctx.Err() != nil {
				t.Errorf("the function's context: value %v, err %v", ctx.Value(key{}), ctx.Err())
			}
			if run := b.last("nightly"); o.Run().RunID != run.RunID || o.Lease().Token != run.Token || run.Status != onerun.Running {
				t.Errorf("the owner knows %+v and %+v; recorded: %+v", o.Run(), o.Lease(), run)
			}
			return nil
		})
		if err != nil || inner.Err() == nil {
			t.Errorf("Do: %v; afterwards the function's context has not ended", err)
		}
	})
}
