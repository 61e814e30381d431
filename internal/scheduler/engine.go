package scheduler

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onerun-dev/onerun"
)

// Store is what an engine needs of a store.
type Store interface {
	onerun.Notebook
	Explain(ctx context.Context, c onerun.Claim) (*onerun.Refusal, error)
	Runs(ctx context.Context, q onerun.Query) ([]onerun.Run, error)
	Skips(ctx context.Context, namespace, job, partition string) ([]onerun.Skip, error)
	Detail(ctx context.Context, namespace, runID string) (onerun.Detail, error)
	Resolve(ctx context.Context, r onerun.Resolution) (onerun.Run, error)
	Stop(ctx context.Context, q onerun.StopRequest) error
}

// Result is what became of a start.
type Result int

// The results.
const (
	Ran     Result = iota // and ended well, or was refused as on any day: the ledger knows
	Unknown               // whether the ledger knows of it has to be looked up; if not, it is tried again
	Away                  // its process goes on without this instance, which ends
	Refused               // its process says that it can't be started as it is configured, unless that is the job's own exit code
)

// Clock is the time, for tests.
type Clock interface {
	Now() time.Time
	// After is time.After, and may be early.
	After(d time.Duration) <-chan time.Time
}

type wallClock struct{}

func (wallClock) Now() time.Time                         { return time.Now().Round(0) } // without what stands still in a suspend
func (wallClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Options are what an engine needs beside its jobs.
type Options struct {
	Store     Store // nil: this is the only instance, and it keeps nothing
	Namespace string
	Who       string // this instance, for people: its host and process

	// Start starts a fire and waits for the end of its process. It may be called for many at once.
	Start func(ctx context.Context, f *Fire) Result

	Limit  int            // starts at once; 0: any number
	Groups map[string]int // of one group

	Tell   func(ctx context.Context, a Telling) error // sends an alert to one of its places
	Places func(alert string) ([]string, error)       // those of an alert, by names that say nothing of what is secret; nil: each has one
	Report func(Event)
	Clock  Clock // nil: the machine's
}

// Engine is an instance.
type Engine struct {
	Options
	book book
	self string // of this instance, in memos

	mu      sync.Mutex
	jobs    map[string]*entry
	queue   queue
	gen     int64
	changed chan struct{} // of one: the queue's head is another
	last    time.Time     // the wall clock, as it was looked at last
	limits  limits
	starts  sync.WaitGroup
	lines   map[string][]*turn // starts of a job that wait for each other here; the first of them is under way
	alerts  alertDesk
	settled map[string]int64     // versions of notes in which nothing is asked for; watchAgain's alone
	later   bool                 // a job's retries are not waited for
	again   map[string]time.Time // keys that are being started again, since when they have a place; zero: they wait for one
	left    atomic.Bool          // a slot was taken, and the ledger may not know of it

	answered atomic.Int64 // when the store did last, in nanoseconds since 1970
	newer    atomic.Int64 // when an instance with a newer configuration was last seen alive
}

// entry is a job as the engine has it.
type entry struct {
	job    atomic.Pointer[Job] // a job isn't changed, but replaced
	next   time.Time           // its next slot; zero: none
	fire   *Fire               // of that slot, found while there is time; nil: it has none, or no key
	cursor time.Time           // slots up to it are dealt with
	page   page                // its memo, as this instance saw it last
	known  bool                // page was read
	behind behind              // what could not be taken
	stands atomic.Bool         // a newer configuration has another schedule for it
	old    atomic.Bool         // the configuration has another schedule for it now, or none: no memo is to say what this one's is
	out    atomic.Bool         // it has none: what wasn't started yet isn't any more
	bucket *bucket             // its place in the queue; nil: it isn't there
	place  int
}

// New makes an engine without jobs.
func New(o Options) *Engine {
	if o.Clock == nil {
		o.Clock = wallClock{}
	}
	if o.Report == nil {
		o.Report = func(Event) {}
	}
	e := &Engine{Options: o, book: book{o.Store, o.Namespace}, self: onerun.NewID(), jobs: map[string]*entry{}, changed: make(chan struct{}, 1), lines: map[string][]*turn{}, settled: map[string]int64{}, again: map[string]time.Time{}}
	e.alerts.turns = make(chan struct{}, tellAtOnce)
	e.limits.init(o.Limit, o.Groups)
	e.queue.init()
	e.last = e.Clock.Now()
	e.newer.Store(e.last.UnixNano()) // whoever there is has to be seen first
	return e
}

// look is the most that passes between two looks at the clock.
const look = time.Second

// Run runs the engine until ctx ends, and then waits until what it has taken is started, and handed to
// processes that outlive it, or given up.
func (e *Engine) Run(ctx context.Context) {
	var beside sync.WaitGroup
	if e.Store != nil {
		beside.Go(func() { e.keepAlive(ctx) })
		beside.Go(func() { e.watchAlerts(ctx) })
		beside.Go(func() { e.watchAgain(ctx) })
	}
	for ctx.Err() == nil {
		wait := e.step(ctx)
		select {
		case <-ctx.Done():
		case <-e.changed:
		case <-e.Clock.After(wait):
		}
	}
	beside.Wait()
	e.starts.Wait()
}

// step deals with what is due, and says for how long nothing is.
func (e *Engine) step(ctx context.Context) time.Duration {
	e.mu.Lock()
	now := e.Clock.Now()
	if back := e.last.Sub(now); back > onTime {
		e.Report(Event{Kind: ClockBack, At: now, Detail: back.String()})
		e.rewind(now)
	}
	e.last = now
	for {
		at, ok := e.queue.first()
		if !ok || at.After(now) {
			e.mu.Unlock()
			if !ok {
				return look
			}
			return min(at.Sub(e.Clock.Now()), look) // what was due has taken its time
		}
		b := e.queue.pop()
		e.mu.Unlock()
		e.due(ctx, b, now)
		e.mu.Lock()
	}
}

// due deals with the jobs of a slot: it starts them all, lets them begin, and then looks for their next ones.
func (e *Engine) due(ctx context.Context, b *bucket, now time.Time) {
	late := now.Sub(b.at) > onTime
	var begun sync.WaitGroup // each is under way before anything else is done
	for i, x := range b.jobs {
		switch {
		case x == nil:
		case late: // with all that was missed
			from := b.popped[i].cursor
			e.starts.Go(func() { e.dueLate(ctx, x, from, now) })
		case x.stands.Load():
			e.starts.Go(func() { e.dueLate(ctx, x, b.at.Add(-1), b.at) })
		default:
			e.starts.Add(1)
			begun.Add(1)
			go e.firePrepared(ctx, &begun, x, b.popped[i].job, b.popped[i].fire, b.at)
		}
	}
	begun.Wait()
	after := b.at
	if late {
		after = now
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range b.jobs {
		if x != nil && e.jobs[x.job.Load().Name] == x { // it wasn't taken out meanwhile
			e.advance(x, after)
		}
	}
}

// advance goes on to a job's next slot after a time up to which all is dealt with.
func (e *Engine) advance(x *entry, after time.Time) {
	x.cursor = after
	x.next, x.fire = time.Time{}, nil
	j := x.job.Load()
	if next, ok := j.Schedule.Next(after); ok {
		x.next = next
		if f, err := j.fire(next); err == nil {
			x.fire = f
		}
	}
	e.queue.place(x)
}

// rewind finds every next slot anew, after the clock went back.
func (e *Engine) rewind(now time.Time) {
	for _, x := range e.jobs {
		if x.cursor.After(now) {
			e.advance(x, now)
		}
	}
}

// mine is a job that this instance starts; nil: it hasn't one of that name, or leaves it to others.
func (e *Engine) mine(job string) *entry {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.jobs[job]; x != nil && !x.stands.Load() {
		return x
	}
	return nil
}

// wake lets Run look at the queue again.
func (e *Engine) wake() {
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// SetJobs makes these the engine's jobs, of a generation of the configuration. One that is as it was keeps its state.
func (e *Engine) SetJobs(ctx context.Context, jobs []Job, generation int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Clock.Now()
	e.gen = generation
	left := e.jobs
	e.jobs = make(map[string]*entry, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		x := left[j.Name]
		delete(left, j.Name)
		if x != nil && x.job.Load().Digest == j.Digest {
			j.of = x
			x.job.Store(j)
			x.stands.Store(false)
		} else {
			if x != nil {
				e.queue.remove(x)
				x.old.Store(true)
			}
			x = &entry{}
			j.of = x
			x.job.Store(j)
			e.advance(x, now)
			if e.Store != nil {
				e.starts.Go(func() { e.begin(ctx, x, now) })
			}
		}
		e.jobs[j.Name] = x
	}
	for _, x := range left {
		e.queue.remove(x)
		x.old.Store(true)
		x.out.Store(true)
	}
	e.later = slices.ContainsFunc(jobs, func(j Job) bool { return j.RetryLater })
	e.wake()
}

// SetLimits changes the limits. What runs isn't touched.
func (e *Engine) SetLimits(limit int, groups map[string]int) { e.limits.init(limit, groups) }

// begin reads a job's memo, and deals with what was missed before now.
func (e *Engine) begin(ctx context.Context, x *entry, now time.Time) {
	p, ok := e.know(ctx, x, now)
	if !ok {
		return
	}
	switch {
	case x.job.Load().Schedule.Cron.Reboot():
		e.reboot(ctx, x, now)
	case p.Done.Before(now):
		e.dueJob(ctx, x, p, p.Done, now)
	}
}

// reboot starts an @reboot job: its key is the boot's, so that once is all it runs.
func (e *Engine) reboot(ctx context.Context, x *entry, now time.Time) {
	j := x.job.Load()
	f, err := j.fire(now)
	if err != nil {
		e.report(j, now, BadFire, err)
		return
	}
	runs, err := e.Store.Runs(ctx, onerun.Query{Namespace: e.Namespace, Job: j.Name, Partition: f.Partition, Limit: 1})
	if err == nil && len(runs) > 0 {
		return
	}
	e.start(ctx, f)
}

// know makes sure that a job's memo is there, and of this configuration; false: this instance is
// to leave the job alone, or ends.
func (e *Engine) know(ctx context.Context, x *entry, now time.Time) (page, bool) {
	for try := 0; ; try++ {
		p, ok, err := e.knowOnce(ctx, x, now)
		if err == nil {
			return p, ok
		}
		if !e.rest(ctx, x.job.Load(), now, try, err) {
			return page{}, false
		}
	}
}

// knowOnce is know as long as the store answers.
func (e *Engine) knowOnce(ctx context.Context, x *entry, now time.Time) (page, bool, error) {
	j := x.job.Load() // another one has the same name and digest
	p, err := e.book.read(ctx, j.Name)
	for err == nil && p.Digest != j.Digest {
		if x.old.Load() {
			return p, false, nil
		}
		e.mu.Lock()
		gen := e.gen
		e.mu.Unlock()
		if p.version > 0 && p.Generation > gen && e.outdated() {
			e.standDown(x, p)
			return p, false, nil
		}
		m := memo{Digest: j.Digest, Generation: gen, Since: now, Done: now, Taken: p.Taken}
		if p, err = e.book.write(ctx, j.Name, p.version, m); isState(err) {
			err = nil
		}
	}
	if err != nil {
		return page{}, false, err
	}
	e.mu.Lock()
	x.page, x.known = p, true
	e.mu.Unlock()
	x.stands.Store(false)
	return p, true, nil
}

// outdated reports whether an instance with a newer configuration lives, or has until a moment ago. When none does, as after
// a file was restored, standing down would be for ever.
func (e *Engine) outdated() bool {
	return e.Clock.Now().Sub(time.Unix(0, e.newer.Load())).Abs() < 2*deadAfter
}

// standDown leaves a job to the instances that have a newer configuration.
func (e *Engine) standDown(x *entry, p page) {
	e.mu.Lock()
	x.page, x.known = p, true
	e.mu.Unlock()
	if !x.stands.Swap(true) {
		e.report(x.job.Load(), e.Clock.Now(), StoodDown, nil)
	}
}

// rest waits before something is tried again; false: ctx has ended.
func (e *Engine) rest(ctx context.Context, j *Job, slot time.Time, try int, why error) bool {
	if try == 0 {
		e.report(j, slot, StoreAway, why)
	}
	wait := min(time.Second<<min(try, 6), time.Minute)
	select {
	case <-ctx.Done():
		return false
	case <-e.Clock.After(wait/2 + share(j.Name, wait/2)):
		return true
	}
}

// Alive reports whether the engine looks at the clock as it should.
func (e *Engine) Alive() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.Clock.Now().Sub(e.last).Abs() < aliveWithin
}

// Ready reports whether the store has answered lately.
func (e *Engine) Ready() bool {
	return e.Clock.Now().Sub(time.Unix(0, e.answered.Load())).Abs() < deadAfter
}

// aliveWithin is far more than the time between two looks.
const aliveWithin = 30 * time.Second

// Counts are the starts under way, and those that wait for a limit or for an earlier start of their job.
func (e *Engine) Counts() (running, waiting int) {
	running, waiting = e.limits.count()
	return running, waiting + e.inLine()
}
