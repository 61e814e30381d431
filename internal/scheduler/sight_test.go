package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/schedule"
)

// byHand executes keys of a job beside its schedule, each under a lock of its own.
func (b *bed) byHand(job string, do func() error, partitions ...string) {
	b.t.Helper()
	for _, p := range partitions {
		j := onerun.Job{Namespace: "default", Name: job, Partition: p, Lock: onerun.KeyLock(onerun.MakeKey(job, p)), Policy: onerun.Policy{TTL: onerun.MaxTTL}}
		_ = onerun.NewRunner(b.mem).Do(b.t.Context(), j, func(context.Context, *onerun.Owner) error { return do() })
	}
}

// dates are so many, none of them of this century.
func dates(n int) (all []string) {
	for i := range n {
		all = append(all, time.Date(1980, 1, 1+i, 0, 0, 0, 0, time.UTC).Format(time.DateOnly))
	}
	return all
}

func well() error { return nil }

// dated makes a job's key yesterday's date.
func dated(j Job) Job {
	j.Spec = schedule.Spec{Zone: "UTC", Period: "day", Date: "yesterday"}
	return j
}

// seen are the troubles that an engine on the bed's store sees, which has never looked before.
func (b *bed) seen(j Job) (all []string) {
	b.t.Helper()
	e := New(Options{Store: b.mem, Namespace: "default"})
	s, err := e.see(b.t.Context(), &j, midnight(), time.Now())
	if err != nil {
		b.t.Fatal(err)
	}
	troubles, err := s.troubles(b.t.Context(), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, t := range troubles {
		all = append(all, string(t.kind)+": "+t.title)
	}
	return all
}

// TestAlertsBeyondTheNewest: what a date is, and that it ran, doesn't depend on how many runs there were since.
func TestAlertsBeyondTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		var jobs []Job
		for _, name := range []string{"settle", "sums"} {
			j := dated(b.job(name, "20 * * * * *"))
			j.StartBy, j.FinishBy = 5*time.Second, 5*time.Second
			j.Alerts = []Alert{{Name: "ops", On: []AlertKind{AlertFailure, AlertLate, AlertSkip, AlertRecovery}, Skips: 3}}
			jobs = append(jobs, j)
		}
		jobs[0].FinishBy = 0 // it doesn't finish at all
		b.failing("settle", errors.New("no money"))
		b.starts("a", 1, jobs...)
		pass(3 * time.Minute)
		if said := strings.Join(b.said(), ", "); said != "failure" {
			t.Fatalf("of a failure: %q", said)
		}
		b.byHand("settle", well, dates(recentRuns+5)...)
		b.byHand("sums", well, dates(recentRuns+5)...)
		pass(10 * time.Minute)
		if said := b.said(); said != nil {
			t.Errorf("after a backfill: %q", said)
		}
		run := b.runs(onerun.Failed)[0]
		if _, err := b.mem.Resolve(t.Context(), onerun.Resolution{Namespace: "default", RunID: run.RunID, Expect: onerun.Expected(run), As: onerun.Succeeded, Who: onerun.Who{By: "kim", Reason: "paid"}}); err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Minute)
		if said := strings.Join(b.said(), ", "); said != "recovery of failure" {
			t.Errorf("when somebody dealt with it: %q", said)
		}
	})
}

// TestAlertsOfEachSecond: a job with more fires than are looked at has run, as long as it does.
func TestAlertsOfEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("sec", "* * * * * *")
		j.StartBy = 65 * time.Second
		j.Alerts = []Alert{{Name: "ops", On: []AlertKind{AlertLate, AlertSkip}, Skips: 10}}
		b.starts("a", 1, j)
		pass(5 * time.Minute)
		if said := b.said(); said != nil {
			t.Errorf("all was well: %q", said)
		}
		b.mu.Lock()
		b.takes = time.Hour
		b.mu.Unlock()
		pass(3 * time.Minute)
		if said := strings.Join(b.said(), ", "); said != "late, skip" {
			t.Errorf("of a hang: %q", said)
		}
	})
}

// TestSkipsAreCounted (B41): fires that don't run are one message; a reminder says how many there are by now, and beside what.
func TestSkipsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.takes = time.Hour
		j := b.job("sec", "* * * * * *")
		j.Alerts = []Alert{{Name: "ops", On: []AlertKind{AlertSkip}, Skips: 1, Remind: 10 * time.Minute}}
		b.starts("a", 1, j)
		pass(14 * time.Minute)
		b.mu.Lock()
		told := b.told
		b.mu.Unlock()
		if len(told) != 2 || !told[1].Again {
			t.Fatalf("told: %+v", told)
		}
		for i, most := range []int{65, 665} {
			if n := told[i].Fires; n < most-64 || n > most || i == 0 && n == 1 != strings.Contains(told[i].Title, "the fire of") || i == 1 && !strings.Contains(told[i].Title, fmt.Sprintf("%d fires in a row", n)) {
				t.Errorf("message %d says %q of %d", i, told[i].Title, n)
			}
			if len(told[i].Lines) == 0 || !strings.Contains(told[i].Lines[0], "the last of them: locked; sec:") {
				t.Errorf("message %d doesn't say why: %q", i, told[i].Lines)
			}
		}
	})
}

