package onerun_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
)

// report says what a start came to, by the reason of a skip.
func report(err error) string {
	var skip *onerun.Refusal
	if !errors.As(err, &skip) {
		if err != nil {
			return "failed: " + err.Error()
		}
		return "done"
	}
	switch skip.Reason {
	case onerun.RefusedSucceeded, onerun.RefusedSkipped:
		return "nothing to do: " + skip.Holder.Name + " is " + string(skip.Holder.Status)
	case onerun.RefusedRunning, onerun.RefusedLocked:
		return "somebody is at work: " + skip.Holder.Name
	case onerun.RefusedPaused:
		return skip.Holder.Detail
	case onerun.RefusedRetryNotDue:
		return "later: " + skip.RetryAt.String()
	case onerun.RefusedFailed, onerun.RefusedStale: // skip.Reason.Blocked(): nobody will do it
		return "somebody should look: " + string(skip.Reason)
	}
	return "skipped: " + string(skip.Reason)
}

// What a skip means for whoever asked: the work is done, somebody is doing it, or nobody will
// before a person has looked.
func ExampleRefusal() {
	ctx, store := context.Background(), memory.New()
	runner := onerun.NewRunner(store)
	settle := func(day string, fn func(context.Context, *onerun.Owner) error) string {
		return report(runner.Do(ctx, onerun.Job{Name: "settle", Partition: day}, fn))
	}
	succeeds := func(context.Context, *onerun.Owner) error { return nil }
	fails := func(context.Context, *onerun.Owner) error { return errors.New("no connection") }

	fmt.Println(settle("2026-09-14", succeeds))
	fmt.Println(settle("2026-09-14", succeeds))
	fmt.Println(settle("2026-09-15", fails))
	fmt.Println(settle("2026-09-15", succeeds))
	settle("2026-09-16", func(context.Context, *onerun.Owner) error {
		fmt.Println(settle("2026-09-16", succeeds))
		fmt.Println(settle("2026-09-17", succeeds))
		return nil
	})
	if err := store.Pause(ctx, onerun.PauseRequest{Namespace: onerun.DefaultNamespace, Job: "settle", Who: onerun.Who{By: "kim", Reason: "month end"}}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(settle("2026-09-18", succeeds))

	// Output:
	// done
	// nothing to do: settle:2026-09-14 is SUCCEEDED
	// failed: no connection
	// somebody should look: failed
	// somebody is at work: settle:2026-09-16
	// somebody is at work: settle:2026-09-16
	// paused by kim: month end
}
