package onerun_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
)

// A job that two hosts start at the same time, for the same business date. One of
// them does the work; the other is refused, which is no error.
func ExampleRunner_Do() {
	store := memory.New() // in a program: the store that package store opens from a URL
	runner := onerun.NewRunner(store)
	job := onerun.Job{Name: "daily-settlement", Partition: "2026-09-15"}
	settle := func(_ context.Context, o *onerun.Owner) error {
		fmt.Println("settling", o.Run().Partition, "attempt", o.Run().Attempt)
		return nil
	}

	for range 2 {
		err := runner.Do(context.Background(), job, settle)
		var skip *onerun.Refusal
		switch {
		case errors.As(err, &skip) && skip.Reason.Blocked():
			fmt.Println("somebody should look:", skip)
		case errors.As(err, &skip):
			fmt.Println("nothing to do:", skip.Reason)
		case err != nil:
			fmt.Println("failed:", err)
		default:
			fmt.Println("done")
		}
	}

	// Output:
	// settling 2026-09-15 attempt 1
	// done
	// nothing to do: succeeded
}
