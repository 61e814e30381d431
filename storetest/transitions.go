package storetest

import (
	"errors"
	"time"

	"github.com/onerun-dev/onerun"
)

// transitionCases: every change of state names what it expects. A caller whose
// expectation no longer holds changes nothing and is told so.
func transitionCases() []check {
	return []check{
		{"transitions/a late finish after a takeover", func(t *trial) {
			late, next := t.takenOver(t.job("settle", day))
			t.lostFor(late.Lease, next.Run)
			t.finish(next, succeeded)
			t.lostFor(late.Lease, t.run(next.Lease.RunID))
			equal(t, t.attempt(next.Lease.RunID, 1).Status, onerun.Failed, "status of the attempt that was taken over")
			equal(t, t.attempt(next.Lease.RunID, 2).Status, onerun.Succeeded, "status of the attempt after it")
		}},
		{"transitions/a late finish after a takeover by another run", func(t *trial) {
			late := t.orphan(t.job("sweep", ""))
			next := t.granted(t.job("sweep", ""))
			t.lostFor(late.Lease, next.Run)
			t.refused(t.job("sweep", ""), onerun.RefusedLocked)
		}},
		{"transitions/a lease that differs", func(t *trial) {
			g := t.granted(t.job("settle", day))
			for name, change := range map[string]func(*onerun.Lease){
				"token":     func(l *onerun.Lease) { l.Token++ },
				"old token": func(l *onerun.Lease) { l.Token-- },
				"owner":     func(l *onerun.Lease) { l.Owner = onerun.NewID() },
				"attempt":   func(l *onerun.Lease) { l.Attempt++ },
				"run":       func(l *onerun.Lease) { l.RunID = onerun.NewRunID(time.Now()) },
				"lock":      func(l *onerun.Lease) { l.Lock = onerun.JobLock("other") },
				"namespace": func(l *onerun.Lease) { l.Namespace += "x" },
			} {
				before := t.lookAll()
				l := g.Lease
				change(&l)
				t.is(t.s.Finish(t.ctx, l, succeeded), onerun.ErrLost, "finish with another %s", name)
				_, err := t.s.Heartbeat(t.ctx, l)
				t.is(err, onerun.ErrLost, "heartbeat with another %s", name)
				t.unchanged(before, t.lookAll(), "a finish and a heartbeat with another "+name)
			}
			t.finish(g, succeeded)
		}},
		{"transitions/a heartbeat never re-creates", func(t *trial) {
			g := t.granted(t.job("settle", day))
			t.finish(g, failed)
			before := t.lookAll()
			_, err := t.s.Heartbeat(t.ctx, g.Lease)
			t.is(err, onerun.ErrLost, "heartbeat after Finish")
			t.unchanged(before, t.lookAll(), "a heartbeat after Finish")
			if _, held := t.locked(g.Lease.Lock); held {
				t.failf("a heartbeat after Finish: expected lock %s to stay free, got it held", g.Lease.Lock)
			}
			t.granted(t.job("settle", "2026-09-16"))

			alone := t.granted(t.lockOnly("db"))
			t.finish(alone, succeeded)
			_, err = t.s.Heartbeat(t.ctx, alone.Lease)
			t.is(err, onerun.ErrLost, "heartbeat of a lock that was released")
			t.granted(t.lockOnly("db"))
		}},
		{"transitions/after a resolution the owner is lost", func(t *trial) {
			late := t.orphan(manual(t.job("settle", day)))
			r := t.resolve(t.run(late.Lease.RunID), onerun.Succeeded)
			before := t.lookAll()
			t.is(t.s.Finish(t.ctx, late.Lease, failed), onerun.ErrLost, "finish of a run that an operator closed")
			_, err := t.s.Heartbeat(t.ctx, late.Lease)
			t.is(err, onerun.ErrLost, "heartbeat of a run that an operator closed")
			t.unchanged(before, t.lookAll(), "a finish and a heartbeat after a resolution")
			equal(t, t.run(r.RunID).Status, onerun.Succeeded, "status that the operator decided")
			t.granted(t.job("settle", "2026-09-16"))
		}},
		{"transitions/two operators resolve at once", func(t *trial) {
			stores := t.opens(4)
			for round := range t.h.Rounds {
				r := t.ended(t.job("settle", partition(round)), failed)
				as := []onerun.Status{onerun.Succeeded, onerun.Skipped}
				errs := make([]error, t.h.Clients)
				t.together(len(errs), func(i int) error {
					_, errs[i] = stores[i%len(stores)].Resolve(t.ctx, resolution(r, as[i%2]))
					return nil
				})
				winner := t.oneDecided(errs, "resolutions")
				equal(t, t.run(r.RunID).Status, as[winner%2], "status that the one operator decided")
				t.decided(r.RunID, onerun.EventResolved)
			}
		}},
		{"transitions/two operators cancel a key at once", func(t *trial) {
			stores := t.opens(4)
			errs := make([]error, t.h.Clients)
			t.together(len(errs), func(i int) error {
				_, errs[i] = stores[i%len(stores)].Resolve(t.ctx, t.cancellation("settle", day))
				return nil
			})
			t.oneDecided(errs, "cancellations")
			equal(t, len(t.runs(onerun.Query{Namespace: t.ns})), 1, "runs of a key that was cancelled")
		}},
		{"transitions/resolve with an outdated expectation", func(t *trial) {
			r := t.ended(t.job("settle", day), failed)
			before := t.lookAll()
			for name, change := range outdated {
				q := resolution(r, onerun.Succeeded)
				change(&q.Expect)
				_, err := t.s.Resolve(t.ctx, q)
				t.is(err, onerun.ErrState, "resolve with another %s", name)
			}
			t.unchanged(before, t.lookAll(), "a refused resolution")
		}},
		{"transitions/cancel a key that has run meanwhile", func(t *trial) {
			t.granted(t.job("settle", day))
			before := t.lookAll()
			_, err := t.s.Resolve(t.ctx, t.cancellation("settle", day))
			t.is(err, onerun.ErrState, "cancel a RUNNING key in advance")
			t.unchanged(before, t.lookAll(), "a refused cancellation")
		}},
		{"transitions/release of a lock that is another's (B26)", func(t *trial) {
			late := t.orphan(t.lockOnly("db"))
			next := t.granted(t.lockOnly("db"))
			err := t.s.Finish(t.ctx, late.Lease, succeeded)
			if t.h.Leases || err != nil {
				t.is(err, onerun.ErrLost, "release by the owner before") // without leases it is dead, and nobody is there to be told
			}
			_, err = t.s.Heartbeat(t.ctx, late.Lease)
			t.is(err, onerun.ErrLost, "heartbeat by the owner before")
			t.refused(t.lockOnly("db"), onerun.RefusedLocked)
			_, err = t.s.Heartbeat(t.ctx, next.Lease)
			t.must(err, "heartbeat by the owner")
			t.finish(next, succeeded)
			t.granted(t.lockOnly("db"))
		}},
		{"transitions/a malformed outcome", func(t *trial) {
			g := t.granted(t.job("settle", day))
			before := t.lookAll()
			for _, s := range []onerun.Status{onerun.Running, "", "DONE"} {
				t.is(t.s.Finish(t.ctx, g.Lease, onerun.Outcome{Status: s}), onerun.ErrUsage, "finish as %q", s)
			}
			t.unchanged(before, t.lookAll(), "a malformed outcome")
			t.finish(g, succeeded)
		}},
	}
}

