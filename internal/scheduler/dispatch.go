package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/onerun-dev/onerun"
)

// dueLate is dueJob after a while in which this instance didn't look: others may have dealt with the job meanwhile.
func (e *Engine) dueLate(ctx context.Context, x *entry, from, now time.Time) {
	var p page
	if e.Store != nil {
		var ok bool
		if p, ok = e.know(ctx, x, now); !ok && !x.old.Load() {
			return
		}
		if x.old.Load() { // what was due before the edit; the memo's other words are of the newer schedule
			p.memo = memo{Taken: p.Taken}
		}
	}
	e.dueJob(ctx, x, p, later(from, p.Done), now)
}

// dueJob deals with the slots of a job in (from, now].
func (e *Engine) dueJob(ctx context.Context, x *entry, p page, from, now time.Time) {
	j := x.job.Load()
	run, missed := j.due(from, now, p.memo)
	late := len(run)
	for late > 0 && now.Sub(run[late-1]) <= onTime+j.Jitter {
		late--
	}
	for _, slot := range run[late:] {
		e.starts.Go(func() { e.fireSlot(ctx, x, j, slot) })
	}
	if late > 0 {
		e.starts.Go(func() {
			if e.pause(ctx, now.Add(share(j.Name, j.CatchUp.Spread))) {
				e.fireLate(ctx, x, j, run[:late])
			}
		})
	}
	if missed.Count > 0 && e.take(ctx, x, taken{Slot: missed.Last, By: e.self, Missed: &missed}) {
		e.miss(ctx, j, missed)
	}
}

// fireSlot waits for a fire's time, and starts it, if no other instance does.
func (e *Engine) fireSlot(ctx context.Context, x *entry, j *Job, slot time.Time) {
	f, err := j.fire(slot)
	if err != nil {
		e.report(j, slot, BadFire, err)
		return
	}
	e.fire(ctx, x, f)
}

// firePrepared is fireSlot with what was prepared, of which nothing may be left to do when ten thousand are due.
func (e *Engine) firePrepared(ctx context.Context, begun *sync.WaitGroup, x *entry, j *Job, f *Fire, slot time.Time) {
	defer e.starts.Done()
	begun.Done()
	if f == nil || f.Job != j {
		e.fireSlot(ctx, x, j, slot)
		return
	}
	e.fire(ctx, x, f)
}

func (e *Engine) fire(ctx context.Context, x *entry, f *Fire) {
	at, now := f.time(), e.Clock.Now()
	f.Late = now.Sub(at) > onTime
	f.Wait = f.Late && f.Job.CatchUp.Policy == CatchUpAll // for one that is on time
	if (!at.After(now) || e.pause(ctx, at)) && (e.Store == nil || e.takeFire(ctx, x, f)) {
		e.start(ctx, f)
	}
}

// What is rarely needed, or waits for a store, has its own frames: with them, the stack of each of ten thousand goroutines
// would have to grow before its job is started, which takes longer than all the rest.

//go:noinline
func (e *Engine) takeFire(ctx context.Context, x *entry, f *Fire) bool {
	return e.take(ctx, x, taken{Slot: f.Slot, By: e.self})
}

//go:noinline
func (e *Engine) missFire(ctx context.Context, f *Fire) {
	e.miss(ctx, f.Job, Missed{Count: 1, First: f.Slot, Last: f.Slot})
}

// pause waits until a time; false: ctx has ended.
func (e *Engine) pause(ctx context.Context, until time.Time) bool {
	for {
		left := until.Sub(e.Clock.Now())
		if left <= 0 {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-e.Clock.After(min(left, look)):
		}
	}
}

// take takes a slot; false: another instance has, or this one is to leave the job alone.
func (e *Engine) take(ctx context.Context, x *entry, t taken) bool {
	slot := t.Slot
	e.mu.Lock()
	j, p, known := x.job.Load(), x.page, x.known
	e.mu.Unlock()
	for try, sent := 0, false; ; {
		if x.old.Load() {
			return e.takeOld(ctx, j, t)
		}
		if !known || p.Digest != j.Digest {
			var err error
			p, known, err = e.knowOnce(ctx, x, slot)
			switch {
			case err != nil:
				if !e.away(ctx, x, t, sent, try, err) {
					return false
				}
				try++
			case !known && !x.old.Load():
				return false
			}
			continue
		}
		if p.by(slot) != "" {
			if p.by(slot) != e.self && !t.Again {
				e.report(j, slot, Elsewhere, nil)
			}
			return false
		}
		now, err := e.book.write(ctx, j.Name, p.version, p.with(t, j.Schedule))
		sent = true
		if err == nil || isState(err) {
			p = now
			e.mu.Lock()
			if x.page.version < p.version {
				x.page = p
			}
			e.mu.Unlock()
		}
		switch {
		case err == nil || isState(err) && p.by(slot) == e.self: // or it was, and the answer got lost
			return true
		case isState(err):
			continue
		}
		if !e.away(ctx, x, t, sent, try, err) {
			return false
		}
		try++
	}
}

