package metrics_test

import (
	"context"
	"encoding/json"
	"errors"
	"expvar"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/observe/metrics"
	"github.com/onerun-dev/onerun/store/memory"
)

// clock is the owner's wall clock: it goes when a job says so.
type clock struct {
	start time.Time
	mu    sync.Mutex
	now   time.Time
}

func newClock() *clock {
	return &clock{start: time.Now(), now: time.Date(2026, 9, 15, 1, 0, 0, 0, time.UTC)}
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Elapsed() time.Duration { return time.Since(c.start) }

// works is a job that lasts for a while, by the clock.
func (c *clock) works(d time.Duration, err error) func(context.Context, *onerun.Owner) error {
	return func(context.Context, *onerun.Owner) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now = c.now.Add(d)
		return err
	}
}

func text(t *testing.T, m *metrics.Metrics) string {
	t.Helper()
	var b strings.Builder
	n, err := m.WriteTo(&b)
	if err != nil || n != int64(b.Len()) {
		t.Fatalf("WriteTo: %d, %v", n, err)
	}
	return b.String()
}

// has checks that the text has a line.
func has(t *testing.T, m *metrics.Metrics, lines ...string) {
	t.Helper()
	all := text(t, m)
	for _, line := range lines {
		if !strings.Contains("\n"+all, "\n"+line+"\n") {
			t.Errorf("there is no line %s in\n%s", line, all)
		}
	}
}

const none = `# HELP onerun_events_total What else was observed.
# TYPE onerun_events_total counter
onerun_events_total{event="clock_step"} 0
onerun_events_total{event="heartbeat_failed"} 0
onerun_events_total{event="late_outcome"} 0
onerun_events_total{event="lease_lost"} 0
onerun_events_total{event="lock_deleted"} 0
onerun_events_total{event="retry_left"} 0
onerun_events_total{event="retry_superseded"} 0
onerun_events_total{event="retry_waiting"} 0
onerun_events_total{event="stopped"} 0
onerun_events_total{event="taken_over"} 0
`

// TestText: the whole text after a success, a failure and a skip.
func TestText(t *testing.T) {
	c, m := newClock(), metrics.New()
	if got := text(t, m); got != none {
		t.Errorf("of nothing:\n%s", got)
	}
	runner := onerun.NewRunner(memory.New(), onerun.WithClock(c), onerun.WithObserver(m))
	do := func(partition string, fn func(context.Context, *onerun.Owner) error) error {
		return runner.Do(t.Context(), onerun.Job{Name: "daily", Partition: partition}, fn)
	}
	if err := do("2026-09-14", c.works(90*time.Second, nil)); err != nil {
		t.Fatal(err)
	}
	if err := do("2026-09-14", c.works(0, nil)); !errors.As(err, new(*onerun.Refusal)) {
		t.Fatal(err)
	}
	if err := do("2026-09-15", c.works(500*time.Millisecond, errors.New("no"))); !errors.As(err, new(*onerun.Failure)) {
		t.Fatal(err)
	}
	want := `# HELP onerun_attempts_total Attempts that ended, by how they did.
# TYPE onerun_attempts_total counter
onerun_attempts_total{namespace="default",job="daily",outcome="exit"} 1
onerun_attempts_total{namespace="default",job="daily",outcome="succeeded"} 1
# HELP onerun_attempts_running Attempts under way.
# TYPE onerun_attempts_running gauge
onerun_attempts_running{namespace="default",job="daily"} 0
# HELP onerun_attempt_duration_seconds How long attempts took.
# TYPE onerun_attempt_duration_seconds summary
onerun_attempt_duration_seconds_count{namespace="default",job="daily"} 2
onerun_attempt_duration_seconds_sum{namespace="default",job="daily"} 90.5
# HELP onerun_last_success_timestamp_seconds When an attempt last succeeded, in Unix time.
# TYPE onerun_last_success_timestamp_seconds gauge
onerun_last_success_timestamp_seconds{namespace="default",job="daily"} 1789434090
# HELP onerun_skips_total Claims that were refused, by reason.
# TYPE onerun_skips_total counter
onerun_skips_total{namespace="default",job="daily",reason="succeeded"} 1
` + none
	if got := text(t, m); got != want {
		t.Errorf("the text:\n%s\nwant:\n%s", got, want)
	}
}

// TestRunning: the gauge is up while the work runs, and down however it ends.
func TestRunning(t *testing.T) {
	m := metrics.New()
	store := memory.New()
	runner := onerun.NewRunner(store, onerun.WithObserver(m))
	job := onerun.Job{Name: "daily"}
	gauge := `onerun_attempts_running{namespace="default",job="daily"} `
	if err := runner.Do(t.Context(), job, func(context.Context, *onerun.Owner) error { has(t, m, gauge+"1"); return nil }); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = runner.Do(t.Context(), job, func(context.Context, *onerun.Owner) error { has(t, m, gauge+"1"); panic("no") })
	}()
	has(t, m, gauge+"0", `onerun_attempts_total{namespace="default",job="daily",outcome="exit"} 1`)

	// Of a process: it runs from the time that it is noted, and one that never was takes no time.
	process := onerun.NewRunner(store, onerun.WithObserver(m), onerun.WithProcess())
	_ = process.Do(t.Context(), job, func(_ context.Context, o *onerun.Owner) error {
		has(t, m, gauge+"0")
		err := o.NoteGroup(1, 2)
		has(t, m, gauge+"1")
		return err
	})
	_ = process.Do(t.Context(), job, func(context.Context, *onerun.Owner) error {
		return &onerun.Failure{Reason: onerun.ReasonNotFound}
	})
	has(t, m, gauge+"0", `onerun_attempts_total{namespace="default",job="daily",outcome="not_found"} 1`, `onerun_attempt_duration_seconds_count{namespace="default",job="daily"} 3`)
}

