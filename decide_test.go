package onerun_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onerun-dev/onerun"
)

// situation is one combination of all that the claim table looks at, in words.
type situation struct {
	run      string // none, or its status
	stale    bool
	retry    string // none, due, due now, later
	approval string // none, open, or what is wrong with it
	paused   bool
	held     bool // another run holds the lock
	heldDead bool
}

var (
	decidedAt = time.Date(2026, 9, 15, 1, 0, 0, 0, time.UTC)
	retryAt   = map[string]time.Time{
		"none": {}, "due": decidedAt.Add(-time.Nanosecond), "due now": decidedAt, "later": decidedAt.Add(time.Nanosecond),
	}
	decideRun = onerun.Run{
		RunID: "r", Job: "j", Partition: "p", Attempt: 3,
		Execution: onerun.Execution{Worker: onerun.Worker{Host: "h", PID: 7}, StartedAt: decidedAt.Add(-time.Hour)},
	}
	decidePause  = onerun.JobState{Job: "j", PausedAt: decidedAt, PausedBy: "kim", Reason: "migration"}
	decideHolder = onerun.Holder{RunID: "other", Name: "k:p", Attempt: 2}
)

func (s situation) facts() onerun.Facts {
	f := onerun.Facts{Now: decidedAt, RunStale: s.stale, LockStale: s.heldDead}
	if s.run != "none" {
		run := decideRun
		run.Status, run.NextRetryAt = onerun.Status(s.run), retryAt[s.retry]
		f.Run = &run
	}
	a := onerun.Approval{ID: 1, RunID: "r", Status: onerun.Status(s.run), Attempt: 3, By: "lee"}
	switch s.approval {
	case "of another run":
		a.RunID = "q"
	case "of another status":
		a.Status = "FAILED"
		if s.run == "FAILED" {
			a.Status = "SUCCEEDED"
		}
	case "of another attempt":
		a.Attempt = 2
	case "used":
		a.UsedAt = decidedAt
	case "expired":
		a.ExpiresAt = decidedAt
	case "not yet expired":
		a.ExpiresAt = decidedAt.Add(time.Nanosecond)
	}
	if s.approval != "none" {
		f.Approval = &a
	}
	if s.paused {
		p := decidePause
		f.Paused = &p
	}
	if s.held {
		h := decideHolder
		f.LockHolder = &h
	}
	return f
}

// lifted: an approval is there and good. An approval of a RUNNING run is none.
func (s situation) lifted() bool {
	return s.run != "none" && (s.approval == "open" || s.approval == "not yet expired")
}

// claimTable is the table of the contract, each row by itself; the first that
// matches counts.
var claimTable = []struct {
	row    string
	match  func(situation) bool
	reason func(situation) onerun.Reason
	who    string
}{
	{"1 RUNNING", func(s situation) bool { return s.run == "RUNNING" }, either(situation.isStale, "stale", "running"), "run"},
	{"2 SUCCEEDED", func(s situation) bool { return s.run == "SUCCEEDED" && !s.lifted() }, always("succeeded"), "run"},
	{"3 SKIPPED", func(s situation) bool { return s.run == "SKIPPED" && !s.lifted() }, always("skipped"), "run"},
	{"4 FAILED, no retry left", func(s situation) bool { return s.run == "FAILED" && s.retry == "none" && !s.lifted() }, always("failed"), "run"},
	{"5 paused", func(s situation) bool { return s.paused }, always("paused"), "operator"},
	{"6 retry not due", func(s situation) bool { return s.run == "FAILED" && s.retry == "later" && !s.lifted() }, always("retry_not_due"), "run"},
	{"7 the lock is held", func(s situation) bool { return s.held }, either(situation.isHeldDead, "stale", "locked"), "holder"},
	{"8 claimed", func(situation) bool { return true }, always(""), ""},
}

func (s situation) isStale() bool    { return s.stale }
func (s situation) isHeldDead() bool { return s.heldDead }

func always(r onerun.Reason) func(situation) onerun.Reason {
	return func(situation) onerun.Reason { return r }
}

func either(is func(situation) bool, yes, no onerun.Reason) func(situation) onerun.Reason {
	return func(s situation) onerun.Reason {
		if is(s) {
			return yes
		}
		return no
	}
}

func TestDecideIsTheTable(t *testing.T) {
	seen, all := map[string]int{}, 0
	forAllSituations(func(s situation) {
		all++
		f := s.facts()
		got := onerun.Decide(f)
		for _, row := range claimTable {
			if !row.match(s) {
				continue
			}
			seen[row.row]++
			want := onerun.Verdict{Reason: row.reason(s)}
			switch row.who {
			case "run":
				want.Holder = f.Run.Holder()
			case "operator":
				want.Holder = onerun.Holder{Name: "j", Since: decidedAt, Detail: "paused by kim: migration"}
			case "holder":
				want.Holder = decideHolder
			default:
				want.Attempt = 1
				if s.run != "none" {
					want.Attempt = 4
				}
				if s.lifted() {
					want.Spend = f.Approval
				}
			}
			if want.Reason == onerun.RefusedRetryNotDue {
				want.RetryAt = retryAt["later"]
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("%+v, row %s (-want +got):\n%s", s, row.row, d)
			}
			if got.Spend != nil && got.Spend != f.Approval {
				t.Fatalf("%+v: spends another approval", s)
			}
			break
		}
	})
	for _, row := range claimTable {
		if seen[row.row] == 0 {
			t.Errorf("row %s: no situation came to it", row.row)
		}
	}
	t.Logf("%d situations: %v", all, seen)
}

func forAllSituations(visit func(situation)) {
	both := []bool{false, true}
	for _, run := range []string{"none", "RUNNING", "SUCCEEDED", "SKIPPED", "FAILED"} {
		for _, retry := range []string{"none", "due", "due now", "later"} {
			for _, approval := range []string{
				"none", "open", "of another run", "of another status", "of another attempt", "used", "expired", "not yet expired",
			} {
				for _, stale := range both {
					for _, paused := range both {
						for _, held := range both {
							for _, heldDead := range both {
								visit(situation{run, stale, retry, approval, paused, held, heldDead})
							}
						}
					}
				}
			}
		}
	}
}

// Deciding is looking: it changes none of the facts.
func TestDecideChangesNothing(t *testing.T) {
	forAllSituations(func(s situation) {
		f := s.facts()
		onerun.Decide(f)
		if d := cmp.Diff(s.facts(), f); d != "" {
			t.Fatalf("%+v (-before +after):\n%s", s, d)
		}
	})
}

func TestRunAsHolder(t *testing.T) {
	run := decideRun
	run.Evidence = "its wrapper is gone"
	want := onerun.Holder{RunID: "r", Name: "j:p", Attempt: 3, Worker: run.Worker, Detail: run.Evidence}
	started, finished := decidedAt.Add(-time.Hour), decidedAt
	for _, c := range []struct {
		status   onerun.Status
		finished time.Time
		since    time.Time
	}{
		{onerun.Running, time.Time{}, started},
		{onerun.Running, finished, started}, // of the attempt before
		{onerun.Succeeded, finished, finished},
		{onerun.Skipped, time.Time{}, started}, // recorded without an end
	} {
		run.Status, run.FinishedAt = c.status, c.finished
		want.Status, want.Since = c.status, c.since
		if d := cmp.Diff(want, run.Holder()); d != "" {
			t.Errorf("%s finished %v (-want +got):\n%s", c.status, c.finished, d)
		}
	}
	run.Partition = ""
	if got := run.Holder().Name; got != "j" {
		t.Errorf("an unkeyed run is called %q; want its job", got)
	}
}
