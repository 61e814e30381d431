package onerun_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
)

// sendReport is a program's own code: what its timer calls.
func sendReport(ctx context.Context, runner *onerun.Runner, day string, send func(day string) error) (sent bool, err error) {
	err = runner.Do(ctx, onerun.Job{Name: "nightly-report", Partition: day}, func(context.Context, *onerun.Owner) error {
		return send(day)
	})
	if skip := new(onerun.Refusal); errors.As(err, &skip) && !skip.Reason.Blocked() {
		return false, nil
	}
	return err == nil, err
}

// A test of one's own code gives it a Runner on a store in memory, which is the real thing for one
// process: it keeps runs, refuses second starts and can be asked what it has.
func Example_testing() {
	ctx, store := context.Background(), memory.New()
	runner := onerun.NewRunner(store)
	mails := 0
	send := func(string) error { mails++; return nil }

	for range 2 {
		if _, err := sendReport(ctx, runner, "2026-09-15", send); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("mails:", mails)

	runs, err := store.Runs(ctx, onerun.Query{Namespace: onerun.DefaultNamespace, Job: "nightly-report"})
	if err != nil {
		fmt.Println(err)
	}
	for _, r := range runs {
		fmt.Println(r.Key(), r.Status, "skips:", r.Skips)
	}

	// Output:
	// mails: 1
	// nightly-report:2026-09-15 SUCCEEDED skips: 1
}
