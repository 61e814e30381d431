package scheduler

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/schedule"
)

func everything() []AlertKind {
	return []AlertKind{AlertFailure, AlertStale, AlertLate, AlertSkip, AlertRecovery}
}

// told are the messages so far, each in a few words, and forgets them.
func (b *bed) said() (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.told {
		words := string(m.Kind)
		if m.Kind == AlertRecovery {
			words += " of " + string(m.About)
		}
		if m.Again {
			words += " again"
		}
		all = append(all, words)
	}
	b.told = nil
	return all
}

func (b *bed) failing(job string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fails[job] = err
}

// TestAlertsOfFailures: a job that fails each minute for two hours is told once, reminded of, and told when it is over;
// another cause is told anew; two instances send one message (B41).
func TestAlertsOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.store = slowReader{b.store}
		j := b.job("minutely", "* * * * *")
		j.Alerts = []Alert{{Name: "ops", On: everything(), Remind: time.Hour}}
		b.starts("a", 1, j)
		b.starts("b", 1, j)
		pass(10 * time.Minute)
		if said := b.said(); said != nil {
			t.Errorf("all was well: %q", said)
		}
		b.failing("minutely", errors.New("no money"))
		pass(2*time.Hour + 3*time.Minute)
		if said := strings.Join(b.said(), ", "); said != "failure, failure again, failure again" {
			t.Errorf("of two hours of failures: %q", said)
		}
		b.failing("minutely", nil)
		pass(3 * time.Minute)
		if said := strings.Join(b.said(), ", "); said != "recovery of failure" {
			t.Errorf("of the recovery: %q", said)
		}
		pass(2 * time.Hour)
		if said := b.said(); said != nil {
			t.Errorf("after it: %q", said)
		}
	})
}

// slowReader is a store whose notes are old when they arrive, so that two who read one both go by it.
type slowReader struct{ Store }

func (s slowReader) Note(ctx context.Context, ns, name string) (onerun.Note, error) {
	n, err := s.Store.Note(ctx, ns, name)
	time.Sleep(time.Millisecond)
	return n, err
}

// TestAlertsOfAHang: a job that hangs is told as late once, and its skips once they are many.
func TestAlertsOfAHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("minutely", "* * * * *")
		j.FinishBy = 5 * time.Minute
		j.Alerts = []Alert{{Name: "ops", On: everything(), Skips: 30, Remind: 12 * time.Hour}}
		b.starts("a", 1, j)
		pass(10*time.Minute + 30*time.Second)
		b.mu.Lock()
		b.takes = 2 * time.Hour
		b.mu.Unlock()
		pass(2 * time.Hour)
		if said := strings.Join(b.said(), ", "); said != "late, stale, skip" {
			t.Errorf("of a hang: %q", said)
		}
		b.mu.Lock()
		b.takes = 0
		b.mu.Unlock()
		pass(12 * time.Minute)
		if said := b.said(); len(said) != 3 || !strings.HasPrefix(said[0], "recovery of") || !strings.HasPrefix(said[1], "recovery of") {
			t.Errorf("of its end: %q", said)
		}
	})
}

// TestHangIsAFailure: who hears of failures alone hears of a job that hangs, and, if of recoveries at all, of its end.
func TestHangIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("hourly", "0 * * * *")
		j.Alerts = []Alert{{Name: "errors", On: []AlertKind{AlertFailure}}, {Name: "ops", On: []AlertKind{AlertFailure, AlertRecovery}}, {Name: "late", On: []AlertKind{AlertLate}}}
		b.takes = 20 * time.Minute
		b.starts("a", 1, j)
		pass(time.Hour + 15*time.Minute)
		if got := b.heard(); len(got) != 2 || got["errors"] != "stale" || got["ops"] != "stale" {
			t.Errorf("of a hang: %q", got)
		}
		pass(15 * time.Minute)
		if got := b.heard(); len(got) != 1 || got["ops"] != "recovery" {
			t.Errorf("of its end: %q", got)
		}
	})
}

