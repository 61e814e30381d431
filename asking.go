package onerun

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// errWaited: the time to wait for a lock was over before the lock came free.
var errWaited = errors.New("the wait is over")

// asking is one acquisition. All its requests carry one owner id, so that a store
// knows a claim again whose reply was lost.
type asking struct {
	r     *Runner
	claim Claim
	until time.Duration // the end of the wait for a lock, by the owner's clock

	// The oldest request that may have been granted: what was sent since the last
	// refusal. A store that grants and whose reply is lost doesn't extend the lease
	// when it is asked again, so the lease counts from here.
	open bool
	sent time.Duration

	waited bool // the store was asked to wait, or has refused once: it can be reached
}

// claim asks until it is answered, and on while it may wait. It returns when the
// granting request was sent, by the owner's clock.
func (r *Runner) claim(ctx context.Context, c Claim, wait time.Duration) (time.Duration, Grant, error) {
	now := r.clock.Elapsed()
	a := &asking{r: r, claim: c, until: now + min(max(wait, 0), math.MaxInt64-now)}
	if wait == Forever {
		a.until = math.MaxInt64
	}
	if ctx.Err() != nil { // then no store is asked, and none is to blame
		return 0, Grant{}, a.gaveUp(ctx)
	}
	grant, err := a.wait(ctx)
	if err != nil && ctx.Err() != nil {
		if a.open {
			a.withdraw(ctx)
		}
		if errors.Is(ctx.Err(), context.Canceled) || a.waited {
			err = a.notAnswered(ctx, err)
		}
	}
	return a.sent, grant, err
}

// notAnswered is what a store said that was asked until ctx ended: of its own, or, where all it says is
// that there was no answer in time, that its caller gave up. No store is unavailable for that.
func (a *asking) notAnswered(ctx context.Context, err error) error {
	var refusal *Refusal
	var told *StoreError
	if errors.As(err, &refusal) || errors.As(err, &told) && !errors.Is(err, ErrUnavailable) {
		return err
	}
	return a.gaveUp(ctx)
}

// gaveUp says why the caller did: the cause of ctx's end. The refusal of another claim, for which a group of
// goroutines was given up, is not the answer to this one.
func (a *asking) gaveUp(ctx context.Context) error {
	name := asked(a.claim).Name()
	if name == "" {
		name = a.claim.Lock.Name()
	}
	cause := context.Cause(ctx)
	if errors.As(cause, new(*Refusal)) {
		return fmt.Errorf("%s was not claimed: %w, for %s", name, ctx.Err(), oneLine(cause.Error()))
	}
	return fmt.Errorf("%s was not claimed: %w", name, cause)
}

// withdraw undoes a claim whose caller has given up while it was on its way, if it was granted.
// It is a claim that can't be granted itself, and that proves the first one void. Where there
// are notes on this host, the next start there knows that nothing was begun.
func (a *asking) withdraw(ctx context.Context) {
	store, remote := a.r.store.(HostClaimer)
	if _, notes := a.r.store.(Noter); !remote || notes {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.r.storeTimeout)
	defer cancel()
	why := "the caller gave up before the claim was answered"
	c := a.claim
	c.Owner, c.RunID, c.Order, c.Asking = NewID(), NewRunID(a.r.clock.Now()), OrderAny, true
	_, _ = store.ClaimKnowing(ctx, c, HostKnowledge{ // or, out of reach, the lease runs out
		Held: &Holder{Name: why}, HeldOwner: c.Owner, Dead: []DeadOwner{{Owner: a.claim.Owner, Void: true, Evidence: why}},
	})
}

// wait asks again while the run is running or the lock is held, and once more, for
// the record, when the time for that is over.
func (a *asking) wait(ctx context.Context) (Grant, error) {
	pause := newBackoff(20*time.Millisecond, time.Second)
	for {
		a.claim.Asking = a.r.clock.Elapsed() < a.until
		grant, err := a.ask(ctx)
		var refusal *Refusal
		switch {
		case err == nil, !a.claim.Asking:
			return grant, err
		case errors.Is(err, errWaited):
			continue
		case !errors.As(err, &refusal), refusal.Reason != RefusedRunning && refusal.Reason != RefusedLocked:
			return grant, err
		}
		a.waited = true
		if err := sleep(ctx, min(pause.next(), max(0, a.until-a.r.clock.Elapsed()))); err != nil {
			return Grant{}, a.gaveUp(ctx)
		}
	}
}

// ask sends one claim, and sends it again when its reply may have been lost, for as
// long as the store's time limit allows. The wait for a lock inside the store is not
// held against that limit.
func (a *asking) ask(ctx context.Context) (Grant, error) {
	send := a.r.store.Claim
	waiter, waits := a.r.store.(WaitingClaimer)
	if waits = waits && a.claim.Asking; waits {
		send, a.waited = waiter.ClaimWaiting, true
	}
	now := a.r.clock.Elapsed()
	giveUp := now + a.r.storeTimeout
	pause := newBackoff(20*time.Millisecond, time.Second)
	for {
		limit := giveUp - now
		if waits {
			limit = a.until - now
			if a.claim.Order != OrderFIFO { // which would lose its place in line
				limit = min(limit, MaxTTL)
			}
		}
		if !a.open {
			a.open, a.sent = true, now
		}
		try, cancel := context.WithTimeout(ctx, limit)
		grant, err := send(try, a.claim)
		over := try.Err() != nil
		cancel()
		var refusal *Refusal
		switch {
		case errors.As(err, &refusal):
			a.open = false
			return grant, err
		case err == nil, !errors.Is(err, ErrUnavailable), errors.Is(err, ErrClosed), ctx.Err() != nil:
			return grant, err
		case waits && over:
			return grant, errWaited
		}
		began := now
		now = a.r.clock.Elapsed()
		if waits && now-began > a.r.storeTimeout {
			giveUp = now + a.r.storeTimeout // it waited in the store; the store fails since now
		}
		d := pause.next()
		if now+d >= giveUp {
			return grant, err
		}
		if sleep(ctx, d) != nil { // what the store said last is why there is no answer
			return grant, err
		}
		now = a.r.clock.Elapsed()
	}
}

// backoff is a doubling pause with jitter: between the half and the whole.
type backoff struct{ cur, limit time.Duration }

func newBackoff(first, limit time.Duration) *backoff { return &backoff{cur: first, limit: limit} }

func (b *backoff) next() time.Duration {
	d := b.cur/2 + rand.N(b.cur/2+1)
	b.cur = min(2*b.cur, b.limit)
	return d
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
