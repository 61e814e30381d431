// Package gocronlock makes the jobs of github.com/go-co-op/gocron (version 2) claim before they
// run: however many schedulers have the same job, one of them does the work.
//
// There are two ways. Task is the better one; a Locker is for a scheduler that has its tasks
// already.
//
//	task, err := gocronlock.Task(runner, onerun.Job{Name: "report"}, report, gocronlock.Keyed(schedule.Spec{Period: "5m"}))
//	job, err := s.NewJob(gocron.CronJob("*/5 * * * *", false), task)
//
// Task's function gets a context that is cancelled when the lease is lost, when an operator
// stops the run, and when the scheduler shuts down; what it returns is how the run ends.
//
//	locker, err := gocronlock.NewLocker(runner)
//	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker), gocron.WithGlobalJobOptions(locker.Listeners()))
//
// gocron asks a Locker before a task and tells it afterwards; meanwhile the lease is renewed.
// But gocron has no way to tell a task that was started under a Locker that its lock is lost:
// its context is the job's own, and stays as it is. Such a task goes on beside the next owner's,
// unless the Runner ends the whole process (onerun.WithExitOnLoss, which a Locker's Runner
// should have) or what the task writes is fenced.
//
// # With a key or without
//
// Without Keyed a fire is an unkeyed run: no two are executed at a time, and that is all. Two
// schedulers' clocks differ, so a short job would run twice, once by each. With Keyed a fire is
// executed once for each date or period. gocron doesn't tell for what time it fires, so that is
// taken from the clock: of the moment one second later, since timers may be early by the host's clock. Let the
// period be that of the schedule, or a longer one.
//
// A job's name is its name in gocron (gocron.WithName), which a Locker needs: what gocron calls a
// job without one, such as main.main.func1, is different in the next build, and may be no name
// that onerun takes.
//
// # Why there is no Elector
//
// An Elector answers once, before the task, whether this scheduler leads, and is told no end. A
// leader that freezes between the answer and the end is replaced, and both work: nothing ties
// the work to a lease, and nothing is recorded of it. And all jobs would run on one host. Here
// there is no leader: every fire is a claim.
package gocronlock
