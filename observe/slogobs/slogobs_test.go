package slogobs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/observe/slogobs"
	"github.com/onerun-dev/onerun/store/memory"
)

// bed is a Runner on a store in memory, whose clock can be moved, with its log.
type bed struct {
	t      *testing.T
	store  *memory.Store
	runner *onerun.Runner

	mu    sync.Mutex // the log is written by several goroutines
	text  bytes.Buffer
	ahead time.Duration
}

func newBed(t *testing.T, opts ...slogobs.Option) *bed {
	b := &bed{t: t}
	b.store = memory.New(memory.WithNow(func() time.Time {
		b.mu.Lock()
		defer b.mu.Unlock()
		return time.Now().Add(b.ahead)
	}))
	log := slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{ReplaceAttr: slogobs.ReplaceAttr}))
	b.runner = onerun.NewRunner(b.store, onerun.WithObserver(slogobs.New(log, opts...)))
	return b
}

func (b *bed) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *bed) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ahead += d
}

// line is one of the log with its fields in their order.
type line struct {
	names  []string
	values map[string]any
}

// lines takes what was logged since it was asked last.
func (b *bed) lines() (lines []line) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for text := range strings.Lines(b.text.String()) {
		l := line{values: map[string]any{}}
		d := json.NewDecoder(strings.NewReader(text))
		if _, err := d.Token(); err != nil {
			b.t.Fatal(err)
		}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				b.t.Fatal(err)
			}
			var v any
			if err := d.Decode(&v); err != nil {
				b.t.Fatal(err)
			}
			l.names = append(l.names, name.(string))
			l.values[name.(string)] = v
		}
		lines = append(lines, l)
	}
	b.text.Reset()
	return lines
}

