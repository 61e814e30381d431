package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store"
)

// logger writes what happens as log lines. It is made without cost, since most runs
// log nothing: cron mails whatever is printed.
type logger struct {
	env    *env
	place  place
	worker string // --worker-label
	level  slog.Level
	file   *os.File
	ready  <-chan struct{} // see logWriter

	mu       sync.Mutex // of what follows
	log      *slog.Logger
	writer   *logWriter
	lockPath string // of the claim that was won
	said     bool   // an error stands on standard error already
}

func newLogger(e *env, p place, ready <-chan struct{}) (*logger, error) {
	l := &logger{env: e, place: p, level: slog.LevelWarn, ready: ready}
	switch e.LogLevel {
	case "debug":
		l.level = slog.LevelDebug
	case "info":
		l.level = slog.LevelInfo
	case "error":
		l.level = slog.LevelError
	case "auto":
		if e.LogFile == "" && isTerminal(2) {
			l.level = slog.LevelInfo
		}
	}
	if e.LogFile != "" {
		f, err := os.OpenFile(string(e.LogFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
		if err != nil {
			return nil, &onerun.StoreError{Kind: createKind(err), What: "log file", Path: string(e.LogFile), Err: pathCause(err)}
		}
		l.file = f
	}
	return l, nil
}

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

func (l *logger) close() {
	if l.writer != nil {
		l.writer.close()
	}
	if l.file != nil {
		_ = l.file.Close()
	}
}

// levels are the events that are not everyday ones.
var levels = map[string]slog.Level{
	onerun.EventHeartbeatFailed: slog.LevelWarn,
	onerun.EventClockStep:       slog.LevelWarn,
	onerun.EventLeaseLost:       slog.LevelError,
	onerun.EventTimeout:         slog.LevelWarn,
	onerun.EventStopped:         slog.LevelWarn,
	onerun.EventFailed:          slog.LevelError,
	onerun.EventTakenOver:       slog.LevelWarn,
	onerun.EventLateOutcome:     slog.LevelWarn,
	onerun.EventLockDeleted:     slog.LevelWarn,
	onerun.EventRetryLeft:       slog.LevelWarn,
	eventPrivateStore:           slog.LevelWarn,
}

// levelOf is the level of what happened. That a command under a lock alone failed is
// no news of onerun's, which only lent it the lock: flock(1) says nothing either.
func levelOf(o onerun.Observation) slog.Level {
	switch {
	case o.Refusal != nil && o.Refusal.Reason.Blocked():
		return slog.LevelWarn
	case o.Delivery != nil && o.Delivery.Kind == onerun.DeliveredKept:
		return slog.LevelError // a person has to look
	case o.Event == onerun.EventFailed && o.Run.RunID == "" && o.Outcome != nil &&
		(o.Outcome.Reason == onerun.ReasonExit || o.Outcome.Reason == onerun.ReasonSignal):
		return slog.LevelInfo
	}
	return levels[o.Event]
}

// Observe implements onerun.Observer.
func (l *logger) Observe(o onerun.Observation) {
	l.mu.Lock() // the keeper and the watch of the lock file tell from goroutines of their own
	defer l.mu.Unlock()
	if o.LockPath != "" {
		l.lockPath = o.LockPath
	}
	level := levelOf(o)
	// Equal skips are logged at counts 1, 2, 4, 8 …: a flood must not drown the log.
	// Whoever types a start wants to know why it does nothing, however often it is typed.
	r := o.Refusal
	if level < l.level || o.Event == onerun.EventSkipped && r != nil && r.Count > 0 && r.Count&(r.Count-1) != 0 && (l.file != nil || !isTerminal(2)) {
		return
	}
	l.said = l.said || o.Err != nil && l.file == nil
	if l.log == nil {
		l.log = slog.New(l.handler())
	}
	l.log.LogAttrs(context.Background(), level, o.Event, l.fields(o)...)
}

// handler writes lines with the documented field names: the message is the event.
func (l *logger) handler() slog.Handler {
	to := l.env.err
	if l.file != nil {
		to = l.file
	}
	l.writer = newLogWriter(to, l.ready)
	opts := &slog.HandlerOptions{Level: l.level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case slog.TimeKey:
			return slog.String("time", stamp(a.Value.Time()))
		case slog.LevelKey:
			return slog.String("level", strings.ToLower(a.Value.String()))
		case slog.MessageKey:
			a.Key = "event"
			return a
		}
		if a.Value.Kind() == slog.KindString {
			a.Value = slog.StringValue(l.env.redacted(a.Value.String()))
		}
		return a
	}}
	if l.env.LogFormat == "json" {
		return slog.NewJSONHandler(l.writer, opts)
	}
	return slog.NewTextHandler(l.writer, opts)
}

