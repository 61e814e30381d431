package gocronlock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/adapter/gocronlock"
	"github.com/onerun-dev/onerun/schedule"
	"github.com/onerun-dev/onerun/store/memory"
)

// reported is what a Locker told of.
type reported chan error

func (r reported) add(_ string, err error) { r <- err }

// none checks that nothing was told of.
func (r reported) none(t *testing.T) {
	t.Helper()
	select {
	case err := <-r:
		t.Errorf("reported: %v", err)
	default:
	}
}

// locker is one on a store, and what it tells of: how runs end, and what gocron has no ear for.
func locker(t *testing.T, store onerun.Store, opts ...gocronlock.Option) (*gocronlock.Locker, ends, reported) {
	t.Helper()
	said, ended := make(reported, 10), make(ends, 10)
	l, err := gocronlock.NewLocker(onerun.NewRunner(store, onerun.WithObserver(ended)), append(opts, gocronlock.WithReport(said.add))...)
	if err != nil {
		t.Fatal(err)
	}
	return l, ended, said
}

// locked is a program whose scheduler has a Locker.
func locked(t *testing.T, l *gocronlock.Locker) *program {
	return newProgram(t, gocron.WithDistributedLocker(l), gocron.WithGlobalJobOptions(l.Listeners()))
}

// TestLocker: of two schedulers one runs the task, and the other is refused; how it ends is
// recorded.
func TestLocker(t *testing.T) {
	store := memory.New()
	l, ended, said := locker(t, store)
	l2, ended2, said2 := locker(t, store)
	p, other := locked(t, l), locked(t, l2)
	up, end := make(chan struct{}), make(chan struct{})
	p.fire(gocron.NewTask(func() { close(up); <-end }), gocron.WithEventListeners(p.locking()))
	<-up
	other.fire(gocron.NewTask(func() { t.Error("both run") }), gocron.WithEventListeners(other.locking()))
	if err := <-other.refused; reason(err) != onerun.RefusedLocked {
		t.Errorf("the second: %v", err)
	}
	close(end)
	if r := ended.wait(t, store); r.Status != onerun.Succeeded || r.Job != "daily" {
		t.Errorf("the first: %+v", r)
	}
	other.fire(gocron.NewTask(func() error { return errors.New("boom") }), gocron.WithEventListeners(other.locking()))
	if r := ended2.wait(t, store); r.Status != onerun.Failed || r.Reason != onerun.ReasonExit || r.Error != "boom" {
		t.Errorf("a failure: %+v", r)
	}
	said.none(t)
	said2.none(t)
}

// TestLockerKeys: a key runs once, however late another comes.
func TestLockerKeys(t *testing.T) {
	store := memory.New()
	opts := []gocronlock.Option{
		gocronlock.Keyed(schedule.Spec{Date: "yesterday", Zone: "Asia/Seoul"}), at(t, "2026-09-14T16:00:00Z"),
		gocronlock.WithJob(func(name string) onerun.Job {
			return onerun.Job{Name: name + "-settlement", Policy: onerun.Policy{Retries: 3}}
		}),
	}
	l, ended, _ := locker(t, store, opts...)
	p := locked(t, l)
	p.fire(gocron.NewTask(func() {}))
	if r := ended.wait(t, store); r.Status != onerun.Succeeded || r.Key() != "daily-settlement:2026-09-14" || r.BusinessDate != "2026-09-14" {
		t.Errorf("the first: %+v", r)
	}
	p.fire(gocron.NewTask(func() { t.Error("twice") }), gocron.WithEventListeners(p.locking()))
	if err := <-p.refused; reason(err) != onerun.RefusedSucceeded {
		t.Errorf("the second: %v", err)
	}
}