// takenOver makes an attempt whose owner is dead, and the retry that took it over.
func (t *trial) takenOver(c onerun.Claim) (late, next onerun.Grant) {
	c = retrying(c, 1, 0)
	c.RetryLost = true
	late = t.orphan(c)
	next = t.granted(again(c))
	equal(t, next.Lease.Attempt, 2, "attempt after a takeover")
	return late, next
}

// lostFor checks that an owner who lost its run can't change it any more.
func (t *trial) lostFor(late onerun.Lease, now onerun.Run) {
	before := t.lookAll()
	for _, o := range []onerun.Outcome{succeeded, failed, skipped} {
		t.is(t.s.Finish(t.ctx, late, o), onerun.ErrLost, "late finish as %s when %s is %s", o.Status, now.Name(), now.Status)
	}
	_, err := t.s.Heartbeat(t.ctx, late)
	t.is(err, onerun.ErrLost, "late heartbeat when %s is %s", now.Name(), now.Status)
	t.unchanged(before, t.lookAll(), "a late finish and heartbeat")
}

// oneDecided checks that one of many decisions was made, and the others were told
// that the state doesn't allow it any more. It returns which one.
func (t *trial) oneDecided(errs []error, what string) int {
	winner, made := 0, 0
	for i, err := range errs {
		switch {
		case err == nil:
			winner, made = i, made+1
		case !errors.Is(err, onerun.ErrState):
			t.failf("%d %s at once: expected success or error %q, got %w", len(errs), what, onerun.ErrState, err)
		}
	}
	equal(t, made, 1, "%d %s at once, of which were made", len(errs), what)
	return winner
}
