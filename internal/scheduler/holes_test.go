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
)

// These are the ways in which a fire could get lost between two lines.

// TestLeftBehind: an instance ends while the process of a fire goes on, and that dies before its claim: the next one starts it.
func TestLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("hourly", "0 * * * *")
		i := b.starts("a", 1, j)
		i.away.Store(true)
		pass(time.Hour + time.Second)
		i.quits()
		b.starts("b", 1, j)
		pass(2 * time.Minute)
		if b.keys()["hourly:2000-01-01T01:00:00Z"] != 1 {
			t.Errorf("ran: %v", b.all())
		}
	})
}

// TestOutOfOrder: with a jitter later slots are taken before earlier ones. An end of all in between loses none of them, tells none as
// missed that ran or will, and runs none twice.
func TestOutOfOrder(t *testing.T) {
	for _, policy := range []CatchUpPolicy{CatchUpNone, CatchUpLatest, CatchUpAll} {
		t.Run(string(policy), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { outOfOrder(t, policy) }) })
	}
}

func outOfOrder(t *testing.T, policy CatchUpPolicy) {
	t.Helper()
	b := newBed(t)
	j := b.job("j", "*/5 * * * *")
	j.Jitter = 20 * time.Minute
	j.CatchUp = CatchUp{Policy: policy, Window: 24 * time.Hour, Cap: 100}
	for range 25 {
		i := b.starts("a", 1, j)
		pass(7 * time.Minute)
		i.quits()
	}
	b.starts("a", 1, j)
	pass(time.Hour)
	keys := b.keys()
	for m := 5; m <= 3*60-5; m += 5 {
		key := "j:" + midnight().Add(time.Duration(m)*time.Minute).Format(time.RFC3339)
		if keys[key] != 1 {
			t.Errorf("%s ran %d times", key, keys[key])
		}
	}
	if told := b.missed(); len(told) > 0 || b.skips("j") > 0 {
		t.Errorf("missed: %q; %d skips", told, b.skips("j"))
	}
}

// TestCatchUpInterrupted: an end in the middle of catching up, after newer fires were taken, loses none.
func TestCatchUpInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("hourly", "0 * * * *")
		j.CatchUp = CatchUp{Policy: CatchUpAll, Window: 24 * time.Hour, Cap: 100, Spread: 10 * time.Minute}
		first := b.starts("a", 1, j)
		pass(time.Minute)
		first.quits()
		pass(12*time.Hour - time.Minute - time.Second)
		for range 5 { // each ends before the spread is over, the first after it has taken the fire of noon
			i := b.starts("b", 1, j)
			pass(5 * time.Second)
			i.quits()
		}
		b.starts("c", 1, j)
		pass(30 * time.Minute)
		if keys := b.keys(); len(keys) != 12 {
			t.Errorf("%d of 12 ran: %v; missed: %q", len(keys), b.all(), b.missed())
		}
	})
}

// TestMissedRangeOutlivesItsInstance: who told the others that it tells of missed fires, and died, is replaced with the whole range.
func TestMissedRangeOutlivesItsInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("hourly", "0 * * * *")
		j.CatchUp = CatchUp{Policy: CatchUpNone, Window: 24 * time.Hour}
		first := b.starts("a", 1, j)
		pass(time.Minute)
		first.quits()
		pass(12*time.Hour + time.Minute)
		inner := b.store
		b.store = mute{inner}
		dying := b.starts("b", 1, j)
		pass(20 * time.Second)
		dying.quits()
		b.store = inner
		b.starts("c", 1, j)
		pass(2 * time.Minute)
		if told := b.missed(); len(told) != 1 || !strings.Contains(told[0], "12 fires from 2000-01-01T01:00:00Z to 2000-01-01T12:00:00Z") {
			t.Errorf("missed: %q", told)
		}
	})
}

// mute is a store in which nothing is resolved.
type mute struct{ Store }

func (mute) Resolve(context.Context, onerun.Resolution) (onerun.Run, error) {
	return onerun.Run{}, failing()
}

