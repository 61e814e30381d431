package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onerun-dev/onerun"
)

func (b *bed) asks(job, id string) Request {
	b.t.Helper()
	r, err := Ask(b.t.Context(), b.mem, "default", job, Request{ID: id, At: time.Now(), By: "kim@desk", Reason: "the bank asked"})
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bed) asked(job, id string) Request {
	b.t.Helper()
	r, err := Asked(b.t.Context(), b.mem, "default", job, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// TestRequest: what is asked for, however often with one id, is one start, within a second, of a key that is no slot's.
func TestRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.takes = 3 * time.Minute
		j := b.job("hourly", "0 * * * *")
		b.starts("a", 1, j)
		b.starts("b", 1, j)
		pass(time.Hour + 10*time.Minute)
		first := b.asks("hourly", "r1")
		if again := b.asks("hourly", "r1"); again != first {
			t.Errorf("asked again: %+v, first %+v", again, first)
		}
		pass(time.Second)
		r := b.asked("hourly", "r1")
		if b.keys()["hourly:start+r1"] != 1 || r.Taken.IsZero() || r.Key != "hourly:start+r1" || r.TakenBy == "" || !r.Done.IsZero() {
			t.Fatalf("ran %v; the request is %+v", b.all(), r)
		}
		pass(10 * time.Minute)
		b.asks("hourly", "r1")
		b.asks("hourly", "r2")
		pass(10 * time.Minute)
		for _, id := range []string{"r1", "r2"} {
			if r := b.asked("hourly", id); r.Done.IsZero() || r.Missed {
				t.Errorf("the request is %+v", r)
			}
		}
		if k := b.keys(); len(b.all()) != 3 || k["hourly:start+r1"] != 1 || k["hourly:start+r2"] != 1 || b.count(Requested) != 2 || b.skips("hourly") > 0 {
			t.Errorf("ran %v, %d skips", b.all(), b.skips("hourly"))
		}
	})
}

// TestRequestOfADate: a job with a date runs the date of the request, if that hasn't run; the refusal is recorded, and ends the request.
func TestRequestOfADate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("daily", "0 6 * * *")
		j.Spec.Period = "day"
		b.starts("a", 1, j)
		pass(time.Minute)
		b.asks("daily", "r1")
		pass(time.Minute)
		b.asks("daily", "r2")
		pass(time.Minute)
		if k := b.keys(); len(b.all()) != 1 || k["daily:2000-01-01"] != 1 {
			t.Errorf("ran %v", b.all())
		}
		skips, err := b.mem.Skips(t.Context(), "default", "daily", "2000-01-01")
		if err != nil || len(skips) != 1 || skips[0].Reason != onerun.RefusedSucceeded {
			t.Errorf("skips %+v, %v", skips, err)
		}
		for _, id := range []string{"r1", "r2"} {
			if r := b.asked("daily", id); r.Done.IsZero() || r.Key != "daily:2000-01-01" {
				t.Errorf("the request is %+v", r)
			}
		}
	})
}

// TestRequestOfADeadInstance: one that an instance has taken and never started another one starts a minute later.
func TestRequestOfADeadInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("hourly", "0 * * * *")
		dying := b.starts("a", 1, j)
		pass(time.Minute)
		dying.dies.Store(true)
		b.asks("hourly", "r1")
		pass(5 * time.Second)
		dying.quits()
		b.starts("b", 1, j)
		pass(30 * time.Second)
		if len(b.all()) > 0 || b.asked("hourly", "r1").TakenBy != "a" {
			t.Fatalf("ran %v; %+v", b.all(), b.asked("hourly", "r1"))
		}
		pass(time.Minute)
		if all := b.all(); len(all) != 1 || all[0].by != "b" || b.asked("hourly", "r1").Done.IsZero() {
			t.Errorf("ran %v; %+v", all, b.asked("hourly", "r1"))
		}
	})
}

// TestRequestThatWaitsForAPlace: one that waits for longer than a minute is one start all the same, when there is a place; so is a retry.
func TestRequestThatWaitsForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.retries = 1
		j, long := b.job("hourly", "0 * * * *"), b.job("long", "0 2 * * *")
		j.RetryLater = true
		b.failing("hourly", errors.New("no money"))
		i := b.starts("a", 1, j, long)
		pass(time.Hour + 30*time.Second) // it has failed, and is due again in half a minute
		b.mu.Lock()
		b.takes = 30 * time.Minute
		b.mu.Unlock()
		i.SetLimits(1, nil)
		b.asks("long", "r1")
		pass(5 * time.Second)
		b.mu.Lock()
		b.takes = 0
		b.mu.Unlock()
		b.failing("hourly", nil)
		b.asks("hourly", "r2")
		pass(20 * time.Minute)
		if k := b.keys(); k["long:start+r1"] != 1 || k["hourly:start+r2"] != 0 || len(b.all()) != 2 {
			t.Fatalf("ran beside the limit: %v", b.all())
		}
		pass(20 * time.Minute)
		k := b.keys()
		if k["hourly:start+r2"] != 1 || k["hourly:2000-01-01T01:00:00Z"] != 2 || b.count(Requested) != 2 || b.count(Retried) != 1 || b.skips("hourly") > 0 {
			t.Errorf("ran: %v, %d requests taken, %d retries, %d skips", b.all(), b.count(Requested), b.count(Retried), b.skips("hourly"))
		}
	})
}

