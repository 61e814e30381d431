// Package slogobs is an observer that logs by log/slog what the command line would log: the
// same events at the same levels, with the same fields in the same order.
//
//	log := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{ReplaceAttr: slogobs.ReplaceAttr}))
//	runner := onerun.NewRunner(store, onerun.WithObserver(slogobs.New(log.With("store", name))))
//
// The message of a line is the event. Equal skips are logged at counts 1, 2, 4, 8 …, so that a
// flood can't drown the log. Secrets are masked: see onerun.Redact.
package slogobs

import (
	"context"
	"log/slog"
	"strings"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/logline"
	"github.com/onerun-dev/onerun/internal/masking"
)

// Option changes what New makes.
type Option func(*observer)

// WithRedaction masks further secrets, beside what onerun.Redact knows.
func WithRedaction(f func(string) string) Option { return func(o *observer) { o.redact = f } }

// WithWorkerLabel says what this process calls itself in its jobs (Job.WorkerLabel), for the
// lines that no run stands behind, such as skips.
func WithWorkerLabel(label string) Option { return func(o *observer) { o.label = label } }

type observer struct {
	log    *slog.Logger
	redact func(string) string
	label  string
}

// New makes an observer that writes to a logger. A line is written before Observe returns: a
// handler that can block for long should have a queue.
func New(log *slog.Logger, opts ...Option) onerun.Observer {
	o := &observer{log: log, redact: func(s string) string { return s }}
	for _, opt := range opts {
		opt(o)
	}
	return o
}

// Observe implements onerun.Observer.
func (o *observer) Observe(seen onerun.Observation) {
	ctx := context.Background() // an observation has no context: it may outlive the caller's
	level := logline.Level(seen)
	if !o.log.Enabled(ctx, level) || logline.Repeats(seen) {
		return
	}
	var b logline.Beside
	if o.label != "" {
		b.Worker = func() string { return o.label }
	}
	fields := logline.Fields(seen, b)
	names := masking.Names(seen.Run)
	if seen.Refusal != nil {
		names = append(names, seen.Refusal.Holder.Name)
	}
	mask := func(s string) string { return o.redact(onerun.Redact(s)) }
	for i, a := range fields {
		if a.Value.Kind() == slog.KindString && !masking.Checked(a.Key) {
			fields[i].Value = slog.StringValue(masking.Keep(mask, a.Value.String(), names...))
		}
	}
	o.log.LogAttrs(ctx, level, seen.Event, fields...)
}

// ReplaceAttr gives the lines of a slog.TextHandler or slog.JSONHandler the documented names
// and forms, by its HandlerOptions: the message is called event, the level is written small,
// and the time is in RFC 3339 with microseconds. Lines of other loggers that have the same
// handler change with it.
func ReplaceAttr(groups []string, a slog.Attr) slog.Attr {
	switch {
	case len(groups) > 0:
	case a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime:
		return slog.String(slog.TimeKey, logline.Stamp(a.Value.Time()))
	case a.Key == slog.LevelKey:
		return slog.String(slog.LevelKey, strings.ToLower(a.Value.String()))
	case a.Key == slog.MessageKey:
		a.Key = "event"
	}
	return a
}