// TestOlderFileRestored: whoever has an older file stands down while somebody with a newer one lives, and not for ever.
func TestOlderFileRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		newer := b.starts("newer", 2, b.job("j", "10 * * * *"))
		pass(time.Minute)
		b.starts("older", 1, b.job("j", "20 * * * *"))
		pass(3*time.Hour + 30*time.Minute)
		if keys := b.keys(); keys["j:2000-01-01T03:10:00Z"] != 1 || keys["j:2000-01-01T03:20:00Z"] != 0 {
			t.Errorf("both live: %v", keys)
		}
		newer.quits()
		pass(3 * time.Hour)
		if keys := b.keys(); keys["j:2000-01-01T06:20:00Z"] != 1 || keys["j:2000-01-01T06:10:00Z"] != 0 {
			t.Errorf("the older alone: %v", keys)
		}
	})
}

// TestSlotsOfAnothersJobs: an instance that finds another one dead leaves it to those who have its jobs.
func TestSlotsOfAnothersJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("theirs", "0 * * * *")
		dying := b.starts("a", 1, j)
		dying.dies.Store(true)
		b.starts("stranger", 1, b.job("ours", "30 * * * *"))
		pass(time.Hour + 10*time.Second)
		dying.quits()
		pass(5 * time.Minute) // the stranger has found it dead
		b.starts("b", 1, j)
		pass(2 * time.Minute)
		if b.keys()["theirs:2000-01-01T01:00:00Z"] != 1 {
			t.Errorf("ran: %v", b.all())
		}
	})
}

// TestEachSecond: of a job that fires each second too nothing that a dead instance took is forgotten.
func TestEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("j", "* * * * * *")
		dying := b.starts("a", 1, j)
		pass(5 * time.Second)
		dying.dies.Store(true)
		pass(2 * time.Second)
		b.starts("b", 1, j)
		dying.quits()
		pass(3 * time.Minute)
		for s := 1; s <= 170; s++ {
			key := "j:" + midnight().Add(time.Duration(s)*time.Second).Format(time.RFC3339)
			skips, err := b.mem.Skips(t.Context(), "default", "j", strings.TrimPrefix(key, "j:"))
			if n := b.keys()[key]; err != nil || n > 1 || n == 0 && len(skips) == 0 { // refused, if the next one runs just then
				t.Errorf("%s ran %d times, %d skips, %v", key, n, len(skips), err)
			}
		}
	})
}

// TestOneDeafTarget: an alert that one of several can't be sent reaches the others, and each of them once.
func TestOneDeafTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.deaf = "first"
		j := b.job("hourly", "0 * * * *")
		j.Alerts = []Alert{{Name: "first", On: everything()}, {Name: "second", On: everything()}}
		b.failing("hourly", errors.New("no money"))
		b.starts("a", 1, j)
		pass(time.Hour + 10*time.Minute)
		heard := func() (all []string) {
			for _, m := range b.told {
				all = append(all, fmt.Sprint(m.Alert.Name, " ", m.Kind))
			}
			return all
		}
		b.mu.Lock()
		got := strings.Join(heard(), ", ")
		b.deaf = ""
		b.mu.Unlock()
		if got != "second failure" {
			t.Errorf("heard: %s", got)
		}
		b.failing("hourly", nil)
		pass(5 * time.Minute)
		b.mu.Lock()
		got = strings.Join(heard(), ", ")
		b.mu.Unlock()
		if got != "second failure, first failure" {
			t.Errorf("heard later: %s", got)
		}
	})
}

// TestRerunThatDies: an approved rerun whose start comes to nothing is started again, until the approval is used.
func TestRerunThatDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("hourly", "0 * * * *")
		i := b.starts("a", 1, j)
		pass(time.Hour + time.Minute)
		run := b.runs(onerun.Succeeded)[0]
		_, err := b.mem.Approve(t.Context(), onerun.ApprovalRequest{Namespace: "default", RunID: run.RunID, Expect: onerun.Expected(run), Who: onerun.Who{By: "kim", Reason: "two came late"}})
		if err == nil {
			err = AskRerun(t.Context(), b.mem, "default", "hourly", run.Partition, time.Now())
		}
		if err != nil {
			t.Fatal(err)
		}
		i.fails.Store(true)
		pass(3 * time.Minute)
		i.fails.Store(false)
		pass(2 * time.Minute)
		if n := b.keys()[run.Key()]; n != 2 {
			t.Errorf("%s ran %d times", run.Key(), n)
		}
		pass(20 * time.Minute)
		n, err := b.mem.Note(t.Context(), "default", askPrefix+"hourly")
		if err != nil || parseAsks(n).open() || b.keys()[run.Key()] != 2 || b.skips("hourly") > 0 {
			t.Errorf("the note is %+v, %v; ran: %v, %d skips", n, err, b.keys(), b.skips("hourly"))
		}
	})
}

// TestReplacedWhileItWaits: a fire that waits for its jitter while its job gets another schedule still runs, once, and what the memo
// says of the newer schedule stays: what is missed of that later is known.
func TestReplacedWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		old := b.job("j", "0 * * * *")
		old.Jitter = 50 * time.Minute
		i := b.starts("a", 1, old)
		pass(time.Hour + time.Second)
		i.SetJobs(t.Context(), []Job{b.job("j", "55 * * * *")}, 2)
		pass(52 * time.Minute)
		if all := b.all(); len(all) != 1 || all[0].key != "j:2000-01-01T01:00:00Z" {
			t.Fatalf("ran: %v", all)
		}
		i.quits()
		pass(30 * time.Minute)
		b.starts("b", 2, b.job("j", "55 * * * *"))
		pass(2 * time.Minute)
		if all := b.all(); len(all) != 2 || all[1].key != "j:2000-01-01T01:55:00Z" || len(b.missed()) > 0 {
			t.Errorf("ran: %v, missed: %q", all, b.missed())
		}
	})
}

// TestTakenOutWhileItWaits: a fire that waits while its job is taken out of the configuration is told of, and doesn't run.
func TestTakenOutWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("j", "0 * * * *")
		j.Jitter = 50 * time.Minute
		i := b.starts("a", 1, j)
		pass(time.Hour + time.Second)
		i.SetJobs(t.Context(), []Job{b.job("other", "0 * * * *")}, 2)
		pass(55 * time.Minute)
		missed := b.missed()
		if len(b.all()) > 0 || len(missed) != 1 || !strings.Contains(missed[0], "the fire of 2000-01-01T01:00:00Z; the job was taken out") {
			t.Errorf("ran: %v, missed: %q", b.all(), missed)
		}
	})
}

// TestLateBeforeTheEdit: what was due before a job's schedule was edited, and is looked at late, counts what others have taken as that.
func TestLateBeforeTheEdit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("j", "*/30 * * * *")
		j.CatchUp.Policy = CatchUpNone
		i := b.starts("a", 1, j)
		pass(95 * time.Minute) // three fires
		i.quits()
		pass(50 * time.Minute) // and one that nobody took
		e := New(Options{Store: b.mem, Namespace: "default", Who: "b"})
		x := &entry{}
		x.job.Store(&j)
		x.old.Store(true)
		e.dueLate(t.Context(), x, midnight(), time.Now())
		e.starts.Wait()
		if missed := b.missed(); len(missed) != 1 || !strings.Contains(missed[0], "missed: the fire of 2000-01-01T02:00:00Z;") || len(b.all()) != 3 {
			t.Errorf("missed: %q; ran: %v", missed, b.all())
		}
	})
}

// TestTakenIsNotMissed: what was taken is neither due again nor missed, also when an earlier slot never was.
func TestTakenIsNotMissed(t *testing.T) {
	b := newBed(t)
	j := b.job("hourly", "0 * * * *")
	j.CatchUp.Policy = CatchUpNone
	m := memo{Done: midnight()}
	for hour := 2; hour <= 5; hour++ { // the one at 1 never was
		m = m.with(taken{Slot: midnight().Add(time.Duration(hour) * time.Hour), By: "a"}, j.Schedule)
	}
	run, missed := j.due(m.Done, midnight().Add(6*time.Hour+30*time.Minute), m)
	if len(run) != 0 || missed.Count != 2 || !missed.First.Equal(midnight().Add(time.Hour)) || !missed.Last.Equal(midnight().Add(6*time.Hour)) {
		t.Errorf("due %v, missed %+v", run, missed)
	}
}

// TestRefusedByItsConfiguration: what onerun run refuses as it is configured is not tried for a day: a minute later one row tells of it.
func TestRefusedByItsConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		i := b.starts("a", 1, b.job("daily", "0 1 * * *"))
		i.wrong.Store(true)
		pass(3 * time.Hour)
		if told := b.missed(); len(told) != 1 || i.tried.Load() > 8 || b.count(NotRun) != 1 {
			t.Errorf("missed: %q; %d tries, told %d times", told, i.tried.Load(), b.count(NotRun))
		}
	})
}
