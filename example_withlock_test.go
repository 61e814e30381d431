package onerun_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
)

// Exclusion alone: no two of whoever names the lock at a time, and nothing recorded.
func ExampleWithLock() {
	ctx, store := context.Background(), memory.New()

	err := onerun.WithLock(ctx, store, "reports", func(ctx context.Context) error {
		fmt.Println("writing the reports")
		err := onerun.WithLock(ctx, store, "reports", func(context.Context) error { return nil })
		if skip := new(onerun.Refusal); errors.As(err, &skip) {
			fmt.Println("a second one:", skip.Reason)
		}
		return nil
	})
	fmt.Println("error:", err)

	// Output:
	// writing the reports
	// a second one: locked
	// error: <nil>
}
