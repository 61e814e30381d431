package onerun_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/onerun-dev/onerun"
)

// What can't be meant is refused before the store is asked.
func TestJobsThatCannotBeMeant(t *testing.T) {
	const sec = time.Second
	for name, job := range map[string]onerun.Job{
		"no name":                     {},
		"no name, a partition":        {Partition: "p"},
		"no name, a lock":             {Lock: "name/n", Partition: "p"},
		"name with a slash":           {Name: "a/b"},
		"namespace with a space":      {Name: "j", Namespace: "a b"},
		"partition with a slash":      {Name: "j", Partition: "2026/09"},
		"lock of no kind":             {Name: "j", Lock: "n"},
		"lock of an unknown kind":     {Name: "j", Lock: "file/n"},
		"lock with a slash":           {Name: "j", Lock: "name/../n"},
		"lock without a name":         {Name: "j", Lock: "name/"},
		"lock of a job without name":  {Name: "j", Lock: "job/"},
		"lock of a key without one":   {Name: "j", Lock: "key/j"},
		"lock of a broken key":        {Name: "j", Lock: "key/j:/"},
		"lease too short":             {Name: "j", Policy: onerun.Policy{TTL: sec - 1}},
		"lease too long":              {Name: "j", Policy: onerun.Policy{TTL: 24*time.Hour + 1}},
		"lease negative":              {Name: "j", Policy: onerun.Policy{TTL: -sec}},
		"crash policy misspelt":       {Name: "j", Policy: onerun.Policy{OnCrash: "Manual"}},
		"lock mode misspelt":          {Name: "j", LockMode: "excl"},
		"order misspelt":              {Name: "j", Order: "FIFO"},
		"retries negative":            {Name: "j", Policy: onerun.Policy{Retries: -1}},
		"backoff negative":            {Name: "j", Policy: onerun.Policy{BackoffMin: -1}},
		"greatest backoff negative":   {Name: "j", Policy: onerun.Policy{BackoffMax: -1}},
		"stale after negative":        {Name: "j", Policy: onerun.Policy{StaleAfter: -1}},
		"grace negative":              {Name: "j", Grace: -1},
		"time for finishing negative": {Name: "j", FinishWait: math.MinInt64},
	} {
		t.Run(name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				b.store.claim = func(_ context.Context, c onerun.Claim) (onerun.Grant, error) {
					t.Errorf("the store was asked: %+v", c)
					return onerun.Grant{}, down()
				}
				var j journal
				err := b.do(job, never(t), onerun.WithObserver(&j))
				if err == nil {
					t.Fatal("accepted")
				}
				onlyKind(t, err, onerun.ErrUsage)
				checkLine(t, err.Error())
				if len(j.all()) != 0 {
					t.Errorf("observed: %v", j.events())
				}
			})
		})
	}
}

