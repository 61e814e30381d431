package cronjob_test

import (
	"context"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/adapter/cronjob"
	"github.com/onerun-dev/onerun/schedule"
	"github.com/onerun-dev/onerun/store/memory"
)

// addSettlement adds the daily settlement of the day before to a program's Cron. Every replica of
// the program does, and each date is settled by one of them.
func addSettlement(ctx context.Context, c *cron.Cron, runner *onerun.Runner) error {
	at, err := cron.ParseStandard("0 1 * * *")
	if err != nil {
		return err
	}
	settle := func(ctx context.Context, o *onerun.Owner) error {
		fmt.Println("settling", o.Run().BusinessDate)
		return ctx.Err()
	}
	job, err := cronjob.New(ctx, runner, onerun.Job{Name: "daily-settlement"}, settle,
		cronjob.Keyed(at, c.Location(), schedule.Spec{Date: "yesterday", Zone: "Asia/Seoul"}))
	if err != nil {
		return err
	}
	c.Schedule(at, job)
	return nil
}

func ExampleNew() {
	c := cron.New(cron.WithLocation(time.FixedZone("KST", 9*3600)))
	fmt.Println(addSettlement(context.Background(), c, onerun.NewRunner(memory.New())), len(c.Entries()))
	c.Start()
	<-c.Stop().Done()

	// Output:
	// <nil> 1
}

// A job that a program has already, in the chain of its one entry.
func ExampleWrapper() {
	ctx, runner := context.Background(), onerun.NewRunner(memory.New(), onerun.WithExitOnLoss())
	old := cron.FuncJob(func() { fmt.Println("cleaning up") })

	claim, err := cronjob.Wrapper(ctx, runner, onerun.Job{Name: "clean-up"})
	if err != nil {
		fmt.Println(err)
		return
	}
	c := cron.New()
	if _, err := c.AddJob("@hourly", cron.NewChain(cron.Recover(cron.DefaultLogger), claim).Then(old)); err != nil {
		fmt.Println(err)
	}
	c.Entries()[0].WrappedJob.Run() // as cron does on the hour

	// Output:
	// cleaning up
}
