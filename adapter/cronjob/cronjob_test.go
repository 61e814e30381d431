package cronjob_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/adapter/cronjob"
	"github.com/onerun-dev/onerun/schedule"
	"github.com/onerun-dev/onerun/store/memory"
)

// reports are what fires came to.
type reports struct {
	mu  sync.Mutex
	all []error
	new chan error
}

func newReports() *reports { return &reports{new: make(chan error, 100)} }

func (r *reports) add(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, err)
	r.new <- err
}

// take gives what was reported since it was asked last.
func (r *reports) take() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

func reason(err error) onerun.Reason {
	var skip *onerun.Refusal
	if !errors.As(err, &skip) {
		return ""
	}
	return skip.Reason
}

// TestReplicas: two programs have the same schedule. Each slot is done by one of them, and the
// other is told.
func TestReplicas(t *testing.T) {
	store := memory.New()
	at, err := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse("* * * * * *")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	ran := map[string]int{}
	var crons []*cron.Cron
	said := newReports()
	for range 2 {
		c := cron.New(cron.WithLocation(time.UTC))
		job, err := cronjob.New(t.Context(), onerun.NewRunner(store), onerun.Job{Name: "daily", Wait: onerun.Forever}, func(_ context.Context, o *onerun.Owner) error {
			mu.Lock()
			defer mu.Unlock()
			ran[o.Run().Partition]++
			return nil
		}, cronjob.Keyed(at, c.Location(), schedule.Spec{}), cronjob.WithReport(said.add))
		if err != nil {
			t.Fatal(err)
		}
		c.Schedule(at, job)
		crons = append(crons, c)
	}
	for _, c := range crons {
		c.Start()
	}
	err = <-said.new // both have come to one slot
	for _, c := range crons {
		<-c.Stop().Done()
	}
	if reason(err) != onerun.RefusedSucceeded {
		t.Errorf("the second replica: %v", err)
	}
	for slot, times := range ran {
		if _, err := time.Parse(time.RFC3339, slot); err != nil || times != 1 {
			t.Errorf("slot %q was done %d times", slot, times)
		}
	}
	if len(ran) == 0 {
		t.Error("nothing was done")
	}
}

// clock is one that a test sets.
type clock struct{ now time.Time }

func (c *clock) time() time.Time { return c.now }

func (c *clock) set(t *testing.T, at string) {
	t.Helper()
	var err error
	if c.now, err = time.Parse(time.RFC3339Nano, at); err != nil {
		t.Fatal(err)
	}
}

// TestKeys: what a fire's key is, and which fires are of one key.
func TestKeys(t *testing.T) {
	newYork := "America/New_York"
	for _, c := range []struct {
		what, expr, zone string
		spec             *schedule.Spec // nil: unkeyed
		fires            []string
		want             []string // keys that ran; "" is an unkeyed run
	}{
		{"unkeyed, each fire is a run", "0 1 * * *", "UTC", nil, []string{"2026-09-15T01:00:00.001Z", "2026-09-15T01:00:03Z"}, []string{"", ""}},
		{"a slot, whoever comes late", "0 1 * * *", "UTC", &schedule.Spec{}, []string{"2026-09-15T01:00:00.001Z", "2026-09-15T01:00:03Z", "2026-09-16T01:00:00Z"}, []string{"2026-09-15T01:00:00Z", "2026-09-16T01:00:00Z"}},
		{"a date from the slot", "0 1 * * *", "Asia/Seoul", &schedule.Spec{Date: "yesterday", Zone: "Asia/Seoul"}, []string{"2026-09-14T16:00:00.5Z"}, []string{"2026-09-14"}},
		{"a time that comes twice runs twice", "30 1 * * *", newYork, &schedule.Spec{}, []string{"2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"}, []string{"2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"}},
		{"and once for its date", "30 1 * * *", newYork, &schedule.Spec{Period: "day", Zone: newYork}, []string{"2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"}, []string{"2026-11-01"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			clock := &clock{time.Now()}
			opts := []cronjob.Option{cronjob.WithNow(clock.time), cronjob.WithReport(func(err error) {
				if reason(err) != onerun.RefusedSucceeded {
					t.Error(err)
				}
			})}
			if c.spec != nil {
				opts = append(opts, cronjob.Keyed(parse(t, c.expr), zone(t, c.zone), *c.spec))
			}
			var ran []string
			job, err := cronjob.New(t.Context(), onerun.NewRunner(memory.New()), onerun.Job{Name: "daily"}, func(_ context.Context, o *onerun.Owner) error {
				r := o.Run()
				ran = append(ran, r.Partition)
				if (r.Partition == "") != r.ScheduledAt.IsZero() || r.ScheduledAt.After(clock.now) || (len(r.Partition) == len(time.DateOnly)) != (r.BusinessDate == r.Partition && r.Partition != "") {
					t.Errorf("of %s: date %q, scheduled at %s", r.Partition, r.BusinessDate, r.ScheduledAt)
				}
				return nil
			}, opts...)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range c.fires {
				clock.set(t, at)
				job.Run()
			}
			if !slices.Equal(ran, c.want) {
				t.Errorf("ran: %q, want %q", ran, c.want)
			}
		})
	}
}

