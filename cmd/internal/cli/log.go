package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/logline"
	"github.com/onerun-dev/onerun/internal/masking"
	"github.com/onerun-dev/onerun/internal/storeurl"
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
	masked bool            // whoever logs masks

	mu       sync.Mutex // of what follows
	log      *slog.Logger
	writer   *logWriter
	lockPath string   // of the claim that was won
	names    []string // of the line that is being written: no secrets
	said     bool     // an error stands on standard error already
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

// levelOf is the level of what happened.
func levelOf(o onerun.Observation) slog.Level {
	switch {
	case o.Event == eventPrivateStore, o.Event == eventNotifyFailed, o.Event == eventTextfileFailed, o.Event == onerun.EventClaimed && unclaimed(o.Lease):
		return slog.LevelWarn
	}
	return logline.Level(o)
}

// Observe implements onerun.Observer.
func (l *logger) Observe(o onerun.Observation) {
	l.mu.Lock() // the keeper and the watch of the lock file tell from goroutines of their own
	defer l.mu.Unlock()
	if o.LockPath != "" {
		l.lockPath = o.LockPath
	}
	level := levelOf(o)
	// Whoever types a start wants to know why it does nothing, however often it is typed.
	if level < l.level || logline.Repeats(o) && (l.file != nil || !isTerminal(2)) {
		return
	}
	l.said = l.said || o.Err != nil && l.file == nil && o.Event != eventNotifyFailed && o.Event != eventTextfileFailed // which are not about the job
	if l.log == nil {
		l.log = slog.New(l.handler())
	}
	l.names = masking.Names(o.Run)
	if o.Refusal != nil {
		l.names = append(l.names, o.Refusal.Holder.Name)
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
		if a.Value.Kind() == slog.KindString && !l.masked && !masking.Checked(a.Key) {
			a.Value = slog.StringValue(masking.Keep(l.env.redacted, a.Value.String(), l.names...))
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

// fields are those of the documentation, with what this command knows beside them.
func (l *logger) fields(o onerun.Observation) []slog.Attr {
	url := storeurl.Redact(l.place.url)
	if scheme, path, ok := strings.Cut(url, ":"); ok && scheme == "sqlite" {
		url = "sqlite:" + l.path(path)
	}
	o.LockPath = cmp.Or(o.LockPath, l.lockPath)
	return logline.Fields(o, logline.Beside{Store: url, Worker: l.thisWorker, Path: l.path, Next: l.next(o)})
}

// next is what somebody has to do, if anything.
func (l *logger) next(o onerun.Observation) string {
	switch r := o.Run; {
	case o.Refusal != nil && o.Refusal.Reason.Blocked():
		return *explain(l.env, onerun.Claim{Namespace: r.Namespace, Job: r.Job, Partition: r.Partition, Lock: r.Lock}, o.Refusal).Next
	case errors.As(o.Err, new(*onerun.NotRecordedError)):
		return "the next start on this host records it, or: onerun" + l.env.storeFlags() + " flush" + l.env.lockFlag()
	}
	return ""
}

// thisWorker is this process as its runs would call it.
func (l *logger) thisWorker() string {
	host, _ := os.Hostname() // without one, the process id remains
	return onerun.Worker{Label: l.worker, Host: host, PID: os.Getpid()}.String()
}
