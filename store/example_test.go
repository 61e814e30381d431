package store_test

import (
	"context"
	"fmt"
	"os"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store"
)

// settle opens the store that a URL names, and settles a day once.
func settle(ctx context.Context, url, day string) error {
	s, err := store.Open(ctx, url, store.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	runner := onerun.NewRunner(s)
	job := onerun.Job{Name: "daily-settlement", Partition: day, BusinessDate: day}
	return runner.Do(ctx, job, func(ctx context.Context, o *onerun.Owner) error {
		fmt.Println("settling", o.Run().Key())
		return ctx.Err()
	})
}

// A program opens its store by a URL from its configuration: sqlite: for one machine, postgres:
// for many.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "onerun-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for range 2 {
		if err := settle(context.Background(), "sqlite:"+dir, "2026-09-15"); err != nil {
			fmt.Println("not this time")
		}
	}

	// Output:
	// settling daily-settlement:2026-09-15
	// not this time
}
