package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/onerun-dev/onerun"
)

// lineCases: first come, first served, for the claims that say so; or a clear no.
func lineCases() []check {
	return []check{
		{"line/first come, first served", func(t *trial) {
			if t.h.Queued == nil {
				t.noOrder()
				return
			}
			t.inOrder()
		}},
		{"line/nobody is left standing", func(t *trial) {
			if t.h.Queued == nil {
				t.noOrder()
				return
			}
			c := t.job("settle", day)
			t.finish(t.granted(c), succeeded)
			_, err := t.waiter().ClaimWaiting(t.ctx, fifo(again(c)))
			if ref := new(onerun.Refusal); !errors.As(err, &ref) || ref.Reason != onerun.RefusedSucceeded {
				t.failf("wait in line for a key that has succeeded: expected refused succeeded, got %s", said(err))
			}
			t.queued(c.Lock, 0)
			t.granted(fifo(t.job("settle", "2026-09-16")))
			t.queued(c.Lock, 0)
			ctx, cancel := context.WithCancel(t.ctx)
			next := fifo(t.job("settle", "2026-09-17"))
			wait := t.waiter()
			t.together(2, func(i int) error {
				if i == 1 {
					defer cancel()
					t.queued(c.Lock, 1)
					return nil
				}
				if _, err := wait.ClaimWaiting(ctx, next); !errors.Is(err, onerun.ErrUnavailable) {
					return fmt.Errorf("a wait in line that is given up: expected %w, got %s", onerun.ErrUnavailable, said(err))
				}
				return nil
			})
			t.queued(c.Lock, 0)
		}},
	}
}

func fifo(c onerun.Claim) onerun.Claim {
	c.Order, c.Asking = onerun.OrderFIFO, true
	return c
}

// waiter is another client, one that waits.
type waiter interface {
	onerun.Store
	onerun.WaitingClaimer
}

func (t *trial) waiter() waiter {
	w, ok := t.open().(waiter)
	if !ok {
		t.failf("a store that keeps an order: expected a WaitingClaimer, got none")
	}
	return w
}

// queued returns when so many stand in the line for a lock.
func (t *trial) queued(lock onerun.LockName, want int) {
	for {
		n, err := t.h.Queued(t.ctx, t.ns, lock)
		t.must(err, "count those who stand in line for %s", lock)
		if n == want {
			return
		}
		t.note = fmt.Sprintf(" (%d stand in line for %s, expected %d)", n, lock, want)
		t.moment()
		t.note = ""
	}
}

// noOrder: who can't keep an order refuses it, and leaves nothing behind.
func (t *trial) noOrder() {
	for _, c := range []onerun.Claim{fifo(t.job("settle", day)), fifo(t.job("sweep", "")), fifo(t.lockOnly("db"))} {
		_, err := t.s.Claim(t.ctx, c)
		t.is(err, onerun.ErrUsage, "claim %s in an order that the store doesn't keep", nameOf(c))
		_, err = t.s.Explain(t.ctx, c)
		t.is(err, onerun.ErrUsage, "explain %s in an order that the store doesn't keep", nameOf(c))
		if w, ok := t.s.(onerun.WaitingClaimer); ok {
			_, err = w.ClaimWaiting(t.ctx, c)
			t.is(err, onerun.ErrUsage, "wait for %s in an order that the store doesn't keep", nameOf(c))
		}
	}
	equal(t, len(t.runs(onerun.Query{Namespace: t.ns})), 0, "runs after claims that were refused")
	equal(t, len(t.locks(t.ns)), 0, "locks after claims that were refused")
}

// inOrder: they come one after the other while the lock is held, and are served so; one who
// doesn't wait, but asks and asks, is served after the last of them.
func (t *trial) inOrder() {
	const n = 5
	holder := t.granted(t.lockOnly("db"))
	lock := holder.Lease.Lock
	var turns [n]chan struct{}
	var waits [n]waiter
	var claims [n + 1]onerun.Claim
	for i := range n {
		turns[i], waits[i] = make(chan struct{}), t.waiter()
		claims[i] = under(fifo(t.job(fmt.Sprintf("job-%d", i), "")), lock)
	}
	claims[n] = under(fifo(t.job("hasty", "")), lock)
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	var tokens [n + 1]int64
	t.together(n+1, func(i int) error {
		if i == n {
			ordered := false
			defer func() {
				if !ordered { // so that the others don't wait for what won't come
					cancel()
				}
			}()
			for i := range n {
				close(turns[i])
				t.queued(lock, i+1)
			}
			t.finish(holder, succeeded)
			g, err := t.pushes(ctx, claims[n])
			if tokens[n] = g.Lease.Token; err != nil {
				return err
			}
			ordered = true
			return t.s.Finish(ctx, g.Lease, succeeded)
		}
		select {
		case <-turns[i]:
		case <-ctx.Done():
			return ctx.Err()
		}
		g, err := waits[i].ClaimWaiting(ctx, claims[i])
		if err != nil {
			return err
		}
		tokens[i] = g.Lease.Token
		return waits[i].Finish(ctx, g.Lease, succeeded)
	})
	for i := range n {
		if tokens[i] >= tokens[i+1] {
			t.failf("tokens of those who came one after the other, and of one who didn't wait: expected them to grow, got %v", tokens)
		}
	}
	t.queued(lock, 0)
}

// pushes asks without waiting until it is served.
func (t *trial) pushes(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	for {
		g, err := t.s.Claim(ctx, c)
		if ref := new(onerun.Refusal); !errors.As(err, &ref) || ref.Reason != onerun.RefusedLocked {
			return g, err
		}
		t.moment()
	}
}
