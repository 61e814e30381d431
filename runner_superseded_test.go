package onerun_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// decide acts on the last run of the job as an operator would.
func (b *bed) decide(do func(onerun.Run) error) func() {
	return func() {
		if err := do(b.last("daily")); err != nil {
			b.t.Errorf("decide: %v", err)
		}
	}
}

var somebody = onerun.Who{By: "ana@host", Reason: "why"}

func (b *bed) resolve(as onerun.Status) func() {
	return b.decide(func(r onerun.Run) error {
		_, err := b.mem.Resolve(b.t.Context(), onerun.Resolution{Namespace: r.Namespace, RunID: r.RunID, Expect: onerun.Expected(r), As: as, Who: somebody})
		return err
	})
}

func (b *bed) approve() func() {
	return b.decide(func(r onerun.Run) error {
		_, err := b.mem.Approve(b.t.Context(), onerun.ApprovalRequest{Namespace: r.Namespace, RunID: r.RunID, Expect: onerun.Expected(r), Who: somebody})
		return err
	})
}

func (b *bed) pause(pause bool) func() {
	return b.decide(func(r onerun.Run) error {
		q := onerun.PauseRequest{Namespace: r.Namespace, Job: r.Job, Who: somebody}
		if pause {
			return b.mem.Pause(b.t.Context(), q)
		}
		return b.mem.Resume(b.t.Context(), q)
	})
}

// take is another start, which takes the attempt on the word of an approval, and ends it
// after a while; 0: it goes on.
func (b *bed) take(policy onerun.Policy, ends time.Duration, as onerun.Status) func() {
	return func() {
		b.approve()()
		g := b.hold("daily", "p", policy)
		if ends > 0 {
			b.finishAt(b.at()+ends, g, onerun.Outcome{Status: as, Reason: map[bool]onerun.Reason{true: onerun.ReasonExit}[as == onerun.Failed]})
		}
	}
}

// Whoever waits for a retry that others take, or decide about, ends with its own failure.
func TestRetryIsTakenByOthers(t *testing.T) {
	again := onerun.Policy{Retries: 5, BackoffMin: time.Second, BackoffMax: time.Second}
	slowly := onerun.Policy{Retries: 5, BackoffMin: time.Hour, BackoffMax: time.Hour}
	dead := onerun.Policy{OnCrash: onerun.CrashManual, TTL: time.Second}
	for _, c := range []struct {
		name string
		what func(*bed) func()
		want string
	}{
		{"another start executes it", func(b *bed) func() { return b.take(onerun.Policy{}, 0, "") }, "retry_superseded daily:p/1 running"},
		{"another start has executed it", func(b *bed) func() { return b.take(onerun.Policy{}, 1, onerun.Succeeded) }, "retry_superseded daily:p/1 succeeded"},
		{"it failed for another start", func(b *bed) func() { return b.take(onerun.Policy{}, 1, onerun.Failed) }, "retry_superseded daily:p/1 failed"},
		{"it failed, and will be due", func(b *bed) func() { return b.take(slowly, 1, onerun.Failed) }, "retry_superseded daily:p/1 retry_not_due"},
		{"it failed, and is due", func(b *bed) func() { return b.take(again, 1, onerun.Failed) }, "retry_superseded daily:p/1"},
		{"another start died of it", func(b *bed) func() { return b.take(dead, 0, "") }, "retry_superseded daily:p/1 stale"},
		{"resolved as succeeded", func(b *bed) func() { return b.resolve(onerun.Succeeded) }, "retry_superseded daily:p/1 succeeded"},
		{"resolved as skipped", func(b *bed) func() { return b.resolve(onerun.Skipped) }, "retry_superseded daily:p/1 skipped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				job := retried("p", 3)
				job.BackoffMin, job.BackoffMax = time.Hour, time.Hour
				after(61*time.Second, c.what(b))
				calls := 0
				var j journal
				err := b.do(job, failing(9, &calls), onerun.WithObserver(&j))
				if err == nil || err.Error() != "boom 1" || calls != 1 {
					t.Errorf("Do: %v after %d calls", err, calls)
				}
				within(t, "ended", b.at(), 2*time.Minute, 0) // by a look: long before it was due
				j.check(t, "claimed daily:p/1", "started daily:p/1", "failed daily:p/1 FAILED exit: boom 1", "retry_waiting daily:p/1", c.want)
				if last := j.all()[len(j.all())-1]; last.Refusal == nil && last.Detail == "" {
					t.Error("nothing says who took it")
				}
			})
		})
	}
}

