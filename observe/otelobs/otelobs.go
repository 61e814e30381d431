// Package otelobs is an observer that tells OpenTelemetry: a span for each attempt, a counter of
// events and a histogram of how long attempts take. It links OpenTelemetry's API alone; which
// SDK is behind it, and where that sends, is the program's own choice.
//
//	obs, err := otelobs.New(otel.GetTracerProvider(), otel.GetMeterProvider())
//	runner := onerun.NewRunner(store, onerun.WithObserver(obs))
//
// The span is a child of the one in the context that Runner.Do gets, and it is in the context
// that the function gets, so that what the work asks of databases and services stands below it.
// What happens meanwhile, such as heartbeats that fail, are events of the span. A failed attempt,
// and one whose lease was lost, has status Error. The span of a process that onerun ends itself
// (onerun.WithExitOnLoss) is never exported.
//
// Names and attributes:
//
//	span       the job's name, or the lock's when there is no job: onerun daily-settlement
//	           onerun.namespace .job .key .lock .run_id .attempt .token .business_date
//	           .outcome .reason .exit_code .signal .processed .failed
//	onerun.events            counter, {event}: onerun.namespace .job .event, of a skip also .reason
//	onerun.attempt.duration  histogram, s: onerun.namespace .job .outcome
//
// An outcome is succeeded, skipped, the reason of a failure (see onerun.Reason), lease_lost, or
// not_recorded for work that ended when the store could not be told.
package otelobs

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/outcome"
)

// scope names whoever measures, by OpenTelemetry's rule the package that does.
const scope = "github.com/onerun-dev/onerun/observe/otelobs"

// Observer tells OpenTelemetry. Make it with New.
type Observer struct {
	tracer   trace.Tracer
	events   metric.Int64Counter
	duration metric.Float64Histogram

	mu       sync.Mutex
	attempts map[string]attempt // under way, by owner
}

var _ onerun.Tracer = (*Observer)(nil)

// attempt is one under way.
type attempt struct {
	ctx   context.Context // with its span in it
	span  trace.Span
	began time.Time
}

// New makes an observer of a provider of tracers and one of meters. Either may be one that does
// nothing: see the packages noop of OpenTelemetry.
//
// Errors: those of the meter, when it can't make an instrument.
func New(tracers trace.TracerProvider, meters metric.MeterProvider) (*Observer, error) {
	meter := meters.Meter(scope)
	events, err := meter.Int64Counter("onerun.events", metric.WithUnit("{event}"),
		metric.WithDescription("What happened to claims, runs and their owners."))
	if err != nil {
		return nil, err
	}
	duration, err := meter.Float64Histogram("onerun.attempt.duration", metric.WithUnit("s"),
		metric.WithDescription("How long attempts took."),
		metric.WithExplicitBucketBoundaries(0.1, 1, 5, 15, 60, 300, 900, 3600, 4*3600, 24*3600))
	if err != nil {
		return nil, err
	}
	return &Observer{tracer: tracers.Tracer(scope), events: events, duration: duration, attempts: map[string]attempt{}}, nil
}

// Trace implements onerun.Tracer.
func (o *Observer) Trace(ctx context.Context, run onerun.Run, lease onerun.Lease) context.Context {
	began := time.Now()
	name := run.Job
	if name == "" {
		name = string(run.Lock)
	}
	ctx, span := o.tracer.Start(ctx, "onerun "+name, trace.WithTimestamp(began), trace.WithAttributes(ofRun(run, lease)...))
	o.mu.Lock()
	defer o.mu.Unlock()
	// What is told after the caller has given up belongs to the trace all the same.
	o.attempts[lease.Owner] = attempt{context.WithoutCancel(ctx), span, began}
	return ctx
}

// Observe implements onerun.Observer.
func (o *Observer) Observe(seen onerun.Observation) {
	a, ok := o.attempt(seen)
	ctx := a.ctx
	if !ok {
		ctx = context.Background() // nobody's attempt: a skip, say
	}
	count := append(ofJob(seen.Run), attribute.String("onerun.event", seen.Event))
	if seen.Refusal != nil {
		count = append(count, attribute.String("onerun.reason", string(seen.Refusal.Reason)))
	}
	o.events.Add(ctx, 1, metric.WithAttributes(count...))
	switch {
	case !ok:
	case seen.Outcome != nil:
		o.end(a, seen)
	case seen.Event != onerun.EventStarted: // that is the span's beginning
		a.span.AddEvent(seen.Event, trace.WithAttributes(ofEvent(seen)...))
	}
}

// attempt is the one under way that is told of, and is forgotten with its end.
func (o *Observer) attempt(seen onerun.Observation) (attempt, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	a, ok := o.attempts[seen.Lease.Owner]
	if ok && seen.Outcome != nil {
		delete(o.attempts, seen.Lease.Owner)
	}
	return a, ok
}

func (o *Observer) end(a attempt, seen onerun.Observation) {
	word := outcome.Of(seen)
	ended := time.Now()
	o.duration.Record(a.ctx, ended.Sub(a.began).Seconds(), metric.WithAttributes(append(ofJob(seen.Run), attribute.String("onerun.outcome", word))...))
	a.span.SetAttributes(attribute.String("onerun.outcome", word))
	a.span.SetAttributes(ofOutcome(*seen.Outcome)...)
	switch {
	case seen.Err != nil && (word == outcome.LeaseLost || word == outcome.NotRecorded):
		a.span.SetStatus(codes.Error, onerun.CutError(seen.Err.Error()))
	case seen.Outcome.Status == onerun.Failed:
		a.span.SetStatus(codes.Error, seen.Outcome.Error) // as it is recorded: without secrets
	}
	a.span.End(trace.WithTimestamp(ended))
}
