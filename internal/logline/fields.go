package logline

import (
	"cmp"
	"errors"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/onerun-dev/onerun"
)

// Beside is what a line says that the observation doesn't know. Each may be left out.
type Beside struct {
	Store  string              // the store's URL, without secrets
	Worker func() string       // who logs, where the run names nobody
	Path   func(string) string // how a path is shown
	Next   string              // what somebody should do
}

// Stamp is a time as log lines have it: RFC 3339 with an offset, in microseconds.
func Stamp(t time.Time) string { return t.Format("2006-01-02T15:04:05.000000Z07:00") }

// fields are those of a line, in their order.
type fields []slog.Attr

func (f *fields) add(a slog.Attr) { *f = append(*f, a) }

func (f *fields) str(key, v string) {
	if v != "" {
		f.add(slog.String(key, v))
	}
}

func (f *fields) at(key string, t time.Time) {
	if !t.IsZero() {
		f.add(slog.String(key, Stamp(t)))
	}
}

func (f *fields) count(key string, n *int64) {
	if n != nil {
		f.add(slog.Int64(key, *n))
	}
}

// Fields are those of the documentation, where they apply, in its order.
func Fields(o onerun.Observation, b Beside) []slog.Attr {
	var f fields
	r := o.Run
	f.str("namespace", r.Namespace)
	f.str("store", b.Store)
	f.str("job", r.Job)
	f.str("key", r.Key())
	f.str("business_date", r.BusinessDate)
	if n := attempt(o); n > 0 {
		f.add(slog.Int("attempt", n))
	}
	f.str("run_id", r.RunID)
	worker, pid := who(o, b)
	f.str("worker", worker)
	f.add(slog.Int("pid", pid))
	f.str("lock", string(r.Lock))
	if path := o.LockPath; path != "" && (o.Delivery == nil || r.Lock == o.Lease.Lock) {
		if b.Path != nil {
			path = b.Path(path)
		}
		f.str("lock_path", path)
	}
	if o.Event == onerun.EventClaimed || o.Event == onerun.EventSkipped {
		f.add(slog.Bool("acquired", o.Refusal == nil))
	}
	if o.Refusal != nil {
		f.refusal(o.Refusal)
		f.str("next", b.Next)
	}
	if o.Event == onerun.EventRetryWaiting {
		f.at("next_retry_at", r.NextRetryAt)
	}
	if o.Lease.Token > 0 && o.Event != onerun.EventTakenOver {
		f.add(slog.Int64("token", o.Lease.Token))
	}
	f.end(o)
	f.str("detail", o.Detail)
	if o.Refusal == nil {
		f.str("next", b.Next)
	}
	if o.Err != nil {
		var errno syscall.Errno
		if errors.As(o.Err, &errno) {
			f.str("errno", errnoName(errno))
		}
		f.str("error", strings.Join(strings.Fields(o.Err.Error()), " "))
	}
	return f
}

// attempt is the one that the line is about; 0: none.
func attempt(o onerun.Observation) int {
	switch {
	case o.Delivery != nil:
		return o.Delivery.Attempt
	case o.Lease.Attempt > 0 && o.Event != onerun.EventTakenOver:
		return o.Lease.Attempt
	}
	return o.Run.Attempt
}

// who is the worker and the process that the line is about.
func who(o onerun.Observation, b Beside) (worker string, pid int) {
	d := o.Delivery
	switch {
	case d != nil && d.Attempt != o.Run.Attempt: // the run tells of a later one
		return "", os.Getpid()
	case o.Run.Worker != (onerun.Worker{}):
		return o.Run.Worker.String(), cmp.Or(o.PID, o.Run.Worker.PID)
	case b.Worker != nil: // nobody's run: this process asked, or decided
		return b.Worker(), os.Getpid()
	}
	host, _ := os.Hostname() // without one, the process id remains
	return onerun.Worker{Host: host, PID: os.Getpid()}.String(), os.Getpid()
}

func (f *fields) refusal(x *onerun.Refusal) {
	f.str("reason", string(x.Reason))
	f.str("holder", x.Holder.String())
	if !x.Holder.Since.IsZero() {
		f.str("holder_age", x.At.Sub(x.Holder.Since).Round(time.Millisecond).String())
	}
	f.at("next_retry_at", x.RetryAt)
	if x.Count > 1 {
		f.add(slog.Int64("count", x.Count))
	}
}

// end is how the attempt ended, if the observation tells of that.
func (f *fields) end(o onerun.Observation) {
	r, out := o.Run, o.Outcome
	switch {
	case out != nil:
		f.str("reason", string(out.Reason))
		if out.ExitCode != nil {
			f.add(slog.Int("exit_code", *out.ExitCode))
		} else if out.Status == onerun.Succeeded {
			f.add(slog.Int("exit_code", 0))
		}
		f.str("signal", out.Signal)
		f.at("started_at", r.StartedAt)
		f.at("finished_at", out.FinishedAt)
		if !r.StartedAt.IsZero() && !out.FinishedAt.IsZero() {
			f.add(slog.Int64("duration_ms", out.FinishedAt.Sub(r.StartedAt).Milliseconds()))
		}
		f.count("processed", out.Processed)
		f.count("failed", out.Failed)
	case o.Delivery != nil:
		f.str("status", string(o.Delivery.Run.Status))
		f.str("reason", string(o.Delivery.Run.Reason))
	case o.Event == onerun.EventTakenOver:
		f.str("reason", string(r.Reason))
		f.at("started_at", r.StartedAt)
	}
}
