package onerun_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// told is what matters of an observation, in one line.
func told(o onerun.Observation) string {
	s := fmt.Sprintf("%s %s/%d", o.Event, o.Run.Name(), o.Lease.Attempt)
	if o.Refusal != nil {
		s += " " + string(o.Refusal.Reason)
	}
	if o.Outcome != nil {
		s += " " + string(o.Outcome.Status) + " " + string(o.Outcome.Reason)
	}
	if o.Err != nil {
		s += ": " + o.Err.Error()
	}
	return s
}

func (j *journal) check(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for _, o := range j.all() {
		got = append(got, told(o))
		if o.At.IsZero() {
			t.Errorf("%s: without a time", told(o))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("observed:\n%q\nwant:\n%q", got, want)
	}
}

func TestObserverIsTold(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name string
		run  func(*bed, ...onerun.Option) error
		want []string
	}{
		{"success", func(b *bed, o ...onerun.Option) error { return b.do(daily("p"), works(0), o...) }, []string{
			"claimed daily:p/1", "started daily:p/1", "finished daily:p/1 SUCCEEDED ",
		}},
		{"failure", func(b *bed, o ...onerun.Option) error {
			return b.do(daily("p"), func(context.Context, *onerun.Owner) error { return boom }, o...)
		}, []string{
			"claimed daily:p/1", "started daily:p/1", "failed daily:p/1 FAILED exit: boom",
		}},
		{"refusal", func(b *bed, o ...onerun.Option) error {
			b.hold("daily", "p", onerun.Policy{})
			return b.do(daily("p"), works(0), o...)
		}, []string{"skipped daily:p/0 running"}},
		{"takeover", func(b *bed, o ...onerun.Option) error {
			b.hold("daily", "p", onerun.Policy{TTL: time.Second, Retries: 1, RetryLost: true})
			pass(context.Background(), time.Second)
			return b.do(daily("p"), works(0), o...)
		}, []string{
			"taken_over daily:p/2", "claimed daily:p/2", "started daily:p/2", "finished daily:p/2 SUCCEEDED ",
		}},
		{"takeover that is refused after all", func(b *bed, o ...onerun.Option) error {
			b.hold("daily", "p", onerun.Policy{TTL: time.Second})
			pass(context.Background(), time.Second)
			return b.do(daily("p"), works(0), o...)
		}, []string{"taken_over daily:p/0", "skipped daily:p/0 failed"}},
		{"heartbeat that fails", func(b *bed, o ...onerun.Option) error {
			beats := 0
			b.store.beat = func(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
				if beats++; beats == 1 {
					return onerun.Beat{}, down()
				}
				return b.store.Store.Heartbeat(ctx, l)
			}
			return b.do(daily("p"), works(time.Minute), o...)
		}, []string{
			"claimed daily:p/1", "started daily:p/1", "heartbeat_failed daily:p/1: the store: connection refused", "finished daily:p/1 SUCCEEDED ",
		}},
		{"lease that is gone", func(b *bed, o ...onerun.Option) error {
			b.store.beat = func(context.Context, onerun.Lease) (onerun.Beat, error) { return onerun.Beat{}, onerun.ErrLost }
			b.store.finish = func(context.Context, onerun.Lease, onerun.Outcome) error { return onerun.ErrLost }
			return b.do(daily("p"), works(time.Minute), o...)
		}, []string{
			"claimed daily:p/1", "started daily:p/1", "lease_lost daily:p/1: lease lost", "late_outcome daily:p/1", "lease_lost daily:p/1 FAILED lease_lost: lease lost",
		}},
		{"end that can't be recorded", func(b *bed, o ...onerun.Option) error {
			b.store.finish = func(context.Context, onerun.Lease, onerun.Outcome) error { return down() }
			return b.do(daily("p"), works(0), o...)
		}, []string{
			"claimed daily:p/1", "started daily:p/1",
			"failed daily:p/1 SUCCEEDED : the job ended (SUCCEEDED), but its result is not recorded yet: the store: connection refused",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				var first, second journal
				_ = c.run(b, onerun.WithObserver(&first), onerun.WithObserver(&second))
				first.check(t, c.want...)
				second.check(t, c.want...)
			})
		})
	}
}

