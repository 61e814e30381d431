package sqlledger

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/onerun-dev/onerun"
)

// Met is the error of a transaction that met another one halfway, and wrote nothing. A store has
// one value of it, which Patiently is told of.
func Met() error {
	return &onerun.StoreError{
		Kind: onerun.ErrUnavailable, What: "decide on the claim",
		Err: errors.New("others claim the same at once, again and again"), Do: "try again",
	}
}

// Patiently repeats f for as long as it only meets others, as again knows, or until ctx is over.
func Patiently(ctx context.Context, again func(err error) bool, f func() error) error {
	const tries = 50
	for i := 0; ; i++ {
		err := f()
		if !again(err) || i == tries {
			return err
		}
		if Wait(ctx, rand.N(min(time.Millisecond<<min(i, 6), 50*time.Millisecond))) != nil {
			return err
		}
	}
}

// Wait waits for a while, or until ctx is over, and says why.
func Wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
