package onerun_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// kinds are all the sentinels there are.
var kinds = []error{
	onerun.ErrUsage, onerun.ErrUnavailable, onerun.ErrInternal, onerun.ErrCreate, onerun.ErrIO,
	onerun.ErrPermission, onerun.ErrConfig, onerun.ErrState, onerun.ErrNotFound, onerun.ErrLost,
}

// onlyKind checks that an error matches one sentinel (nil: none) and no other.
func onlyKind(t interface {
	Helper()
	Errorf(string, ...any)
}, err, want error,
) {
	t.Helper()
	for _, k := range kinds {
		if errors.Is(err, k) != errors.Is(k, want) {
			t.Errorf("%q: matches %q: %v; its kind is %v", err, k, errors.Is(err, k), want)
		}
	}
}

func TestErrorKinds(t *testing.T) {
	for _, k := range kinds {
		onlyKind(t, k, k)
		onlyKind(t, fmt.Errorf("around: %w", k), k)
		for _, cause := range []error{nil, context.DeadlineExceeded, fs.ErrPermission, errors.New("x")} {
			err := fmt.Errorf("around: %w", &onerun.StoreError{Kind: k, What: "w", Err: cause})
			onlyKind(t, err, k)
			if cause != nil && !errors.Is(err, cause) {
				t.Errorf("%q doesn't lead to its cause", err)
			}
		}
	}
	onlyKind(t, &onerun.StateError{Why: "w"}, onerun.ErrState)
	onlyKind(t, &onerun.NameError{}, onerun.ErrUsage)
	onlyKind(t, &onerun.Failure{Err: errors.New("x")}, nil)
	onlyKind(t, &onerun.NotRecordedError{Err: &onerun.StoreError{Kind: onerun.ErrIO}}, onerun.ErrIO)
}

func TestRefusalIsNothingElse(t *testing.T) {
	for _, reason := range []onerun.Reason{
		onerun.RefusedRunning, onerun.RefusedStale, onerun.RefusedSucceeded, onerun.RefusedSkipped,
		onerun.RefusedFailed, onerun.RefusedPaused, onerun.RefusedRetryNotDue, onerun.RefusedLocked,
	} {
		var err error = &onerun.Refusal{Reason: reason, Job: "j"}
		onlyKind(t, err, nil)
		onlyKind(t, fmt.Errorf("around: %w", err), nil)
		blocked := reason == "failed" || reason == "stale" || reason == "retry_not_due"
		if reason.Blocked() != blocked {
			t.Errorf("%s: blocked %v; want %v", reason, reason.Blocked(), blocked)
		}
	}
	var refusal *onerun.Refusal
	for _, k := range kinds {
		if errors.As(&onerun.StoreError{Kind: k, What: "w"}, &refusal) {
			t.Errorf("%q was taken for a refusal", k)
		}
	}
}

// A job that ran and failed because a claim that it made was refused has not been
// skipped itself.
func TestFailureHidesAnotherRefusal(t *testing.T) {
	inner := &onerun.Refusal{Reason: onerun.RefusedLocked, Lock: onerun.NamedLock("n")}
	failure := &onerun.Failure{Reason: onerun.ReasonExit, Err: fmt.Errorf("step 2: %w", inner)}
	for _, err := range []error{failure, &onerun.NotRecordedError{Job: failure, Err: onerun.ErrIO}} {
		if errors.As(err, new(*onerun.Refusal)) {
			t.Errorf("%q is taken for a refusal", err)
		}
		if !errors.As(err, new(*onerun.Failure)) {
			t.Errorf("%q has no Failure", err)
		}
	}
	plain := errors.New("x")
	if !errors.Is(&onerun.Failure{Err: plain}, plain) {
		t.Error("a Failure doesn't lead to its cause")
	}
}

func TestErrorTexts(t *testing.T) {
	three := 3
	at := time.Date(2026, 9, 15, 1, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		err  error
		want string
	}{
		{&onerun.Failure{Reason: onerun.ReasonExit, ExitCode: &three}, "exit: status 3"},
		{&onerun.Failure{Reason: onerun.ReasonSignal, Signal: "SIGKILL", ExitCode: &three}, "signal: ended by SIGKILL"},
		{&onerun.Failure{Reason: onerun.ReasonTimeout}, "timeout"},
		{&onerun.Failure{Reason: onerun.ReasonExit, Err: errors.New("no disk")}, "no disk"},
		{&onerun.StoreError{What: "open the store", Path: "/x", Err: errors.New("a\nb"), Do: "do y"}, "open the store /x: a b; do y"},
		{&onerun.StoreError{What: "open"}, "open"},
		{&onerun.StoreError{What: "lock file", Path: "/a\nb\x1b[2J"}, "lock file /a b\ufffd[2J"},
		{&onerun.StateError{Why: "paused by x: a\nb"}, "paused by x: a b"},
		{&onerun.Refusal{Reason: onerun.RefusedSucceeded, Job: "j", Key: "j:p"}, "j:p skipped: succeeded"},
		{&onerun.Refusal{Reason: onerun.RefusedRunning, Job: "j", Lock: "job/j"}, "j skipped: running"},
		{&onerun.Refusal{Reason: onerun.RefusedLocked, Lock: "name/n"}, "n skipped: locked"},
		{&onerun.Refusal{Reason: onerun.RefusedRetryNotDue, Key: "j:p", RetryAt: at}, "j:p skipped: retry_not_due until 2026-09-15T01:00:00Z"},
		{
			&onerun.NotRecordedError{Outcome: onerun.Outcome{Status: onerun.Succeeded}, Err: errors.New("a\nb")},
			"the job ended (SUCCEEDED), but its result is not recorded yet: a b",
		},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%#v says %q; want %q", c.err, got, c.want)
		}
	}
}

func TestNotRecordedLeadsToBoth(t *testing.T) {
	store := &onerun.StoreError{Kind: onerun.ErrUnavailable, What: "w"}
	job := &onerun.Failure{Reason: onerun.ReasonExit}
	err := error(&onerun.NotRecordedError{Job: job, Err: store})
	if !errors.Is(err, onerun.ErrUnavailable) || !errors.Is(err, job) {
		t.Errorf("%q doesn't lead to the store's error and to the job's", err)
	}
	if err := (&onerun.NotRecordedError{Err: store}); !errors.Is(err, onerun.ErrUnavailable) {
		t.Errorf("%q doesn't lead to the store's error", err)
	}
}
