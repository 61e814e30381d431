package scheduler

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/schedule"
	"github.com/onerun-dev/onerun/store/memory"
)

// The tests of this package run engines on the store in memory, with a runner that really claims, in a bubble
// whose time passes when everybody waits (testing/synctest). It begins at midnight UTC, 2000-01-01.

// bed is a store, and the instances on it.
type bed struct {
	t       *testing.T
	store   Store
	mem     *memory.Store
	mu      sync.Mutex
	ran     []ran
	fails   map[string]error // jobs that fail, and why
	takes   time.Duration    // how long a job runs
	takesOf map[string]time.Duration
	retries int
	told    []Telling
	tries   int // to tell
	unsent  int // of them, the first ones
	deaf    string
	places  map[string][]string // of alerts; without any: each has one
	tried   []Telling
	meddles func() // while something is told
	evs     []Event
}

// ran is an execution.
type ran struct {
	job, key, by string
	at           time.Time
}

func newBed(t *testing.T) *bed {
	t.Helper()
	mem := memory.New()
	return &bed{t: t, store: mem, mem: mem, fails: map[string]error{}, takesOf: map[string]time.Duration{}}
}

// instance is an engine under way.
type instance struct {
	*Engine
	bed   *bed
	name  string
	stop  context.CancelFunc
	ended chan struct{}
	clock *stepClock
	dies  atomic.Bool // before it starts what it has taken
	away  atomic.Bool // it ends while a fire's process goes on, which never claims
	fails atomic.Bool // what it starts ends before its claim
	wrong atomic.Bool // what it starts is refused by its own configuration
	tried atomic.Int32
	gate  *gate
}

// stepClock is the bubble's clock, and can be set.
type stepClock struct {
	mu  sync.Mutex
	off time.Duration
}

func (c *stepClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.off).Round(0)
}

func (c *stepClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

func (c *stepClock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}

// tell is what tells; unsent is how often it can't.
func (b *bed) tell(ctx context.Context, a Telling) error {
	if a.Alert.Name == "hangs" {
		<-ctx.Done()
		return ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.meddles != nil {
		b.meddles()
	}
	b.tried = append(b.tried, a)
	if b.tries++; b.tries <= b.unsent || b.deaf != "" && (a.Alert.Name == b.deaf || a.Place == b.deaf) {
		return errors.New("no network")
	}
	b.told = append(b.told, a)
	return nil
}

// starts starts an instance with jobs.
func (b *bed) starts(name string, generation int64, jobs ...Job) *instance {
	b.t.Helper()
	i := &instance{bed: b, name: name, ended: make(chan struct{}), clock: &stepClock{}}
	ctx, cancel := context.WithCancel(b.t.Context())
	i.stop = cancel
	i.gate, _ = b.store.(*gate)
	i.Engine = New(Options{
		Store: b.store, Namespace: "default", Who: name, Clock: i.clock, Start: i.start,
		Tell:   b.tell,
		Report: func(ev Event) { b.mu.Lock(); defer b.mu.Unlock(); b.evs = append(b.evs, ev) },
	})
	if b.places != nil {
		i.Places = func(alert string) ([]string, error) { return b.places[alert], nil }
	}
	i.SetJobs(ctx, jobs, generation)
	go func() { defer close(i.ended); i.Run(ctx) }()
	b.t.Cleanup(i.quits)
	return i
}

// quits ends an instance as SIGTERM does.
func (i *instance) quits() {
	i.stop()
	<-i.ended
}

// kill ends an instance as SIGKILL does: nothing of it reaches the store any more.
func (i *instance) kill() {
	i.gate.die()
	i.quits()
}

// start claims and executes, as `onerun run` does.
func (i *instance) start(ctx context.Context, f *Fire) Result {
	i.tried.Add(1)
	if i.fails.Load() {
		return Unknown
	}
	if i.wrong.Load() {
		return Refused
	}
	if i.dies.Load() || i.away.Load() {
		<-ctx.Done()
		if i.away.Load() {
			return Away
		}
		return Unknown
	}
	b := i.bed
	if i.gate != nil && i.gate.pass() != nil {
		return Unknown
	}
	b.mu.Lock()
	retries := b.retries
	b.mu.Unlock()
	job := onerun.Job{Namespace: "default", Name: f.Job.Name, Partition: f.Partition, BusinessDate: f.BusinessDate, ScheduledAt: f.Slot, RetryLater: true, Policy: onerun.Policy{TTL: onerun.MaxTTL, Retries: retries, BackoffMin: time.Minute, BackoffMax: time.Minute}}
	if f.Wait {
		job.Wait = onerun.Forever
	}
	wants, cancel := context.WithCancel(b.t.Context())
	if f.Drop != nil {
		go func() {
			select {
			case <-f.Drop:
				cancel()
			case <-wants.Done():
			}
		}()
	}
	result := make(chan Result, 1)
	go func() { // its process goes on when the instance ends
		defer cancel()
		result <- i.execute(wants, f, job)
	}()
	select {
	case r := <-result:
		return r
	case <-ctx.Done():
	}
	return Away
}

func (i *instance) execute(wants context.Context, f *Fire, job onerun.Job) Result {
	b := i.bed
	err := onerun.NewRunner(b.mem).Do(wants, job, func(ctx context.Context, _ *onerun.Owner) error {
		b.mu.Lock()
		b.ran = append(b.ran, ran{f.Job.Name, f.Key(), i.name, time.Now()})
		err, takes := b.fails[f.Job.Name], b.takes
		if d, ok := b.takesOf[f.Job.Name]; ok {
			takes = d
		}
		b.mu.Unlock()
		select {
		case <-time.After(takes):
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err != nil && (errors.Is(err, onerun.ErrUnavailable) || wants.Err() != nil) {
		return Unknown
	}
	return Ran
}

// all are the executions so far.
func (b *bed) all() []ran {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.ran)
}

// keys are how often each key was executed.
func (b *bed) keys() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := map[string]int{}
	for _, r := range b.ran {
		n[r.key]++
	}
	return n
}

func (b *bed) count(kind EventKind) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ev := range b.evs {
		if ev.Kind == kind {
			n++
		}
	}
	return n
}

// runs are the ledger's.
func (b *bed) runs(statuses ...onerun.Status) []onerun.Run {
	b.t.Helper()
	runs, err := b.mem.Runs(b.t.Context(), onerun.Query{Namespace: "default", Statuses: statuses})
	if err != nil {
		b.t.Fatal(err)
	}
	return runs
}

func (b *bed) job(name, cron string) Job {
	b.t.Helper()
	c, err := schedule.ParseCron(cron)
	if err != nil {
		b.t.Fatal(err)
	}
	return Job{Name: name, Schedule: schedule.Schedule{Cron: c, Zone: time.UTC}, Spec: schedule.Spec{Zone: "UTC"}, Digest: cron, CatchUp: DefaultCatchUp, Boot: "b1"}
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// midnight is when a bubble begins.
func midnight() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }
