package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/pgbed"
	"github.com/onerun-dev/onerun/internal/scheduler"
	"github.com/onerun-dev/onerun/schedule"
	"github.com/onerun-dev/onerun/store/postgres"
)

// counted counts the statements by which an instance takes slots, or finds them taken.
type counted struct {
	*postgres.Store
	won, lost, others *atomic.Int64
}

// SetNote implements onerun.Notebook.
func (c counted) SetNote(ctx context.Context, ns, name string, version int64, text string) (onerun.Note, error) {
	n, err := c.Store.SetNote(ctx, ns, name, version, text)
	switch {
	case !strings.HasPrefix(name, "schedule/"):
	case err == nil:
		c.won.Add(1)
	default:
		c.lost.Add(1)
	}
	return n, err
}

// Note implements onerun.Notebook.
func (c counted) Note(ctx context.Context, ns, name string) (onerun.Note, error) {
	c.others.Add(1)
	return c.Store.Note(ctx, ns, name)
}

// onSchedulers lets three instances on PostgreSQL fire jobs that do nothing, all in one moment of each minute, and
// counts their starts, and what losing a slot costs.
func onSchedulers(jobs, minutes int) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	bed := pgbed.New("")
	defer bed.Close()
	server, err := bed.Server("-c", "max_connections=200")
	if err != nil {
		return err
	}
	if err := create(ctx, server, "fires"); err != nil {
		return err
	}
	cron, err := schedule.ParseCron("* * * * *")
	if err != nil {
		return err
	}
	all := make([]scheduler.Job, jobs)
	for i := range all {
		all[i] = scheduler.Job{
			Name: fmt.Sprintf("job-%04d", i), Digest: "1", Schedule: schedule.Schedule{Cron: cron, Zone: time.UTC}, Spec: schedule.Spec{Zone: "UTC"}, CatchUp: scheduler.DefaultCatchUp,
		}
	}
	var won, lost, others atomic.Int64
	var mu sync.Mutex
	ran := map[string]int{}
	var instances sync.WaitGroup
	for n := range 3 {
		s, err := postgres.Open(ctx, server.URL("fires", "pool_max_conns", "16"))
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		if _, _, err := s.Migrate(ctx); err != nil {
			return err
		}
		runner := onerun.NewRunner(s)
		e := scheduler.New(scheduler.Options{
			Store: counted{s, &won, &lost, &others}, Namespace: "default", Who: fmt.Sprint("instance ", n), Limit: 100,
			Start: func(_ context.Context, f *scheduler.Fire) scheduler.Result {
				job := onerun.Job{Namespace: "default", Name: f.Job.Name, Partition: f.Partition, ScheduledAt: f.Slot, Policy: onerun.Policy{TTL: time.Minute}}
				err := runner.Do(context.WithoutCancel(ctx), job, func(context.Context, *onerun.Owner) error {
					mu.Lock()
					defer mu.Unlock()
					ran[f.Key()]++
					return nil
				})
				if errors.Is(err, onerun.ErrUnavailable) {
					return scheduler.Unknown
				}
				return scheduler.Ran
			},
		})
		e.SetJobs(ctx, all, 1)
		instances.Go(func() { e.Run(ctx) })
	}
	// From a minute that all of them know of, and up to half a minute after the last.
	first := time.Now().Truncate(time.Minute).Add(time.Minute)
	if time.Until(first) < 15*time.Second {
		first = first.Add(time.Minute)
	}
	time.Sleep(time.Until(first.Add(-5 * time.Second)))
	won.Store(0)
	lost.Store(0)
	others.Store(0)
	time.Sleep(time.Until(first.Add(time.Duration(minutes-1)*time.Minute + 30*time.Second)))
	cancel()
	instances.Wait()
	twice, dropped := 0, 0
	for m := range minutes {
		for _, j := range all {
			switch n := ran[j.Name+":"+first.Add(time.Duration(m)*time.Minute).UTC().Format(time.RFC3339)]; {
			case n == 0:
				dropped++
			case n > 1:
				twice++
			}
		}
	}
	slots := float64(jobs * minutes)
	fmt.Printf("# Three instances on PostgreSQL, %d jobs that are due in one moment, %d times\n\n", jobs, minutes)
	fmt.Printf("slots %d, run twice %d, not run %d   goal 0, 0\n", jobs*minutes, twice, dropped)
	fmt.Printf("statements for each slot: to take it %.3f; of both losers together %.3f   goal 1 of each of them at most\n", float64(won.Load())/slots, float64(lost.Load()+others.Load())/slots)
	return nil
}
