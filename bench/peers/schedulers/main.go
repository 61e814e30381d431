// Command schedulers holds onerun's scheduler against a bare loop and against schedulers that Go programs use: how late
// they start 10,000 jobs that are all due each second, what 10,000 jobs cost that are due once an hour, and how long it takes to find the
// next time of an expression. Each scheduler is a process of its own; the jobs do nothing. Run it with
//
//	cd bench/peers && go run ./schedulers
//
// onerun's also decides, in a store in memory, which instance starts each of them; the others start them, and that is all.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/reugn/go-quartz/job"
	"github.com/reugn/go-quartz/quartz"
	"github.com/robfig/cron/v3"

	"github.com/onerun-dev/onerun/internal/scheduler"
	"github.com/onerun-dev/onerun/schedule"
)

func main() {
	jobs := flag.Int("jobs", 10_000, "jobs")
	busy := flag.Duration("busy", 20*time.Second, "for how long they are due each second")
	idle := flag.Duration("idle", time.Minute, "for how long they are due each hour")
	one := flag.String("one", "", "one of them, in this process")
	hourly := flag.Bool("hourly", false, "with -one: due each hour")
	flag.Parse()
	var err error
	if *one != "" {
		err = measure(*one, *jobs, *busy, *hourly)
	} else {
		err = compare(*jobs, *busy, *idle)
		if err == nil {
			err = compareNext()
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "schedulers:", err)
		os.Exit(1)
	}
}

// figures are what one has measured.
type figures struct {
	Fires         int
	P50, P99, Max time.Duration
	CPU           time.Duration
	Heap          uint64
}

// start starts jobs, each of which calls ran when it is started; stop is called in the end.
type start func(jobs int, hourly bool, ran func(now time.Time)) (stop func(), err error)

var contenders = map[string]start{"bare loop": bare, "onerun": ours, "robfig/cron": robfig, "gocron": gocronV2, "go-quartz": goQuartz}

var order = []string{"bare loop", "onerun", "robfig/cron", "gocron", "go-quartz"}

func compare(jobs int, busy, idle time.Duration) error {
	fmt.Printf("# %d jobs that do nothing, due each second for %s: late by, as a ratio to the bare loop's; fires of those due; CPU, as a ratio\n\n", jobs, busy)
	var floor figures
	for _, name := range order {
		f, err := inProcess(name, jobs, busy, false)
		if err != nil {
			return err
		}
		if name == order[0] {
			floor = f
		}
		ratio := func(a, b time.Duration) float64 { return float64(a) / float64(max(b, 1)) }
		fmt.Printf("%-12s 50th %5.2f   99th %5.2f   max %5.2f   fires %5.1f %%   CPU %5.2f\n", name,
			ratio(f.P50, floor.P50), ratio(f.P99, floor.P99), ratio(f.Max, floor.Max), 100*float64(f.Fires)/float64(floor.Fires), ratio(f.CPU, floor.CPU))
	}
	fmt.Printf("\n# The same jobs due once an hour, for %s: CPU in %% of a core; heap in MiB\n\n", idle)
	for _, name := range order[1:] {
		f, err := inProcess(name, jobs, idle, true)
		if err != nil {
			return err
		}
		fmt.Printf("%-12s CPU %6.3f %%   heap %5.1f\n", name, 100*float64(f.CPU)/float64(idle), float64(f.Heap)/(1<<20))
	}
	return nil
}

func inProcess(name string, jobs int, d time.Duration, hourly bool) (f figures, err error) {
	self, err := os.Executable()
	if err != nil {
		return f, err
	}
	cmd := exec.Command(self, "-one", name, "-jobs", fmt.Sprint(jobs), "-busy", d.String(), fmt.Sprint("-hourly=", hourly))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return f, fmt.Errorf("%s: %w", name, err)
	}
	return f, json.Unmarshal(out, &f)
}