// TestAlertNotSent: what could not be told is told later, by whoever is there.
func TestAlertNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("hourly", "0 * * * *")
		j.Alerts = []Alert{{Name: "ops", On: everything()}}
		b.failing("hourly", errors.New("no money"))
		b.unsent = 2
		b.starts("a", 1, j)
		pass(time.Hour + 10*time.Minute)
		if said := strings.Join(b.said(), ", "); said != "failure" || b.tries != 3 {
			t.Errorf("said %q after %d tries", said, b.tries)
		}
	})
}

// ledger is a store that has these runs, newest first.
type ledger struct {
	Store
	runs []onerun.Run
}

func (l ledger) Runs(_ context.Context, q onerun.Query) (found []onerun.Run, _ error) {
	for _, r := range l.runs {
		if (q.Partition == "" || r.Partition == q.Partition) && (q.Limit == 0 || len(found) < q.Limit) {
			found = append(found, r)
		}
	}
	return found, nil
}

// TestTroubles: what is wrong, by the runs alone.
func TestTroubles(t *testing.T) {
	b := newBed(t)
	daily := b.job("settle", "0 1 * * *")
	daily.Spec = schedule.Spec{Zone: "UTC", Period: "day", Date: "yesterday"}
	daily.StartBy, daily.FinishBy = 10*time.Minute, 2*time.Hour
	daily.Alerts = []Alert{{Name: "ops", On: everything(), Skips: 3}}
	at := func(day, hour, minute int) time.Time { return time.Date(2026, 9, day, hour, minute, 0, 0, time.UTC) }
	one := 1
	run := func(date string, status onerun.Status) onerun.Run {
		r := onerun.Run{Job: "settle", Partition: date, Status: status, RunID: date, ScheduledAt: at(16, 1, 0)}
		if status == onerun.Failed {
			r.Reason, r.ExitCode = onerun.ReasonExit, &one
		}
		return r
	}
	for _, c := range []struct {
		name string
		runs []onerun.Run
		now  time.Time
		want string
	}{
		{"before its time", nil, at(16, 1, 5), ""},
		{"did not start", nil, at(16, 1, 10), "late: settle:2026-09-15 did not start by 2026-09-16T01:10:00Z"},
		{"runs", []onerun.Run{run("2026-09-15", onerun.Running)}, at(16, 1, 30), ""},
		{"still runs", []onerun.Run{run("2026-09-15", onerun.Running)}, at(16, 3, 0), "late: settle:2026-09-15 did not finish by 2026-09-16T03:00:00Z"},
		{"done", []onerun.Run{run("2026-09-15", onerun.Succeeded)}, at(16, 4, 0), ""},
		{"failed", []onerun.Run{run("2026-09-15", onerun.Failed)}, at(16, 1, 30), "failure: settle:2026-09-15 failed: exit 1"},
		{"an older date is still failed", []onerun.Run{run("2026-09-15", onerun.Succeeded), run("2026-09-14", onerun.Failed)}, at(16, 4, 0), "failure: settle:2026-09-14 failed: exit 1"},
		{"before the schedule was known", nil, at(15, 2, 0), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			e := New(Options{Store: ledger{runs: c.runs}, Namespace: "default"})
			s, err := e.see(t.Context(), &daily, at(15, 3, 0), c.now)
			if err != nil {
				t.Fatal(err)
			}
			all, err := s.troubles(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, tr := range all {
				if tr.kind != AlertSkip { // the days before
					got = append(got, string(tr.kind)+": "+tr.title)
				}
			}
			if s := strings.Join(got, "; "); s != c.want {
				t.Errorf("got %q, want %q", s, c.want)
			}
		})
	}
}

// TestStrangersAlertNote: a note that nobody of us wrote is as none.
func TestStrangersAlertNote(t *testing.T) {
	for _, text := range []string{"null", "[]", "{", `{"failure":null}`} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t)
			if _, err := b.mem.SetNote(t.Context(), "default", alertPrefix+"minutely", 0, text); err != nil {
				t.Fatal(err)
			}
			j := b.job("minutely", "* * * * *")
			j.Alerts = []Alert{{Name: "ops", On: everything()}}
			b.failing("minutely", errors.New("no money"))
			b.starts("a", 1, j)
			pass(10 * time.Minute)
			if said := strings.Join(b.said(), ", "); said != "failure" {
				t.Errorf("with %s: %q", text, said)
			}
		})
	}
}
