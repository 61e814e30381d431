package otelobs

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/onerun-dev/onerun"
)

// ofJob is what stands with every number: nothing of which there is more with every run.
func ofJob(r onerun.Run) []attribute.KeyValue {
	var a attributes
	a.str("onerun.namespace", r.Namespace)
	a.str("onerun.job", r.Job)
	return a
}

// attributes are some that are left out when they have no value.
type attributes []attribute.KeyValue

func (a *attributes) str(key, v string) {
	if v != "" {
		*a = append(*a, attribute.String(key, v))
	}
}

func (a *attributes) number(key string, n *int64) {
	if n != nil {
		*a = append(*a, attribute.Int64(key, *n))
	}
}

func ofRun(r onerun.Run, l onerun.Lease) []attribute.KeyValue {
	a := attributes(ofJob(r))
	a.str("onerun.key", r.Key())
	a.str("onerun.business_date", r.BusinessDate)
	a.str("onerun.lock", string(r.Lock))
	a.str("onerun.run_id", l.RunID)
	if l.Attempt > 0 {
		a = append(a, attribute.Int("onerun.attempt", l.Attempt))
	}
	return append(a, attribute.Int64("onerun.token", l.Token))
}

func ofEvent(o onerun.Observation) []attribute.KeyValue {
	var a attributes
	a.str("onerun.detail", o.Detail)
	if o.Err != nil {
		a.str("onerun.error", onerun.CutError(o.Err.Error()))
	}
	return a
}

func ofOutcome(o onerun.Outcome) []attribute.KeyValue {
	var a attributes
	a.str("onerun.reason", string(o.Reason))
	a.str("onerun.signal", o.Signal)
	if o.ExitCode != nil {
		a = append(a, attribute.Int("onerun.exit_code", *o.ExitCode))
	}
	a.number("onerun.processed", o.Processed)
	a.number("onerun.failed", o.Failed)
	return a
}
