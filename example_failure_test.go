package onerun_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
)

// A job that may be retried twice. Its function says more about a failure than an
// ordinary error could. With RetryLater the retry belongs to a later call, when it is due;
// without, Do would wait for it and call the function again.
func ExampleFailure() {
	ctx, store := context.Background(), memory.New()
	runner := onerun.NewRunner(store)
	job := onerun.Job{
		Name: "import", Partition: "2026-09-15",
		Policy: onerun.Policy{Retries: 2, BackoffMin: time.Hour}, RetryLater: true,
	}

	err := runner.Do(ctx, job, func(context.Context, *onerun.Owner) error {
		status := 3
		return &onerun.Failure{Reason: onerun.ReasonExit, ExitCode: &status, Err: errors.New("the feed is incomplete")}
	})
	var failure *onerun.Failure
	if errors.As(err, &failure) {
		fmt.Printf("%s with status %d: %v\n", failure.Reason, *failure.ExitCode, failure)
	}

	err = runner.Do(ctx, job, func(context.Context, *onerun.Owner) error { return nil })
	var skip *onerun.Refusal
	if errors.As(err, &skip) && skip.Reason == onerun.RefusedRetryNotDue {
		fmt.Println("due in an hour:", time.Until(skip.RetryAt) > 59*time.Minute)
	}

	// Output:
	// exit with status 3: the feed is incomplete
	// due in an hour: true
}