// The attempt is taken between the look and the claim.
func TestRetryIsTakenAtTheLastMoment(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.store.asked = func(ctx context.Context, c onerun.Claim) (*onerun.Refusal, error) {
			refusal, err := b.mem.Explain(ctx, c)
			if refusal == nil && err == nil {
				b.hold("daily", "p", onerun.Policy{})
			}
			return refusal, err
		}
		calls := 0
		var j journal
		b.store.claim = func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) { return b.mem.Claim(ctx, c) }
		err := b.do(retried("p", 3), failing(9, &calls), onerun.WithObserver(&j))
		if err == nil || err.Error() != "boom 1" || calls != 1 || j.count(onerun.EventRetrySuperseded) != 1 {
			t.Errorf("Do: %v after %d calls; observed: %v", err, calls, j.events())
		}
		if run := b.last("daily"); run.Status != onerun.Running || run.Attempt != 2 {
			t.Errorf("the other's attempt %d is %s", run.Attempt, run.Status)
		}
	})
}

// An approval means the next start, not one that waits: whoever approved may be about to
// start it with another command. When the retry is due, it is a start like any other.
func TestWaitSpendsNoApproval(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		job := retried("p", 3)
		job.BackoffMin = 10 * time.Minute
		after(90*time.Second, b.approve())
		calls := 0
		if err := b.do(job, failing(1, &calls)); err != nil || calls != 2 {
			t.Errorf("Do: %v after %d calls", err, calls)
		}
		within(t, "retried", b.at(), 10*time.Minute, time.Second)
	})
}

func TestPausedWhileItWaits(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) { // and resumed in time
		job := retried("p", 3)
		job.BackoffMin = 10 * time.Minute
		after(90*time.Second, b.pause(true))
		after(500*time.Second, b.pause(false))
		calls := 0
		if err := b.do(job, failing(1, &calls)); err != nil || calls != 2 {
			t.Errorf("Do: %v after %d calls", err, calls)
		}
		within(t, "retried", b.at(), 10*time.Minute, time.Second)
	})
	inBed(t, func(t *testing.T, b *bed) { // and still when it is due
		b.store.finish = func(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
			defer b.pause(true)()
			return b.mem.Finish(ctx, l, o)
		}
		calls := 0
		var j journal
		err := b.do(retried("p", 3), failing(9, &calls), onerun.WithObserver(&j))
		if err == nil || err.Error() != "boom 1" || calls != 1 || b.skips("daily", "p") != 1 {
			t.Errorf("Do: %v after %d calls and %d skips", err, calls, b.skips("daily", "p"))
		}
		within(t, "ended", b.at(), time.Minute, time.Second)
		if last := j.all()[len(j.all())-1]; told(last) != "skipped daily:p/0 paused" {
			t.Errorf("observed at last: %s", told(last))
		}
		b.pause(false)()
		if g := b.hold("daily", "p", onerun.Policy{}); g.Lease.Attempt != 2 {
			t.Errorf("after the pause, a start takes attempt %d", g.Lease.Attempt)
		}
	})
}

