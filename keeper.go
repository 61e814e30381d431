package onerun

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// keeper renews a lease and cancels the work when it is lost. Its loop calls
// nobody who could keep it from looking at the clock: heartbeats and observers
// run beside it.
type keeper struct {
	r       *Runner
	grant   Grant
	grace   time.Duration
	cancel  context.CancelCauseFunc
	ended   atomic.Bool // the work has ended: nothing is left to be stopped
	lost    atomic.Bool // it was told to stop, because the lease is lost
	stopped atomic.Bool // an operator has stopped it

	loop sync.WaitGroup
	told sync.WaitGroup // the observer of a loss
	stop chan struct{}  // closed when nothing is left to be renewed
	once sync.Once      // closes it

	mu       sync.Mutex
	sent     time.Duration // when the last successful heartbeat was sent
	answered time.Duration // when its answer came
	storeAt  time.Time     // the store's clock at that answer
}

func newKeeper(r *Runner, grant Grant, grace, sent time.Duration, cancel context.CancelCauseFunc) *keeper {
	return &keeper{
		r: r, grant: grant, grace: grace, cancel: cancel, stop: make(chan struct{}),
		sent: sent, answered: r.clock.Elapsed(), storeAt: grant.At,
	}
}

// begin starts renewing. A grant that arrived when its time was over already is
// renewed before anything is executed: for as long as the store's time limit, until
// an answer comes in time. The caller's giving up doesn't end that, since a lease
// left behind would block the key.
func (k *keeper) begin(ctx context.Context) error {
	ttl := k.grant.Lease.TTL
	if ttl == 0 {
		return nil
	}
	k.tellRenewal(k.lastSent())
	ctx = context.WithoutCancel(ctx)
	limit, cancel := context.WithTimeout(ctx, k.r.storeTimeout)
	defer cancel()
	pause := newBackoff(20*time.Millisecond, time.Second)
	for k.r.clock.Elapsed() >= k.lastSent()+TermAfter(ttl, k.grace) {
		err := limit.Err()
		if err == nil {
			try, cancel := context.WithTimeout(limit, HeartbeatEvery(ttl))
			err = k.beat(try)
			cancel()
		}
		if err == nil {
			continue
		}
		if errors.Is(err, ErrLost) || sleep(limit, pause.next()) != nil {
			err = fmt.Errorf("%w: the grant came too late, the job was not started: %w", ErrLost, err)
			k.observe(Observation{Event: EventLeaseLost, Err: err})
			return err
		}
	}
	k.loop.Go(func() { k.keep(ctx) })
	return nil
}

// end stops renewing. It may be called again.
func (k *keeper) end() {
	k.once.Do(func() { close(k.stop) })
	k.loop.Wait()
	k.told.Wait()
}

// answer is how a heartbeat ended.
type answer struct{ err error }

// keep is the keeper's loop.
func (k *keeper) keep(ctx context.Context) {
	ttl := k.grant.Lease.TTL
	every := HeartbeatEvery(ttl)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, 1)
	beating := false
	next := k.lastSent() + every
	for {
		now := k.r.clock.Elapsed()
		lost := k.overdue(now)
		if lost && k.exitAt(now, k.lastSent()+KillAfter(ttl)) {
			return
		}
		if !beating && now >= next {
			beating = true
			next = now + every
			go func() { answers <- answer{k.try(ctx, every)} }()
		}
		timer := time.NewTimer(max(0, min(LookEvery(ttl), next-now, k.dueIn(now, lost))))
		select {
		case <-k.stop:
			timer.Stop()
			cancel()
			if beating {
				await(answers, min(every, time.Second))
			}
			return
		case a := <-answers:
			beating = false
			if errors.Is(a.err, ErrLost) {
				timer.Stop()
				k.lose(a.err)
				k.awaitEnd()
				return
			}
			if a.err != nil {
				next = k.r.clock.Elapsed() + every/4
			}
		case <-timer.C:
			if beating {
				next = max(next, k.r.clock.Elapsed()+LookEvery(ttl))
			}
		}
		timer.Stop()
	}
}

// dueIn is how long it is until the work is to be stopped, or else ended: looking
// then, too, leaves it the whole of its grace.
func (k *keeper) dueIn(now time.Duration, lost bool) time.Duration {
	ttl := k.grant.Lease.TTL
	switch {
	case k.ended.Load():
		return ttl
	case !lost:
		return k.lastSent() + TermAfter(ttl, k.grace) - now
	case k.r.exitOnLoss:
		return k.lastSent() + KillAfter(ttl) - now
	}
	return ttl
}

// await gives a cancelled heartbeat time to return. One that doesn't heed its
// context is left behind: it may hang for ever, and it can do no harm, because a
// heartbeat never re-creates a lease.
func await(answers <-chan answer, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-answers:
	case <-timer.C:
	}
}

