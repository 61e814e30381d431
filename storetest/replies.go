package storetest

import (
	"errors"

	"github.com/onerun-dev/onerun"
)

// replyCases: a reply can be lost after the change was made. Asking again with the
// same owner id, or finishing again, must not do it twice.
func replyCases() []check {
	return []check{
		{"replies/a claim repeated is the same grant", func(t *trial) {
			for _, c := range []onerun.Claim{
				t.job("settle", day), t.job("sweep", ""), t.lockOnly("db"),
				under(t.job("report", day), onerun.NamedLock("reports")),
			} {
				g := t.granted(c)
				before := t.look(c)
				for range 2 {
					t.adopted(c, g)
				}
				t.unchanged(before, t.look(c), "a claim repeated")
				t.refused(again(c), t.busy(c))
				t.finish(g, succeeded)
			}
		}},
		{"replies/a repeated claim while asking", func(t *trial) {
			c := t.job("settle", day)
			g := t.granted(c)
			c.Asking = true
			t.adopted(c, g)
		}},
		{"replies/many at once are one grant", func(t *trial) {
			// The first may still be under way in the store when the second arrives.
			// Without leases both are calls of one process, and one that overtakes the
			// other between two of its steps may find the run RUNNING.
			c := t.job("settle", day)
			grants := make([]onerun.Grant, t.h.Clients)
			t.together(len(grants), func(i int) (err error) {
				grants[i], err = t.s.Claim(t.ctx, c)
				var ref *onerun.Refusal
				if !t.h.Leases && errors.As(err, &ref) && ref.Reason == onerun.RefusedRunning {
					return nil
				}
				return err
			})
			last, err := t.s.Claim(t.ctx, c)
			t.must(err, "claim once more")
			equal(t, last.Adopted, true, "Adopted of the last one")
			for _, g := range grants {
				if g.Lease.Owner != "" {
					equal(t, g.Lease, last.Lease, "lease of one owner's claim, sent %d times at once", len(grants))
				}
			}
			equal(t, len(t.detail(c.RunID).Attempts), 1, "attempts")
		}},
		{"replies/the lease goes on where it was", func(t *trial) {
			c := t.job("settle", day)
			g := t.granted(c)
			t.pass(t.scale(c.TTL/2, 0))
			beat, err := t.s.Heartbeat(t.ctx, g.Lease)
			t.must(err, "heartbeat")
			a := t.adopted(c, g)
			if t.h.Leases {
				t.near(a.Run.LeaseExpiresAt, beat.Now.Add(c.TTL), rounding, "LeaseExpiresAt of the repeated grant, after a heartbeat")
			}
		}},
		{"replies/another owner is not taken for the first", func(t *trial) {
			c := t.job("settle", day)
			t.granted(c)
			c2 := again(c)
			c2.RunID = c.RunID
			t.refused(c2, onerun.RefusedRunning)
			unkeyed := t.job("sweep", "")
			t.granted(unkeyed)
			t.refused(again(unkeyed), onerun.RefusedLocked)
		}},
		{"replies/after its end a grant is not given again", func(t *trial) {
			c := t.job("settle", day)
			t.ended(c, succeeded)
			t.refused(c, onerun.RefusedSucceeded)
			c = t.job("settle", "2026-09-16")
			t.ended(c, failed)
			t.refused(c, onerun.RefusedFailed)
			alone := t.lockOnly("db")
			first := t.granted(alone)
			t.finish(first, succeeded)
			if next := t.granted(alone); next.Lease.Token <= first.Lease.Token {
				t.failf("token of a new grant: expected more than %d, got %d", first.Lease.Token, next.Lease.Token)
			}
		}},
		{"replies/a grant that was taken over is not given again", func(t *trial) {
			c := retrying(t.job("settle", day), 1, 0)
			c.RetryLost = true
			late := t.orphan(c)
			equal(t, late.Lease.Owner, c.Owner, "owner of the grant that is taken over")
			t.granted(again(c))
			t.refused(c, onerun.RefusedRunning)
		}},
		{"replies/a finish repeated", func(t *trial) {
			for i, o := range []onerun.Outcome{succeeded, failed, skipped} {
				g := t.granted(t.job("settle", partition(i)))
				t.finish(g, o)
				before := t.look()
				t.finish(g, o)
				t.unchanged(before, t.look(), "a finish repeated")
				for _, other := range []onerun.Outcome{succeeded, failed, skipped} {
					if other.Status != o.Status {
						t.is(t.s.Finish(t.ctx, g.Lease, other), onerun.ErrLost, "finish as %s after %s", other.Status, o.Status)
					}
				}
				t.unchanged(before, t.look(), "a finish with another outcome")
			}
			alone := t.granted(t.lockOnly("db"))
			t.finish(alone, succeeded)
			t.finish(alone, succeeded)
		}},
		{"replies/a finish repeated when the next owner is there", func(t *trial) {
			c := t.job("sweep", "")
			g := t.granted(c)
			t.finish(g, failed)
			next := t.granted(again(c))
			before := t.look()
			t.finish(g, failed)
			t.unchanged(before, t.look(), "a finish repeated late")
			t.refused(again(c), onerun.RefusedLocked)
			t.finish(next, succeeded)
		}},
	}
}

// adopted claims again with the owner id of a grant, and checks that the same one
// comes back.
func (t *trial) adopted(c onerun.Claim, first onerun.Grant) onerun.Grant {
	g, err := t.s.Claim(t.ctx, c)
	if err != nil {
		t.failf("claim %s repeated: expected the same grant, got %s", nameOf(c), said(err))
	}
	equal(t, g.Adopted, true, "Adopted of a claim repeated")
	equal(t, g.Lease, first.Lease, "lease of a claim repeated")
	t.whole(c, g)
	return g
}

// busy is the reason for which another start of the same is refused.
func (t *trial) busy(c onerun.Claim) onerun.Reason {
	if c.Partition != "" {
		return onerun.RefusedRunning
	}
	return onerun.RefusedLocked
}