// TestToldTwice: an attempt ends once, whatever is told of it afterwards.
func TestToldTwice(t *testing.T) {
	m := metrics.New()
	o := onerun.Observation{Event: onerun.EventStarted, Run: onerun.Run{Job: "daily"}, Lease: onerun.Lease{Owner: "a"}}
	m.Observe(o)
	m.Observe(o)
	o.Event, o.Outcome = onerun.EventFinished, &onerun.Outcome{Status: onerun.Succeeded}
	m.Observe(o)
	m.Observe(o)
	has(t, m, `onerun_attempts_running{namespace="",job="daily"} 0`, `onerun_attempt_duration_seconds_count{namespace="",job="daily"} 1`)
}

// lost is a store that has no lease for its owners any more, or can't be reached, when they end.
type lost struct {
	*memory.Store
	err error
}

func (l *lost) Finish(context.Context, onerun.Lease, onerun.Outcome) error { return l.err }

// TestOutcomes: what is no success for whoever looks at the ledger isn't one here.
func TestOutcomes(t *testing.T) {
	for outcome, err := range map[string]error{
		"lease_lost":   onerun.ErrLost,
		"not_recorded": &onerun.StoreError{Kind: onerun.ErrUnavailable, What: "the store"},
	} {
		m := metrics.New()
		runner := onerun.NewRunner(&lost{memory.New(), err}, onerun.WithObserver(m))
		_ = runner.Do(t.Context(), onerun.Job{Name: "daily", FinishWait: time.Millisecond}, func(context.Context, *onerun.Owner) error { return nil })
		has(t, m, fmt.Sprintf(`onerun_attempts_total{namespace="default",job="daily",outcome=%q} 1`, outcome), `onerun_attempts_running{namespace="default",job="daily"} 0`)
		if all := text(t, m); strings.Contains(all, "succe") {
			t.Errorf("%s is a success in\n%s", outcome, all)
		}
	}
	m := metrics.New()
	runner := onerun.NewRunner(memory.New(), onerun.WithObserver(m))
	_ = runner.Do(t.Context(), onerun.Job{Name: "daily"}, func(_ context.Context, o *onerun.Owner) error { return o.Skip("nothing to do") })
	has(t, m, `onerun_attempts_total{namespace="default",job="daily",outcome="skipped"} 1`)
}

// TestEvents: what happens beside the ends is counted, and what isn't known is passed over.
func TestEvents(t *testing.T) {
	m := metrics.New()
	for _, e := range []string{onerun.EventHeartbeatFailed, onerun.EventHeartbeatFailed, onerun.EventLeaseLost, onerun.EventTakenOver, "made_up", onerun.EventClaimed} {
		m.Observe(onerun.Observation{Event: e})
	}
	has(t, m, `onerun_events_total{event="heartbeat_failed"} 2`, `onerun_events_total{event="lease_lost"} 1`, `onerun_events_total{event="taken_over"} 1`)
	if all := text(t, m); strings.Contains(all, "made_up") || strings.Contains(all, "claimed") {
		t.Errorf("the text:\n%s", all)
	}
}

// TestLocksAlone: they are counted by their name.
func TestLocksAlone(t *testing.T) {
	m := metrics.New()
	if err := onerun.WithLock(t.Context(), memory.New(), "reports", func(context.Context) error { return nil }, onerun.WithObserver(m)); err != nil {
		t.Fatal(err)
	}
	has(t, m, `onerun_attempts_total{namespace="default",job="name/reports",outcome="succeeded"} 1`)
}

// TestBound: jobs without end make series with an end.
func TestBound(t *testing.T) {
	m := metrics.New()
	for i := range 3000 {
		o := onerun.Observation{Event: onerun.EventFinished, Run: onerun.Run{Job: fmt.Sprint("job-", i)}, Outcome: &onerun.Outcome{Status: onerun.Succeeded}}
		m.Observe(o)
		m.Observe(o)
	}
	if n := strings.Count(text(t, m), "onerun_attempts_total{"); n != 1001 {
		t.Errorf("%d series", n)
	}
	has(t, m, `onerun_attempts_total{namespace="_other",job="_other",outcome="succeeded"} 4000`, `onerun_attempts_total{namespace="",job="job-7",outcome="succeeded"} 2`)
}

// TestExpvar: package expvar takes the metrics as they are.
func TestExpvar(t *testing.T) {
	m := metrics.New()
	var v expvar.Var = m
	m.Observe(onerun.Observation{Event: onerun.EventFinished, Run: onerun.Run{Job: "a\"b\n"}, Outcome: &onerun.Outcome{Status: onerun.Succeeded}})
	var values map[string]float64
	if err := json.Unmarshal([]byte(v.String()), &values); err != nil {
		t.Fatal(err)
	}
	if got := values[`onerun_attempts_total{namespace="",job="a\"b\n",outcome="succeeded"}`]; got != 1 || len(values) != 12 {
		t.Errorf("%v", values)
	}
}

// TestManySides: owners, keepers and those who fetch come at the same time.
func TestManySides(t *testing.T) {
	m := metrics.New()
	runner := onerun.NewRunner(memory.New(), onerun.WithObserver(m))
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 50 {
				_ = runner.Do(t.Context(), onerun.Job{Name: fmt.Sprint("job-", i)}, func(context.Context, *onerun.Owner) error { return nil })
				_ = m.String()
			}
		})
	}
	group.Wait()
	has(t, m, `onerun_attempts_total{namespace="default",job="job-3",outcome="succeeded"} 50`, `onerun_attempts_running{namespace="default",job="job-3"} 0`)
}
