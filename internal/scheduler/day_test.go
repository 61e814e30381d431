package scheduler

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/schedule"
)

// TestDay: three instances go through a day with a change of the clock, in spring and in autumn. Instances are
// killed and started again, frozen, and given a newer file one after the other; clocks are stepped; the store is away. In the end
// each slot of each job has run once, or a row tells that it was missed. DAY_SEEDS says how many such days.
func TestDay(t *testing.T) {
	seeds := uint64(2)
	if n, err := strconv.ParseUint(os.Getenv("DAY_SEEDS"), 10, 32); err == nil {
		seeds = n
	}
	for seed := range seeds {
		from := time.Date(2000, 4, 2, 1, 0, 0, 0, time.UTC)
		if seed%2 == 1 {
			from = time.Date(2000, 10, 29, 0, 0, 0, 0, time.UTC)
		}
		t.Run(fmt.Sprintf("%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(from))
				(&harmedDay{bed: newBed(t), r: rand.New(rand.NewPCG(seed, 1))}).run(from, 14*time.Hour)
			})
		})
	}
}

// harmedDay is a day that is hard on three instances.
type harmedDay struct {
	*bed
	r     *rand.Rand
	zone  *time.Location
	files []int64 // generation of each instance's file
	three []*instance
	gates []*gate
}

func (d *harmedDay) jobs() []Job {
	var jobs []Job
	for name, cron := range map[string]string{"early": "30 1 * * *", "late": "30 2 * * *", "half": "*/30 * * * *", "hourly": "5 * * * *", "often": "*/7 * * * *"} {
		j := d.job(name, cron)
		j.Schedule.Zone = d.zone
		j.CatchUp = CatchUp{Policy: CatchUpLatest, Window: 24 * time.Hour}
		if name == "half" {
			j.CatchUp = CatchUp{Policy: CatchUpAll, Window: 24 * time.Hour, Cap: 100}
			j.Overlap.Kind = OverlapQueue
		}
		if name == "often" {
			j.CatchUp.Policy = CatchUpNone
		}
		jobs = append(jobs, j)
	}
	return jobs
}

func (d *harmedDay) run(from time.Time, long time.Duration) {
	var err error
	if d.zone, err = schedule.LoadZone("America/New_York"); err != nil {
		d.t.Fatal(err)
	}
	d.takes = 20 * time.Second
	for range 3 {
		d.three, d.gates, d.files = append(d.three, nil), append(d.gates, nil), append(d.files, 1)
	}
	for n := range d.three {
		d.begin(n)
	}
	pass(time.Minute)
	known, until := from.Add(time.Minute), from.Add(long)
	for time.Now().Before(until) {
		pass(time.Duration(d.r.IntN(40)) * time.Minute)
		d.harm(d.r.IntN(len(d.three)))
	}
	for n := range d.three {
		d.gates[n].open(true)
		d.gates[n].answer(true)
	}
	pass(2 * time.Hour)
	d.account(known, until)
}

func (d *harmedDay) begin(n int) {
	d.gates[n] = newGate(d.mem)
	d.store = d.gates[n]
	d.three[n] = d.starts(fmt.Sprint(n), d.files[n], d.jobs()...)
}

// harm does something to an instance.
func (d *harmedDay) harm(n int) {
	i := d.three[n]
	switch d.r.IntN(7) {
	case 0, 1: // killed: what it has taken may not be started
		i.kill()
		pass(time.Duration(d.r.IntN(10)) * time.Second)
		d.begin(n)
	case 2: // restarted
		i.quits()
		d.begin(n)
	case 3: // frozen
		d.gates[n].open(false)
		pass(time.Duration(d.r.IntN(90)) * time.Minute)
		d.gates[n].open(true)
	case 4: // its clock is stepped, and set right again
		step := time.Duration(d.r.IntN(7200)-3600) * time.Second
		i.clock.step(step)
		pass(time.Duration(d.r.IntN(10)) * time.Minute)
		i.clock.step(-step)
	case 5: // a newer file with the same schedules
		d.files[n]++
		i.SetJobs(d.t.Context(), d.jobs(), d.files[n])
	case 6: // it can't reach the store
		d.gates[n].answer(false)
		pass(time.Duration(d.r.IntN(30)) * time.Minute)
		d.gates[n].answer(true)
	}
}

var missedWords = regexp.MustCompile(`missed: (?:\d+ fires from (\S+) to (\S+?)|the fire of (\S+?))[,;]`)

