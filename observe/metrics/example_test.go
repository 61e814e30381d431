package metrics_test

import (
	"context"
	"fmt"
	"os"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/observe/metrics"
	"github.com/onerun-dev/onerun/store/memory"
)

func ExampleNew() {
	m := metrics.New()
	runner := onerun.NewRunner(memory.New(), onerun.WithObserver(m), onerun.WithClock(newClock()))

	_ = runner.Do(context.Background(), onerun.Job{Name: "report"}, func(context.Context, *onerun.Owner) error { return nil })
	if _, err := m.WriteTo(os.Stdout); err != nil {
		fmt.Println(err)
	}

	// Output:
	// # HELP onerun_attempts_total Attempts that ended, by how they did.
	// # TYPE onerun_attempts_total counter
	// onerun_attempts_total{namespace="default",job="report",outcome="succeeded"} 1
	// # HELP onerun_attempts_running Attempts under way.
	// # TYPE onerun_attempts_running gauge
	// onerun_attempts_running{namespace="default",job="report"} 0
	// # HELP onerun_attempt_duration_seconds How long attempts took.
	// # TYPE onerun_attempt_duration_seconds summary
	// onerun_attempt_duration_seconds_count{namespace="default",job="report"} 1
	// onerun_attempt_duration_seconds_sum{namespace="default",job="report"} 0
	// # HELP onerun_last_success_timestamp_seconds When an attempt last succeeded, in Unix time.
	// # TYPE onerun_last_success_timestamp_seconds gauge
	// onerun_last_success_timestamp_seconds{namespace="default",job="report"} 1789434000
	// # HELP onerun_events_total What else was observed.
	// # TYPE onerun_events_total counter
	// onerun_events_total{event="clock_step"} 0
	// onerun_events_total{event="heartbeat_failed"} 0
	// onerun_events_total{event="late_outcome"} 0
	// onerun_events_total{event="lease_lost"} 0
	// onerun_events_total{event="lock_deleted"} 0
	// onerun_events_total{event="retry_left"} 0
	// onerun_events_total{event="retry_superseded"} 0
	// onerun_events_total{event="retry_waiting"} 0
	// onerun_events_total{event="stopped"} 0
	// onerun_events_total{event="taken_over"} 0
}