// TestClockChanges: what the documentation says of robfig/cron's own faults.
func TestClockChanges(t *testing.T) {
	for _, c := range []struct {
		expr, zone, from string
		want             []string
	}{
		{"30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", []string{"2026-03-09T06:30:00Z"}},
		{"0 0 * * *", "Africa/Cairo", "2025-04-24T00:00:00Z", []string{"2025-04-25T21:00:00Z"}},
		{"0 0 * * *", "Australia/Lord_Howe", "2026-04-04T14:00:00Z", []string{"2026-04-06T13:30:00Z"}},
		{"30 1 * * *", "America/New_York", "2026-11-01T00:00:00Z", []string{"2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"}},
	} {
		var now clock
		now.set(t, c.from)
		at := now.now.In(zone(t, c.zone))
		for _, want := range c.want {
			at = parse(t, c.expr).Next(at)
			if got := at.UTC().Format(time.RFC3339); got != want {
				t.Errorf("%s in %s from %s: %s, want %s", c.expr, c.zone, c.from, got, want)
			}
		}
	}
}

// TestContext: the work is told when the program is to end.
func TestContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	said := newReports()
	bye := errors.New("bye")
	job, err := cronjob.New(ctx, onerun.NewRunner(memory.New()), onerun.Job{Name: "daily"}, func(ctx context.Context, _ *onerun.Owner) error {
		cancel(bye)
		<-ctx.Done()
		return context.Cause(ctx)
	}, cronjob.WithReport(said.add))
	if err != nil {
		t.Fatal(err)
	}
	job.Run()
	var failure *onerun.Failure
	if all := said.take(); len(all) != 1 || !errors.As(all[0], &failure) || failure.Reason != onerun.ReasonCanceled || !errors.Is(all[0], bye) {
		t.Errorf("reported: %v", all)
	}
}

// TestWrapper: a job that there is already runs once a key, and its panic is its failure, which
// goes on to the chain.
func TestWrapper(t *testing.T) {
	clock := &clock{time.Now()}
	store := memory.New()
	said := newReports()
	wrap, err := cronjob.Wrapper(t.Context(), onerun.NewRunner(store), onerun.Job{Name: "daily"},
		cronjob.Keyed(parse(t, "0 1 * * *"), time.UTC, schedule.Spec{}), cronjob.WithNow(clock.time), cronjob.WithReport(said.add))
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	job := cron.NewChain(cron.Recover(cron.DiscardLogger), wrap).Then(cron.FuncJob(func() {
		if ran++; ran == 2 {
			panic("no")
		}
	}))
	for _, at := range []string{"2026-09-15T01:00:00Z", "2026-09-15T01:00:01Z", "2026-09-16T01:00:00Z"} {
		clock.set(t, at)
		job.Run()
	}
	runs, err := store.Runs(t.Context(), onerun.Query{Namespace: onerun.DefaultNamespace})
	if err != nil || ran != 2 || len(runs) != 2 {
		t.Fatalf("ran %d times: %+v, %v", ran, runs, err)
	}
	if bad, good := runs[0], runs[1]; good.Status != onerun.Succeeded || bad.Status != onerun.Failed || !strings.HasPrefix(bad.Error, "panic: no") {
		t.Errorf("runs: %+v", runs)
	}
	if all := said.take(); len(all) != 1 || reason(all[0]) != onerun.RefusedSucceeded {
		t.Errorf("reported: %v", all)
	}
}

// down is a store that can't be reached.
type down struct{ *memory.Store }

func (down) Claim(context.Context, onerun.Claim) (onerun.Grant, error) {
	return onerun.Grant{}, &onerun.StoreError{Kind: onerun.ErrPermission, What: "the store"}
}

// TestLogged: without a report, an error and a skip that somebody should look at are logged, and
// an everyday skip is not.
func TestLogged(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	var text bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&text, nil)))
	store := memory.New()
	nothing := func(context.Context, *onerun.Owner) error { return nil }
	fire := func(store onerun.Store, fn func(context.Context, *onerun.Owner) error) string {
		text.Reset()
		job, err := cronjob.New(t.Context(), onerun.NewRunner(store), onerun.Job{Name: "daily", Partition: "p"}, fn)
		if err != nil {
			t.Fatal(err)
		}
		job.Run()
		return text.String()
	}
	if got := fire(down{store}, nothing); !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "the store") {
		t.Errorf("a store that can't be asked: %q", got)
	}
	if got := fire(store, func(context.Context, *onerun.Owner) error { return errors.New("boom") }); !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "boom") {
		t.Errorf("a failure: %q", got)
	}
	if got := fire(store, nothing); !strings.Contains(got, "level=WARN") || !strings.Contains(got, "skipped: failed") {
		t.Errorf("a skip that blocks: %q", got)
	}
	if _, err := store.Claim(t.Context(), onerun.Claim{Namespace: "default", Job: "daily", Lock: onerun.JobLock("daily"), Owner: onerun.NewID(), RunID: onerun.NewRunID(time.Now()), Policy: onerun.Policy{TTL: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	text.Reset()
	job, err := cronjob.New(t.Context(), onerun.NewRunner(store), onerun.Job{Name: "daily"}, nothing)
	if err != nil {
		t.Fatal(err)
	}
	if job.Run(); text.Len() != 0 {
		t.Errorf("an everyday skip: %q", text.String())
	}
}
