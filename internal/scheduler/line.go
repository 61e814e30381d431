package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
)

// turn is a start's place in the line of its job. Where fires of a job may wait for each other (overlap queue and replace), one
// start of it at a time has a place among the limits and a process, which may wait for what runs elsewhere. The others wait here,
// where they keep no other job from its place.
//
//	in line → head      the one before it has ended
//	in line → dropped   of overlap replace: a newer fire came, and this one counts as missed
//	head → (gone)       its process has ended, or this instance ends and leaves it to the others
type turn struct {
	fire    *Fire
	head    chan struct{} // closed when it is the first
	dropped chan struct{} // closed when a newer one stands for it
}

// lineUp puts a fire into its job's line; nil: it has none, or no room in it, and is started without waiting.
func (e *Engine) lineUp(ctx context.Context, f *Fire) *turn {
	o := f.Job.Overlap
	switch {
	case o.Kind == OverlapReplace:
	case o.Kind != OverlapQueue || o.Queue > 0 && !f.Job.Beside && !e.roomInLine(ctx, f):
		return nil
	case f.Job.Beside: // it waits for the same key alone
		f.Wait = true
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.lines[f.Job.Name]
	if o.Kind == OverlapReplace {
		for i, t := range l {
			if i > 0 && !t.fire.Again && t.fire.Slot.Before(f.Slot) {
				close(t.dropped)
			}
		}
		l = slices.DeleteFunc(l, func(t *turn) bool { return isClosed(t.dropped) })
	}
	t := &turn{f, make(chan struct{}), make(chan struct{})}
	at := len(l)
	for at > 1 && f.Slot.Before(l[at-1].fire.Slot) { // what was rescued, or is caught up with, may come late
		at--
	}
	if at == 0 {
		close(t.head)
	}
	e.lines[f.Job.Name] = slices.Insert(l, at, t)
	return t
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// roomInLine reports whether one more start of a job may wait. The first in line waits too, if what runs was started elsewhere.
func (e *Engine) roomInLine(ctx context.Context, f *Fire) bool {
	e.mu.Lock()
	l := e.lines[f.Job.Name]
	var first *Fire
	if len(l) > 0 {
		first = l[0].fire
	}
	n := len(l)
	e.mu.Unlock()
	if n != f.Job.Overlap.Queue || e.Store == nil {
		return n <= f.Job.Overlap.Queue
	}
	runs, err := e.Store.Runs(ctx, onerun.Query{Namespace: e.Namespace, Job: f.Job.Name, Partition: first.Partition, Limit: 1})
	return err == nil && len(runs) > 0 && runs[0].Status == onerun.Running
}

// leaveLine lets the next one go on.
func (e *Engine) leaveLine(t *turn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	job := t.fire.Job.Name
	l := slices.DeleteFunc(e.lines[job], func(o *turn) bool { return o == t })
	if len(l) == 0 {
		delete(e.lines, job)
		return
	}
	if !isClosed(l[0].head) {
		close(l[0].head)
	}
	e.lines[job] = l
}

// inLine counts those that wait for an earlier start of their job.
func (e *Engine) inLine() (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.lines {
		n += len(l) - 1
	}
	return n
}

// keeping sees to it that a slot stays in the memo while its fire waits here: should this instance die, the others
// find it there, however many slots were taken since. Whoever waits for a moment costs nothing. stop ends it.
func (e *Engine) keeping(ctx context.Context, f *Fire) (stop func()) {
	if e.Store == nil || f.Again || f.kept {
		return func() {}
	}
	after := keepTaken / 2
	if f.Late { // its slot is older than those which are forgotten next
		after = 0
	}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for ; !f.kept; after = aliveEvery {
			select {
			case <-over:
				return
			case <-ctx.Done():
				return
			case <-e.Clock.After(after):
				f.kept = e.mark(ctx, f, true) == nil
			}
		}
	}()
	return func() { close(over); <-done }
}

// unkeep lets the memo forget a slot whose fire waits no more.
func (e *Engine) unkeep(ctx context.Context, f *Fire) {
	if f.kept && ctx.Err() == nil {
		f.kept = e.mark(ctx, f, false) != nil
	}
}

// mark says in the memo that a slot of this instance waits, or doesn't.
func (e *Engine) mark(ctx context.Context, f *Fire, waits bool) error {
	for {
		p, err := e.book.read(ctx, f.Job.Name)
		if err != nil {
			return err
		}
		m := p.memo
		m.Taken = slices.Clone(m.Taken)
		i := slices.IndexFunc(m.Taken, func(t taken) bool { return t.Slot.Equal(f.Slot) })
		switch {
		case i >= 0 && (m.Taken[i].By != e.self || m.Taken[i].Waits == waits), i < 0 && !waits:
			return nil
		case i < 0: // forgotten already
			m.Taken = append(m.Taken, taken{Slot: f.Slot, By: e.self, Waits: true})
			slices.SortFunc(m.Taken, func(a, b taken) int { return a.Slot.Compare(b.Slot) })
		default:
			m.Taken[i].Waits = waits
		}
		if _, err = e.book.write(ctx, f.Job.Name, p.version, m); !isState(err) {
			return err
		}
	}
}

// replacing starts a fire in the place of what runs. While its process waits, what runs of older slots is asked to stop again: a
// fire of another instance may have been faster. Once a newer fire is due it isn't wanted any more: over.
//
//go:noinline
func (e *Engine) replacing(ctx context.Context, f *Fire) (r Result, over bool, err error) {
	if err := e.replace(ctx, f, func(onerun.Run) bool { return true }); err != nil {
		return Unknown, false, err
	}
	drop, ended, looked := make(chan struct{}), make(chan struct{}), make(chan struct{})
	f.Drop = drop
	go func() {
		defer close(looked)
		for claimed := false; !claimed && !over; {
			select {
			case <-ended:
				return
			case <-ctx.Done():
				return
			case <-e.Clock.After(time.Second):
			}
			if runs, err := e.running(ctx, f.Job.Name); err == nil {
				claimed = slices.ContainsFunc(runs, func(r onerun.Run) bool { return r.Partition == f.Partition })
			}
			switch {
			case claimed:
			case !f.Again && e.superseded(f):
				over = true
				close(drop)
			default:
				_ = e.replace(ctx, f, func(r onerun.Run) bool { return !r.ScheduledAt.IsZero() && r.ScheduledAt.Before(f.Slot) }) // else in a second
			}
		}
	}()
	r = e.Start(ctx, f)
	close(ended)
	<-looked
	return r, over, nil
}

func (e *Engine) running(ctx context.Context, job string) ([]onerun.Run, error) {
	return e.Store.Runs(ctx, onerun.Query{Namespace: e.Namespace, Job: job, Statuses: []onerun.Status{onerun.Running}})
}