// The retry is due while another run of the job works: it waits for that, within bounds.
func TestRetryWaitsForTheLock(t *testing.T) {
	for _, c := range []struct {
		name       string
		wait, ends time.Duration
		ok         bool
		at         time.Duration
	}{
		{"in time", 0, 10 * time.Minute, true, 10 * time.Minute},
		{"too late", 0, 30 * time.Minute, false, 11 * time.Minute}, // due, and the greatest backoff
		{"a longer wait", time.Hour, 30 * time.Minute, true, 30 * time.Minute},
		{"for ever", onerun.Forever, 3 * time.Hour, true, 3 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				job := retried("p", 3)
				job.Wait = c.wait
				after(30*time.Second, func() {
					b.finishAt(c.ends, b.hold("daily", "q", onerun.Policy{TTL: onerun.MaxTTL}), onerun.Outcome{Status: onerun.Succeeded})
				})
				calls := 0
				var j journal
				err := b.do(job, failing(1, &calls), onerun.WithObserver(&j))
				if c.ok != (err == nil) || !c.ok && (err.Error() != "boom 1" || b.skips("daily", "p") != 1) || c.ok && b.skips("daily", "p") != 0 {
					t.Errorf("Do: %v after %d calls and %d skips", err, calls, b.skips("daily", "p"))
				}
				within(t, "ended", b.at(), c.at, 2*time.Second)
				if last := j.all()[len(j.all())-1]; !c.ok && told(last) != "skipped daily:p/0 locked" {
					t.Errorf("observed at last: %s", told(last))
				}
			})
		})
	}
}

// The retry of an unkeyed job is a run of its own, which says of which.
func TestUnkeyedRetry(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		job := retried("", 3)
		job.Labels = map[string]string{"team": "a"}
		calls := 0
		var began []time.Duration
		err := b.do(job, func(ctx context.Context, o *onerun.Owner) error {
			began = append(began, b.at())
			return failing(2, &calls)(ctx, o)
		})
		runs, _ := b.mem.Runs(t.Context(), onerun.Query{Namespace: onerun.DefaultNamespace, Job: "daily"})
		if err != nil || calls != 3 || len(runs) != 3 || len(job.Labels) != 1 {
			t.Fatalf("Do: %v after %d calls; %d runs; labels of the job: %v", err, calls, len(runs), job.Labels)
		}
		first := runs[2].RunID
		for i, r := range runs {
			want := map[bool]string{true: first}[i < 2]
			if r.Labels[onerun.LabelRetryOf] != want || r.Labels["team"] != "a" || r.Attempt != 1 {
				t.Errorf("run %d: attempt %d, labels %v", 3-i, r.Attempt, r.Labels)
			}
		}
		within(t, "first retry", began[1], time.Minute, time.Second)
		within(t, "second retry", began[2]-began[1], time.Minute, time.Minute+time.Second)
	})
	inBed(t, func(t *testing.T, b *bed) { // at once, and until the budget is used up
		job := retried("", 3)
		job.BackoffMin, job.BackoffMax = 0, 0
		calls := 0
		if err := b.do(job, failing(9, &calls)); err == nil || err.Error() != "boom 4" || calls != 4 || b.at() != 0 {
			t.Errorf("Do: %v after %d calls in %s", err, calls, b.at())
		}
	})
	for name, ends := range map[string]time.Duration{"works": time.Hour, "has worked": time.Second} {
		t.Run("another start "+name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				after(30*time.Second, func() {
					b.finishAt(b.at()+ends, b.hold("daily", "", onerun.Policy{}), onerun.Outcome{Status: onerun.Succeeded})
				})
				calls := 0
				var j journal
				err := b.do(retried("", 3), failing(9, &calls), onerun.WithObserver(&j))
				if err == nil || err.Error() != "boom 1" || calls != 1 || j.count(onerun.EventRetrySuperseded) != 1 {
					t.Errorf("Do: %v after %d calls; observed: %v", err, calls, j.events())
				}
				within(t, "ended", b.at(), time.Minute, time.Second)
			})
		})
	}
}

// A lock alone has nothing to be retried.
func TestLockIsNotRetried(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		calls := 0
		job := onerun.Job{Lock: onerun.NamedLock("x"), Policy: onerun.Policy{Retries: 3}}
		if err := b.do(job, failing(9, &calls)); !errors.Is(err, errBoom) || calls != 1 {
			t.Errorf("Do: %v after %d calls", err, calls)
		}
	})
}