func (l *logger) path(p string) string {
	if l.env.LogPaths == "short" {
		return filepath.Base(p)
	}
	return p
}

// fields are those of the documentation, where they apply, in its order.
func (l *logger) fields(o onerun.Observation) []slog.Attr {
	var f []slog.Attr
	str := func(key, v string) {
		if v != "" {
			f = append(f, slog.String(key, v))
		}
	}
	at := func(key string, t time.Time) {
		if !t.IsZero() {
			f = append(f, slog.String(key, stamp(t)))
		}
	}
	r := o.Run
	str("namespace", r.Namespace)
	url := store.Redact(l.place.url)
	if scheme, path, ok := strings.Cut(url, ":"); ok && scheme == "sqlite" {
		url = "sqlite:" + l.path(path)
	}
	str("store", url)
	str("job", r.Job)
	str("key", r.Key())
	str("business_date", r.BusinessDate)
	if o.Delivery != nil {
		f = append(f, slog.Int("attempt", o.Delivery.Attempt))
	} else if o.Lease.Attempt > 0 && o.Event != onerun.EventTakenOver {
		f = append(f, slog.Int("attempt", o.Lease.Attempt))
	} else if r.Attempt > 0 {
		f = append(f, slog.Int("attempt", r.Attempt))
	}
	str("run_id", r.RunID)
	worker, pid := r.Worker.String(), cmp.Or(o.PID, r.Worker.PID)
	if d := o.Delivery; d != nil && d.Attempt != r.Attempt { // the run tells of a later one
		worker, pid = "", os.Getpid()
	} else if r.Worker == (onerun.Worker{}) { // nobody's run: this process asked, or decided
		worker, pid = l.thisWorker(), os.Getpid()
	}
	str("worker", worker)
	f = append(f, slog.Int("pid", pid))
	str("lock", string(r.Lock))
	if path := cmp.Or(o.LockPath, l.lockPath); path != "" && (o.Delivery == nil || r.Lock == o.Lease.Lock) {
		str("lock_path", l.path(path))
	}
	if o.Event == onerun.EventClaimed || o.Event == onerun.EventSkipped {
		f = append(f, slog.Bool("acquired", o.Refusal == nil))
	}
	if x := o.Refusal; x != nil {
		str("reason", string(x.Reason))
		str("holder", x.Holder.String())
		if !x.Holder.Since.IsZero() {
			f = append(f, slog.String("holder_age", x.At.Sub(x.Holder.Since).Round(time.Millisecond).String()))
		}
		at("next_retry_at", x.RetryAt)
		if x.Count > 1 {
			f = append(f, slog.Int64("count", x.Count))
		}
		if x.Reason.Blocked() { // somebody has to do something: say what
			str("next", *explain(l.env, onerun.Claim{Namespace: r.Namespace, Job: r.Job, Partition: r.Partition, Lock: r.Lock}, x).Next)
		}
	}
	if o.Event == onerun.EventRetryWaiting {
		at("next_retry_at", r.NextRetryAt)
	}
	if o.Lease.Token > 0 && o.Event != onerun.EventTakenOver {
		f = append(f, slog.Int64("token", o.Lease.Token))
	}
	if out := o.Outcome; out != nil {
		str("reason", string(out.Reason))
		if out.ExitCode != nil {
			f = append(f, slog.Int("exit_code", *out.ExitCode))
		} else if out.Status == onerun.Succeeded {
			f = append(f, slog.Int("exit_code", 0))
		}
		str("signal", out.Signal)
		at("started_at", r.StartedAt)
		at("finished_at", out.FinishedAt)
		if !r.StartedAt.IsZero() && !out.FinishedAt.IsZero() {
			f = append(f, slog.Int64("duration_ms", out.FinishedAt.Sub(r.StartedAt).Milliseconds()))
		}
	} else if d := o.Delivery; d != nil {
		str("status", string(d.Run.Status))
		str("reason", string(d.Run.Reason))
	} else if o.Event == onerun.EventTakenOver {
		str("reason", string(r.Reason))
		at("started_at", r.StartedAt)
	}
	str("detail", o.Detail)
	if errors.As(o.Err, new(*onerun.NotRecordedError)) {
		str("next", "the next start on this host records it, or: onerun"+l.env.storeFlags()+" flush")
	}
	if o.Err != nil {
		var errno syscall.Errno
		if errors.As(o.Err, &errno) {
			str("errno", unix.ErrnoName(errno))
		}
		str("error", strings.Join(strings.Fields(o.Err.Error()), " "))
	}
	return f
}

// thisWorker is this process as its runs would call it.
func (l *logger) thisWorker() string {
	host, _ := os.Hostname() // without one, the process id remains
	return onerun.Worker{Label: l.worker, Host: host, PID: os.Getpid()}.String()
}
