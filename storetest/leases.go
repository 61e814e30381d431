package storetest

import (
	"errors"
	"time"

	"github.com/onerun-dev/onerun"
)

// rounding is how far a store may round a lease's end that it shows.
const rounding = time.Second

// leaseCases: the lease, by the store's clock. Without leases they check that
// nothing but the holder's end frees a lock.
func leaseCases() []check {
	return []check{
		{"leases/nobody before T, somebody after", func(t *trial) {
			c := t.leased("settle", day)
			g := t.granted(c)
			t.excludedUntil(again(c), g.At, c.TTL, onerun.RefusedRunning)
			unkeyed := t.leased("sweep", "")
			g = t.granted(unkeyed)
			t.excludedUntil(again(unkeyed), g.At, c.TTL, onerun.RefusedLocked)
			alone := t.lockOnly("db")
			alone.TTL = c.TTL
			g = t.granted(alone)
			t.excludedUntil(again(alone), g.At, c.TTL, onerun.RefusedLocked)
		}},
		{"leases/a heartbeat extends from now", func(t *trial) {
			c := t.leased("sweep", "")
			c.TTL = t.scale(c.TTL, 2*time.Second)
			g := t.granted(c)
			var last time.Time
			for range 5 { // many heartbeats don't add up
				beat, err := t.s.Heartbeat(t.ctx, g.Lease)
				t.must(err, "heartbeat")
				last = beat.Now
			}
			t.pass(c.TTL / 2)
			beat, err := t.s.Heartbeat(t.ctx, g.Lease)
			t.must(err, "heartbeat at half the lease")
			if went := beat.Now.Sub(last); went < c.TTL/4 || went > c.TTL && t.h.Advance != nil {
				t.failf("Beat.Now: expected the store's clock to have gone on by about %s, got %s", c.TTL/2, went)
			}
			t.excludedUntil(again(c), beat.Now, c.TTL, onerun.RefusedLocked)
		}},
		{"leases/many short ones make a long run", func(t *trial) {
			c := t.leased("settle", day)
			c.TTL = t.scale(c.TTL, 3*time.Second)
			g := t.granted(c)
			for range 3 {
				t.pass(c.TTL * 3 / 5)
				t.refusedBy(t.s, again(c), onerun.RefusedRunning)
				_, err := t.s.Heartbeat(t.ctx, g.Lease)
				t.must(err, "heartbeat")
			}
			t.finish(g, succeeded)
			t.refused(again(c), onerun.RefusedSucceeded)
		}},
		{"leases/their end is shown", func(t *trial) {
			c := t.job("settle", day)
			g := t.granted(c)
			if !t.h.Leases {
				equal(t, t.run(g.Lease.RunID).LeaseExpiresAt.IsZero(), true, "whether LeaseExpiresAt is empty on a store without leases")
				return
			}
			t.near(g.Run.LeaseExpiresAt, g.At.Add(c.TTL), rounding, "Grant.Run.LeaseExpiresAt")
			t.near(t.run(g.Lease.RunID).LeaseExpiresAt, g.At.Add(c.TTL), rounding, "Run.LeaseExpiresAt")
			t.pass(t.scale(c.TTL/2, 10*time.Millisecond))
			beat, err := t.s.Heartbeat(t.ctx, g.Lease)
			t.must(err, "heartbeat")
			t.near(t.run(g.Lease.RunID).LeaseExpiresAt, beat.Now.Add(c.TTL), rounding, "Run.LeaseExpiresAt after a heartbeat")
			t.finish(g, succeeded)
			equal(t, t.run(g.Lease.RunID).LeaseExpiresAt.IsZero(), true, "whether LeaseExpiresAt is empty when the run has ended")
		}},
		{"leases/the default TTL", func(t *trial) {
			c := t.job("settle", day)
			c.TTL, c.OnCrash = 0, ""
			g := t.granted(c)
			t.pass(t.scale(onerun.DefaultTTL-time.Second, time.Millisecond))
			t.refused(again(c), onerun.RefusedRunning)
			_, err := t.s.Heartbeat(t.ctx, g.Lease)
			t.must(err, "heartbeat")
		}},
		{"leases/a client's clock decides nothing", func(t *trial) {
			// What a client says of its own clock: the slot, the id of the run, the end
			// of its work (B24). Two clients, three minutes ahead and three behind.
			for i, skew := range []time.Duration{3 * time.Minute, -3 * time.Minute, 100 * 24 * time.Hour} {
				at := time.Now().Add(skew)
				c := t.job("settle", partition(i))
				c.RunID, c.ScheduledAt = onerun.NewRunID(at), at
				g := t.granted(c)
				t.near(t.run(g.Lease.RunID).StartedAt, g.At, rounding, "Run.StartedAt against Grant.At")
				other := again(c)
				other.RunID, other.ScheduledAt = onerun.NewRunID(at.Add(-2*skew)), at.Add(-2*skew)
				t.refused(other, onerun.RefusedRunning)
				o := failed
				o.FinishedAt = at
				t.finish(g, o)
				t.near(t.run(g.Lease.RunID).FinishedAt, at, time.Millisecond, "Run.FinishedAt, which is the worker's own")
			}
			c := retrying(t.job("settle", "retry"), 1, time.Hour)
			g := t.granted(c)
			o := failed
			o.FinishedAt = time.Now().Add(-48 * time.Hour)
			t.finish(g, o)
			ref := t.refused(again(c), onerun.RefusedRetryNotDue)
			t.near(ref.RetryAt, ref.At.Add(time.Hour), t.scale(time.Minute, 5*time.Minute), "a retry's time, which is the store's")
		}},
		{"leases/a late heartbeat before anybody came", func(t *trial) {
			// Whether it is still the owner's is the store's affair; it must not be
			// the owner's and somebody else's.
			c := t.leased("sweep", "")
			c.TTL = t.scale(c.TTL, 2*time.Second)
			g := t.granted(c)
			t.pass(c.TTL + t.scale(time.Second, 200*time.Millisecond))
			_, err := t.s.Heartbeat(t.ctx, g.Lease)
			if err == nil {
				t.refused(again(c), onerun.RefusedLocked)
				t.finish(g, succeeded)
			} else {
				t.is(err, onerun.ErrLost, "a late heartbeat")
			}
			t.granted(again(c))
		}},
		{"leases/age alone is no proof", func(t *trial) {
			c := t.job("settle", day)
			c.TTL, c.StaleAfter = t.scale(time.Minute, c.TTL), t.scale(30*time.Minute, time.Millisecond)
			g := t.granted(c)
			equal(t, t.run(g.Lease.RunID).StaleAfter, c.StaleAfter, "Run.StaleAfter")
			for range 62 {
				t.pass(t.scale(30*time.Second, time.Millisecond))
				_, err := t.s.Heartbeat(t.ctx, g.Lease)
				t.must(err, "heartbeat")
			}
			equal(t, t.run(g.Lease.RunID).Stale, true, "Run.Stale past its stale-after")
			t.refused(again(c), onerun.RefusedRunning)
			_, err := t.s.Resolve(t.ctx, resolution(t.run(g.Lease.RunID), onerun.Failed))
			t.is(err, onerun.ErrState, "resolve a run that is only old")
			t.finish(g, succeeded)
		}},
		{"leases/stale-after without a word", func(t *trial) {
			c := t.job("settle", day) // no history: the least default
			g := t.granted(c)
			equal(t, t.run(g.Lease.RunID).Stale, false, "Run.Stale of a run that has just begun")
			if t.h.Advance == nil {
				return // the least default is ten minutes
			}
			t.pass(onerun.MinStaleAfter - time.Second)
			equal(t, t.run(g.Lease.RunID).Stale, false, "Run.Stale before the least default")
			t.pass(2 * time.Second)
			equal(t, t.run(g.Lease.RunID).Stale, true, "Run.Stale past the least default")
			t.pass(10 * time.Minute)
			t.finish(g, succeeded) // 20 minutes, so the next one may last 40
			g = t.granted(t.job("settle", "2026-09-16"))
			t.pass(39 * time.Minute)
			equal(t, t.run(g.Lease.RunID).Stale, false, "Run.Stale before twice the longest success")
			t.pass(2 * time.Minute)
			equal(t, t.run(g.Lease.RunID).Stale, true, "Run.Stale past twice the longest success")
		}},
		{"leases/stale-after from the last successes", func(t *trial) { t.usualStaleAfter() }},
	}
}

