package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onerun-dev/onerun"
)

// turnCases: a claim that waits without holding anything, and its place in line.
func turnCases() []check {
	db := onerun.NamedLock("db")
	return []check{
		{"turns/at once where nobody is in the way", func(t *trial) {
			if !t.turns() {
				return
			}
			for _, c := range []onerun.Claim{t.job("settle", day), t.job("sweep", ""), t.lockOnly("db")} {
				t.turn(c)
				t.standing(c.Lock, 0)
				c = fifo(again(c))
				t.turn(c)
				t.standing(c.Lock, 1) // from the first question on
				t.finish(t.granted(c), succeeded)
				t.standing(c.Lock, 0)
			}
		}},
		{"turns/when the lock comes free", func(t *trial) {
			if !t.turns() {
				return
			}
			for _, c := range []onerun.Claim{under(t.job("settle", day), db), fifo(under(t.job("sweep", ""), db)), fifo(t.lockOnly("db"))} {
				holder := t.granted(under(t.job("holder", ""), db))
				w := t.lineWaiter()
				t.together(2, func(i int) error {
					if i == 1 {
						t.pass(50 * time.Millisecond)
						return t.s.Finish(t.ctx, holder.Lease, succeeded)
					}
					for n := 1; ; n++ {
						if err := w.AwaitTurn(t.ctx, c); err != nil {
							return err
						}
						ref, err := t.s.Explain(t.ctx, c)
						if err != nil || ref == nil {
							return err
						}
						if n == 5 { // it may have waited for a while
							return fmt.Errorf("wait for the turn of %s: expected it to come when the lock is free, got %d times that it came, and %s", nameOf(c), n, said(ref))
						}
					}
				})
				t.turn(c)
				t.finish(t.granted(c), succeeded)
			}
		}},
		{"turns/in the order of the places", func(t *trial) {
			if !t.turns() {
				return
			}
			first, second := t.inPlaces(db)
			ref := t.refused(second, onerun.RefusedLocked)
			if ref.Holder.String() == "" {
				t.failf("holder of a refusal because of the line: expected words about it, got none")
			}
			t.refused(under(fifo(t.job("late", "")), db), onerun.RefusedLocked)
			t.finish(t.granted(under(t.job("hasty", ""), db)), succeeded) // asks for no order
			g := t.granted(first)
			t.standing(db, 1)
			t.stoodBy(t.refused(second, onerun.RefusedLocked), g.Run)
			t.finish(g, succeeded)
			t.refused(under(fifo(t.job("late", "")), db), onerun.RefusedLocked)
			t.finish(t.granted(second), succeeded)
			t.standing(db, 0)
			t.granted(under(fifo(t.job("late", "")), db))
		}},
		{"turns/the table comes first", func(t *trial) {
			if !t.turns() {
				return
			}
			t.inPlaces(db)
			t.ended(t.job("done", day), succeeded)
			t.refused(under(fifo(t.job("done", day)), db), onerun.RefusedSucceeded)
			t.pause("late")
			t.refused(under(fifo(t.job("late", "")), db), onerun.RefusedPaused)
		}},
		{"turns/a place that is given up", func(t *trial) {
			if !t.turns() {
				return
			}
			first, second := t.inPlaces(db)
			t.leaves(under(fifo(t.job("nobody", "")), db))
			t.standing(db, 2)
			t.leaves(first)
			t.leaves(first) // no error
			t.standing(db, 1)
			t.finish(t.granted(second), succeeded)
			t.standing(db, 0)
		}},
		{"turns/a place is lost by silence", func(t *trial) {
			if !t.turns() {
				return
			}
			first, second := t.inPlaces(db)
			w := t.lineWaiter()
			for n := 0; ; n++ {
				t.must(w.AwaitTurn(t.ctx, second), "wait behind one who is silent")
				if ref, err := t.s.Explain(t.ctx, second); err == nil && ref == nil {
					break
				} else if n == 30 { // each for a while
					t.failf("wait behind one who is silent: expected it to be forgotten, got %s (%v)", said(ref), err)
				}
			}
			t.turn(second)
			t.refused(first, onerun.RefusedLocked)
			t.finish(t.granted(second), succeeded)
			t.finish(t.granted(first), succeeded)
		}},
		{"turns/who gives up keeps its place until it says so", func(t *trial) {
			if !t.turns() {
				return
			}
			holder := t.granted(under(t.job("holder", ""), db))
			c := under(fifo(t.job("settle", "")), db)
			w := t.lineWaiter()
			ctx, cancel := context.WithCancel(t.ctx)
			defer cancel()
			t.together(2, func(i int) error {
				if i == 1 {
					defer cancel()
					t.queued(db, 1)
					return nil
				}
				for {
					if err := w.AwaitTurn(ctx, c); errors.Is(err, onerun.ErrUnavailable) {
						return nil
					} else if err != nil || ctx.Err() != nil {
						return fmt.Errorf("a wait that is given up: expected %w, got %s", onerun.ErrUnavailable, said(err))
					}
				}
			})
			t.standing(db, 1)
			t.leaves(c)
			t.standing(db, 0)
			t.finish(holder, succeeded)
		}},
	}
}

// turns reports whether the store lets who waits hold nothing. Which it is, the harness has
// said.
func (t *trial) turns() bool {
	_, is := t.s.(onerun.LineWaiter)
	equal(t, is, t.h.Turns, "whether it is a LineWaiter")
	return is
}

func (t *trial) lineWaiter() onerun.LineWaiter { return t.open().(onerun.LineWaiter) }

// turn waits for the turn of a claim that nobody is in the way of.
func (t *trial) turn(c onerun.Claim) {
	t.must(t.s.(onerun.LineWaiter).AwaitTurn(t.ctx, c), "wait for the turn of %s", nameOf(c))
}

// standing checks how many stand in the line for a lock now.
func (t *trial) standing(lock onerun.LockName, want int) {
	n, err := t.h.Queued(t.ctx, t.ns, lock)
	t.must(err, "count those who stand in line for %s", lock)
	equal(t, n, want, "how many stand in line for %s", lock)
}

func (t *trial) leaves(c onerun.Claim) {
	t.must(t.s.(onerun.LineWaiter).LeaveLine(t.ctx, c), "leave the line")
}

// inPlaces makes two claims that stand in the line for a lock that is free.
func (t *trial) inPlaces(lock onerun.LockName) (first, second onerun.Claim) {
	first, second = under(fifo(t.job("first", "")), lock), under(fifo(t.job("second", "")), lock)
	t.turn(first)
	t.standing(lock, 1)
	w := t.lineWaiter()
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	t.together(2, func(i int) error {
		if i == 1 {
			defer cancel()
			t.queued(lock, 2)
			return nil
		}
		if err := w.AwaitTurn(ctx, second); err != nil && !errors.Is(err, onerun.ErrUnavailable) {
			return err
		}
		return nil
	})
	return first, second
}
