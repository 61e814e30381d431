package postgres_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store"
)

// A service with two replicas, whose timers both fire. One does the work; the other gets a typed
// skip, which says who does it.
func Example_replicas() {
	ctx := context.Background()
	url, pool := exampleDatabase("")
	pool.Close()

	job := onerun.Job{Name: "nightly-report", Partition: "2026-09-15"}
	skipped := make(chan onerun.Reason, 2)
	done := make(chan error, 2)
	replica := func(name string) {
		s, err := store.Open(ctx, url, store.Options{})
		if err != nil {
			done <- err
			return
		}
		defer func() { _ = s.Close() }()
		job := job
		job.WorkerLabel = name
		err = onerun.NewRunner(s).Do(ctx, job, func(context.Context, *onerun.Owner) error {
			fmt.Println("one replica skipped:", <-skipped) // it works until the other has come
			return nil
		})
		var skip *onerun.Refusal
		if errors.As(err, &skip) {
			skipped <- skip.Reason
			err = nil
		}
		done <- err
	}
	go replica("replica-1")
	go replica("replica-2")
	fmt.Println(<-done, <-done)

	// Output:
	// one replica skipped: running
	// <nil> <nil>
}
