package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/schedule"
)

// TestThreeInstances: each slot runs once, whoever starts it, and the others ask once.
func TestThreeInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		counted := &countingStore{Store: b.store}
		b.store = counted
		for n := range 3 {
			b.starts(fmt.Sprint(n), 1, b.job("minutely", "* * * * *"))
		}
		pass(30 * time.Second)
		counted.reset()
		pass(6 * time.Hour)
		keys := b.keys()
		for m := 1; m <= 360; m++ {
			key := "minutely:" + midnight().Add(time.Duration(m)*time.Minute).Format(time.RFC3339)
			if keys[key] != 1 {
				t.Errorf("%s ran %d times", key, keys[key])
			}
		}
		if n := b.count(Elsewhere); n != 2*360 || len(keys) != 360 {
			t.Errorf("%d keys; the others heard of %d slots", len(keys), n)
		}
		if n := counted.read("SetNote " + memoPrefix); n > 3*360+10 {
			t.Errorf("%d statements for 360 slots of three instances", n)
		}
		if n := counted.read("Note " + memoPrefix); n > 0 {
			t.Errorf("memos were read %d times", n)
		}
		if skips := b.skips("minutely"); skips > 0 {
			t.Errorf("%d starts were refused", skips)
		}
	})
}

// TestCatchUp: what was missed while all was down runs by its policy, and one row tells of the rest (B12).
func TestCatchUp(t *testing.T) {
	for _, c := range []struct {
		name   string
		catch  CatchUp
		down   time.Duration
		cron   string
		runs   int // late ones
		missed string
	}{
		{"none", CatchUp{Policy: CatchUpNone, Window: 24 * time.Hour}, 72 * time.Hour, "30 * * * *", 0, "72 fires from 2000-01-01T01:30:00Z to 2000-01-04T00:30:00Z"},
		{"latest", CatchUp{Policy: CatchUpLatest, Window: 24 * time.Hour}, 72 * time.Hour, "30 * * * *", 1, "71 fires from 2000-01-01T01:30:00Z to 2000-01-03T23:30:00Z"},
		{"all", CatchUp{Policy: CatchUpAll, Window: 24 * time.Hour, Cap: 100}, 72 * time.Hour, "30 * * * *", 24, "48 fires from 2000-01-01T01:30:00Z to 2000-01-03T00:30:00Z"},
		{"all, some", CatchUp{Policy: CatchUpAll, Window: 24 * time.Hour, Cap: 3}, 72 * time.Hour, "30 * * * *", 3, "69 fires from 2000-01-01T01:30:00Z to 2000-01-03T21:30:00Z"},
		{"too old", CatchUp{Policy: CatchUpLatest, Window: 10 * time.Minute}, 72 * time.Hour, "30 0 * * *", 0, "3 fires from 2000-01-02T00:30:00Z to 2000-01-04T00:30:00Z"},
		{"each minute for three days", CatchUp{Policy: CatchUpLatest, Window: 24 * time.Hour}, 72 * time.Hour, "* * * * *", 1, "4319 fires from"},
		{"nothing", CatchUp{Policy: CatchUpLatest, Window: 24 * time.Hour}, 10 * time.Minute, "30 * * * *", 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				j := b.job("night", c.cron)
				j.CatchUp = c.catch
				first := b.starts("a", 1, j)
				pass(time.Hour + 10*time.Second)
				first.quits()
				before := len(b.all())
				pass(c.down)
				b.starts("b", 1, j)
				pass(45 * time.Second) // less than until the next fire, more than the spread
				if n := len(b.all()) - before; n != c.runs {
					t.Errorf("%d runs are caught up with, want %d: %v", n, c.runs, b.all())
				}
				if told := b.missed(); c.missed == "" && len(told) > 0 || c.missed != "" && (len(told) != 1 || !strings.Contains(told[0], c.missed)) {
					t.Errorf("missed: %q, want %q", told, c.missed)
				}
			})
		})
	}
}