// account looks for a run, or a row, of each slot.
func (d *harmedDay) account(from, to time.Time) {
	missed := map[string]bool{}
	for _, r := range d.runs(onerun.Skipped) {
		x, err := d.mem.Detail(d.t.Context(), "default", r.RunID)
		if err != nil {
			d.t.Fatal(err)
		}
		for _, ev := range x.Events {
			m := missedWords.FindStringSubmatch(ev.Reason)
			if m == nil {
				d.t.Errorf("what does %q mean?", ev.Reason)
				continue
			}
			first, last := m[1]+m[3], m[2]+m[3]
			missed[r.Job+" "+first+" "+last] = true
		}
	}
	ran := d.keys()
	for _, key := range slices.Sorted(maps.Keys(ran)) {
		if ran[key] != 1 {
			d.t.Errorf("%s ran %d times", key, ran[key])
		}
	}
	slots := 0
	for _, j := range d.jobs() {
		for at, _ := j.Schedule.Next(from); at.Before(to); at, _ = j.Schedule.Next(at) {
			slots++
			text := at.UTC().Format(time.RFC3339)
			told := slices.ContainsFunc(slices.Collect(maps.Keys(missed)), func(m string) bool {
				f := strings.Fields(m)
				return f[0] == j.Name && f[1] <= text && text <= f[2]
			})
			skips, err := d.mem.Skips(d.t.Context(), "default", j.Name, text)
			if err != nil {
				d.t.Fatal(err)
			}
			if ran[j.Name+":"+text] == 0 && !told && len(skips) == 0 {
				d.t.Errorf("%s at %s: neither run nor reason", j.Name, text)
			}
		}
	}
	if slots < 120 || len(ran) < 80 {
		d.t.Errorf("%d slots, %d runs: too little to show anything", slots, len(ran))
	}
}

// gate is an instance's way to the store. While it is shut, as for a process that is frozen, nothing comes back; without an
// answer it is an error.
type gate struct {
	Store
	mu     sync.Mutex
	shut   chan struct{} // closed: it is open
	silent bool
	dead   bool
}

func newGate(s Store) *gate {
	g := &gate{Store: s, shut: make(chan struct{})}
	close(g.shut)
	return g
}

func (g *gate) open(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	is := false
	select {
	case <-g.shut:
		is = true
	default:
	}
	switch {
	case open && !is:
		close(g.shut)
	case !open && is:
		g.shut = make(chan struct{})
	}
}

func (g *gate) answer(yes bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.silent = !yes
}

// die is the end of its instance: nothing gets through any more.
func (g *gate) die() {
	g.mu.Lock()
	g.dead = true
	g.mu.Unlock()
	g.open(true)
}

// pass waits until it is open.
func (g *gate) pass() error {
	for {
		g.mu.Lock()
		shut, dead, silent := g.shut, g.dead, g.silent
		g.mu.Unlock()
		<-shut
		g.mu.Lock()
		still := g.shut == shut
		g.mu.Unlock()
		if !still {
			continue
		}
		if dead || silent {
			return failing()
		}
		return nil
	}
}

func (g *gate) Note(ctx context.Context, ns, name string) (n onerun.Note, err error) {
	if err = g.pass(); err == nil {
		n, err = g.Store.Note(ctx, ns, name)
	}
	return n, err
}

func (g *gate) SetNote(ctx context.Context, ns, name string, version int64, text string) (n onerun.Note, err error) {
	if err = g.pass(); err == nil {
		n, err = g.Store.SetNote(ctx, ns, name, version, text)
	}
	return n, err
}

func (g *gate) Notes(ctx context.Context, ns, prefix string) (all []onerun.Note, err error) {
	if err = g.pass(); err == nil {
		all, err = g.Store.Notes(ctx, ns, prefix)
	}
	return all, err
}

func (g *gate) Runs(ctx context.Context, q onerun.Query) (all []onerun.Run, err error) {
	if err = g.pass(); err == nil {
		all, err = g.Store.Runs(ctx, q)
	}
	return all, err
}

func (g *gate) Skips(ctx context.Context, ns, job, partition string) (all []onerun.Skip, err error) {
	if err = g.pass(); err == nil {
		all, err = g.Store.Skips(ctx, ns, job, partition)
	}
	return all, err
}

func (g *gate) Resolve(ctx context.Context, r onerun.Resolution) (run onerun.Run, err error) {
	if err = g.pass(); err == nil {
		run, err = g.Store.Resolve(ctx, r)
	}
	return run, err
}