// TestUnseenTroubles: what came and was pushed out of the newest runs before anybody looked is told of; of fires that stand for
// nothing but themselves only the newest counts.
func TestUnseenTroubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("settle", "0 1 * * *")
		j.Alerts = []Alert{{Name: "ops", On: everything()}}
		bad := func() error { return errors.New("no money") }
		go b.byHand("settle", func() error { time.Sleep(time.Hour); return nil }, "1999-12-30")
		pass(time.Second)
		b.byHand("settle", bad, "start+1", "1999-12-31")
		b.byHand("settle", well, dates(recentRuns)...)
		pass(30 * time.Minute)
		if got := strings.Join(b.seen(j), "; "); got != "failure: settle:1999-12-31 failed: exit; stale: settle:1999-12-30 is stale" {
			t.Errorf("unseen: %s", got)
		}
		b.byHand("settle", well, "start+2")
		if got := strings.Join(b.seen(j), "; "); !strings.HasPrefix(got, "failure: settle:1999-12-31 failed") {
			t.Errorf("a date that FAILED, after something else went well: %s", got)
		}
		pass(time.Hour) // until the hung one ends
	})
}

// TestFailureBeforeABackfill: a fire that stands for nothing but itself FAILED, until the next one went well, whatever else did.
func TestFailureBeforeABackfill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("hourly", "0 * * * *")
		j.Alerts = []Alert{{Name: "ops", On: everything()}}
		b.failing("hourly", errors.New("no money"))
		b.starts("a", 1, j)
		pass(time.Hour + time.Minute)
		b.byHand("hourly", well, dates(recentRuns+5)...)
		b.failing("hourly", nil)
		pass(30 * time.Minute)
		if said := strings.Join(b.said(), ", "); said != "failure" {
			t.Errorf("after a backfill: %q", said)
		}
		pass(30 * time.Minute)
		if said := strings.Join(b.said(), ", "); said != "recovery of failure" {
			t.Errorf("after the next fire: %q", said)
		}
	})
}

// counting counts what is asked of a store.
type counting struct {
	Store
	n int
}

func (c *counting) Runs(ctx context.Context, q onerun.Query) ([]onerun.Run, error) {
	c.n++
	return c.Store.Runs(ctx, q)
}

// TestLooksAreCheap: a look at a job of which all is well is one statement, however many runs there are, and a fire that didn't run
// is asked for once.
func TestLooksAreCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("j", "* * * * *")
		j.StartBy, j.FinishBy = time.Minute, time.Minute
		j.Alerts = []Alert{{Name: "ops", On: everything(), Skips: 20}}
		i := b.starts("a", 1, j)
		pass(2 * time.Hour)
		i.quits()
		c := &counting{Store: b.mem}
		e := New(Options{Store: c, Namespace: "default"})
		looks := func(most int) {
			t.Helper()
			c.n = 0
			s, err := e.see(t.Context(), &j, midnight(), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.troubles(t.Context(), nil); err != nil || c.n > most {
				t.Errorf("%d statements, %v", c.n, err)
			}
			e.alerts.remember(j.Name, s.remembered())
		}
		looks(3)
		looks(1)
		pass(30 * time.Minute)
		looks(1 + 2 + 30)
		pass(time.Minute)
		looks(1 + 2 + 1)
	})
}

// TestFailureDoneAgain: while what failed is executed again, it isn't over, and when that ends well, it is.
func TestFailureDoneAgain(t *testing.T) {
	for _, make := range []func(Job) Job{dated, func(j Job) Job { return j }} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t)
			j := make(b.job("daily", "0 1 * * *"))
			j.Alerts = []Alert{{Name: "ops", On: everything()}}
			b.byHand("daily", well, "start+1")
			b.failing("daily", errors.New("no money"))
			b.starts("a", 1, j)
			pass(time.Hour + time.Minute)
			if said := strings.Join(b.said(), ", "); said != "failure" {
				t.Fatalf("of a failure: %q", said)
			}
			b.mu.Lock()
			b.takes = 5 * time.Minute
			b.mu.Unlock()
			b.failing("daily", nil)
			run := b.runs(onerun.Failed)[0]
			if _, err := b.mem.Approve(t.Context(), onerun.ApprovalRequest{Namespace: "default", RunID: run.RunID, Expect: onerun.Expected(run), Who: onerun.Who{By: "kim", Reason: "there is money"}}); err != nil {
				t.Fatal(err)
			}
			if err := AskRerun(t.Context(), b.mem, "default", "daily", run.Partition, time.Now()); err != nil {
				t.Fatal(err)
			}
			pass(4 * time.Minute)
			if said := b.said(); said != nil || len(b.runs(onerun.Running)) != 1 {
				t.Errorf("while it is done again: %q", said)
			}
			pass(5 * time.Minute)
			if said := strings.Join(b.said(), ", "); said != "recovery of failure" {
				t.Errorf("when it has ended well: %q", said)
			}
		})
	}
}

