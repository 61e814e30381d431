package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
)

// crashCases: a client is killed at every step that it takes (B14). The steps are
// found by a dry run that records them: those that the store's hook names, and the
// suite's own between two calls. Whatever the step, starts that follow must bring
// the key to its end, or be told by a refusal what a person has to decide.
func crashCases() []check {
	return []check{
		{"crash/a first start", func(t *trial) {
			t.killed(func(i int) onerun.Claim {
				c := retrying(t.job(fmt.Sprintf("first-%d", i), day), 5, 0)
				c.RetryLost = true
				return c
			}, nil, onerun.RefusedSucceeded)
		}},
		{"crash/a takeover", func(t *trial) {
			claim := func(i int) onerun.Claim {
				c := retrying(t.job(fmt.Sprintf("takeover-%d", i), day), 5, 0)
				c.RetryLost = true
				return c
			}
			t.killed(claim, func(cs ...onerun.Claim) { t.orphans(cs...) }, onerun.RefusedSucceeded)
		}},
		{"crash/without retries", func(t *trial) {
			t.killed(func(i int) onerun.Claim {
				return t.job(fmt.Sprintf("once-%d", i), day)
			}, nil, onerun.RefusedSucceeded, onerun.RefusedFailed)
		}},
		{"crash/by hand", func(t *trial) {
			t.killed(func(i int) onerun.Claim {
				return manual(t.job(fmt.Sprintf("manual-%d", i), day))
			}, nil, onerun.RefusedSucceeded, onerun.RefusedStale)
		}},
		{"crash/a refused start", func(t *trial) {
			c := t.job("settle", day)
			holder := t.granted(c)
			witness := t.witness()
			points, _ := t.points(again(c), witness)
			for _, p := range points {
				t.client(spawn{KillAt: p.step, Nth: p.nth}).live(again(c), witness)
				_, err := t.s.Heartbeat(t.ctx, holder.Lease)
				t.must(err, "heartbeat after a refused start was killed at %q", p.step)
			}
			t.stoodBy(t.refused(again(c), onerun.RefusedRunning), holder.Run)
			equal(t, len(t.question(witness, nil)), 0, "keys that refused starts executed")
			t.finish(holder, succeeded)
			t.refused(again(c), onerun.RefusedSucceeded)
		}},
		{"crash/a lock alone", func(t *trial) {
			witness := t.witness()
			name := func(i int) onerun.Claim {
				c := t.lockOnly(fmt.Sprintf("lock-%d", i))
				c.TTL = t.crashTTL()
				return c
			}
			points, _ := t.points(name(0), witness)
			var claims []onerun.Claim
			dead := map[string]bool{}
			for i, p := range points {
				c := name(i + 1)
				claims, dead[c.Owner] = append(claims, c), true
				t.client(spawn{KillAt: p.step, Nth: p.nth}).live(c, witness)
			}
			t.afterDeath(claims)
			for i, c := range claims {
				r := (&worker{}).live(t.ctx, t.s, again(c), witness)
				if r.Grant == nil {
					t.failf("lock %s after its owner was killed at %q: expected to be granted, got %s", c.Lock, points[i].step, said(r.err()))
				}
			}
			t.question(witness, dead)
		}},
		{"crash/an owner with many heirs", func(t *trial) {
			witness, dead := t.witness(), map[string]bool{}
			clients := t.clients(t.h.Clients)
			for round := range min(t.h.Rounds, 3) {
				c := retrying(t.job("settle", partition(round)), 5, 0)
				c.TTL, c.RetryLost = t.crashTTL(), true
				dead[c.Owner] = true
				if _, died := t.client(spawn{KillAt: stepBegun, Nth: 1}).live(c, witness); !died {
					t.failf("a client that is to be killed: expected it to die, got it alive")
				}
				t.afterDeath([]onerun.Claim{c})
				c.TTL = t.job("", "").TTL
				equal(t, t.lives(clients, witness, c), 1, "heirs of %d that executed the dead owner's key", len(clients))
				equal(t, len(t.detail(c.RunID).Attempts), 2, "attempts")
			}
			for name, s := range t.question(witness, dead) {
				equal(t, s, seen{2, 1}, "executions (begun, ended) of %s", name)
			}
		}},
	}
}

