package storetest

import (
	"strings"

	"github.com/onerun-dev/onerun"
)

// stopCases: an operator asks the owner of a run to stop, and that owner alone hears of it.
func stopCases() []check {
	return []check{
		{"stop/the owner hears who and why", func(t *trial) {
			for _, c := range []onerun.Claim{t.job("settle", day), t.job("sweep", "")} {
				g := t.granted(c)
				equal(t, t.toldToStop(g.Lease), "", "what the owner hears before")
				t.must(t.s.Stop(t.ctx, stopping(t.run(g.Lease.RunID))), "stop %s", g.Run.Name())
				if got := t.toldToStop(g.Lease); !strings.Contains(got, operator) || !strings.Contains(got, because) {
					t.failf("what the owner hears: expected %q and %q, got %q", operator, because, got)
				}
				t.event(g.Lease.RunID, onerun.EventStopRequested)
				equal(t, t.run(g.Lease.RunID).Status, onerun.Running, "status until the owner has stopped")
				t.finish(g, onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonStopped})
				equal(t, t.run(g.Lease.RunID).Reason, onerun.ReasonStopped, "reason")
			}
		}},
		{"stop/from another client", func(t *trial) {
			g := t.granted(t.job("settle", day))
			t.must(t.open().Stop(t.ctx, stopping(t.run(g.Lease.RunID))), "stop")
			equal(t, t.toldToStop(g.Lease) != "", true, "whether the owner hears of it")
		}},
		{"stop/never retried", func(t *trial) {
			c := retrying(t.job("settle", day), 3, 0)
			g := t.granted(c)
			t.must(t.s.Stop(t.ctx, stopping(t.run(g.Lease.RunID))), "stop")
			t.finish(g, onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonStopped})
			t.refused(again(c), onerun.RefusedFailed)
		}},
		{"stop/not the next owner", func(t *trial) {
			g := t.granted(t.job("settle", day))
			t.must(t.s.Stop(t.ctx, stopping(t.run(g.Lease.RunID))), "stop")
			t.finish(g, succeeded)
			next := t.granted(t.job("settle", "2026-09-16"))
			equal(t, t.toldToStop(next.Lease), "", "what the next owner of the lock hears")
		}},
		{"stop/only what runs, and is as expected", func(t *trial) {
			c := t.job("settle", day)
			g := t.granted(c)
			seen := stopping(t.run(g.Lease.RunID))
			for name, change := range outdated {
				q := seen
				change(&q.Expect)
				t.is(t.s.Stop(t.ctx, q), onerun.ErrState, "stop with another %s", name)
			}
			q := seen
			q.Namespace += "x"
			t.is(t.s.Stop(t.ctx, q), onerun.ErrNotFound, "stop in another namespace")
			equal(t, t.toldToStop(g.Lease), "", "what the owner hears after refused requests")
			t.finish(g, failed)
			before := t.look()
			t.is(t.s.Stop(t.ctx, seen), onerun.ErrState, "stop what has ended")
			t.is(t.s.Stop(t.ctx, stopping(t.run(g.Lease.RunID))), onerun.ErrState, "stop what has ended, as it is")
			t.unchanged(before, t.look(), "a refused request to stop")
		}},
		{"stop/nobody who is dead", func(t *trial) {
			g := t.orphan(t.job("settle", day))
			t.is(t.s.Stop(t.ctx, stopping(t.run(g.Lease.RunID))), onerun.ErrState, "stop a run whose owner is gone")
		}},
	}
}

func stopping(r onerun.Run) onerun.StopRequest {
	return onerun.StopRequest{Namespace: r.Namespace, RunID: r.RunID, Expect: onerun.Expected(r), Who: onerun.Who{By: operator, Reason: because}}
}

// toldToStop is what an owner hears, by whichever way its store has.
func (t *trial) toldToStop(l onerun.Lease) string {
	if w, ok := t.s.(onerun.StopWatcher); ok {
		return w.StopRequested(l)
	}
	b, err := t.s.Heartbeat(t.ctx, l)
	t.must(err, "heartbeat")
	return b.Stop
}