// TestLateAndDone: a fire that started, or was done, after its time is late, whenever somebody looks; it is told once, and is over
// when the next one is in time.
func TestLateAndDone(t *testing.T) {
	alerts := []Alert{{Name: "ops", On: everything(), Remind: 10 * time.Minute}}
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("hourly", "0 * * * *")
		j.StartBy, j.Alerts, j.CatchUp.Spread = 5*time.Second, alerts, 0
		first := b.starts("a", 1, j)
		pass(time.Minute)
		first.quits()
		pass(59*time.Minute + 50*time.Second)
		b.starts("b", 1, j)
		pass(50 * time.Minute)
		b.mu.Lock()
		told := slices.Clone(b.told)
		b.mu.Unlock()
		if len(told) != 1 || told[0].Title != "hourly:2000-01-01T01:00:00Z started at 2000-01-01T01:00:50Z, and not by 2000-01-01T01:00:05Z" {
			t.Errorf("of a start that was late: %+v", told)
		}
		pass(10 * time.Minute)
		if said := strings.Join(b.said(), ", "); said != "late, recovery of late" {
			t.Errorf("after the next start: %q", said)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("minutely", "* * * * *")
		j.FinishBy, j.Alerts = 5*time.Second, alerts
		b.takes = 15 * time.Second
		b.starts("a", 1, j)
		pass(11*time.Minute + 30*time.Second)
		if said := strings.Join(b.said(), ", "); said != "late, late again" {
			t.Errorf("of a job that always takes too long: %q", said)
		}
		b.mu.Lock()
		b.takes = 0
		b.mu.Unlock()
		pass(2 * time.Minute)
		if said := strings.Join(b.said(), ", "); said != "recovery of late" {
			t.Errorf("when it is quick again: %q", said)
		}
	})
}

// TestLateBothWays: a job that starts late and ends late is told of by each, and not by turns.
func TestLateBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("minutely", "* * * * *")
		j.Jitter, j.StartBy, j.FinishBy = 30*time.Second, time.Nanosecond, 40*time.Second
		j.Alerts = []Alert{{Name: "ops", On: everything()}}
		b.takes = 45 * time.Second
		b.starts("a", 1, j)
		pass(10*time.Minute + 50*time.Second)
		if said := strings.Join(b.said(), ", "); said != "late, late" {
			t.Errorf("said %q", said)
		}
	})
}

// TestLookWhenATimeIsOver: a fire whose time is over is looked for then, and not when its job's turn comes.
func TestLookWhenATimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		for i := range 10 { // whose turns are spread over a minute
			j := b.job(fmt.Sprint("hourly", i), "0 * * * *")
			j.StartBy = 5 * time.Second
			j.Alerts = []Alert{{Name: "ops", On: everything()}}
			var d alertDesk
			now := midnight().Add(time.Hour - time.Minute)
			d.due(&j, now)
			for d.due(&j, now) || !now.After(midnight().Add(time.Hour-30*time.Second)) {
				now = now.Add(time.Second)
			}
			d.mu.Lock()
			d.seen[j.Name] = midnight().Add(time.Hour)
			d.mu.Unlock()
			if d.due(&j, midnight().Add(time.Hour+4*time.Second)) || !d.due(&j, midnight().Add(time.Hour+5*time.Second)) || d.due(&j, midnight().Add(time.Hour+6*time.Second)) {
				t.Errorf("%s isn't looked at when its time is over, once", j.Name)
			}
		}
	})
}

// TestInTimeByAnEarlierAttempt: a date that was done in time is so when somebody has it done again.
func TestInTimeByAnEarlierAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := dated(b.job("settle", "0 1 * * *"))
		j.StartBy, j.FinishBy = time.Minute, 10*time.Minute
		j.Alerts = []Alert{{Name: "ops", On: everything()}}
		b.starts("a", 1, j)
		pass(2 * time.Hour)
		run := b.runs(onerun.Succeeded)[0]
		if _, err := b.mem.Approve(t.Context(), onerun.ApprovalRequest{Namespace: "default", RunID: run.RunID, Expect: onerun.Expected(run), Who: onerun.Who{By: "kim", Reason: "other rates"}}); err != nil {
			t.Fatal(err)
		}
		b.mu.Lock()
		b.takes = 5 * time.Minute
		b.mu.Unlock()
		if err := AskRerun(t.Context(), b.mem, "default", "settle", run.Partition, time.Now()); err != nil {
			t.Fatal(err)
		}
		pass(20 * time.Minute)
		if said := b.said(); said != nil || len(b.all()) != 2 {
			t.Errorf("%d executions, said %q", len(b.all()), said)
		}
	})
}