// TestRequestTooOld: one that can't be started ends with a row that says so, and not years later.
func TestRequestTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("yearly", "0 0 1 1 *")
		j.CatchUp.Window = 10 * time.Minute
		i := b.starts("a", 1, j)
		pass(time.Minute)
		i.fails.Store(true)
		b.asks("yearly", "r1")
		pass(9 * time.Minute)
		if n := b.count(Requested); n < 8 {
			t.Errorf("%d starts were tried", n)
		}
		pass(10 * time.Minute)
		i.fails.Store(false)
		pass(10 * time.Minute)
		if r := b.asked("yearly", "r1"); r.Done.IsZero() || !r.Missed || len(b.all()) > 0 {
			t.Errorf("ran %v; %+v", b.all(), r)
		}
		skipped := b.runs(onerun.Skipped)
		if len(skipped) != 1 || skipped[0].Partition != "missed+start+r1" {
			t.Fatalf("skipped: %+v", skipped)
		}
	})
}

// TestRequestsThatCant: of a job that no scheduler has, and of too many at once; old ones make room.
func TestRequestsThatCant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		ask := func(job, id string) error {
			_, err := Ask(t.Context(), b.mem, "default", job, Request{ID: id, At: time.Now()})
			return err
		}
		if err := ask("hourly", "r"); !errors.Is(err, onerun.ErrNotFound) {
			t.Errorf("asked for a job that nobody has: %v", err)
		}
		j := b.job("hourly", "0 * * * *")
		i := b.starts("a", 1, j)
		pass(time.Second)
		i.quits()
		var err error
		n := 0
		for ; err == nil && n < 1000; n++ {
			err = ask("hourly", fmt.Sprint(n))
		}
		if !errors.Is(err, onerun.ErrState) || n != mostRequests+1 {
			t.Errorf("the %dth was answered with %v", n, err)
		}
		i = b.starts("a", 1, j)
		pass(10 * time.Minute)
		for range 5 { // done ones are forgotten in the end
			for range mostRequests {
				n++
				if err := ask("hourly", fmt.Sprint(n)); err != nil {
					t.Fatal(err)
				}
			}
			pass(10 * time.Minute)
		}
		note, err := b.mem.Note(t.Context(), "default", askPrefix+"hourly")
		if err != nil || len(parseAsks(note).Starts) > mostOfRequests || len(note.Text) > onerun.MaxNoteText {
			t.Errorf("%d are kept, %d bytes; %v", len(parseAsks(note).Starts), len(note.Text), err)
		}
		i.quits()
		pass(25 * time.Hour)
		b.asks("hourly", "late")
		if note, _ = b.mem.Note(t.Context(), "default", askPrefix+"hourly"); strings.Count(note.Text, `"id"`) != 1 {
			t.Errorf("kept: %s", note.Text)
		}
	})
}

// TestRetryLater: the retry of a job for which no process waits is started when it is due, and not later.
func TestRetryLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.retries = 1 // a minute later
		j := b.job("hourly", "0 * * * *")
		j.RetryLater = true
		b.failing("hourly", errors.New("no money"))
		b.starts("a", 1, j)
		b.starts("b", 1, j)
		pass(time.Hour + time.Minute + 2*time.Second)
		if all := b.all(); len(all) != 2 || b.skips("hourly") > 0 {
			t.Errorf("ran %v", all)
		}
	})
}

// TestOften: a job that runs more often than it may is told, once, and that it is over.
func TestOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("often", "*/10 * * * *")
		j.AtMost = AtMost{Runs: 7, Within: time.Hour}
		j.Alerts = []Alert{{Name: "ops", On: []AlertKind{AlertOften, AlertRecovery}}}
		b.starts("a", 1, j)
		b.starts("b", 1, j)
		pass(3 * time.Hour)
		told := func() []Telling {
			b.mu.Lock()
			defer b.mu.Unlock()
			return slices.Clone(b.told)
		}
		if all := told(); len(all) > 0 {
			t.Fatalf("told: %+v", all)
		}
		b.mu.Lock()
		b.retries = 1
		b.mu.Unlock()
		b.failing("often", errors.New("no money")) // each fire is two executions
		pass(time.Hour)
		b.failing("often", nil)
		pass(75 * time.Minute)
		if n := len(told()); n != 1 { // it was too often until half an hour after that, and has to be well for an hour
			t.Errorf("after 75 minutes: %d messages", n)
		}
		pass(105 * time.Minute)
		var kinds []AlertKind
		all := told()
		for _, a := range all {
			kinds = append(kinds, a.Kind)
		}
		if fmt.Sprint(kinds) != "[often recovery]" || !strings.Contains(all[0].Title, "within 1h0m0s, where 7 are the most") || len(all[0].Lines) == 0 {
			t.Errorf("told: %v, %+v", kinds, all)
		}
	})
}