func TestObservationsSayWho(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		var j journal
		b.store.claim = func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
			g, err := b.store.Store.Claim(ctx, c)
			g.LockPath = "/run/locks/daily.lock"
			return g, err
		}
		if err := b.do(daily("p"), works(time.Hour), onerun.WithObserver(&j)); err != nil {
			t.Fatal(err)
		}
		run := b.last("daily")
		for _, o := range j.all() {
			if o.Run.RunID != run.RunID || o.Lease.Token != run.Token || o.LockPath != "/run/locks/daily.lock" {
				t.Errorf("%s is about %s with token %d and %s", o.Event, o.Run.RunID, o.Lease.Token, o.LockPath)
			}
		}
		end := j.all()[2].Outcome
		if end.FinishedAt.Sub(run.StartedAt) != time.Hour || !run.FinishedAt.Equal(end.FinishedAt) {
			t.Errorf("finished at %s, recorded %s", end.FinishedAt, run.FinishedAt)
		}
	})
}

// What the keeper saw is told before the end, and nothing after it, however slow the
// observer is.
func TestTheEndIsToldLast(t *testing.T) {
	slow := func(j *journal, event string) onerun.Observer {
		return onerun.ObserverFunc(func(o onerun.Observation) {
			if o.Event == event {
				pass(context.Background(), time.Minute)
			}
			j.Observe(o)
		})
	}
	inBed(t, func(t *testing.T, b *bed) {
		b.store.beat = func(context.Context, onerun.Lease) (onerun.Beat, error) { return onerun.Beat{}, onerun.ErrLost }
		var j journal
		_ = b.do(daily("p"), works(time.Hour), onerun.WithObserver(slow(&j, onerun.EventLeaseLost)))
		j.check(t, "claimed daily:p/1", "started daily:p/1", "lease_lost daily:p/1: lease lost", "failed daily:p/1 FAILED lease_lost: lease lost")
	})
	inBed(t, func(t *testing.T, b *bed) {
		b.store.beat = func(context.Context, onerun.Lease) (onerun.Beat, error) { return onerun.Beat{}, down() }
		var j journal
		if err := b.do(daily("p"), works(0), onerun.WithObserver(slow(&j, onerun.EventFinished))); err != nil {
			t.Errorf("Do: %v", err)
		}
		j.check(t, "claimed daily:p/1", "started daily:p/1", "finished daily:p/1 SUCCEEDED ")
	})
}

// An observer that blocks, as a log does whose reader has gone away, must not keep
// work running whose lease is lost.
func TestBlockedObserver(t *testing.T) {
	const ttl = time.Minute
	for _, event := range []string{onerun.EventHeartbeatFailed, onerun.EventLeaseLost, onerun.EventClockStep} {
		t.Run(event, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				free := make(chan struct{})
				observer := onerun.ObserverFunc(func(o onerun.Observation) {
					if o.Event == event {
						<-free
					}
				})
				b.store.beat = func(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
					if event == onerun.EventClockStep {
						b.ahead.Add(int64(ttl))
						return b.store.Store.Heartbeat(ctx, l)
					}
					return onerun.Beat{}, down()
				}
				exit, code := b.exits()
				_ = b.do(leased(ttl), func(ctx context.Context, _ *onerun.Owner) error {
					pass(ctx, 3*ttl)
					sent := time.Duration(0)
					if event == onerun.EventClockStep {
						sent = ttl / 6
					}
					within(t, "told to stop", b.at(), sent+onerun.TermAfter(ttl, onerun.DefaultGrace), time.Second)
					pass(context.Background(), ttl)
					if got, at := code(); got != 75 || at >= sent+ttl {
						t.Errorf("ended with %d at %s", got, at)
					}
					close(free)
					return nil
				}, onerun.WithObserver(observer), onerun.WithExitOnLoss(), exit)
			})
		})
	}
}

// notingStore keeps a note of who does the work.
type notingStore struct {
	*hooks
	noted []string
}

func (n *notingStore) NoteStart(l onerun.Lease) error {
	n.noted = append(n.noted, fmt.Sprintf("start of attempt %d", l.Attempt))
	return nil
}

func (n *notingStore) NoteGroup(l onerun.Lease, pid int, startTicks uint64) error {
	n.noted = append(n.noted, fmt.Sprintf("%d of %d, attempt %d", pid, startTicks, l.Attempt))
	return down()
}