// takeOld takes a slot of a schedule that is in the configuration no more, as when it waits for its jitter while that is
// read anew. What the memo says of the newer schedule stays.
func (e *Engine) takeOld(ctx context.Context, j *Job, t taken) bool {
	for try, sent := 0, false; ; {
		p, err := e.book.read(ctx, j.Name)
		if by := p.by(t.Slot); err == nil && by != "" {
			return sent && by == e.self // or the answer got lost
		}
		if err == nil {
			m := p.memo
			m.Taken = append(slices.Clone(m.Taken), t)
			slices.SortFunc(m.Taken, func(a, b taken) int { return a.Slot.Compare(b.Slot) })
			m.Taken = m.Taken[max(0, len(m.Taken)-mostTaken):]
			sent = true
			_, err = e.book.write(ctx, j.Name, p.version, m)
		}
		switch {
		case err == nil:
			return true
		case isState(err):
			continue
		}
		if !e.rest(ctx, j, t.Slot, try, err) {
			return false
		}
		try++
	}
}

// start starts a fire that this instance has taken, until the ledger knows of it.
func (e *Engine) start(ctx context.Context, f *Fire) {
	switch {
	case f.Late:
		e.report(f.Job, f.Slot, Late, nil)
	case !f.Again:
		e.report(f.Job, f.Slot, Fired, nil)
	}
	for try := 0; ; try++ {
		done, err := e.inPlace(ctx, f, try)
		if done {
			e.unkeep(ctx, f)
			return
		}
		// A newer fire makes this one a missed one; that is then what its catch-up says. What is refused for longer than an upgrade
		// of the files takes will be refused for as long as the configuration is what it is.
		if errors.Is(err, errRefused) && e.Clock.Now().Sub(f.Slot).Abs() > newestOnTime || e.Clock.Now().Sub(f.Slot) > max(f.Job.CatchUp.Window, newestOnTime) || f.Job.CatchUp.Policy != CatchUpAll && e.superseded(f) {
			e.missFire(ctx, f)
			e.unkeep(ctx, f)
			return
		}
		if try == 0 {
			e.report(f.Job, f.Slot, NotRun, err)
		}
		e.rest(ctx, f.Job, f.Slot, max(try, 1), err)
	}
}

// inPlace is a start within the limits, and in its turn; done: there is nothing more to do about it.
func (e *Engine) inPlace(ctx context.Context, f *Fire, try int) (done bool, err error) {
	if ctx.Err() != nil {
		e.left.Store(true)
		return true, nil
	}
	if k := f.Job.Overlap.Kind; k == OverlapQueue || k == OverlapReplace {
		return e.inTurn(ctx, f, try)
	}
	return e.placed(ctx, f, try)
}

//go:noinline
func (e *Engine) inTurn(ctx context.Context, f *Fire, try int) (done bool, err error) {
	t := e.lineUp(ctx, f)
	if t == nil {
		return e.placed(ctx, f, try)
	}
	defer e.leaveLine(t)
	if !isClosed(t.head) {
		if f.Job.Overlap.Kind == OverlapReplace && e.Store != nil { // while it waits for its turn, what it replaces is to end
			if err := e.replace(ctx, f, func(onerun.Run) bool { return true }); err != nil {
				return f.Again, err
			}
		}
		stop := e.keeping(ctx, f)
		select {
		case <-t.head:
		case <-t.dropped:
		case <-ctx.Done():
		}
		stop()
		if isClosed(t.dropped) && ctx.Err() == nil {
			e.missFire(ctx, f)
			return true, nil
		}
	}
	f.Wait = true
	return e.placed(ctx, f, try)
}

// placed is a start within the limits.
func (e *Engine) placed(ctx context.Context, f *Fire, try int) (done bool, err error) {
	p, ok := e.enter(ctx, f)
	if !ok {
		e.left.Store(true)
		return true, nil
	}
	if f.Again {
		e.setAgain(f, e.Clock.Now())
	}
	if f.Job.out() { // it waited for a place, or for its jitter
		e.limits.leave(p)
		if !f.Again {
			e.missFire(ctx, f)
		}
		return true, nil
	}
	if try == 0 && !f.Again && e.outrun(f) {
		e.limits.leave(p) // while it waited for a place
		e.missFire(ctx, f)
		return true, nil
	}
	done, err = e.once(ctx, f)
	e.limits.leave(p)
	if (done || f.Again) && len(f.Job.Alerts) > 0 {
		e.alerts.look(f.Job.Name)
	}
	return done || f.Again, err // what is due again is taken again, as long as it is
}

