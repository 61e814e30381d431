package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/onerun-dev/onerun"
)

// resolveCases: what an operator may decide, from every state to every other.
func resolveCases() []check {
	return []check{
		{"resolve/the whole matrix", func(t *trial) { t.matrix() }},
		{"resolve/cancel a key in advance", func(t *trial) {
			r := t.cancel("settle", day)
			equal(t, t.event(r.RunID, onerun.EventResolved).Detail, "cancelled in advance", "what event resolved says of the run before")
			equal(t, r.Job, "settle", "Run.Job")
			equal(t, r.Partition, day, "Run.Partition")
			equal(t, r.BusinessDate, day, "Run.BusinessDate")
			t.decided(r.RunID, onerun.EventResolved)
			t.refused(t.job("settle", day), onerun.RefusedSkipped)
			t.finish(t.granted(t.job("settle", "2026-09-16")), succeeded)
			_, err := t.s.Resolve(t.ctx, t.cancellation("settle", day))
			t.is(err, onerun.ErrState, "cancel a key twice")
		}},
		{"resolve/an unkeyed job can't be cancelled in advance", func(t *trial) {
			_, err := t.s.Resolve(t.ctx, t.cancellation("sweep", ""))
			t.either(err, onerun.ErrState, onerun.ErrUsage, "cancel an unkeyed job")
			equal(t, len(t.runs(onerun.Query{Namespace: t.ns})), 0, "runs")
			t.granted(t.job("sweep", ""))
		}},
		{"resolve/who and why are kept", func(t *trial) {
			r := t.resolve(t.ended(t.job("settle", day), failed), onerun.Succeeded)
			t.decided(r.RunID, onerun.EventResolved)
			equal(t, t.event(r.RunID, onerun.EventResolved).Detail, "FAILED to SUCCEEDED", "what event resolved says of the run before")
		}},
		{"resolve/what the attempt recorded stays", func(t *trial) {
			g := t.granted(t.job("settle", day))
			o := failed
			o.ExitCode, o.Error = new(3), "no such account"
			t.finish(g, o)
			r := t.resolve(t.run(g.Lease.RunID), onerun.Succeeded)
			a := t.attempt(r.RunID, 1)
			equal(t, a.Status, onerun.Failed, "status of the attempt of a run that was resolved")
			equal(t, a.Error, o.Error, "error of the attempt of a run that was resolved")
			if a.ExitCode == nil || *a.ExitCode != 3 {
				t.failf("exit code of the attempt of a run that was resolved: expected 3, got %v", a.ExitCode)
			}
		}},
		{"resolve/frees the lock of a dead owner", func(t *trial) {
			c := manual(t.job("settle", day))
			g := t.orphan(c)
			t.refused(t.job("settle", "2026-09-16"), onerun.RefusedStale)
			t.resolve(t.run(g.Lease.RunID), onerun.Skipped)
			next := t.granted(t.job("settle", "2026-09-16"))
			if next.Lease.Token <= g.Lease.Token {
				t.failf("token after a resolution: expected more than %d, got %d", g.Lease.Token, next.Lease.Token)
			}
		}},
		{"resolve/a live run is left alone", func(t *trial) {
			c := t.job("settle", day)
			g := t.granted(c)
			before := t.look()
			for _, as := range ends {
				_, err := t.s.Resolve(t.ctx, resolution(g.Run, as))
				t.is(err, onerun.ErrState, "resolve a live run as %s", as)
			}
			t.unchanged(before, t.look(), "a refused resolution")
			_, err := t.s.Heartbeat(t.ctx, g.Lease)
			t.must(err, "heartbeat after a refused resolution")
			t.finish(g, succeeded)
		}},
		{"resolve/a run that nobody knows", func(t *trial) {
			r := t.ended(t.job("settle", day), failed)
			q := resolution(r, onerun.Skipped)
			q.RunID, q.Job, q.Partition = onerun.NewRunID(time.Now()), "", ""
			for _, e := range []onerun.Expect{q.Expect, {}} {
				q.Expect = e
				_, err := t.s.Resolve(t.ctx, q)
				t.either(err, onerun.ErrNotFound, onerun.ErrState, "resolve a run that nobody knows")
			}
			equal(t, len(t.runs(onerun.Query{Namespace: t.ns})), 1, "runs")
		}},
		{"resolve/a person against a start", func(t *trial) {
			// The next start would close the dead run, an operator decides it: one of
			// the two, and the other sees what was done.
			for round := range min(t.h.Rounds, 3) {
				c := t.job("settle", partition(round))
				g := t.orphan(c)
				r := t.run(g.Lease.RunID)
				operators, starts := t.open(), t.open()
				var decided, refused error
				t.together(2, func(i int) error {
					if i == 0 {
						_, decided = operators.Resolve(t.ctx, resolution(r, onerun.Succeeded))
						return nil
					}
					_, refused = starts.Claim(t.ctx, again(c))
					return nil
				})
				want := onerun.RefusedSucceeded
				if decided != nil {
					t.is(decided, onerun.ErrState, "resolve beside a start")
					want = onerun.RefusedFailed
				}
				var ref *onerun.Refusal
				if !errors.As(refused, &ref) {
					t.failf("a start beside a resolution: expected a refusal, got %s", said(refused))
				}
				t.refusedAfterDeath(again(c), want)
			}
		}},
	}
}

var ends = []onerun.Status{onerun.Failed, onerun.Succeeded, onerun.Skipped}

// matrix resolves from every state as every status, and checks that exactly what
// onerun.ResolveAllowed allows is done.
func (t *trial) matrix() {
	as := append([]onerun.Status{onerun.Running, "", "DONE"}, ends...)
	var dead []onerun.Claim
	for i := range as {
		dead = append(dead, t.inside(i).job("dead", day))
	}
	over := t.orphans(dead...)
	for i, status := range as {
		t := t.inside(i)
		alive := t.granted(t.job("alive", day)).Run
		good := t.ended(t.job("settle", "succeeded"), succeeded)
		bad := t.ended(t.job("settle", "failed"), failed)
		skip := t.ended(t.job("settle", "skipped"), skipped)
		gone := t.run(over[i].Lease.RunID)
		for _, c := range []struct {
			from string
			run  *onerun.Run
			over bool
		}{
			{"nothing", nil, false},
			{"RUNNING, alive", &alive, false},
			{"RUNNING, its owner dead", &gone, true},
			{"SUCCEEDED", &good, false},
			{"FAILED", &bad, false},
			{"SKIPPED", &skip, false},
		} {
			q := t.cancellation("settle", "nothing")
			q.As = status
			if c.run != nil {
				q = resolution(*c.run, status)
			}
			before := t.look()
			r, err := t.s.Resolve(t.ctx, q)
			if onerun.ResolveAllowed(c.run, status, c.over) == nil {
				t.must(err, "resolve from %s as %s", c.from, status)
				equal(t, t.run(r.RunID).Status, status, "status after resolving from %s", c.from)
				t.decided(r.RunID, onerun.EventResolved)
				continue
			}
			t.either(err, onerun.ErrState, onerun.ErrUsage, "resolve from %s as %q", c.from, status)
			t.unchanged(before, t.look(), fmt.Sprintf("a refused resolution from %s as %q", c.from, status))
		}
	}
}
