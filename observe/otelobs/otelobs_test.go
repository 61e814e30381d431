package otelobs_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/observe/otelobs"
	"github.com/onerun-dev/onerun/store/memory"
)

// bed is an observer with the SDK behind it, which keeps everything in memory.
type bed struct {
	t      *testing.T
	store  onerun.Store
	spans  *tracetest.InMemoryExporter
	tracer *trace.TracerProvider
	reader *metric.ManualReader
	runner *onerun.Runner
}

func newBed(t *testing.T, store onerun.Store) *bed {
	t.Helper()
	b := &bed{t: t, store: store, spans: tracetest.NewInMemoryExporter(), reader: metric.NewManualReader()}
	b.tracer = trace.NewTracerProvider(trace.WithSyncer(b.spans))
	obs, err := otelobs.New(b.tracer, metric.NewMeterProvider(metric.WithReader(b.reader)))
	if err != nil {
		t.Fatal(err)
	}
	b.runner = onerun.NewRunner(store, onerun.WithObserver(obs))
	return b
}

// span is the one of that name that was exported.
func (b *bed) span(name string) tracetest.SpanStub {
	b.t.Helper()
	var found []tracetest.SpanStub
	for _, s := range b.spans.GetSpans() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		b.t.Fatalf("%d spans are called %s", len(found), name)
	}
	return found[0]
}

// data is what a reader of the metrics gets.
func (b *bed) data(name string) metricdata.Aggregation {
	b.t.Helper()
	var all metricdata.ResourceMetrics
	if err := b.reader.Collect(b.t.Context(), &all); err != nil {
		b.t.Fatal(err)
	}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			if m.Name == name {
				return m.Data
			}
		}
	}
	b.t.Fatalf("there is no metric %s", name)
	return nil
}

// count is the value of the counter of events for these attributes and no others.
func (b *bed) count(attrs ...string) int64 {
	b.t.Helper()
	want := set(attrs...)
	for _, p := range b.data("onerun.events").(metricdata.Sum[int64]).DataPoints {
		if p.Attributes.Equals(&want) {
			return p.Value
		}
	}
	return 0
}

func set(pairs ...string) attribute.Set {
	var kv []attribute.KeyValue
	for i := 0; i < len(pairs); i += 2 {
		kv = append(kv, attribute.String(pairs[i], pairs[i+1]))
	}
	return attribute.NewSet(kv...)
}

// attrs are a span's attributes, as text.
func attrs(s tracetest.SpanStub) map[string]string {
	m := map[string]string{}
	for _, kv := range s.Attributes {
		m[string(kv.Key)] = fmt.Sprint(kv.Value.AsInterface())
	}
	return m
}

var daily = onerun.Job{Name: "daily", Partition: "2026-09-15", BusinessDate: "2026-09-15"}

// TestSpan: the attempt's span stands between the caller's and the work's, and says what it was.
func TestSpan(t *testing.T) {
	b := newBed(t, memory.New())
	ctx, caller := b.tracer.Tracer("test").Start(t.Context(), "caller")
	var owner *onerun.Owner
	err := b.runner.Do(ctx, daily, func(ctx context.Context, o *onerun.Owner) error {
		owner = o
		_, work := b.tracer.Tracer("test").Start(ctx, "work")
		work.End()
		n := int64(120)
		return o.Report(ctx, onerun.Progress{Processed: &n})
	})
	if err != nil {
		t.Fatal(err)
	}
	caller.End()
	s := b.span("onerun daily")
	if work := b.span("work"); s.Parent.SpanID() != caller.SpanContext().SpanID() || work.Parent.SpanID() != s.SpanContext.SpanID() {
		t.Errorf("the span's parent is %s, and it is no parent of the work's", s.Parent.SpanID())
	}
	want := map[string]string{
		"onerun.namespace": "default", "onerun.job": "daily", "onerun.key": "daily:2026-09-15", "onerun.business_date": "2026-09-15",
		"onerun.lock": "job/daily", "onerun.run_id": owner.Run().RunID, "onerun.attempt": "1",
		"onerun.token": fmt.Sprint(owner.Lease().Token), "onerun.outcome": "succeeded", "onerun.processed": "120",
	}
	got := attrs(s)
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %q, want %q", k, got[k], v)
		}
	}
	if len(got) != len(want) || s.Status.Code != codes.Unset || len(s.Events) != 0 {
		t.Errorf("attributes %v, status %v, events %v", got, s.Status, s.Events)
	}
}

