package storetest

import "github.com/onerun-dev/onerun"

// namespaceCases: prod and staging share a store and nothing else.
func namespaceCases() []check {
	return []check{
		{"namespaces/the same job in two", func(t *trial) {
			here, there := t.job("settle", day), t.job("settle", day)
			there.Namespace = t.ns + "-b"
			g := t.granted(here)
			h := t.grantedBy(t.s, there)
			t.refused(again(here), onerun.RefusedRunning)
			t.finish(g, succeeded)
			t.refusedBy(t.s, again(there), onerun.RefusedRunning)
			t.finish(h, failed)
			t.refused(again(here), onerun.RefusedSucceeded)
			t.refusedBy(t.s, again(there), onerun.RefusedFailed)
			t.invariants(there.Namespace)
		}},
		{"namespaces/the same lock in two", func(t *trial) {
			there := t.lockOnly("db")
			there.Namespace = t.ns + "-b"
			t.granted(t.lockOnly("db"))
			t.grantedBy(t.s, there)
			equal(t, len(t.locks(t.ns)), 1, "locks that are listed in one namespace")
			equal(t, len(t.locks(there.Namespace)), 1, "locks that are listed in the other")
		}},
		{"namespaces/nothing is read across", func(t *trial) {
			c := t.job("settle", day)
			r := t.ended(c, succeeded)
			t.refused(again(c), onerun.RefusedSucceeded)
			t.pause("settle")
			other := t.ns + "-b"
			equal(t, len(t.runs(onerun.Query{Namespace: other})), 0, "runs in another namespace")
			equal(t, len(t.runs(onerun.Query{Namespace: other, RunID: r.RunID})), 0, "runs by id in another namespace")
			c.Namespace = other
			equal(t, len(t.skips(c)), 0, "skips in another namespace")
			_, err := t.s.Detail(t.ctx, other, r.RunID)
			t.is(err, onerun.ErrNotFound, "read a run in another namespace")
		}},
		{"namespaces/nothing is decided across", func(t *trial) {
			r := t.ended(t.job("settle", day), failed)
			before := t.look()
			r.Namespace = t.ns + "-b"
			_, err := t.s.Approve(t.ctx, approval(r))
			t.is(err, onerun.ErrNotFound, "approve a run in another namespace")
			_, err = t.s.Resolve(t.ctx, resolution(r, onerun.Succeeded))
			t.either(err, onerun.ErrNotFound, onerun.ErrState, "resolve a run in another namespace")
			t.unchanged(before, t.look(), "an operator in another namespace")
		}},
	}
}
