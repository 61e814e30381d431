package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// How a claim waits. The server forgets a waiter that it hasn't heard of for silence, as the
// function onerun_stand has it; until then one whose questions fail asks on, so that a server
// that is started again finds it in its place. It asks at least every pollMax, whether it is
// woken or not: through some proxies no notification comes. And every so often it gives its
// caller the word, who may know of the lock's owner what the store doesn't.
const (
	silence  = 10 * time.Second
	pollMin  = 50 * time.Millisecond
	pollMax  = time.Second
	askLimit = 5 * time.Second // for one answer
	aWhile   = 5 * time.Second
)

// AwaitTurn implements onerun.LineWaiter. Besides, it returns when c would be refused by what
// comes before the lock in the claim table, such as a key that has succeeded meanwhile.
func (s *Store) AwaitTurn(ctx context.Context, c onerun.Claim) error {
	if err := check(c); err != nil {
		return err
	}
	return s.waiting(c).await(ctx)
}

// LeaveLine implements onerun.LineWaiter.
func (s *Store) LeaveLine(ctx context.Context, c onerun.Claim) error {
	return s.call(ctx, "leave the line", "onerun_leave($1, $2, $3)", []any{c.Namespace, c.Lock, c.Owner}, new(bool))
}

// ClaimWaiting implements onerun.WaitingClaimer.
func (s *Store) ClaimWaiting(ctx context.Context, c onerun.Claim) (g onerun.Grant, err error) {
	if err := check(c); err != nil {
		return g, err
	}
	c.Asking = true // it is here that it is asked again
	w := s.waiting(c)
	if c.Order == onerun.OrderFIFO { // it has its place before it asks for anything
		defer func() {
			if err != nil {
				w.leave(ctx)
			}
		}()
		if err := w.await(ctx); err != nil {
			return g, err
		}
	}
	for again := time.Duration(0); ; {
		g, err = s.Claim(ctx, c)
		var refused *onerun.Refusal
		switch {
		case errors.As(err, &refused) && (refused.Reason == onerun.RefusedRunning || refused.Reason == onerun.RefusedLocked):
			w.heard = time.Now()
		case !w.endures(ctx, err):
			return g, err
		}
		// Somebody else can be faster. Where that isn't it, and it is its turn by what it can
		// see, again and again, and refused all the same, it asks no more often than others.
		if w.asked > 1 {
			again = 0
		} else if again = min(max(2*again, pollMin), pollMax); again > pollMin {
			if err := w.sleep(ctx, again); err != nil {
				return g, err
			}
		}
		if err := w.await(ctx); err != nil {
			return g, err
		}
	}
}

// waiting is a claim that waits.
type waiting struct {
	s     *Store
	c     onerun.Claim
	wake  chan struct{} // the ear's: something has changed
	heard time.Time     // when the store answered last; zero: it hasn't yet
	known bool          // the store knows it as a waiter
	asked int           // how often, in this wait
}

func (s *Store) waiting(c onerun.Claim) *waiting {
	return &waiting{s: s, c: c, wake: make(chan struct{}, 1)}
}

// await returns when it is the claim's turn, or may be, or it has waited for a while.
func (w *waiting) await(ctx context.Context) error {
	ctx = context.WithValue(ctx, applicationKey{}, applicationName(w.c.RunID))
	defer w.s.ear.forget(w)
	w.asked = 0
	end := time.Now().Add(aWhile)
	for poll := pollMin; ; poll = min(2*poll, pollMax) {
		last := !time.Now().Before(end)
		a, err := w.ask(ctx, last)
		switch {
		case err == nil && (a.Result == "turn" || last):
			return nil
		case err == nil:
			w.s.hook("told to wait")
			w.s.ear.expect(ctx, w, onerun.LockName(or(a.Other)))
		case ctx.Err() != nil:
			w.giveUp(ctx)
			return w.gaveUp(context.Cause(ctx))
		case !w.endures(ctx, err):
			w.giveUp(ctx)
			return err
		}
		next := poll/2 + rand.N(poll/2+1)
		if a.WakeUS != nil { // what is in the way may be over by itself then
			next = min(next, time.Duration(*a.WakeUS)*time.Microsecond+time.Millisecond)
		}
		if err := w.sleep(ctx, next); err != nil {
			w.giveUp(ctx)
			return err
		}
	}
}

// ask asks the store whether it is the claim's turn.
func (w *waiting) ask(ctx context.Context, last bool) (a answer, err error) {
	c, worker := w.c, w.s.worker(w.c.WorkerLabel)
	request, err := encode(map[string]any{
		"version": len(steps), "namespace": c.Namespace, "job": null(c.Job), "key": null(c.Key()), "lock": c.Lock, "owner": c.Owner,
		"fifo": c.Order == onerun.OrderFIFO, "worker_id": null(worker.String()), "worker": sqlledger.WorkerOf(worker), "waited": w.known, "last": last,
	})
	if err != nil {
		return a, err
	}
	w.asked++
	limited, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	w.s.hook("ask for the turn")
	err = w.s.patiently(limited, func() error {
		a, err = w.s.asked(limited, "wait for the lock", "onerun_await", request)
		return err
	})
	if err != nil {
		return a, w.s.explain("wait for the lock", err)
	}
	w.heard, w.known = time.Now(), !last && a.Result == "wait"
	return a, nil
}

// endures reports whether an error may pass while the store still knows the waiter: a server
// that is being started again, a connection that was cut.
func (w *waiting) endures(ctx context.Context, err error) bool {
	return errors.Is(err, onerun.ErrUnavailable) && ctx.Err() == nil && !w.s.ear.isClosed() && !w.heard.IsZero() && time.Since(w.heard) < silence
}

// sleep waits until it is woken, or until it is time to ask again.
func (w *waiting) sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-w.wake:
		w.s.hook("woken")
		return nil
	case <-t.C:
		return nil
	case <-w.s.ear.closed:
		return w.gaveUp(onerun.ErrClosed)
	case <-ctx.Done():
		return w.gaveUp(context.Cause(ctx))
	}
}

func (w *waiting) gaveUp(why error) error {
	return &onerun.StoreError{Kind: onerun.ErrUnavailable, What: "wait for the lock", Path: w.s.place, Err: why}
}

// giveUp ends a wait that is not to be woken any more. A place in line is not given up by it.
func (w *waiting) giveUp(ctx context.Context) {
	if w.known && w.c.Order != onerun.OrderFIFO {
		w.leave(ctx)
	}
}

// leave leaves the line, or the place goes by its silence.
func (w *waiting) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = w.s.LeaveLine(ctx, w.c)
}

// firstInLine is who stands before a claim in the line for its lock; nil: nobody.
func (t *tx) firstInLine(c onerun.Claim) (*onerun.Holder, error) {
	var text *string
	err := t.row("SELECT onerun_first($1, $2, $3, onerun_at($4))::text", c.Namespace, c.Lock, c.Owner, micros(t.now)).Scan(&text)
	if err != nil || text == nil {
		return nil, err
	}
	var h holderRow
	if err := json.Unmarshal([]byte(*text), &h); err != nil {
		return nil, badAnswer("look at the line", err)
	}
	first := h.holder()
	return &first, nil
}
