package gocronlock_test

import (
	"context"
	"fmt"

	"github.com/go-co-op/gocron/v2"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/adapter/gocronlock"
	"github.com/onerun-dev/onerun/schedule"
	"github.com/onerun-dev/onerun/store/memory"
)

// addReport adds a report every five minutes, done once for each five minutes by one of the
// schedulers that have it.
func addReport(s gocron.Scheduler, runner *onerun.Runner, report func(context.Context, *onerun.Owner) error) error {
	task, err := gocronlock.Task(runner, onerun.Job{Name: "report"}, report, gocronlock.Keyed(schedule.Spec{Period: "5m"}))
	if err != nil {
		return err
	}
	_, err = s.NewJob(gocron.CronJob("*/5 * * * *", false), task)
	return err
}

func ExampleTask() {
	s, err := gocron.NewScheduler()
	if err != nil {
		fmt.Println(err)
		return
	}
	err = addReport(s, onerun.NewRunner(memory.New()), func(ctx context.Context, o *onerun.Owner) error {
		fmt.Println("reporting", o.Run().Partition)
		return ctx.Err()
	})
	fmt.Println(err, len(s.Jobs()), s.Shutdown())

	// Output:
	// <nil> 1 <nil>
}

// A scheduler whose tasks there are already. They know no lease, so the Runner ends the process
// when one is lost.
func ExampleNewLocker() {
	runner := onerun.NewRunner(memory.New(), onerun.WithExitOnLoss())
	locker, err := gocronlock.NewLocker(runner)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker), gocron.WithGlobalJobOptions(locker.Listeners()))
	if err != nil {
		fmt.Println(err)
		return
	}
	ran := make(chan string)
	task := gocron.NewTask(func() { ran <- "cleaning up" })
	if _, err := s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), task, gocron.WithName("clean-up")); err != nil {
		fmt.Println(err)
		return
	}
	s.Start()
	fmt.Println(<-ran)
	fmt.Println(s.Shutdown())

	// Output:
	// cleaning up
	// <nil>
}
