package schedday_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/scheduler"
	"github.com/onerun-dev/onerun/schedule"
	"github.com/onerun-dev/onerun/store/postgres"
)

// plan is what an instance is told, in its environment.
type plan struct {
	Name    string
	URL     string
	Dir     string // for what all of them write
	Begin   time.Time
	Day     time.Time // what the compressed clock shows at Begin
	Factor  float64
	Broken  [2]time.Time // slots in between fail
	Working time.Duration
}

// file is what an instance reads anew at SIGHUP: the generation of the configuration, and by how much its clock is wrong.
type file struct {
	Generation int64
	Wrong      time.Duration
}

func (p plan) path(name string) string { return p.Dir + "/" + name }

func (p plan) read() (f file, err error) {
	text, err := os.ReadFile(p.path(p.Name))
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	return f, err
}

// dayClock runs Factor times as fast as the machine's.
type dayClock struct {
	plan
	wrong atomic.Int64
}

func (c *dayClock) at(t time.Time) time.Time {
	return c.Day.Add(time.Duration(float64(t.Round(0).Sub(c.Begin)) * c.Factor))
}

func (c *dayClock) real(d time.Duration) time.Duration {
	return time.Duration(float64(d) / c.Factor)
}

// Now implements scheduler.Clock.
func (c *dayClock) Now() time.Time { return c.at(time.Now()).Add(time.Duration(c.wrong.Load())) }

// After implements scheduler.Clock.
func (c *dayClock) After(d time.Duration) <-chan time.Time { return time.After(c.real(d)) }

// dayStore shows the server's time of notes by the compressed clock.
type dayStore struct {
	*postgres.Store
	clock *dayClock
}

func (s dayStore) Note(ctx context.Context, ns, name string) (onerun.Note, error) {
	n, err := s.Store.Note(ctx, ns, name)
	n.At = s.clock.at(n.At)
	return n, err
}

func (s dayStore) SetNote(ctx context.Context, ns, name string, version int64, text string) (onerun.Note, error) {
	n, err := s.Store.SetNote(ctx, ns, name, version, text)
	n.At = s.clock.at(n.At)
	return n, err
}

func (s dayStore) Notes(ctx context.Context, ns, prefix string) ([]onerun.Note, error) {
	all, err := s.Store.Notes(ctx, ns, prefix)
	for i := range all {
		all[i].At = s.clock.at(all[i].At)
	}
	return all, err
}

// crons are the jobs, by their names, of a generation: the second has another schedule for one of them.
func crons(generation int64) map[string]string {
	all := map[string]string{
		"early": "30 1 * * *", "late": "30 2 * * *", "half": "*/30 * * * *", "hourly": "5 * * * *", "minutely": "* * * * *", "often": "*/7 * * * *", "broken": "*/15 * * * *",
	}
	if generation > 1 {
		all["often"] = "*/10 * * * *"
	}
	return all
}

func zone() *time.Location {
	zone, err := schedule.LoadZone("America/New_York")
	if err != nil {
		panic(err)
	}
	return zone
}

func scheduleOf(cron string) schedule.Schedule {
	c, err := schedule.ParseCron(cron)
	if err != nil {
		panic(err)
	}
	return schedule.Schedule{Cron: c, Zone: zone()}
}

func jobs(generation int64) (all []scheduler.Job) {
	for name, cron := range crons(generation) {
		j := scheduler.Job{
			Name: name, Schedule: scheduleOf(cron), Spec: schedule.Spec{Zone: "America/New_York"}, Digest: cron, CatchUp: scheduler.DefaultCatchUp,
			Alerts: []scheduler.Alert{{Name: "ops", On: []scheduler.AlertKind{scheduler.AlertFailure, scheduler.AlertRecovery}}},
		}
		switch name {
		case "half":
			j.CatchUp.Policy, j.Overlap.Kind = scheduler.CatchUpAll, scheduler.OverlapQueue
		case "minutely":
			j.CatchUp.Policy = scheduler.CatchUpNone
		}
		all = append(all, j)
	}
	return all
}

// instance is the program of one: SIGHUP lets it read its file again, SIGTERM ends it.
func instance(text string) int {
	var p plan
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		err = p.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (p plan) run() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	hear := make(chan os.Signal, 4)
	signal.Notify(hear, syscall.SIGHUP, syscall.SIGTERM)
	s, err := p.store(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	clock := &dayClock{plan: p}
	runner := onerun.NewRunner(s)
	e := scheduler.New(scheduler.Options{
		Store: dayStore{s, clock}, Namespace: "default", Who: p.Name, Clock: clock,
		Start: func(_ context.Context, f *scheduler.Fire) scheduler.Result { return p.start(runner, clock, f) },
		Tell: func(_ context.Context, a scheduler.Telling) error {
			return p.line("told", a.Job, string(a.Kind), p.Name, time.Now().Format(time.RFC3339Nano))
		},
		Report: func(ev scheduler.Event) { _ = p.line("events", string(ev.Kind), ev.Job, p.Name) },
	})
	use := func() error {
		f, err := p.read()
		if err == nil {
			clock.wrong.Store(int64(f.Wrong))
			e.SetJobs(ctx, jobs(f.Generation), f.Generation)
		}
		return err
	}
	if err := use(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { defer close(ended); e.Run(ctx) }()
	fmt.Println("up")
	for sig := range hear {
		if sig == syscall.SIGTERM {
			break
		}
		if err := use(); err != nil {
			return err
		}
	}
	cancel()
	<-ended
	return nil
}

// store opens the store, whose server may just be away.
func (p plan) store(ctx context.Context) (*postgres.Store, error) {
	var err error
	for range 600 {
		var s *postgres.Store
		if s, err = postgres.Open(ctx, p.URL); err == nil {
			return s, nil
		}
		time.Sleep(50 * time.Millisecond) // it sends nobody a signal
	}
	return nil, err
}

// start claims and executes in this process, so that what is killed with it is the job, too.
func (p plan) start(r *onerun.Runner, clock *dayClock, f *scheduler.Fire) scheduler.Result {
	job := onerun.Job{
		Namespace: "default", Name: f.Job.Name, Partition: f.Partition, BusinessDate: f.BusinessDate, ScheduledAt: f.Slot, RetryLater: true,
		Policy: onerun.Policy{TTL: 2 * time.Second},
	}
	if f.Wait {
		job.Wait = onerun.Forever
	}
	err := r.Do(context.Background(), job, func(ctx context.Context, _ *onerun.Owner) error {
		if err := p.line("ran", f.Key(), p.Name); err != nil {
			return err
		}
		select {
		case <-clock.After(p.Working):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if f.Job.Name == "broken" && !f.Slot.Before(p.Broken[0]) && f.Slot.Before(p.Broken[1]) {
			return errors.New("no money")
		}
		return nil
	})
	if err != nil && errors.Is(err, onerun.ErrUnavailable) {
		return scheduler.Unknown
	}
	return scheduler.Ran
}

// line adds a line to a file that all instances write.
func (p plan) line(name string, words ...string) error {
	f, err := os.OpenFile(p.path(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(words, "\t") + "\n")
	return errors.Join(err, f.Close())
}