// usualStaleAfter makes a history of one long success, a longer failure, and short
// successes, until the long one is not among the last any more.
func (t *trial) usualStaleAfter() {
	lasts := func(d time.Duration, o onerun.Outcome) {
		c := t.job("settle", "")
		c.TTL = onerun.MaxTTL
		g := t.grantedBy(t.s, c)
		t.pass(d)
		t.finish(g, o)
	}
	if t.h.Advance == nil { // the least default is ten minutes
		lasts(0, succeeded)
		equal(t, t.run(t.granted(t.job("settle", "")).Lease.RunID).Stale, false, "Run.Stale of a run that has just begun")
		return
	}
	stale := func(after time.Duration) {
		c := t.job("settle", "")
		c.TTL = onerun.MaxTTL
		g := t.grantedBy(t.s, c)
		t.pass(after - time.Second)
		equal(t, t.run(g.Lease.RunID).Stale, false, "Run.Stale before %s", after)
		t.pass(2 * time.Second)
		equal(t, t.run(g.Lease.RunID).Stale, true, "Run.Stale past %s", after)
		t.finish(g, failed)
	}
	lasts(2*time.Hour, succeeded)
	lasts(5*time.Hour, failed)
	for range onerun.UsualRuns - 1 {
		lasts(time.Minute, succeeded)
	}
	stale(4 * time.Hour)
	lasts(time.Minute, succeeded)
	stale(onerun.MinStaleAfter)
	lasts(6*time.Minute, succeeded)
	stale(12 * time.Minute)
}