// TestSpread: many jobs that were missed don't start in one moment (B13).
func TestSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		var jobs []Job
		for n := range 200 {
			j := b.job(fmt.Sprintf("job-%d", n), "0 1 * * *")
			j.CatchUp.Spread = 10 * time.Minute
			jobs = append(jobs, j)
		}
		first := b.starts("a", 1, jobs...)
		pass(time.Minute)
		first.quits()
		pass(26 * time.Hour)
		b.starts("b", 1, jobs...)
		pass(11 * time.Minute)
		minutes := map[time.Time]int{}
		for _, r := range b.all() {
			minutes[r.at.Truncate(time.Minute)]++
		}
		if len(b.all()) != 200 || len(minutes) < 9 {
			t.Errorf("%d runs in %d minutes", len(b.all()), len(minutes))
		}
	})
}

// TestInstanceDies: what an instance took and never started another one starts, once.
func TestInstanceDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("hourly", "0 * * * *")
		dying := b.starts("a", 1, j)
		dying.dies.Store(true)
		pass(time.Hour - 10*time.Second)
		other := b.starts("b", 1, j)
		other.clock.step(-5 * time.Second) // it comes second
		pass(20 * time.Second)
		if len(b.all()) != 0 {
			t.Fatalf("ran: %v", b.all())
		}
		dying.quits()
		pass(deadAfter + 3*aliveEvery + DefaultCatchUp.Spread)
		if len(b.all()) != 1 || b.all()[0].by != "b" || b.all()[0].key != "hourly:2000-01-01T01:00:00Z" {
			t.Errorf("ran: %v", b.all())
		}
		pass(3 * time.Hour)
		if n := b.count(Rescued); n != 1 || len(b.all()) != 4 {
			t.Errorf("%d rescues, %d runs: %v", n, len(b.all()), b.all())
		}
	})
}

// TestClockSteps: a step forward makes one start and one row; a step back freezes nothing, and repeats nothing (B10, B11).
func TestClockSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("minutely", "* * * * *")
		j.CatchUp.Spread = 0
		i := b.starts("a", 1, j)
		pass(5*time.Minute + 10*time.Second)
		i.clock.step(2 * time.Hour)
		pass(5 * time.Second)
		if len(b.all()) != 6 {
			t.Errorf("after the step forward: %d runs, want 5 and one: %v", len(b.all()), b.all())
		}
		if told := b.missed(); len(told) != 1 || !strings.Contains(told[0], "119 fires") {
			t.Errorf("missed: %q", told)
		}
		i.clock.step(-2 * time.Hour)
		pass(10 * time.Minute)
		keys := b.keys()
		for m := 6; m <= 15; m++ {
			key := "minutely:" + midnight().Add(time.Duration(m)*time.Minute).Format(time.RFC3339)
			if keys[key] != 1 {
				t.Errorf("%s ran %d times", key, keys[key])
			}
		}
		pass(3 * time.Hour)
		for key, n := range b.keys() {
			if n != 1 {
				t.Errorf("%s ran %d times", key, n)
			}
		}
	})
}

// TestEdit: a changed schedule counts from the edit, an unchanged job keeps its state, and who has an older file
// stands down until it has the newer one.
func TestEdit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		ctx := t.Context()
		a, old := b.starts("a", 1, b.job("j", "10 * * * *"), b.job("same", "10 * * * *")), b.starts("old", 1, b.job("j", "10 * * * *"))
		pass(30 * time.Minute)
		a.SetJobs(ctx, []Job{b.job("j", "20 * * * *"), b.job("same", "10 * * * *")}, 2)
		pass(25 * time.Minute) // 00:55: 00:20 was before the edit
		if n := b.keys()["j:2000-01-01T00:20:00Z"]; n != 0 {
			t.Error("a fire from before the edit ran")
		}
		pass(time.Hour) // 01:55
		keys := b.keys()
		if keys["j:2000-01-01T01:20:00Z"] != 1 || keys["j:2000-01-01T01:10:00Z"] != 0 || keys["same:2000-01-01T01:10:00Z"] != 1 || len(b.runs(onerun.Skipped)) != 0 {
			t.Errorf("ran: %v; missed: %v", keys, b.runs(onerun.Skipped))
		}
		if b.count(StoodDown) != 1 {
			t.Errorf("stood down: %d", b.count(StoodDown))
		}
		a.quits()
		old.SetJobs(ctx, []Job{b.job("j", "20 * * * *")}, 2)
		pass(time.Hour)
		if b.keys()["j:2000-01-01T02:20:00Z"] != 1 {
			t.Errorf("it stands down for ever: %v", b.keys())
		}
	})
}