// enter waits for a place; false: ctx ended first.
func (e *Engine) enter(ctx context.Context, f *Fire) (place, bool) {
	if ctx.Err() != nil {
		return place{}, false
	}
	if p, ok := e.limits.enterNow(f.Job.Group); ok {
		return p, true
	}
	return e.waitForPlace(ctx, f)
}

//go:noinline
func (e *Engine) waitForPlace(ctx context.Context, f *Fire) (place, bool) {
	defer e.keeping(ctx, f)()
	return e.limits.enter(ctx, f.Job.Group)
}

// outrun reports whether a fire that waited here isn't started any more, since the job has fired again meanwhile. One that waits
// for an earlier one was meant to wait.
func (e *Engine) outrun(f *Fire) bool {
	switch {
	case f.Job.Overlap.Kind == OverlapReplace:
		return e.superseded(f)
	case f.Job.Overlap.Kind == OverlapQueue, f.Job.CatchUp.Policy == CatchUpAll:
		return false
	}
	return e.Clock.Now().Sub(f.time()) > newestOnTime && e.superseded(f)
}

// superseded reports whether the job has fired again since.
func (e *Engine) superseded(f *Fire) bool {
	slot, ok := f.Job.Schedule.Next(f.Slot)
	if !ok {
		return false
	}
	next, err := f.Job.fire(slot)
	return err == nil && !next.time().After(e.Clock.Now())
}

var (
	errNotStarted = errors.New("it could not be started, or the store could not be asked")
	errRefused    = errors.New("onerun run refuses it as it is configured; what it says stands before this")
)

// once is one start.
func (e *Engine) once(ctx context.Context, f *Fire) (done bool, err error) {
	var r Result
	over := false
	if f.Job.Overlap.Kind == OverlapReplace && e.Store != nil {
		if r, over, err = e.replacing(ctx, f); err != nil {
			return false, err
		}
	} else {
		r = e.Start(ctx, f)
	}
	switch r {
	case Ran:
		return true, nil
	case Away: // should it end before its claim, the others find that this instance has left it
		e.left.Store(true)
		return true, nil
	case Unknown, Refused:
	}
	failed := errNotStarted
	if r == Refused {
		failed = errRefused
	}
	if e.Store == nil {
		return false, failed
	}
	known, err := e.inLedger(ctx, f) // an exit code of onerun's can be the job's own
	if err == nil && !known && over {
		e.missFire(ctx, f)
		return true, nil
	}
	if err == nil && !known {
		err = failed
	}
	return known, err
}

// replace asks what runs of a job to stop, as far as it is one of those.
func (e *Engine) replace(ctx context.Context, f *Fire, those func(onerun.Run) bool) error {
	running, err := e.running(ctx, f.Job.Name)
	if err != nil {
		return err
	}
	for _, r := range running {
		if r.Partition == f.Partition || !those(r) {
			continue
		}
		err := e.Store.Stop(ctx, onerun.StopRequest{
			Namespace: e.Namespace, RunID: r.RunID, Expect: onerun.Expected(r),
			Who: onerun.Who{By: e.Who, Reason: "replaced by the fire of " + f.Slot.Format(time.RFC3339)},
		})
		if err != nil && !isState(err) && !errors.Is(err, onerun.ErrNotFound) {
			return err
		}
	}
	return nil
}

// miss records fires that don't run, as one SKIPPED run, whose key is none of theirs: each of them can still be
// run by hand.
func (e *Engine) miss(ctx context.Context, j *Job, m Missed) {
	what := fmt.Sprintf("missed: the fire of %s", m.Last.Format(time.RFC3339))
	if m.Count > 1 {
		what = fmt.Sprintf("missed: %d fires from %s to %s", m.Count, m.First.Format(time.RFC3339), m.Last.Format(time.RFC3339))
	}
	if m.More {
		what += ", and earlier ones"
	}
	if j.out() {
		what += "; the job was taken out of the configuration"
	} else {
		what += fmt.Sprintf("; catch-up: %s within %s", j.CatchUp.Policy, j.CatchUp.Window)
	}
	e.Report(Event{Kind: MissedAny, At: e.Clock.Now(), Job: j.Name, Slot: m.Last, Detail: what})
	e.tellMissed(ctx, j, m.Last, "missed+"+m.Last.UTC().Format(time.RFC3339), what)
}

// tellMissed records a SKIPPED run that says what didn't run.
func (e *Engine) tellMissed(ctx context.Context, j *Job, slot time.Time, partition, what string) {
	for try := 0; e.Store != nil; try++ {
		_, err := e.Store.Resolve(ctx, onerun.Resolution{
			Namespace: e.Namespace, Job: j.Name, Partition: partition, As: onerun.Skipped,
			Who: onerun.Who{By: e.Who, Reason: what},
		})
		if err == nil || isState(err) {
			return
		}
		if !e.rest(ctx, j, slot, try, err) {
			e.left.Store(true)
			return
		}
	}
}