// awaitEnd waits for the end of work whose lease is gone for good, and ends the
// process if the work doesn't end in time.
func (k *keeper) awaitEnd() {
	if !k.r.exitOnLoss {
		<-k.stop
		return
	}
	ttl := k.grant.Lease.TTL
	until := min(k.r.clock.Elapsed()+LeaseGrace(ttl, k.grace), k.lastSent()+KillAfter(ttl))
	for {
		now := k.r.clock.Elapsed()
		if k.exitAt(now, until) {
			return
		}
		wait := min(LookEvery(ttl), until-now)
		if k.ended.Load() {
			wait = ttl
		}
		timer := time.NewTimer(wait)
		select {
		case <-k.stop:
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// exitAt ends the process when the time has come, the work hasn't ended, and the
// caller wants it so. It reports whether it did, which only a test gets to see.
func (k *keeper) exitAt(now, until time.Duration) bool {
	if now < until || !k.r.exitOnLoss || k.ended.Load() {
		return false
	}
	k.r.exit(75)
	return true
}

// stopWork stops the work on an operator's word, by whichever way that comes first. The lease is
// renewed on until it has ended.
func (k *keeper) stopWork(by string) {
	if k.stopped.Swap(true) {
		return
	}
	err := fmt.Errorf("%w by %s", ErrStopped, by)
	k.cancel(err)
	k.told.Go(func() { k.observe(Observation{Event: EventStopped, Err: err}) })
}

// overdue stops the work when no heartbeat has succeeded for too long, whoever looks first,
// and reports whether the lease is lost.
func (k *keeper) overdue(now time.Duration) bool {
	ttl := k.grant.Lease.TTL
	if ttl != 0 && now >= k.lastSent()+TermAfter(ttl, k.grace) {
		k.lose(fmt.Errorf("%w: no heartbeat succeeded for %s", ErrLost, TermAfter(ttl, k.grace)))
	}
	return k.lost.Load()
}

// lose stops the work first and tells of it afterwards, beside the loop: an
// observer that blocks must not keep lost work running. Work that has ended loses nothing any
// more, and none is lost twice.
func (k *keeper) lose(err error) {
	if k.ended.Load() || k.lost.Swap(true) {
		return
	}
	k.cancel(err)
	k.told.Go(func() { k.observe(Observation{Event: EventLeaseLost, Err: err}) })
}

func (k *keeper) observe(o Observation) {
	o.Run, o.Lease, o.LockPath = k.grant.Run, k.grant.Lease, k.grant.LockPath
	k.r.observe(o)
}

// tell observes what a heartbeat brought, unless nobody waits for it any more.
func (k *keeper) tell(o Observation) {
	select {
	case <-k.stop:
	default:
		k.observe(o)
	}
}

func (k *keeper) lastSent() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sent
}

// try sends one heartbeat that may last as long as the time between two.
func (k *keeper) try(ctx context.Context, every time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, every)
	defer cancel()
	err := k.beat(ctx)
	if err != nil && !errors.Is(err, ErrLost) {
		k.tell(Observation{Event: EventHeartbeatFailed, Err: err})
	}
	return err
}

// beat sends one heartbeat. The new deadline counts from before it was sent.
func (k *keeper) beat(ctx context.Context) error {
	sent := k.r.clock.Elapsed()
	b, err := k.r.store.Heartbeat(ctx, k.grant.Lease)
	if err != nil {
		return err
	}
	if b.Stop != "" {
		k.stopWork(b.Stop)
	}
	step := k.renewed(sent, k.r.clock.Elapsed(), b.Now)
	k.tellRenewal(sent)
	if step != "" {
		k.tell(Observation{Event: EventClockStep, Detail: step})
	}
	return nil
}

// tellRenewal tells of a deadline that counts here already (see WithRenewal), unless nobody
// waits for it any more.
func (k *keeper) tellRenewal(sent time.Duration) {
	if k.r.renewal == nil {
		return
	}
	select {
	case <-k.stop:
	default:
		k.r.renewal(k.grant.Lease, sent)
	}
}

// renewed notes a successful heartbeat. It also compares how far the store's clock
// went with how far ours can have gone: a step forward by more than the margin is
// what the safety rule assumes away, so it is shown when it happens.
func (k *keeper) renewed(sent, answered time.Duration, storeAt time.Time) (step string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.storeAt.IsZero() {
		went := storeAt.Sub(k.storeAt)
		forward, back := went-(answered-k.sent), (sent-k.answered)-went
		if max(forward, back) > LeaseMargin(k.grant.Lease.TTL) {
			step = fmt.Sprintf("the store's clock went %s in %s", went, answered-k.sent)
		}
	}
	k.sent, k.answered, k.storeAt = sent, answered, storeAt
	return step
}