// TestReboot: @reboot runs once per boot, whatever becomes of the daemon (B09), and whatever period other jobs have.
func TestReboot(t *testing.T) {
	for _, spec := range []schedule.Spec{{}, {Period: "1m"}, {Period: "day", Zone: "UTC"}, {Date: "yesterday", Zone: "UTC"}} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t)
			j := b.job("boot", "@reboot")
			j.Spec = spec
			for range 3 {
				i := b.starts("a", 1, j)
				pass(24 * time.Hour)
				i.quits()
			}
			j.Boot = "b2"
			b.starts("a", 1, j)
			pass(time.Minute)
			if keys := b.keys(); len(b.all()) != 2 || keys["boot:boot-b1"] != 1 || keys["boot:boot-b2"] != 1 {
				t.Errorf("%+v ran: %v", spec, b.all())
			}
		})
	}
}

// TestStoreAway: a fire that the store could not be asked about starts when it answers again.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		away := &countingStore{Store: b.store}
		b.store = away
		j := b.job("hourly", "0 * * * *")
		b.starts("a", 1, j)
		pass(59 * time.Minute)
		away.fail(true)
		pass(20 * time.Minute)
		if len(b.all()) > 0 {
			t.Fatalf("ran: %v", b.all())
		}
		away.fail(false)
		pass(2 * time.Minute)
		if len(b.all()) != 1 || b.all()[0].key != "hourly:2000-01-01T01:00:00Z" || b.count(StoreAway) == 0 {
			t.Errorf("ran: %v", b.all())
		}
	})
}

// TestOverlap: what becomes of a fire while the job runs.
func TestOverlap(t *testing.T) {
	for _, c := range []struct {
		overlap Overlap
		ran     int
		skips   int64
		stopped int
	}{
		{Overlap{Kind: OverlapSkip}, 2, 2, 0},            // at :01 until :03:30, :04 until …
		{Overlap{Kind: OverlapQueue}, 2, 0, 0},           // and two wait
		{Overlap{Kind: OverlapQueue, Queue: 1}, 2, 1, 0}, // and one waits
		{Overlap{Kind: OverlapReplace}, 2, 0, 3},         // each asks what runs to stop; the jobs of this test do not hear it
	} {
		t.Run(fmt.Sprintf("%s %d", c.overlap.Kind, c.overlap.Queue), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				b.takes = 150 * time.Second
				j := b.job("slow", "* * * * *")
				j.Overlap = c.overlap
				asked := &countingStore{Store: b.store}
				b.store = asked
				b.starts("a", 1, j)
				pass(4*time.Minute + 20*time.Second)
				if len(b.all()) != c.ran || b.skips("slow") != c.skips {
					t.Errorf("%d runs, %d skips, want %d, %d: %v", len(b.all()), b.skips("slow"), c.ran, c.skips, b.all())
				}
				if n := asked.read("Stop"); n != c.stopped {
					t.Errorf("%d were asked to stop, want %d", n, c.stopped)
				}
			})
		})
	}
}

// TestLimits: no more than so many run at once, in all and of a group, and none is forgotten.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.takes = 10 * time.Second
		var jobs []Job
		for n := range 12 {
			j := b.job(fmt.Sprintf("job-%02d", n), "0 * * * *")
			if n%2 == 0 {
				j.Group = "db"
			}
			jobs = append(jobs, j)
		}
		i := b.starts("a", 1, jobs...)
		i.SetLimits(3, map[string]int{"db": 1})
		pass(time.Hour + 3*time.Minute)
		if len(b.all()) != 12 {
			t.Fatalf("ran: %v", b.all())
		}
		for _, r := range b.all() {
			all, db := 0, 0
			for _, o := range b.all() {
				if d := o.at.Sub(r.at); d <= 0 && d > -b.takes {
					all++
					if n := o.job[len(o.job)-1]; n%2 == 0 {
						db++
					}
				}
			}
			if all > 3 || db > 1 {
				t.Errorf("at %s %d run, %d of the group", r.at, all, db)
			}
		}
	})
}