// leased makes a claim with a lease that can be waited for.
func (t *trial) leased(job, partition string) onerun.Claim {
	c := t.job(job, partition)
	c.TTL = t.scale(time.Minute, onerun.MinTTL)
	c.RetryLost = true
	return retrying(c, 1, 0)
}

// excludedUntil checks that a lease which began (again) at from excludes a claim
// until it is over, and no longer. On a store without leases it must exclude for
// as long as its holder lives.
func (t *trial) excludedUntil(c onerun.Claim, from time.Time, ttl time.Duration, busy onerun.Reason) {
	switch {
	case t.h.Advance != nil:
		t.pass(from.Add(ttl - time.Millisecond).Sub(t.now()))
		t.refused(c, busy)
		t.pass(time.Millisecond)
	case !t.h.Leases:
		t.pass(ttl + 200*time.Millisecond)
	}
	if !t.h.Leases {
		t.refused(c, busy)
		return
	}
	// By the store's own clock, so that a machine which is slow proves nothing.
	g := t.eventually(c, busy)
	if got := g.At.Sub(from); got < ttl {
		t.failf("granted %s after the last heartbeat, expected not before %s", got, ttl)
	}
}

// eventually claims until it is no longer refused as busy: a store may notice the
// end of a lease a little late.
func (t *trial) eventually(c onerun.Claim, busy onerun.Reason) onerun.Grant {
	for range 100 {
		g, err := t.s.Claim(t.ctx, c)
		var ref *onerun.Refusal
		switch {
		case err == nil:
			t.whole(c, g)
			return g
		case !errors.As(err, &ref) || ref.Reason != busy || t.h.Advance != nil:
			t.failf("claim %s after the lease is over: expected to be granted, got %s", nameOf(c), said(err))
		}
		t.pass(100 * time.Millisecond)
	}
	t.failf("claim %s: expected to be granted within 10 s of the lease's end, got refused %s", nameOf(c), busy)
	return onerun.Grant{}
}
