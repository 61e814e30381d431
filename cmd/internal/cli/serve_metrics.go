package cli

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/onerun-dev/onerun/internal/scheduler"
)

// metrics are the scheduler's own, in the text format of Prometheus. The runs' are in the ledger; few series, whatever the
// number of jobs.
type metrics struct {
	jobs, reloadsFailed atomic.Int64

	mu       sync.Mutex
	fires    map[scheduler.EventKind]int64
	lateness [len(latenessBounds) + 1]int64
	lateSum  float64
}

// latenessBounds are the upper bounds of the histogram, in seconds.
var latenessBounds = [...]float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600, 3600}

func (m *metrics) count(ev scheduler.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fires == nil {
		m.fires = map[scheduler.EventKind]int64{}
	}
	m.fires[ev.Kind]++
	if ev.Kind != scheduler.Fired {
		return
	}
	late := max(ev.Lag, 0).Seconds()
	m.lateSum += late
	for i, bound := range latenessBounds {
		if late <= bound {
			m.lateness[i]++
			return
		}
	}
	m.lateness[len(latenessBounds)]++
}

// counted are the events that are, each as a series that is there from the start.
var counted = []scheduler.EventKind{
	scheduler.Fired, scheduler.Late, scheduler.Elsewhere, scheduler.Retried, scheduler.Requested, scheduler.Rescued, scheduler.MissedAny, scheduler.StoodDown, scheduler.StoreAway,
	scheduler.NotRun, scheduler.BadFire, scheduler.ClockBack, scheduler.Alerted,
}

func (d *daemon) pages() map[string]Page {
	return map[string]Page{
		"/metrics": func(w io.Writer) (int, string) {
			d.writeMetrics(w)
			return http200, "text/plain; version=0.0.4; charset=utf-8"
		},
		"/healthz": func(w io.Writer) (int, string) { return health(w, d.engine.Alive(), "the scheduler stands still") },
		"/readyz": func(w io.Writer) (int, string) {
			return health(w, d.engine.Ready(), "the store has not answered lately")
		},
	}
}

// The status codes, without package net/http: every start would link it.
const (
	http200 = 200
	http503 = 503
)

func health(w io.Writer, ok bool, otherwise string) (int, string) {
	const media = "text/plain; charset=utf-8"
	if !ok {
		_, _ = fmt.Fprintln(w, otherwise)
		return http503, media
	}
	_, _ = fmt.Fprintln(w, "ok")
	return http200, media
}

func (d *daemon) writeMetrics(w io.Writer) {
	put := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
	head := func(name, kind, help string) { put("# HELP %s %s\n# TYPE %[1]s %[3]s", name, help, kind) }
	m := &d.metrics
	m.mu.Lock()
	defer m.mu.Unlock()
	head("onerun_scheduler_events_total", "counter", "What the scheduler did, by kind: fired, missed, fired_elsewhere and so on.")
	for _, kind := range counted {
		put("onerun_scheduler_events_total{event=%q} %d", string(kind), m.fires[kind])
	}
	head("onerun_scheduler_start_lateness_seconds", "histogram", "From a fire's slot to its start, of those that were not missed.")
	sum := int64(0)
	for i, bound := range latenessBounds {
		sum += m.lateness[i]
		put("onerun_scheduler_start_lateness_seconds_bucket{le=\"%g\"} %d", bound, sum)
	}
	sum += m.lateness[len(latenessBounds)]
	put("onerun_scheduler_start_lateness_seconds_bucket{le=\"+Inf\"} %d", sum)
	put("onerun_scheduler_start_lateness_seconds_sum %g", m.lateSum)
	put("onerun_scheduler_start_lateness_seconds_count %d", sum)
	head("onerun_scheduler_jobs", "gauge", "Jobs with a schedule.")
	put("onerun_scheduler_jobs %d", m.jobs.Load())
	running, waiting := d.engine.Counts()
	head("onerun_scheduler_starts", "gauge", "Starts under way, and those that wait for a limit.")
	put("onerun_scheduler_starts{state=\"running\"} %d\nonerun_scheduler_starts{state=\"waiting\"} %d", running, waiting)
	head("onerun_scheduler_reloads_failed_total", "counter", "Readings of the configuration file that changed nothing, since it has a mistake.")
	put("onerun_scheduler_reloads_failed_total %d", m.reloadsFailed.Load())
	head("onerun_scheduler_ready", "gauge", "1 if the store has answered lately.")
	ready := 0
	if d.engine.Ready() {
		ready = 1
	}
	put("onerun_scheduler_ready %d", ready)
	head("onerun_scheduler_time_seconds", "gauge", "The scheduler's wall clock.")
	put("onerun_scheduler_time_seconds %.3f", float64(time.Now().UnixMilli())/1000)
}