// TestJitter: a start is late by the same time on every instance, and within its bound.
func TestJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("j", "0 * * * *")
		j.Jitter = 10 * time.Minute
		b.starts("a", 1, j)
		b.starts("b", 1, j)
		pass(10*time.Hour + 30*time.Minute)
		lates := map[time.Duration]bool{}
		for _, r := range b.all() {
			late := r.at.Sub(r.at.Truncate(time.Hour))
			lates[late] = true
			if late >= j.Jitter {
				t.Errorf("%s started at %s", r.key, r.at)
			}
		}
		if len(b.all()) != 10 || len(lates) < 5 || b.skips("j") > 0 {
			t.Errorf("%d runs at %d times, %d skips", len(b.all()), len(lates), b.skips("j"))
		}
	})
}

// TestBadJob: a job whose key can't be found keeps no other from running.
func TestBadJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		bad := b.job("bad", "* * * * *")
		bad.Spec.Date = "business-day" // without a calendar
		never := b.job("never", "0 0 30 2 1")
		b.starts("a", 1, bad, never, b.job("good", "* * * * *"))
		pass(3*time.Minute + time.Second)
		if len(b.all()) != 3 || b.count(BadFire) != 3 {
			t.Errorf("ran: %v; bad fires: %d", b.all(), b.count(BadFire))
		}
	})
}

// missed are the words of what tells of fires that were missed.
func (b *bed) missed() (all []string) {
	b.t.Helper()
	for _, r := range b.runs(onerun.Skipped) {
		d, err := b.mem.Detail(b.t.Context(), "default", r.RunID)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, ev := range d.Events {
			all = append(all, ev.Reason)
		}
	}
	return all
}

func (b *bed) skips(job string) (n int64) {
	b.t.Helper()
	for _, r := range b.runs() {
		if r.Job == job {
			n += r.Skips
		}
	}
	// Of keys that never ran.
	for m := range 60 {
		skips, err := b.mem.Skips(b.t.Context(), "default", job, midnight().Add(time.Duration(m)*time.Minute).Format(time.RFC3339))
		if err != nil {
			b.t.Fatal(err)
		}
		for _, s := range skips {
			n += s.Count
		}
	}
	return n
}

var errAway = errors.New("away")

// failing is what a store that is away says.
func failing() error {
	return &onerun.StoreError{Kind: onerun.ErrUnavailable, What: "ask", Err: errAway}
}

// countingStore counts what is asked, and can be away.
type countingStore struct {
	Store
	counts counts
}

func (s *countingStore) fail(away bool)         { s.counts.set(away) }
func (s *countingStore) reset()                 { s.counts.reset() }
func (s *countingStore) read(prefix string) int { return s.counts.read(prefix) }

func (s *countingStore) Note(ctx context.Context, ns, name string) (onerun.Note, error) {
	if s.counts.add("Note " + name) {
		return onerun.Note{}, failing()
	}
	return s.Store.Note(ctx, ns, name)
}

func (s *countingStore) SetNote(ctx context.Context, ns, name string, version int64, text string) (onerun.Note, error) {
	if s.counts.add("SetNote " + name) {
		return onerun.Note{}, failing()
	}
	return s.Store.SetNote(ctx, ns, name, version, text)
}

func (s *countingStore) Notes(ctx context.Context, ns, prefix string) ([]onerun.Note, error) {
	if s.counts.add("Notes " + prefix) {
		return nil, failing()
	}
	return s.Store.Notes(ctx, ns, prefix)
}

func (s *countingStore) Stop(ctx context.Context, q onerun.StopRequest) error {
	s.counts.add("Stop")
	return s.Store.Stop(ctx, q)
}

func (s *countingStore) Runs(ctx context.Context, q onerun.Query) ([]onerun.Run, error) {
	if s.counts.add("Runs " + q.Job) {
		return nil, failing()
	}
	return s.Store.Runs(ctx, q)
}
