package onerun_test

import (
	"math"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"pgregory.net/rapid"
)

// B42: a base of 1 s that doubles overflows 64 bits at the 34th attempt.
func TestBackoffDoublesWithoutOverflow(t *testing.T) {
	p := onerun.Policy{Retries: 100, BackoffMin: time.Second, BackoffMax: math.MaxInt64}
	for _, jitter := range []float64{0, 0.5, math.Nextafter(1, 0)} {
		last := time.Duration(0)
		for failures := 1; failures <= 100; failures++ {
			wait := waitOf(t, p, failures, jitter)
			whole := float64(time.Second) * math.Pow(2, float64(failures-1))
			if want := max(1e9, min(whole, math.MaxInt64)*(1+jitter)/2); math.Abs(float64(wait)-want) > want/1e9 {
				t.Errorf("jitter %v, failure %d: waits %s; want %s", jitter, failures, wait, time.Duration(want))
			}
			if wait < last || wait <= 0 {
				t.Errorf("jitter %v, failure %d: waits %s after %s", jitter, failures, wait, last)
			}
			last = wait
		}
	}
}

func TestRetryBudget(t *testing.T) {
	p := onerun.Policy{Retries: 3, BackoffMin: time.Second, BackoffMax: time.Hour}
	for failures, want := range map[int]bool{-1: false, 0: false, 1: true, 2: true, 3: true, 4: false, math.MaxInt: false} {
		if _, ok := p.NextRetry(decidedAt, failures, onerun.ReasonExit, 0); ok != want {
			t.Errorf("after %d failures of 3 allowed: retry %v; want %v", failures, ok, want)
		}
	}
	if _, ok := (onerun.Policy{}).NextRetry(decidedAt, 1, onerun.ReasonExit, 0); ok {
		t.Error("a retry without a budget")
	}
	at, ok := onerun.Policy{Retries: 1}.NextRetry(decidedAt, 1, onerun.ReasonExit, 0.9)
	if !ok || !at.Equal(decidedAt) {
		t.Errorf("without a backoff the retry is due at %s, %v; want at once", at, ok)
	}
}

func TestReasonsThatAreRetried(t *testing.T) {
	for reason, want := range map[onerun.Reason]struct{ plain, retryLost bool }{
		onerun.ReasonExit:          {true, true},
		onerun.ReasonSignal:        {true, true},
		onerun.ReasonTimeout:       {true, true},
		onerun.ReasonCanceled:      {true, true},
		onerun.ReasonOwnerDied:     {true, true},
		onerun.ReasonLeaseExpired:  {false, true},
		onerun.ReasonLeaseLost:     {false, false},
		onerun.ReasonStopped:       {false, false},
		onerun.ReasonNotFound:      {false, false},
		onerun.ReasonNotExecutable: {false, false},
	} {
		for _, retryLost := range []bool{false, true} {
			p := onerun.Policy{Retries: 9, RetryLost: retryLost}
			_, got := p.NextRetry(decidedAt, 1, reason, 0)
			if got != map[bool]bool{false: want.plain, true: want.retryLost}[retryLost] {
				t.Errorf("%s, retry-lost %v: retried %v", reason, retryLost, got)
			}
		}
	}
}

func waitOf(t interface {
	Helper()
	Fatalf(string, ...any)
}, p onerun.Policy, failures int, jitter float64,
) time.Duration {
	t.Helper()
	at, ok := p.NextRetry(decidedAt, failures, onerun.ReasonExit, jitter)
	if !ok {
		t.Fatalf("%+v: no retry after %d failures", p, failures)
	}
	return at.Sub(decidedAt)
}

func TestBackoffStaysInBounds(t *testing.T) {
	durations := rapid.OneOf(
		rapid.Int64Range(0, int64(time.Hour)), rapid.Int64Range(0, math.MaxInt64), rapid.Int64Range(math.MaxInt64-3, math.MaxInt64),
		rapid.Int64Range(0, 3), rapid.Int64(),
	)
	jitters := rapid.OneOf(rapid.Float64Range(0, math.Nextafter(1, 0)), rapid.SampledFrom([]float64{0, math.Nextafter(1, 0)}))
	rapid.Check(t, func(t *rapid.T) {
		p := onerun.Policy{
			Retries:    1e6,
			BackoffMin: time.Duration(durations.Draw(t, "min")),
			BackoffMax: time.Duration(durations.Draw(t, "max")),
		}
		least, most := max(p.BackoffMin, 0), max(p.BackoffMax, p.BackoffMin, 0)
		failures, jitter := rapid.IntRange(1, 1e6-1).Draw(t, "failures"), jitters.Draw(t, "jitter")
		wait := waitOf(t, p, failures, jitter)
		if wait < least || wait > most {
			t.Fatalf("waits %s; the bounds are %s and %s", wait, least, most)
		}
		if more := waitOf(t, p, failures+1, jitter); more < wait {
			t.Fatalf("waits %s after %d failures and %s after one more", wait, failures, more)
		}
		if whole := waitOf(t, p, failures, math.Nextafter(1, 0)); wait < whole/2-time.Nanosecond {
			t.Fatalf("waits %s; the whole is %s, so at least its half is due", wait, whole)
		}
	})
}

// A budget ends after as many retries as it has, whatever the backoff, and none of them is
// due before the failure, or, with a least wait, in its very moment.
func TestRetryBudgetEndsWhateverTheBackoff(t *testing.T) {
	hostile := rapid.OneOf(
		rapid.SampledFrom([]int64{0, 1, 2, -1, math.MinInt64, math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64/2 + 1, 1 << 62}), rapid.Int64(),
		rapid.Int64Range(1, int64(time.Hour)),
	)
	rapid.Check(t, func(t *rapid.T) {
		p := onerun.Policy{
			Retries:    rapid.IntRange(0, 200).Draw(t, "retries"),
			BackoffMin: time.Duration(hostile.Draw(t, "min")),
			BackoffMax: time.Duration(hostile.Draw(t, "max")),
		}
		jitter := rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "jitter")
		last, granted := time.Duration(0), 0
		for failures := 1; failures <= 202; failures++ {
			at, ok := p.NextRetry(decidedAt, failures, onerun.ReasonExit, jitter)
			if !ok {
				continue
			}
			granted++
			wait := at.Sub(decidedAt)
			if wait < 0 || p.BackoffMin > 0 && wait < p.BackoffMin || wait < last || wait > max(0, p.BackoffMin, p.BackoffMax) {
				t.Fatalf("failure %d: waits %s after %s", failures, wait, last)
			}
			last = wait
		}
		if granted != p.Retries {
			t.Fatalf("%d retries of %d", granted, p.Retries)
		}
	})
}