// point is a place to die: the nth time that a step is come to.
type point struct {
	step string
	nth  int
}

// points lives a claim in another client and gives the steps it took. after is the
// index of the first point at which the outcome is recorded for good.
func (t *trial) points(c onerun.Claim, witness string) (points []point, after int) {
	r, _ := t.client(spawn{}).live(c, witness)
	n := map[string]int{}
	for _, s := range r.Steps {
		n[s]++
		points = append(points, point{s, n[s]})
	}
	after = slices.Index(points, point{stepFinished, 1})
	if after < 0 {
		after = len(points)
	}
	if r.Grant != nil && after == len(points) {
		t.failf("steps of a whole life: expected %q among them, got %q", stepFinished, r.Steps)
	}
	return points, after
}

func (t *trial) crashTTL() time.Duration { return t.scale(time.Minute, onerun.MinTTL) }

// afterDeath lets the leases of dead owners run out. Where exclusion ends with the
// holder there is nothing to wait for.
func (t *trial) afterDeath(claims []onerun.Claim) {
	if !t.h.Leases {
		return
	}
	t.lapse(t.crashTTL())
	for _, c := range claims {
		t.noticed(c)
	}
}

// killed kills a client at every step of a claim's life, each time on a key of its
// own, and checks what starts find afterwards. before prepares the keys. tells are
// the refusals that are allowed then.
func (t *trial) killed(claim func(i int) onerun.Claim, before func(...onerun.Claim), tells ...onerun.Reason) {
	witness, dead := t.witness(), map[string]bool{}
	dry := claim(0)
	if before != nil {
		before(dry)
	}
	points, after := t.points(again(dry), witness)
	var claims []onerun.Claim
	for i := range points {
		claims = append(claims, claim(i+1))
	}
	if before != nil {
		before(claims...)
	}
	for i, p := range points {
		c := again(claims[i])
		c.TTL = t.crashTTL()
		claims[i], dead[c.Owner] = c, true
		t.client(spawn{KillAt: p.step, Nth: p.nth}).live(c, witness)
	}
	t.afterDeath(claims)
	t.invariants(t.ns)
	for i, c := range claims {
		c.TTL = dry.TTL
		t.recovered(c, points[i].step, i >= after, witness, tells)
	}
	saw := t.question(witness, dead)
	for i, c := range claims {
		s := saw[c.Key()]
		if most := 2; s.ended < 1 || s.begun > most || i >= after && s.begun > 1 {
			t.failf("%s, killed at %q: expected one execution, or a second one where the first was not recorded; got %d begun, %d ended", c.Key(), points[i].step, s.begun, s.ended)
		}
	}
}

// recovered starts a key again until it has SUCCEEDED, as its owner's policy and
// the refusals say.
func (t *trial) recovered(c onerun.Claim, step string, recorded bool, witness string, tells []onerun.Reason) {
	for range 5 {
		r := (&worker{}).live(t.ctx, t.s, again(c), witness)
		switch {
		case r.Err != "":
			t.failf("%s after a crash at %q: %s", c.Key(), step, r.Err)
		case r.Grant != nil && recorded:
			t.failf("%s after a crash at %q: expected refused succeeded, since it was recorded, got granted", c.Key(), step)
		case r.Grant != nil:
			continue
		case !slices.Contains(tells, r.Refusal.Reason):
			t.failf("%s after a crash at %q: expected to be granted or refused %v, got %s", c.Key(), step, tells, said(r.Refusal))
		}
		runs := t.runs(onerun.Query{Namespace: t.ns, Job: c.Job, Partition: c.Partition})
		equal(t, len(runs), 1, "runs of %s after a crash at %q", c.Key(), step)
		t.stoodBy(r.Refusal, runs[0])
		switch r.Refusal.Reason {
		case onerun.RefusedSucceeded:
			t.refused(again(c), onerun.RefusedSucceeded)
			return
		case onerun.RefusedStale:
			t.resolve(runs[0], onerun.Failed)
			tells = append(tells, onerun.RefusedFailed)
		case onerun.RefusedFailed:
			t.approve(runs[0])
		}
	}
	t.failf("%s after a crash at %q: expected it to be brought to its end, got that it isn't", c.Key(), step)
}
