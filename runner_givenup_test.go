package onerun_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// gaveUp checks that an error says that the caller gave up, and blames no store for it.
func gaveUp(t *testing.T, err, cause error) {
	t.Helper()
	if !errors.Is(err, cause) || errors.Is(err, onerun.ErrUnavailable) || errors.As(err, new(*onerun.Refusal)) {
		t.Errorf("Do: %v; want the cause, and no word of the store", err)
	}
}

func TestCallerIsGoneBefore(t *testing.T) {
	gone := errors.New("gone")
	inBed(t, func(t *testing.T, b *bed) {
		b.store.claim = func(context.Context, onerun.Claim) (onerun.Grant, error) {
			t.Error("the store was asked")
			return onerun.Grant{}, down()
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		gaveUp(t, b.runner().Do(ctx, daily("p"), never(t)), gone)
		late, cancelLate := context.WithTimeout(t.Context(), 0)
		defer cancelLate()
		gaveUp(t, b.runner().Do(late, daily("p"), never(t)), context.DeadlineExceeded)
	})
}

// A store that is waited in says "unavailable" when its caller's time is over: to the caller that
// is no news of the store.
func TestCallerGivesUpWaitingInTheStore(t *testing.T) {
	gone := errors.New("gone")
	for what, after := range map[string]func(ctx context.Context) (context.Context, context.CancelFunc){
		"told": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			timer := time.AfterFunc(3*time.Second, func() { cancel(gone) })
			return ctx, func() { timer.Stop(); cancel(nil) }
		},
		"out of time": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, 3*time.Second, gone)
		},
	} {
		t.Run(what, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				b.hold("nightly", "", onerun.Policy{})
				ctx, cancel := after(t.Context())
				defer cancel()
				gaveUp(t, b.waitingRunner(b.blocks).Do(ctx, waits(onerun.Forever), never(t)), gone)
			})
		})
	}
}

// A deadline that passes while a store doesn't answer is that store's failure all the same.
func TestStoreWithoutAnswerUntilTheDeadline(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.store.claim = func(ctx context.Context, _ onerun.Claim) (onerun.Grant, error) { return onerun.Grant{}, hang(ctx) }
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := b.runner().Do(ctx, daily("p"), never(t)); !errors.Is(err, onerun.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Do: %v; want ErrUnavailable, and that the time was over", err)
		}
		b.store.claim = func(context.Context, onerun.Claim) (onerun.Grant, error) { return onerun.Grant{}, down() }
		ctx, cancel = context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := b.runner().Do(ctx, daily("p"), never(t)); !errors.Is(err, onerun.ErrUnavailable) {
			t.Errorf("Do on a store that is down: %v; want ErrUnavailable", err)
		}
	})
}

// Of goroutines that are given up together because one was refused, the others were not.
func TestGivenUpForAnothersRefusal(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.hold("nightly", "", onerun.Policy{})
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(b.do(onerun.Job{Name: "nightly"}, never(t))) })
		gaveUp(t, b.runner().Do(ctx, waits(onerun.Forever), never(t)), context.Canceled)
	})
}

// In the instant of the grant nothing has begun yet: it costs the key nothing.
func TestCallerIsGoneWithTheGrant(t *testing.T) {
	gone := errors.New("gone")
	inBed(t, func(t *testing.T, b *bed) {
		ctx, cancel := context.WithCancelCause(t.Context())
		b.store.claim = func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
			defer cancel(gone)
			return b.store.Store.Claim(ctx, c)
		}
		err := b.runner().Do(ctx, daily("p"), never(t))
		var f *onerun.Failure
		if !errors.As(err, &f) || !f.Void || f.Reason != onerun.ReasonCanceled || !errors.Is(err, gone) {
			t.Errorf("Do: %v; want a void failure for the cause", err)
		}
		b.free()
		b.store.claim = nil
		if err := b.do(daily("p"), works(0)); err != nil {
			t.Errorf("the next start: %v", err)
		}
	})
}
