package onerun_test

import (
	"context"
	"fmt"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
)

// legacy is work that knows no context, and so can't be told to stop.
func legacy() error {
	fmt.Println("working")
	return nil
}

// Work that may not heed its context goes on beside the next owner when its lease is lost. With
// this option the process ends with status 75 instead, before anybody else can be granted the lock.
func ExampleWithExitOnLoss() {
	store := memory.New()
	runner := onerun.NewRunner(store, onerun.WithExitOnLoss())
	err := runner.Do(context.Background(), onerun.Job{Name: "legacy"}, func(context.Context, *onerun.Owner) error {
		return legacy()
	})
	fmt.Println("error:", err)

	// Output:
	// working
	// error: <nil>
}