// measure is one of them, from a whole second on.
func measure(name string, jobs int, d time.Duration, hourly bool) error {
	begin, ok := contenders[name]
	if !ok {
		return fmt.Errorf("there is no %q", name)
	}
	var mu sync.Mutex
	late := make([]time.Duration, 0, jobs*(int(d/time.Second)+2))
	counting := false
	stop, err := begin(jobs, hourly, func(now time.Time) {
		l := time.Since(now.Truncate(time.Second))
		if l < 0 {
			l = 0
		}
		mu.Lock()
		if counting {
			late = append(late, l)
		}
		mu.Unlock()
	})
	if err != nil {
		return err
	}
	settle := time.Now().Truncate(time.Second).Add(3500 * time.Millisecond)
	time.Sleep(time.Until(settle))
	runtime.GC()
	before := spent()
	mu.Lock()
	counting = true
	mu.Unlock()
	time.Sleep(d)
	mu.Lock()
	counting = false
	mu.Unlock()
	f := figures{CPU: spent() - before, Fires: len(late)}
	stop()
	slices.Sort(late)
	if n := len(late); n > 0 {
		f.P50, f.P99, f.Max = late[n/2], late[n*99/100], late[n-1]
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.Heap = m.HeapAlloc
	return json.NewEncoder(os.Stdout).Encode(f)
}

func spent() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func expression(hourly bool) string {
	if hourly {
		return "0 59 * * * *"
	}
	return "* * * * * *"
}

// bare starts a goroutine for each job, each second.
func bare(jobs int, hourly bool, ran func(time.Time)) (func(), error) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for next := time.Now().Truncate(time.Second).Add(time.Second); ctx.Err() == nil; next = next.Add(time.Second) {
			time.Sleep(time.Until(next))
			for range jobs {
				go ran(next)
			}
		}
	}()
	return cancel, nil
}

func ours(jobs int, hourly bool, ran func(time.Time)) (func(), error) {
	e := scheduler.New(scheduler.Options{
		Namespace: "default", Who: "bench",
		Start: func(_ context.Context, f *scheduler.Fire) scheduler.Result { ran(f.Slot); return scheduler.Ran },
	})
	c, err := schedule.ParseCron(expression(hourly))
	if err != nil {
		return nil, err
	}
	all := make([]scheduler.Job, jobs)
	for i := range all {
		all[i] = scheduler.Job{Name: fmt.Sprint("job-", i), Digest: "1", Schedule: schedule.Schedule{Cron: c, Zone: time.UTC}, Spec: schedule.Spec{Zone: "UTC"}, CatchUp: scheduler.DefaultCatchUp}
	}
	ctx, cancel := context.WithCancel(context.Background())
	e.SetJobs(ctx, all, 1)
	ended := make(chan struct{})
	go func() { defer close(ended); e.Run(ctx) }()
	return func() { cancel(); <-ended }, nil
}

func robfig(jobs int, hourly bool, ran func(time.Time)) (func(), error) {
	c := cron.New(cron.WithSeconds(), cron.WithLocation(time.UTC))
	for range jobs {
		if _, err := c.AddFunc(expression(hourly), func() { ran(time.Now()) }); err != nil {
			return nil, err
		}
	}
	c.Start()
	return func() { <-c.Stop().Done() }, nil
}

func gocronV2(jobs int, hourly bool, ran func(time.Time)) (func(), error) {
	s, err := gocron.NewScheduler(gocron.WithLocation(time.UTC))
	if err != nil {
		return nil, err
	}
	for range jobs {
		if _, err := s.NewJob(gocron.CronJob(expression(hourly), true), gocron.NewTask(func() { ran(time.Now()) })); err != nil {
			return nil, err
		}
	}
	s.Start()
	return func() { _ = s.Shutdown() }, nil
}

func goQuartz(jobs int, hourly bool, ran func(time.Time)) (func(), error) {
	s, err := quartz.NewStdScheduler()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.Start(ctx)
	text := "* * * * * ?"
	if hourly {
		text = "0 59 * * * ?"
	}
	for i := range jobs {
		trigger, err := quartz.NewCronTriggerWithLoc(text, time.UTC)
		if err != nil {
			cancel()
			return nil, err
		}
		task := job.NewFunctionJob(func(context.Context) (int, error) { ran(time.Now()); return 0, nil })
		if err := s.ScheduleJob(quartz.NewJobDetail(task, quartz.NewJobKey(fmt.Sprint("job-", i))), trigger); err != nil {
			cancel()
			return nil, err
		}
	}
	return func() { s.Stop(); cancel() }, nil
}