// TestLockerRenews: a task that lasts longer than the lease keeps its lock.
func TestLockerRenews(t *testing.T) {
	store := beats{memory.New(), make(chan time.Time, 100)}
	short := gocronlock.WithJob(func(name string) onerun.Job {
		return onerun.Job{Name: name, Policy: onerun.Policy{TTL: onerun.MinTTL}}
	})
	l, ended, said := locker(t, store, short)
	other, _, _ := locker(t, store, short)
	held, err := l.Lock(t.Context(), "daily")
	if err != nil {
		t.Fatal(err)
	}
	for over := runs(t, store.Store)[0].LeaseExpiresAt; ; { // the lease it began with
		if now := <-store.now; now.After(over) {
			break
		}
	}
	if _, err := other.Lock(t.Context(), "daily"); reason(err) != onerun.RefusedLocked {
		t.Errorf("another: %v", err)
	}
	l.TaskEnded("daily", nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // as at the scheduler's end
	if err := held.Unlock(ctx); err != nil {
		t.Errorf("unlock: %v", err)
	}
	if r := ended.wait(t, store); r.Status != onerun.Succeeded {
		t.Errorf("the run: %+v", r)
	}
	next, err := other.Lock(t.Context(), "daily")
	if err != nil {
		t.Fatal(err)
	}
	other.TaskEnded("daily", nil)
	if err := next.Unlock(t.Context()); err != nil {
		t.Errorf("unlock: %v", err)
	}
	said.none(t)
}

// TestLockerLosses: an end that couldn't be recorded is told, since gocron has no ear for it.
func TestLockerLosses(t *testing.T) {
	l, _, said := locker(t, gone{memory.New()})
	p := locked(t, l)
	p.fire(gocron.NewTask(func() error { return errors.New("boom") }))
	if err := <-said; !errors.Is(err, onerun.ErrLost) {
		t.Errorf("reported: %v", err)
	}
}

// deaf is a store that can't be told of an end.
type deaf struct{ *memory.Store }

func (deaf) Finish(context.Context, onerun.Lease, onerun.Outcome) error {
	return &onerun.StoreError{Kind: onerun.ErrUnavailable, What: "the store"}
}

// TestLockerNotRecorded: the same for the end of a task that failed itself.
func TestLockerNotRecorded(t *testing.T) {
	l, _, said := locker(t, deaf{memory.New()}, gocronlock.WithJob(func(name string) onerun.Job {
		return onerun.Job{Name: name, FinishWait: time.Millisecond}
	}))
	p := locked(t, l)
	p.fire(gocron.NewTask(func() error { return errors.New("boom") }))
	if err := <-said; !errors.As(err, new(*onerun.NotRecordedError)) {
		t.Errorf("reported: %v", err)
	}
}

// TestLockerRetry: a retry is a later fire's.
func TestLockerRetry(t *testing.T) {
	store := memory.New()
	l, ended, said := locker(t, store, gocronlock.WithJob(func(name string) onerun.Job {
		return onerun.Job{Name: name, Partition: "p", Policy: onerun.Policy{Retries: 1}}
	}))
	p := locked(t, l)
	for attempt, task := range []func() error{func() error { return errors.New("boom") }, func() error { return nil }} {
		p.fire(gocron.NewTask(task))
		if r := ended.wait(t, store); r.Attempt != attempt+1 || (r.Status == onerun.Succeeded) != (attempt == 1) {
			t.Errorf("attempt %d: %+v", attempt+1, r)
		}
	}
	said.none(t)
}

// denied is a store that may not be asked.
type denied struct{ *memory.Store }

func (denied) Claim(context.Context, onerun.Claim) (onerun.Grant, error) {
	return onerun.Grant{}, &onerun.StoreError{Kind: onerun.ErrPermission, What: "the store"}
}

// TestLockerCantAsk: a claim that could not be made is told: else the job would be never run, and
// nobody know.
func TestLockerCantAsk(t *testing.T) {
	l, _, said := locker(t, denied{memory.New()})
	p := locked(t, l)
	p.fire(gocron.NewTask(func() { t.Error("it runs") }))
	if err := <-said; !errors.Is(err, onerun.ErrPermission) {
		t.Errorf("reported: %v", err)
	}
	l, _, said = locker(t, memory.New())
	if _, err := l.Lock(t.Context(), "main.main.func1()"); !errors.Is(err, onerun.ErrUsage) || !errors.Is(<-said, onerun.ErrUsage) {
		t.Errorf("a name that can't be: %v", err)
	}
}

// TestLockerWithoutListeners: a run of whose end nothing was told is no success.
func TestLockerWithoutListeners(t *testing.T) {
	store := memory.New()
	l, ended, said := locker(t, store)
	p := newProgram(t, gocron.WithDistributedLocker(l))
	p.fire(gocron.NewTask(func() {}))
	if err := <-said; err == nil || !strings.Contains(err.Error(), "Listeners") {
		t.Errorf("reported: %v", err)
	}
	if r := ended.wait(t, store); r.Status != onerun.Failed || !strings.Contains(r.Error, "Listeners") {
		t.Errorf("the run: %+v", r)
	}
}

// TestLockerOwnListeners: a job with a listener of its own tells the Locker itself.
func TestLockerOwnListeners(t *testing.T) {
	store := memory.New()
	l, ended, said := locker(t, store)
	p := locked(t, l)
	p.fire(gocron.NewTask(func() {}), gocron.WithEventListeners(gocron.AfterJobRuns(func(_ uuid.UUID, name string) { l.TaskEnded(name, nil) })))
	if r := ended.wait(t, store); r.Status != onerun.Succeeded {
		t.Errorf("the run: %+v", r)
	}
	said.none(t)
}

// TestUnlockedTwice: the second time is none, and takes nobody else's lock.
func TestUnlockedTwice(t *testing.T) {
	l, _, said := locker(t, memory.New())
	first, err := l.Lock(t.Context(), "daily")
	if err != nil {
		t.Fatal(err)
	}
	l.TaskEnded("daily", nil)
	if err := first.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	second, err := l.Lock(t.Context(), "daily")
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Unlock(t.Context()); err != nil {
		t.Errorf("again: %v", err)
	}
	l.TaskEnded("daily", nil)
	if err := second.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	said.none(t) // the second's end is known
}

// TestLockerTwiceAtOnce: two tasks of one name, each under a lock of its own, can't be told apart.
func TestLockerTwiceAtOnce(t *testing.T) {
	store := memory.New()
	n := 0
	l, _, _ := locker(t, store, gocronlock.WithJob(func(name string) onerun.Job {
		n++
		return onerun.Job{Name: name, Lock: onerun.NamedLock(strings.Repeat("x", n))}
	}))
	held, err := l.Lock(t.Context(), "daily")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Lock(t.Context(), "daily"); !errors.Is(err, onerun.ErrUsage) {
		t.Errorf("the second: %v", err)
	}
	l.TaskEnded("daily", nil)
	if err := held.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	if held, err = l.Lock(t.Context(), "daily"); err != nil {
		t.Fatalf("after the end: %v", err)
	}
	if err := held.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	if locks, err := store.Locks(t.Context(), onerun.DefaultNamespace); err != nil || len(locks) != 0 {
		t.Errorf("held: %+v, %v", locks, err)
	}
}