func TestWorkInAProcess(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		store := &notingStore{hooks: b.store}
		b.store.claim = func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
			if c.InProcess {
				t.Error("the claim says that the work is a function")
			}
			return b.store.Store.Claim(ctx, c)
		}
		var j journal
		var start time.Time
		r := onerun.NewRunner(store, onerun.WithClock(b.clock), onerun.WithProcess(), onerun.WithObserver(&j))
		err := r.Do(t.Context(), daily("p"), func(_ context.Context, o *onerun.Owner) error {
			if n := len(j.all()); n != 1 {
				t.Errorf("before the start: %v", j.events())
			}
			if err := o.NoteStart(); err != nil {
				t.Errorf("NoteStart: %v", err)
			}
			start = b.clock.Now()
			time.Sleep(time.Second) // the disk is slow
			if err := o.NoteGroup(42, 7); !errors.Is(err, onerun.ErrUnavailable) {
				t.Errorf("NoteGroup: %v; want the store's error", err)
			}
			return nil
		})
		if err != nil || !slices.Equal(store.noted, []string{"start of attempt 1", "42 of 7, attempt 1"}) {
			t.Errorf("Do: %v; noted: %q", err, store.noted)
		}
		j.check(t, "claimed daily:p/1", "started daily:p/1", "finished daily:p/1 SUCCEEDED ")
		if told := j.all()[1]; told.PID != 42 || !told.At.Equal(start) {
			t.Errorf("started says process %d, at %s; it was at %s", told.PID, told.At, start)
		}
	})
	inBed(t, func(t *testing.T, b *bed) { // on a store that keeps no notes
		err := b.do(nightly, func(_ context.Context, o *onerun.Owner) error { return errors.Join(o.NoteStart(), o.NoteGroup(42, 7)) }, onerun.WithProcess())
		if err != nil {
			t.Errorf("Do: %v", err)
		}
	})
}

// watchedStore has a lock file that somebody deletes.
type watchedStore struct {
	*hooks
	looks   []time.Duration
	deleted func(look int) bool
	at      func() time.Duration
}

func (w *watchedStore) LockDeleted(onerun.Lease) bool {
	w.looks = append(w.looks, w.at())
	return w.deleted(len(w.looks))
}

func TestDeletedLockFileIsTold(t *testing.T) {
	for _, c := range []struct {
		name      string
		work      time.Duration
		deletedAt int // at which look it is seen; 0: never
		looks     int
	}{
		{"a short job is not looked at", 900 * time.Millisecond, 1, 0},
		{"never", 3500 * time.Millisecond, 0, 3},
		{"at the third look, and told once", time.Minute, 3, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				store := &watchedStore{hooks: b.store, at: b.at, deleted: func(look int) bool { return look == c.deletedAt }}
				var j journal
				r := onerun.NewRunner(store, onerun.WithClock(b.clock), onerun.WithObserver(&j))
				err := r.Do(t.Context(), daily("p"), works(c.work))
				pass(t.Context(), time.Minute) // nobody looks after the end
				if err != nil || len(store.looks) != c.looks {
					t.Errorf("Do: %v; looked at %v", err, store.looks)
				}
				want := []string{"claimed daily:p/1", "started daily:p/1"}
				if c.looks > 0 && c.deletedAt > 0 {
					want = append(want, "lock_deleted daily:p/1")
				}
				j.check(t, append(want, "finished daily:p/1 SUCCEEDED ")...)
			})
		})
	}
}

// TestVoidFailureMayStartAgain: a job that could not be started at all, as for want of a
// process, costs no retry, and its key starts again at once.
func TestVoidFailureMayStartAgain(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		err := b.do(daily("p"), func(context.Context, *onerun.Owner) error {
			return &onerun.Failure{Reason: onerun.ReasonCanceled, Void: true, Err: errors.New("no room for another process")}
		})
		var f *onerun.Failure
		if !errors.As(err, &f) || !f.Void {
			t.Errorf("Do: %v", err)
		}
		ran := false
		if err := b.do(daily("p"), func(context.Context, *onerun.Owner) error { ran = true; return nil }); err != nil || !ran {
			t.Errorf("the next start: %v, ran: %v", err, ran)
		}
	})
}
