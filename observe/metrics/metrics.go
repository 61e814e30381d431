// Package metrics is an observer that counts: what this process claimed, skipped and executed,
// in the text format of Prometheus and for package expvar. It needs nothing but the standard
// library, and none of its HTTP: package metricshttp has a handler.
//
//	m := metrics.New()
//	runner := onerun.NewRunner(store, onerun.WithObserver(m))
//	expvar.Publish("onerun", m)               // or:
//	http.Handle("/metrics", metricshttp.Handler(m))
//
// The metrics, whose names follow Prometheus' conventions
// (https://prometheus.io/docs/practices/naming/):
//
//	onerun_attempts_total{namespace,job,outcome}                  attempts that ended
//	onerun_attempts_running{namespace,job}                        attempts under way
//	onerun_attempt_duration_seconds_sum, _count {namespace,job}   how long attempts took
//	onerun_last_success_timestamp_seconds{namespace,job}          when one last succeeded
//	onerun_skips_total{namespace,job,reason}                      claims that were refused
//	onerun_events_total{event}                                    what else was observed
//
// An outcome is succeeded, skipped, the reason of a failure (see onerun.Reason), lease_lost, or
// not_recorded for work that ended when the store could not be told. The job of a lock alone is
// the lock's name, such as name/reports. Partitions, runs and workers are no labels: there are
// too many of them. Nor is there a series for a job that was never seen, so let an alert on the
// last success cover its absence too:
//
//	time() - onerun_last_success_timestamp_seconds{job="daily-settlement"} > 26 * 3600
//	or absent(onerun_last_success_timestamp_seconds{job="daily-settlement"})
package metrics

import (
	"sync"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/outcome"
)

// maxJobs is how many jobs have series of their own. The rest share those of otherJobs, which no
// job can be called: labels that grow without bound are what breaks a Prometheus.
const (
	maxJobs   = 1000
	otherJobs = `namespace="_other",job="_other"`
)

// The metrics, in the order in which they are written.
const (
	attempts = iota
	running
	duration
	lastSuccess
	skips
	events
)

// counted are the events of the last metric; the others have one of their own.
var counted = []string{
	onerun.EventHeartbeatFailed, onerun.EventClockStep, onerun.EventLeaseLost, onerun.EventLockDeleted,
	onerun.EventStopped, onerun.EventTakenOver, onerun.EventLateOutcome,
	onerun.EventRetryWaiting, onerun.EventRetrySuperseded, onerun.EventRetryLeft,
}

// Metrics counts what it observes. Make it with New.
type Metrics struct {
	mu     sync.Mutex
	values map[series]float64
	works  map[string]work     // by owner
	jobs   map[string]struct{} // that have series of their own
}

// series is one line of the text.
type series struct {
	metric int
	part   string // _sum or _count, if the metric has parts
	labels string
}

// work is an attempt under way.
type work struct {
	job   string // its labels
	since time.Time
}

// New makes an observer that counts.
func New() *Metrics {
	m := &Metrics{values: map[series]float64{}, works: map[string]work{}, jobs: map[string]struct{}{}}
	for _, e := range counted {
		m.values[series{metric: events, labels: label("event", e)}] = 0
	}
	return m
}

// Observe implements onerun.Observer.
func (m *Metrics) Observe(o onerun.Observation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	owner := o.Lease.Owner
	w, works := m.works[owner]
	switch {
	case o.Event == onerun.EventStarted && !works:
		w = work{m.job(o.Run), o.At}
		m.works[owner] = w
		m.values[series{metric: running, labels: w.job}]++
	case o.Event == onerun.EventSkipped && o.Refusal != nil:
		m.values[series{metric: skips, labels: m.job(o.Run) + "," + label("reason", string(o.Refusal.Reason))}]++
	case o.Outcome != nil:
		m.end(o, w, works)
	default:
		s := series{metric: events, labels: label("event", o.Event)}
		if _, ok := m.values[s]; ok {
			m.values[s]++
		}
	}
}

// end counts the end of an attempt. One that never started, since there was no process for it,
// say, has taken no time.
func (m *Metrics) end(o onerun.Observation, w work, works bool) {
	job := m.job(o.Run)
	word := outcome.Of(o)
	m.values[series{metric: attempts, labels: job + "," + label("outcome", word)}]++
	if word == "succeeded" {
		m.values[series{metric: lastSuccess, labels: job}] = float64(o.At.UnixMilli()) / 1000
	}
	if works {
		delete(m.works, o.Lease.Owner)
		m.values[series{metric: running, labels: w.job}]--
		m.values[series{duration, "_sum", w.job}] += max(0, o.At.Sub(w.since).Seconds())
		m.values[series{duration, "_count", w.job}]++
	}
}

// job is the labels of a run's job.
func (m *Metrics) job(r onerun.Run) string {
	name := r.Job
	if name == "" {
		name = string(r.Lock)
	}
	labels := label("namespace", r.Namespace) + "," + label("job", name)
	if _, ok := m.jobs[labels]; ok {
		return labels
	}
	if len(m.jobs) >= maxJobs {
		return otherJobs
	}
	m.jobs[labels] = struct{}{}
	return labels
}
