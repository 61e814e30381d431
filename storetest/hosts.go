package storetest

import (
	"errors"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// hostCases: what a host can tell of the owners of a lock, since it looked at its own lock
// file and processes. Elsewhere only the lease speaks.
func hostCases() []check {
	return []check{
		{"hosts/nothing is granted where somebody stands in the way", func(t *trial) {
			if !t.hosts() {
				return
			}
			db := onerun.NamedLock("db")
			for _, c := range []onerun.Claim{under(t.job("settle", day), db), under(t.job("sweep", ""), db), t.lockOnly("db")} {
				for stale, reason := range map[bool]onerun.Reason{false: onerun.RefusedLocked, true: onerun.RefusedStale} {
					k := inTheWay("")
					k.HeldStale = stale
					ref := t.refusedKnowing(again(c), k, reason)
					equal(t, ref.Holder.String(), k.Held.String(), "holder of %s, whom the host knows", c.Lock)
					if c.Job != "" {
						equal(t, ref.Count, 1, "Count of refusal %s of %s", reason, nameOf(c))
					}
				}
				t.finish(t.granted(again(c)), succeeded) // nobody stands in the way any more
			}
			equal(t, len(t.runs(onerun.Query{Namespace: t.ns})), 2, "runs: one of each claim of a job that was granted")
		}},
		{"hosts/the table comes first", func(t *trial) {
			if !t.hosts() {
				return
			}
			done, due, job := t.job("settle", day), retrying(t.job("load", day), 1, time.Hour), t.job("report", day)
			t.ended(done, succeeded)
			t.ended(due, failed)
			t.refusedKnowing(again(done), inTheWay(""), onerun.RefusedSucceeded)
			t.refusedKnowing(again(due), inTheWay(""), onerun.RefusedRetryNotDue)
			t.pause("report")
			t.refusedKnowing(job, inTheWay(""), onerun.RefusedPaused)
			running := t.granted(t.job("sort", day))
			t.stoodBy(t.refusedKnowing(again(t.job("sort", day)), inTheWay(""), onerun.RefusedRunning), running.Run)
		}},
		{"hosts/who has the lock in the store comes first", func(t *trial) {
			if !t.hosts() {
				return
			}
			g := t.granted(t.job("settle", day))
			k := inTheWay("")
			k.HeldStale = true // of somebody else
			t.stoodBy(t.refusedKnowing(t.job("settle", "2026-09-16"), k, onerun.RefusedLocked), g.Run)
			k = inTheWay(g.Lease.Owner)
			ref := t.refusedKnowing(t.job("settle", "2026-09-16"), k, onerun.RefusedLocked)
			t.stoodBy(ref, g.Run)
			equal(t, ref.Holder.Detail, k.Held.Detail, "what is known of the holder, which the host knows better than the store")
			t.finish(g, succeeded)
		}},
		{"hosts/an owner that lives keeps what it has", func(t *trial) {
			if !t.hosts() {
				return
			}
			c, elsewhere := t.job("settle", day), under(t.job("load", day), onerun.NamedLock("db"))
			gs := t.orphans(c, elsewhere)
			k := inTheWay(c.Owner)
			t.stoodBy(t.refusedKnowing(again(c), k, onerun.RefusedStale), gs[0].Run)
			t.refusedKnowing(t.job("settle", "2026-09-16"), k, onerun.RefusedStale)
			t.stoodBy(t.refusedKnowing(again(t.job("load", day)), inTheWay(elsewhere.Owner), onerun.RefusedStale), gs[1].Run)
			young := t.granted(t.job("sort", day))
			k = inTheWay(young.Lease.Owner)
			k.Dead = proven(young.Lease.Owner) // nobody is both
			t.refusedKnowing(again(t.job("sort", day)), k, onerun.RefusedRunning)
			for _, g := range gs {
				equal(t, t.run(g.Lease.RunID).Status, onerun.Running, "status of %s, whose owner lives", g.Run.Name())
			}
			t.refusedAfterDeath(again(c), onerun.RefusedFailed) // by a host that doesn't know
			t.diedAs(t.run(gs[0].Lease.RunID))
		}},
		{"hosts/who is proven dead is closed", func(t *trial) {
			if !t.hosts() {
				return
			}
			c := retrying(t.job("settle", day), 1, 0)
			g := t.granted(c)
			t.refusedKnowing(again(c), onerun.HostKnowledge{Dead: proven(onerun.NewID())}, onerun.RefusedRunning) // another's death says nothing
			k := onerun.HostKnowledge{Dead: proven(onerun.NewID(), c.Owner)}
			next := t.grantedKnowing(again(c), k)
			equal(t, next.Lease.Attempt, 2, "attempt after a proven death, which is a known failure")
			equal(t, len(next.TakenOver), 1, "runs that were closed on the way")
			equal(t, next.TakenOver[0].Evidence, evidence, "Evidence of the run that was closed")
			t.diedByProof(g, false)
			_, err := t.s.Heartbeat(t.ctx, g.Lease)
			t.is(err, onerun.ErrLost, "heartbeat of the dead")
			t.finish(next, succeeded)
		}},
		{"hosts/under another lock, unkeyed, and of a lock alone", func(t *trial) {
			if !t.hosts() {
				return
			}
			c := under(retrying(t.job("settle", day), 1, 0), onerun.NamedLock("db"))
			g := t.granted(c)
			next := t.grantedKnowing(again(t.job("settle", day)), onerun.HostKnowledge{Dead: proven(c.Owner)})
			equal(t, next.Lease.Attempt, 2, "attempt under the other lock")
			t.diedByProof(g, false)
			t.finish(t.granted(t.lockOnly("db")), succeeded) // the first lock is free

			sweep := t.job("sweep", "")
			g = t.granted(sweep)
			ref := t.refusedKnowing(under(again(c), sweep.Lock), onerun.HostKnowledge{Dead: proven(sweep.Owner)}, onerun.RefusedRunning)
			equal(t, len(ref.Closed), 1, "runs that a refused claim closed on the way")
			t.diedByProof(g, false)

			alone := t.lockOnly("books")
			t.granted(alone)
			got := t.grantedKnowing(again(alone), onerun.HostKnowledge{Dead: proven(alone.Owner)})
			equal(t, len(got.TakenOver), 0, "runs taken over with a lock alone")
		}},
		{"hosts/manual is left to a person", func(t *trial) {
			if !t.hosts() {
				return
			}
			c := manual(retrying(t.job("settle", day), 3, 0))
			g := t.granted(c)
			k := onerun.HostKnowledge{Dead: proven(c.Owner)}
			for _, other := range []onerun.Claim{again(c), t.job("settle", "2026-09-16")} {
				ref := t.refusedKnowing(other, k, onerun.RefusedStale)
				t.stoodBy(ref, g.Run)
				equal(t, strings.Contains(ref.Holder.Detail, evidence), true, "whether %q tells the evidence", ref.Holder.Detail)
			}
			equal(t, t.run(g.Lease.RunID).Status, onerun.Running, "status")
			_, err := t.s.Heartbeat(t.ctx, g.Lease)
			t.must(err, "heartbeat of an owner that was left as it is")
		}},
		{"hosts/a start that came to nothing", func(t *trial) {
			if !t.hosts() {
				return
			}
			for i, c := range []onerun.Claim{t.job("settle", day), manual(t.job("load", day)), retrying(t.job("report", day), 1, time.Hour)} {
				g := t.granted(c)
				k := onerun.HostKnowledge{Dead: proven(c.Owner)}
				k.Dead[0].Void = true
				next := t.grantedKnowing(again(c), k)
				equal(t, next.Lease.Attempt, 2, "attempt after one that came to nothing")
				t.diedByProof(g, true)
				t.finish(next, failed)
				want := onerun.RefusedFailed
				if i == 2 { // its one retry is left
					want = onerun.RefusedRetryNotDue
				}
				t.refused(again(c), want)
			}
			c := manual(t.job("sweep", ""))
			t.granted(c)
			k := onerun.HostKnowledge{Dead: proven(c.Owner)}
			k.Dead[0].Void = true
			t.grantedKnowing(again(c), k)
		}},
		{"hosts/a lost reply, and somebody in the way", func(t *trial) {
			if !t.hosts() {
				return
			}
			c := t.job("settle", day)
			g := t.granted(c)
			k := inTheWay("")
			ref := t.refusedKnowing(c, k, onerun.RefusedLocked)
			equal(t, ref.Holder.String(), k.Held.String(), "holder, whom the host knows")
			back, err := t.s.Claim(t.ctx, c)
			t.must(err, "claim again when nobody is in the way")
			equal(t, back.Adopted, true, "Adopted")
			equal(t, back.Lease, g.Lease, "the lease")
		}},
	}
}

// hosts reports whether the store can be told what a host knows. Which it is, the harness
// has said.
func (t *trial) hosts() bool {
	_, is := t.s.(onerun.HostClaimer)
	equal(t, is, t.h.Hosts, "whether it is a HostClaimer")
	return is
}

// evidence is what a host says of its dead.
const evidence = "process 4711 is gone"

func proven(owners ...string) []onerun.DeadOwner {
	var dead []onerun.DeadOwner
	for _, o := range owners {
		dead = append(dead, onerun.DeadOwner{Owner: o, Evidence: evidence})
	}
	return dead
}

// inTheWay is somebody who holds the lock file on this host, with that owner id.
func inTheWay(owner string) onerun.HostKnowledge {
	return onerun.HostKnowledge{
		Held: &onerun.Holder{
			RunID: onerun.NewRunID(time.Now()), Name: "another", Attempt: 3, Worker: onerun.Worker{Host: "here", PID: 4711, Label: "blue"},
			Since: time.Date(2026, 9, 15, 1, 2, 3, 0, time.UTC), Detail: "its lock is held",
		},
		HeldOwner: owner,
	}
}

func (t *trial) claimKnowing(c onerun.Claim, k onerun.HostKnowledge) (onerun.Grant, error) {
	return t.s.(onerun.HostClaimer).ClaimKnowing(t.ctx, c, k)
}

func (t *trial) grantedKnowing(c onerun.Claim, k onerun.HostKnowledge) onerun.Grant {
	g, err := t.claimKnowing(c, k)
	if err != nil {
		t.failf("claim %s by a host that knows: expected to be granted, got %s", nameOf(c), said(err))
	}
	t.whole(c, g)
	return g
}

func (t *trial) refusedKnowing(c onerun.Claim, k onerun.HostKnowledge, want onerun.Reason) *onerun.Refusal {
	_, err := t.claimKnowing(c, k)
	var ref *onerun.Refusal
	if !errors.As(err, &ref) || ref.Reason != want {
		t.failf("claim %s by a host that knows: expected refused %s, got %s", nameOf(c), want, said(err))
	}
	return ref
}

// diedByProof checks how an attempt was closed whose owner is proven dead.
func (t *trial) diedByProof(g onerun.Grant, void bool) {
	a := t.attempt(g.Lease.RunID, g.Lease.Attempt)
	equal(t, a.Status, onerun.Failed, "status of a dead owner's attempt")
	equal(t, a.Reason, onerun.ReasonOwnerDied, "reason of a dead owner's attempt")
	equal(t, a.ClosedBy, onerun.ByMachine, "who closed a dead owner's attempt")
	equal(t, a.Void, void, "whether the attempt is void")
	if !void {
		equal(t, strings.Contains(a.Error, evidence), true, "whether %q tells the evidence", a.Error)
	}
	for _, e := range t.detail(g.Lease.RunID).Events {
		if e.Name == onerun.EventTakenOver && e.Detail == evidence {
			return
		}
	}
	t.failf("events of a dead owner's run: expected %s with %q, got none", onerun.EventTakenOver, evidence)
}