func TestWhatIsClaimed(t *testing.T) {
	at := time.Date(2026, 9, 15, 1, 0, 0, 0, time.UTC)
	defaults := onerun.Policy{TTL: time.Minute, OnCrash: onerun.CrashAuto}
	for _, c := range []struct {
		name string
		job  onerun.Job
		want onerun.Claim
	}{
		{"defaults", onerun.Job{Name: "j"}, onerun.Claim{
			Namespace: "default", Job: "j", Lock: "job/j", LockMode: onerun.LockFlock, Policy: defaults, InProcess: true,
		}},
		{"names that need normalising", onerun.Job{Namespace: "e\u0301", Name: "cafe\u0301", Partition: "e\u0301", Lock: "name/e\u0301"}, onerun.Claim{
			Namespace: "\u00e9", Job: "caf\u00e9", Partition: "\u00e9", Lock: "name/\u00e9", LockMode: onerun.LockFlock, Policy: defaults, InProcess: true,
		}},
		{"a lock of the job", onerun.Job{Name: "cafe\u0301"}, onerun.Claim{
			Namespace: "default", Job: "caf\u00e9", Lock: "job/caf\u00e9", LockMode: onerun.LockFlock, Policy: defaults, InProcess: true,
		}},
		{"another job's lock", onerun.Job{Name: "j", Lock: onerun.JobLock("e\u0301")}, onerun.Claim{
			Namespace: "default", Job: "j", Lock: "job/\u00e9", LockMode: onerun.LockFlock, Policy: defaults, InProcess: true,
		}},
		{"a lock of the key", onerun.Job{Name: "j", Partition: "p:q", Lock: onerun.KeyLock("e\u0301:p:q")}, onerun.Claim{
			Namespace: "default", Job: "j", Partition: "p:q", Lock: "key/\u00e9:p:q", LockMode: onerun.LockFlock, Policy: defaults, InProcess: true,
		}},
		{"everything", onerun.Job{
			Namespace: "prod", Name: "j", Partition: "p", BusinessDate: "2026-09-15", LockMode: onerun.LockCreate, Order: onerun.OrderFIFO, ScheduledAt: at,
			Policy: onerun.Policy{
				TTL: time.Second, OnCrash: onerun.CrashManual, StaleAfter: time.Hour, Retries: 3,
				BackoffMin: time.Second, BackoffMax: time.Minute, RetryLost: true,
			},
			Grace: time.Second, FinishWait: time.Second, WorkerLabel: "w", VersionLabel: "v1", Labels: map[string]string{"team": "a"},
		}, onerun.Claim{
			Namespace: "prod", Job: "j", Partition: "p", BusinessDate: "2026-09-15", Lock: "job/j", LockMode: onerun.LockCreate, Order: onerun.OrderFIFO, ScheduledAt: at,
			Policy: onerun.Policy{
				TTL: time.Second, OnCrash: onerun.CrashManual, StaleAfter: time.Hour, Retries: 3,
				BackoffMin: time.Second, BackoffMax: time.Minute, RetryLost: true,
			},
			InProcess: true, WorkerLabel: "w", VersionLabel: "v1", Labels: map[string]string{"team": "a"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				owners := map[string]bool{}
				b.store.claim = func(_ context.Context, got onerun.Claim) (onerun.Grant, error) {
					if d := cmp.Diff(c.want, got, cmpopts.IgnoreFields(onerun.Claim{}, "Owner", "RunID")); d != "" {
						t.Errorf("claimed (-want +got):\n%s", d)
					}
					if len(got.Owner) != 32 || !onerun.IsRunID(got.RunID) {
						t.Errorf("owner %q, run %q", got.Owner, got.RunID)
					}
					owners[got.Owner], owners[got.RunID] = true, true
					return onerun.Grant{}, onerun.ErrIO
				}
				_ = b.do(c.job, never(t))
				_ = b.do(c.job, never(t))
				if len(owners) != 4 {
					t.Errorf("two starts took each other for themselves: %v", owners)
				}
			})
		})
	}
}

func TestWithLock(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		lock := func(name string, fn func(context.Context) error) error {
			return onerun.WithLock(t.Context(), b.store, name, fn, onerun.WithClock(b.clock))
		}
		called := 0
		boom := errors.New("boom")
		err := lock("cafe\u0301", func(ctx context.Context) error {
			called++
			// The same lock by its other spelling is held; another is not.
			err := lock("caf\u00e9", func(context.Context) error { called++; return nil })
			var refusal *onerun.Refusal
			if !errors.As(err, &refusal) || refusal.Reason != onerun.RefusedLocked || !strings.HasPrefix(err.Error(), "caf\u00e9 skipped: locked") {
				t.Errorf("the lock within itself: %v; want it refused", err)
			}
			if err := lock("other", func(context.Context) error { called++; return nil }); err != nil {
				t.Errorf("another lock: %v", err)
			}
			pass(ctx, time.Hour) // longer than the lease
			return boom
		})
		if !errors.Is(err, boom) || called != 2 {
			t.Errorf("WithLock: %v, called %d times", err, called)
		}
		runs, err := b.mem.Runs(t.Context(), onerun.Query{Namespace: onerun.DefaultNamespace})
		if err != nil || len(runs) != 0 {
			t.Errorf("recorded: %v, %v; want nothing", runs, err)
		}
		b.free()
		if err := lock("a/b", func(context.Context) error { called++; return nil }); !errors.Is(err, onerun.ErrUsage) || called != 2 {
			t.Errorf("a bad name: %v", err)
		}
	})
}

// A panic frees a lock too.
func TestWithLockPanics(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		got := recovered(func() {
			_ = onerun.WithLock(t.Context(), b.store, "n", func(context.Context) error { panic("boom") }, onerun.WithClock(b.clock))
		})
		if got != "boom" {
			t.Errorf("panic %v", got)
		}
		b.free()
	})
}
