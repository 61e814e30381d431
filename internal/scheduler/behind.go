package scheduler

import (
	"context"
	"slices"
	"time"
)

// behind is what of a job could not be taken because the store was away. One goroutine of the job waits for the store, however
// many slots pass meanwhile, and then deals with all of them at once, as after a time in which nobody looked.
type behind struct {
	from   time.Time   // the earliest slot; zero: nothing is behind
	unsure []time.Time // those for which the store was asked, without an answer
}

// away is what a slot has to do whose store is away; true: it is to be tried again. sent: the store may have it all the same.
func (e *Engine) away(ctx context.Context, x *entry, t taken, sent bool, try int, why error) bool {
	if t.Missed != nil || t.Again {
		return e.rest(ctx, x.job.Load(), t.Slot, try, why)
	}
	e.mu.Lock()
	first := x.behind.from.IsZero()
	if first || t.Slot.Before(x.behind.from) {
		x.behind.from = t.Slot
	}
	if sent {
		x.behind.unsure = append(x.behind.unsure, t.Slot)
	}
	e.mu.Unlock()
	if first {
		e.comeUp(ctx, x, t.Slot, why)
	}
	return false
}

// comeUp waits for the store, and starts what is to be started. Should this instance end before, nothing of it is taken: the
// others, or the next one to start, find it as missed.
func (e *Engine) comeUp(ctx context.Context, x *entry, slot time.Time, why error) {
	for try := 0; e.rest(ctx, x.job.Load(), slot, try, why); try++ {
		j := x.job.Load()
		p, err := e.book.read(ctx, j.Name)
		if err != nil {
			why = err
			continue
		}
		e.mu.Lock()
		b := x.behind
		x.behind = behind{}
		x.page, x.known = p, p.Digest == j.Digest // who comes now begins with that
		e.mu.Unlock()
		slices.SortFunc(b.unsure, time.Time.Compare)
		for _, slot := range slices.CompactFunc(b.unsure, time.Time.Equal) {
			if f, err := j.fire(slot); err == nil && p.by(slot) == e.self { // the answer got lost
				f.Late = e.Clock.Now().Sub(f.time()) > onTime
				e.starts.Go(func() { e.start(ctx, f) })
			}
		}
		e.dueLate(ctx, x, b.from.Add(-1), e.Clock.Now())
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(x.behind.unsure) > 0 { // the store may say that they are this instance's
		e.left.Store(true)
	}
}

// fireLate starts what was missed, one after the other, oldest first. Several are taken in one step, so that the instances don't
// share them among each other in an order that is nobody's.
func (e *Engine) fireLate(ctx context.Context, x *entry, j *Job, slots []time.Time) {
	if len(slots) == 1 || e.Store == nil || x.old.Load() {
		for _, slot := range slots {
			e.fireSlot(ctx, x, j, slot)
		}
		return
	}
	for len(slots) > 0 {
		now := slots[:min(len(slots), mostTaken/2)]
		slots = slots[len(now):]
		for _, f := range e.takeLate(ctx, x, j, now) {
			e.start(ctx, f)
		}
	}
}

// takeLate takes those slots that nobody has. They wait for each other, so the memo keeps them.
func (e *Engine) takeLate(ctx context.Context, x *entry, j *Job, slots []time.Time) (fires []*Fire) {
	for try := 0; ; {
		p, ok := e.know(ctx, x, slots[0])
		if !ok {
			return nil
		}
		m := p.memo
		fires = nil
		for _, slot := range slots {
			f, err := j.fire(slot)
			switch {
			case err != nil:
				e.report(j, slot, BadFire, err)
			case p.by(slot) == "":
				f.Late, f.Wait, f.kept = true, j.CatchUp.Policy == CatchUpAll, true
				fires = append(fires, f)
				m = m.with(taken{Slot: slot, By: e.self, Waits: true}, j.Schedule)
			}
		}
		if fires == nil {
			return nil
		}
		_, err := e.book.write(ctx, j.Name, p.version, m)
		switch {
		case err == nil:
			return fires
		case isState(err):
			continue
		}
		if !e.rest(ctx, j, slots[0], try, err) {
			e.left.Store(true) // the store may say that they are this instance's
			return nil
		}
		try++
		if p, ok = e.know(ctx, x, slots[0]); ok && p.by(fires[0].Slot) == e.self { // the answer got lost
			return fires
		}
	}
}