// check compares the lines with what is wanted of each: its level, its event and the names of
// the fields after these.
func (b *bed) check(want ...string) []line {
	b.t.Helper()
	lines := b.lines()
	var got []string
	for _, l := range lines {
		if len(l.names) < 3 || !slices.Equal(l.names[:3], []string{"time", "level", "event"}) {
			b.t.Errorf("a line begins with %v", l.names)
			continue
		}
		got = append(got, fmt.Sprint(l.values["level"], " ", l.values["event"], ": ", strings.Join(l.names[3:], " ")))
		for _, name := range []string{"time", "started_at", "finished_at", "next_retry_at"} {
			if v, ok := l.values[name]; ok {
				if _, err := time.Parse("2006-01-02T15:04:05.000000Z07:00", v.(string)); err != nil {
					b.t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
	if !slices.Equal(got, want) {
		b.t.Errorf("logged:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	return lines
}

var daily = onerun.Job{Name: "daily", Partition: "2026-09-15", BusinessDate: "2026-09-15"}

const (
	keyed   = "namespace job key business_date"
	ofClaim = "attempt run_id worker pid lock"
	claimed = "info claimed: " + keyed + " " + ofClaim + " acquired token"
	started = "info started: " + keyed + " " + ofClaim + " token"
	ofEnd   = "started_at finished_at duration_ms"
)

func nothing(context.Context, *onerun.Owner) error { return nil }

// TestSuccessAndSkips: what a run says from its claim to its end, and what those say that come
// too late, at counts 1, 2, 4, 8.
func TestSuccessAndSkips(t *testing.T) {
	b := newBed(t, slogobs.WithWorkerLabel("box1"))
	err := b.runner.Do(t.Context(), daily, func(ctx context.Context, o *onerun.Owner) error {
		n, bad := int64(120), int64(2)
		return o.Report(ctx, onerun.Progress{Processed: &n, Failed: &bad})
	})
	if err != nil {
		t.Fatal(err)
	}
	lines := b.check(claimed, started, "info finished: "+keyed+" "+ofClaim+" token exit_code "+ofEnd+" processed failed")
	v := lines[2].values
	if v["key"] != "daily:2026-09-15" || v["processed"] != 120.0 || v["failed"] != 2.0 || v["exit_code"] != 0.0 || v["pid"] != float64(os.Getpid()) || v["lock"] != "job/daily" {
		t.Errorf("finished: %v", v)
	}
	for range 9 {
		if err := b.runner.Do(t.Context(), daily, nothing); !errors.As(err, new(*onerun.Refusal)) {
			t.Fatal(err)
		}
	}
	skipped := "info skipped: " + keyed + " worker pid lock acquired reason holder holder_age"
	lines = b.check(skipped, skipped+" count", skipped+" count", skipped+" count")
	if v := lines[3].values; v["count"] != 8.0 || v["reason"] != "succeeded" || v["acquired"] != false || v["worker"] != "box1" {
		t.Errorf("skipped: %v", v)
	}
}

// TestFailures: levels and fields of what went wrong, without its secrets.
func TestFailures(t *testing.T) {
	b := newBed(t, slogobs.WithRedaction(func(s string) string { return strings.ReplaceAll(s, "4711", "***") }))
	job := daily
	job.Policy = onerun.Policy{Retries: 1, BackoffMin: time.Millisecond}
	tries := 0
	err := b.runner.Do(t.Context(), job, func(context.Context, *onerun.Owner) error {
		if tries++; tries == 1 {
			return fmt.Errorf("account 4711, password=hunter2: %w", syscall.ENOENT)
		}
		status := 3
		return &onerun.Failure{Reason: onerun.ReasonSignal, Signal: "SIGKILL", ExitCode: &status}
	})
	if !errors.As(err, new(*onerun.Failure)) {
		t.Fatal(err)
	}
	lines := b.check(claimed, started,
		"error failed: "+keyed+" "+ofClaim+" token reason "+ofEnd+" errno error",
		"info retry_waiting: "+keyed+" "+ofClaim+" next_retry_at token",
		claimed, started,
		"error failed: "+keyed+" "+ofClaim+" token reason exit_code signal "+ofEnd+" error")
	if v := lines[2].values; v["error"] != "account ***, password=*** no such file or directory" || v["errno"] != "ENOENT" || v["attempt"] != 1.0 {
		t.Errorf("failed: %v", v)
	}
	if v := lines[6].values; v["signal"] != "SIGKILL" || v["exit_code"] != 3.0 || v["attempt"] != 2.0 {
		t.Errorf("failed again: %v", v)
	}
	// A failure that has no retry left is for a person.
	_ = b.runner.Do(t.Context(), job, nothing)
	b.check("warn skipped: " + keyed + " worker pid lock acquired reason holder holder_age")
}

// TestKeys: a key is no secret, whatever its job is called.
func TestKeys(t *testing.T) {
	b := newBed(t)
	job := onerun.Job{Name: "reset-password", Partition: "2026-09-15"}
	for range 2 {
		_ = b.runner.Do(t.Context(), job, func(context.Context, *onerun.Owner) error {
			return errors.New("reset-password:2026-09-15: password: hunter2")
		})
	}
	for _, line := range b.lines() {
		if key := line.values["key"]; key != "reset-password:2026-09-15" {
			t.Errorf("%v: key %v", line.values["event"], key)
		}
		if holder, ok := line.values["holder"].(string); ok && !strings.HasPrefix(holder, "reset-password:2026-09-15 since ") {
			t.Error(holder)
		}
		if text, ok := line.values["error"].(string); ok && text != "reset-password:2026-09-15: password: ***" {
			t.Error(text)
		}
	}
}

// TestTakeover: the line of a run whose owner is gone is about that owner.
func TestTakeover(t *testing.T) {
	b := newBed(t)
	dead := onerun.Claim{
		Namespace: onerun.DefaultNamespace, Job: "daily", Partition: "2026-09-15", BusinessDate: "2026-09-15", Lock: onerun.JobLock("daily"),
		Owner: onerun.NewID(), RunID: onerun.NewRunID(time.Now()), WorkerLabel: "box2",
		Policy: onerun.Policy{TTL: time.Minute, OnCrash: onerun.CrashAuto, Retries: 1, RetryLost: true},
	}
	if _, err := b.store.Claim(t.Context(), dead); err != nil {
		t.Fatal(err)
	}
	b.pass(time.Hour)
	if err := b.runner.Do(t.Context(), daily, nothing); err != nil {
		t.Fatal(err)
	}
	lines := b.check("warn taken_over: "+keyed+" "+ofClaim+" reason started_at detail", claimed, started, "info finished: "+keyed+" "+ofClaim+" token exit_code "+ofEnd)
	if v := lines[0].values; v["worker"] != "box2" || v["attempt"] != 1.0 || v["reason"] != "lease_expired" {
		t.Errorf("taken over: %v", v)
	}
	if v := lines[1].values; v["attempt"] != 2.0 {
		t.Errorf("claimed: %v", v)
	}
}

// TestLockAlone: a lock has no job and no run, and that what was done under it failed is no news.
func TestLockAlone(t *testing.T) {
	b := newBed(t)
	log := slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{ReplaceAttr: slogobs.ReplaceAttr}))
	_ = onerun.WithLock(t.Context(), b.store, "report", func(context.Context) error { return errors.New("no") }, onerun.WithObserver(slogobs.New(log)))
	for _, l := range b.lines() {
		if l.values["level"] != "info" || l.values["lock"] != "name/report" || l.values["job"] != nil {
			t.Errorf("of a lock alone: %v", l.values)
		}
	}
}

// TestLevels: what the handler doesn't want is not made.
func TestLevels(t *testing.T) {
	b := newBed(t)
	log := slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: slogobs.ReplaceAttr}))
	o := slogobs.New(log.WithGroup("job").With("a", 1))
	o.Observe(onerun.Observation{Event: onerun.EventStarted})
	o.Observe(onerun.Observation{Event: onerun.EventHeartbeatFailed, Err: errors.New("two\nlines")})
	lines := b.lines()
	if len(lines) != 1 || lines[0].values["event"] != onerun.EventHeartbeatFailed || lines[0].values["level"] != "warn" {
		t.Fatalf("logged: %v", lines)
	}
	if group := lines[0].values["job"].(map[string]any); group["error"] != "two lines" || group["a"] != 1.0 {
		t.Errorf("the group: %v", group)
	}
}
