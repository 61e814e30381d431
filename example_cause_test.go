package onerun_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
)

// workUntilTold works page by page until there is no more, or it is told to stop.
func workUntilTold(ctx context.Context, pages <-chan int) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx) // why: see onerun.ErrLost and onerun.ErrStopped
		case _, more := <-pages:
			if !more {
				return nil
			}
		}
	}
}

// The context of the work is cancelled, with the cause, when its lease is lost, when an operator
// stops it, and when the caller's own context ends. Here an operator stops it.
func Example_cancelled() {
	store := memory.New()
	runner := onerun.NewRunner(store)
	job := onerun.Job{Name: "import", Policy: onerun.Policy{TTL: 3 * time.Second}}

	err := runner.Do(context.Background(), job, func(ctx context.Context, o *onerun.Owner) error {
		err := store.Stop(ctx, onerun.StopRequest{
			Namespace: onerun.DefaultNamespace, RunID: o.Run().RunID, Expect: onerun.Expected(o.Run()),
			Who: onerun.Who{By: "kim", Reason: "wrong file"},
		})
		if err != nil {
			return err
		}
		return workUntilTold(ctx, nil)
	})
	fmt.Println("stopped by an operator:", errors.Is(err, onerun.ErrStopped))
	fmt.Println(err)

	// Output:
	// stopped by an operator: true
	// stopped by kim: wrong file
}

// A worker whose lease ran out, as after a long pause of its machine, is told to stop when
// somebody else has its lock.
func Example_lost() {
	now := make(chan time.Time, 1) // the store's clock
	now <- time.Now()
	clock := func() time.Time { t := <-now; now <- t; return t }
	store := memory.New(memory.WithNow(clock))
	job := onerun.Job{Name: "import", Policy: onerun.Policy{TTL: 3 * time.Second}}

	err := onerun.NewRunner(store).Do(context.Background(), job, func(ctx context.Context, _ *onerun.Owner) error {
		now <- (<-now).Add(time.Hour)
		err := onerun.NewRunner(store).Do(ctx, job, func(context.Context, *onerun.Owner) error {
			fmt.Println("another has taken over")
			return nil
		})
		if err != nil {
			return err
		}
		return workUntilTold(ctx, nil)
	})
	fmt.Println("lost:", errors.Is(err, onerun.ErrLost))

	// Output:
	// another has taken over
	// lost: true
}
