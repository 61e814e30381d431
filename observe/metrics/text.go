package metrics

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
)

// ContentType is the type of what WriteTo writes.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// described is what the text says of each metric.
var described = [...]struct{ name, kind, help string }{
	attempts:    {"onerun_attempts_total", "counter", "Attempts that ended, by how they did."},
	running:     {"onerun_attempts_running", "gauge", "Attempts under way."},
	duration:    {"onerun_attempt_duration_seconds", "summary", "How long attempts took."},
	lastSuccess: {"onerun_last_success_timestamp_seconds", "gauge", "When an attempt last succeeded, in Unix time."},
	skips:       {"onerun_skips_total", "counter", "Claims that were refused, by reason."},
	events:      {"onerun_events_total", "counter", "What else was observed."},
}

// sample is a series with its value now.
type sample struct {
	series
	value float64
}

// samples are in the order in which they are written.
func (m *Metrics) samples() []sample {
	m.mu.Lock()
	all := make([]sample, 0, len(m.values))
	for s, v := range m.values {
		all = append(all, sample{s, v})
	}
	m.mu.Unlock()
	slices.SortFunc(all, func(a, b sample) int {
		return cmp.Or(a.metric-b.metric, strings.Compare(a.labels, b.labels), strings.Compare(a.part, b.part))
	})
	return all
}

func (s sample) name() string { return described[s.metric].name + s.part + "{" + s.labels + "}" }

func (s sample) number() string { return strconv.FormatFloat(s.value, 'f', -1, 64) }

// WriteTo writes the metrics in the text format of Prometheus, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/). It implements io.WriterTo.
func (m *Metrics) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	last := -1
	for _, s := range m.samples() {
		if s.metric != last {
			last = s.metric
			d := described[last]
			b.WriteString("# HELP " + d.name + " " + d.help + "\n# TYPE " + d.name + " " + d.kind + "\n")
		}
		b.WriteString(s.name() + " " + s.number() + "\n")
	}
	return b.WriteTo(w)
}

// String gives the metrics as one JSON object, with a member for each series. It implements
// expvar.Var.
func (m *Metrics) String() string {
	values := map[string]float64{}
	for _, s := range m.samples() {
		values[s.name()] = s.value
	}
	text, err := json.Marshal(values)
	if err != nil { // of a number that JSON doesn't have: there is none
		return "{}"
	}
	return string(text)
}

// label is one label with its value in quotes.
func label(name, value string) string {
	return name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value) + `"`
}