// TestFailures: each attempt has its span, and one that failed says how.
func TestFailures(t *testing.T) {
	b := newBed(t, memory.New())
	job := daily
	job.Retries = 1
	tries := 0
	_ = b.runner.Do(t.Context(), job, func(context.Context, *onerun.Owner) error {
		if tries++; tries == 1 {
			return errors.New("password=hunter2 is wrong")
		}
		status := 3
		return &onerun.Failure{Reason: onerun.ReasonSignal, Signal: "SIGKILL", ExitCode: &status}
	})
	spans := b.spans.GetSpans()
	if len(spans) != 2 {
		t.Fatalf("%d spans", len(spans))
	}
	first, second := attrs(spans[0]), attrs(spans[1])
	if first["onerun.attempt"] != "1" || first["onerun.outcome"] != "exit" || spans[0].Status.Code != codes.Error || spans[0].Status.Description != "password=*** is wrong" {
		t.Errorf("the first attempt: %v %v", first, spans[0].Status)
	}
	if second["onerun.attempt"] != "2" || second["onerun.outcome"] != "signal" || second["onerun.reason"] != "signal" || second["onerun.signal"] != "SIGKILL" || second["onerun.exit_code"] != "3" || spans[1].Status.Code != codes.Error {
		t.Errorf("the second attempt: %v %v", second, spans[1].Status)
	}
}

// TestMetrics: events are counted with few attributes, and how long attempts took.
func TestMetrics(t *testing.T) {
	b := newBed(t, memory.New())
	for range 3 {
		_ = b.runner.Do(t.Context(), daily, func(context.Context, *onerun.Owner) error { return nil })
	}
	job := []string{"onerun.namespace", "default", "onerun.job", "daily", "onerun.event"}
	for event, want := range map[string]int64{onerun.EventClaimed: 1, onerun.EventStarted: 1, onerun.EventFinished: 1, onerun.EventFailed: 0} {
		if got := b.count(append(job, event)...); got != want {
			t.Errorf("%s: %d, want %d", event, got, want)
		}
	}
	if got := b.count(append(job, onerun.EventSkipped, "onerun.reason", "succeeded")...); got != 2 {
		t.Errorf("skipped: %d", got)
	}
	points := b.data("onerun.attempt.duration").(metricdata.Histogram[float64]).DataPoints
	if want := set("onerun.namespace", "default", "onerun.job", "daily", "onerun.outcome", "succeeded"); len(points) != 1 || points[0].Count != 1 || !points[0].Attributes.Equals(&want) {
		t.Errorf("durations: %+v", points)
	}
}

// TestToldTwice: an attempt ends once, whatever is told of it afterwards.
func TestToldTwice(t *testing.T) {
	reader := metric.NewManualReader()
	b := newBed(t, memory.New())
	b.reader = reader
	obs, err := otelobs.New(b.tracer, metric.NewMeterProvider(metric.WithReader(reader)))
	if err != nil {
		t.Fatal(err)
	}
	lease := onerun.Lease{Owner: "a"}
	obs.Trace(t.Context(), onerun.Run{Job: "daily"}, lease)
	for range 2 {
		obs.Observe(onerun.Observation{Event: onerun.EventFinished, Run: onerun.Run{Job: "daily"}, Lease: lease, Outcome: &onerun.Outcome{Status: onerun.Succeeded}})
	}
	if points := b.data("onerun.attempt.duration").(metricdata.Histogram[float64]).DataPoints; points[0].Count != 1 {
		t.Errorf("the attempt ended %d times", points[0].Count)
	}
}

// gone is a store in which a lease is lost at the first heartbeat.
type gone struct{ *memory.Store }

func (gone) Heartbeat(context.Context, onerun.Lease) (onerun.Beat, error) {
	return onerun.Beat{}, onerun.ErrLost
}

func (gone) Finish(context.Context, onerun.Lease, onerun.Outcome) error { return onerun.ErrLost }

func (gone) Deliver(context.Context, onerun.Lease, onerun.Outcome) (onerun.Delivery, error) {
	return onerun.Delivery{}, onerun.ErrLost
}

// TestLostLease: what happens meanwhile is an event of the span, and a loss is an error, even of
// work that succeeded.
func TestLostLease(t *testing.T) {
	b := newBed(t, gone{memory.New()})
	job := daily
	job.TTL = onerun.MinTTL
	err := b.runner.Do(t.Context(), job, func(ctx context.Context, _ *onerun.Owner) error {
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, onerun.ErrLost) {
		t.Fatal(err)
	}
	s := b.span("onerun daily")
	if len(s.Events) != 1 || s.Events[0].Name != onerun.EventLeaseLost || s.Status.Code != codes.Error || s.Status.Description != "lease lost" || attrs(s)["onerun.outcome"] != "lease_lost" {
		t.Errorf("events %v, status %v, %v", s.Events, s.Status, attrs(s))
	}
}

// TestLockAlone: it has a span by the lock's name, and no run.
func TestLockAlone(t *testing.T) {
	b := newBed(t, memory.New())
	obs, err := otelobs.New(b.tracer, metric.NewMeterProvider())
	if err != nil {
		t.Fatal(err)
	}
	err = onerun.WithLock(t.Context(), b.store, "reports", func(context.Context) error { return nil }, onerun.WithObserver(obs))
	if err != nil {
		t.Fatal(err)
	}
	if got := attrs(b.span("onerun name/reports")); got["onerun.lock"] != "name/reports" || got["onerun.run_id"] != "" || got["onerun.attempt"] != "" {
		t.Errorf("attributes %v", got)
	}
}
