package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
)

// pruneCases: what Prune removes, in which order, and what it never does.
func pruneCases() []check {
	return []check{
		{"prune/by age", func(t *trial) {
			ids := t.history("settle", 3)
			cut := t.run(ids[2]).StartedAt // the second one ended before that, the third one after
			t.pruned(onerun.PruneRequest{Before: t.run(ids[0]).StartedAt})
			p := t.pruned(onerun.PruneRequest{Before: cut}, ids[0], ids[1])
			equal(t, p.Keys, 2, "keys that left a tombstone")
			equal(t, p.Forgotten, 0, "keys that may run again")
			t.pruned(onerun.PruneRequest{Before: cut})
		}},
		{"prune/by number", func(t *trial) {
			settle, report := t.history("settle", 4), t.history("report", 2)
			t.ended(t.job("report", "failed"), failed) // counts for nothing
			unkeyed := t.history("", 3)
			t.pruned(onerun.PruneRequest{Keep: 4})
			p := t.pruned(onerun.PruneRequest{Keep: 2}, settle[0], settle[1], unkeyed[0])
			equal(t, p.Keys, 2, "keys that left a tombstone")
			t.pruned(onerun.PruneRequest{Keep: 1, Job: "report"}, report[0])
		}},
		{"prune/the oldest", func(t *trial) {
			ids := slices.Concat(t.history("settle", 2), t.history("report", 1), t.history("settle-b", 1))
			equal(t, t.pruned(onerun.PruneRequest{Oldest: true, Limit: 1}, ids[0]).More, true, "More")
			equal(t, t.pruned(onerun.PruneRequest{Oldest: true, Job: "settle-b"}, ids[3]).More, false, "More of one job")
			equal(t, t.pruned(onerun.PruneRequest{Oldest: true, Limit: 2}, ids[1], ids[2]).More, false, "More when nothing is left")
		}},
		{"prune/one key", func(t *trial) {
			ids := t.history("settle", 2)
			t.history("report", 2)
			t.ended(t.job("settle", "failed"), failed)
			one := onerun.PruneRequest{Job: "settle", Partition: partition(0)}
			equal(t, t.pruned(one, ids[0]).Keys, 1, "keys that left a tombstone")
			t.pruned(one)
			t.pruned(onerun.PruneRequest{Job: "settle", Partition: "failed"})
			t.pruned(onerun.PruneRequest{Job: "settle", Partition: "never"})
		}},
		{"prune/one job", func(t *trial) {
			settle := t.history("settle", 2)
			t.history("settle-b", 2)
			all := t.now().Add(time.Hour)
			t.pruned(onerun.PruneRequest{Job: "sett", Before: all})
			t.pruned(onerun.PruneRequest{Job: "settle", Before: all, Keep: 1}, settle...)
		}},
		{"prune/each limit by itself", func(t *trial) {
			// Two are over the age, one more is over the number, and the last is neither.
			settle := t.history("settle", 3)
			cut := t.now()
			settle = append(settle, t.history("settle", 4)[3:]...)
			report := t.history("report", 1)
			t.pruned(onerun.PruneRequest{Before: t.run(settle[2]).StartedAt, Keep: 1}, settle[0], settle[1], settle[2])
			t.pruned(onerun.PruneRequest{Before: cut, Keep: 5})
			t.pruned(onerun.PruneRequest{Before: t.now().Add(time.Hour), Keep: 5}, settle[3], report[0])
		}},
		{"prune/in order, step by step", func(t *trial) {
			a := t.history("b-job", 2)
			b := t.history("a-job", 3)
			cut := t.now()
			c := t.history("c-job", 3)
			// Over the age: all of a and b. Over the number: the first of b, and of c.
			want := slices.Concat(a, b, c[:1])
			for i, id := range want {
				p := t.pruned(onerun.PruneRequest{Before: cut, Keep: 2, Limit: 1}, id)
				equal(t, p.More, i < len(want)-1, "More after %d of %d", i+1, len(want))
			}
			t.pruned(onerun.PruneRequest{Before: cut, Keep: 2, Limit: 1})
			d, e := t.history("e-job", 2), t.history("d-job", 2)
			t.pruned(onerun.PruneRequest{Keep: 1, Limit: 1}, c[1])
			equal(t, t.pruned(onerun.PruneRequest{Keep: 1, Limit: 1}, d[0]).More, true, "More when one is left")
			equal(t, t.pruned(onerun.PruneRequest{Keep: 1, Limit: 1}, e[0]).More, false, "More when none is left")
		}},
		{"prune/more of what is over two limits", func(t *trial) {
			ids := t.history("settle", 3)
			p := t.pruned(onerun.PruneRequest{Before: t.run(ids[1]).StartedAt, Keep: 1, Limit: 1}, ids[0])
			equal(t, p.More, true, "More, when the one that went was over both, and another is over one")
			p = t.pruned(onerun.PruneRequest{Before: t.run(ids[2]).StartedAt, Keep: 1, Limit: 1}, ids[1])
			equal(t, p.More, false, "More, when the one that went was over both")
		}},
		{"prune/what is never removed", func(t *trial) { t.neverPruned() }},
		{"prune/a key can't run again", func(t *trial) {
			c := t.job("settle", day)
			r := t.ended(c, succeeded)
			t.pruned(onerun.PruneRequest{Oldest: true}, r.RunID)
			for range 2 {
				t.stoodBy(t.refused(again(c), onerun.RefusedSucceeded), r)
			}
			elsewhere := under(again(c), onerun.NamedLock("other"))
			elsewhere.Retries, elsewhere.RetryLost = 5, true
			t.refused(elsewhere, onerun.RefusedSucceeded)
			t.pause("settle")
			t.refused(again(c), onerun.RefusedSucceeded)
			t.resume("settle")
			equal(t, t.granted(t.job("settle", "2026-09-16")).Lease.Attempt, 1, "attempt of another key")
		}},
		{"prune/what stays", func(t *trial) { t.tombstones() }},
		{"prune/nothing is resolved", func(t *trial) {
			c := t.job("settle", day)
			r := t.ended(c, succeeded)
			t.pruned(onerun.PruneRequest{Oldest: true}, r.RunID)
			for _, as := range ends {
				_, err := t.s.Resolve(t.ctx, resolution(r, as))
				t.is(err, onerun.ErrState, "resolve a pruned run as %s", as)
				byKey := t.cancellation("settle", day)
				byKey.As = as
				_, err = t.s.Resolve(t.ctx, byKey)
				t.is(err, onerun.ErrState, "resolve a pruned key as %s", as)
			}
			t.refused(again(c), onerun.RefusedSucceeded)
		}},
		{"prune/the cursor of one step leads to the next", func(t *trial) {
			want := map[string]bool{}
			for _, job := range []string{"a", "b"} {
				for i := range 4 {
					r := t.ended(t.job(job, partition(i)), succeeded)
					want[r.RunID] = i < 2
				}
			}
			q := onerun.PruneRequest{Keep: 2, Limit: 1}
			var sum int64
			for steps := 0; ; steps++ {
				p := t.prune(q)
				sum += p.Runs
				q.Cursor = p.Cursor
				if !p.More {
					break
				}
				if steps > 20 {
					t.failf("pruning in steps: expected an end, got %d removed so far", sum)
				}
			}
			equal(t, sum, 4, "runs removed in steps that follow a cursor")
			for id, gone := range want {
				equal(t, !t.run(id).Pruned.IsZero(), gone, "whether run %s was pruned", id)
			}
		}},
		{"prune/an approved rerun", func(t *trial) {
			for _, scope := range []onerun.LockName{onerun.JobLock("settle"), onerun.KeyLock(onerun.MakeKey("settle", "key-lock"))} {
				c := under(t.job("settle", scope.Kind()+"-lock"), scope)
				c.BusinessDate, c.ScheduledAt = day, time.Date(2026, 9, 15, 1, 0, 0, 0, time.UTC)
				t.rerunPruned(c, t.ended(c, succeeded))
			}
		}},
		{"prune/a rerun of what was rerun", func(t *trial) {
			c := t.job("settle", day)
			r := t.ended(c, failed)
			t.rerun(c, r)
			r = t.run(r.RunID)
			equal(t, r.Attempt, 2, "attempts before it is pruned")
			t.rerunPruned(c, r)
			equal(t, t.run(r.RunID).Attempt, 4, "attempts after two more reruns")
		}},
		{"prune/a rerun that isn't approved", func(t *trial) {
			c := t.job("settle", day)
			c.TwoPeople = true
			r := t.ended(c, succeeded)
			t.pruned(onerun.PruneRequest{Oldest: true}, r.RunID)
			for name, change := range outdated {
				q := stepBy(r, onerun.ApproveRequest, "ana@h1")
				change(&q.Expect)
				_, err := t.s.Approve(t.ctx, q)
				t.is(err, onerun.ErrState, "approve a rerun of a pruned run with another %s", name)
			}
			_, err := t.s.Approve(t.ctx, approval(r))
			t.is(err, onerun.ErrState, "approve alone a rerun of a pruned run that needs two people")
			equal(t, len(t.runs(onerun.Query{Namespace: t.ns})), 0, "runs that a refused approval brought back")
			equal(t, t.run(r.RunID).Pruned.IsZero(), false, "whether the run isn't pruned any more")
			t.step(r, onerun.ApproveRequest, "ana@h1")
			t.cameBack(r.RunID)
			t.refused(again(c), onerun.RefusedSucceeded)
			t.step(t.run(r.RunID), onerun.ApproveSecond, "kim@h1")
			equal(t, t.granted(again(c)).Lease.Attempt, 2, "attempt of the rerun")
		}},
		{"prune/unkeyed runs go without a trace", func(t *trial) {
			c := t.job("sweep", "")
			g := t.granted(c)
			t.refused(again(c), onerun.RefusedLocked)
			t.finish(g, succeeded)
			equal(t, len(t.skips(c)), 1, "rows of refusals before")
			p := t.pruned(onerun.PruneRequest{Oldest: true}, g.Lease.RunID)
			equal(t, p.Keys, 0, "keys that left a tombstone")
			equal(t, len(t.runs(onerun.Query{Namespace: t.ns, Pruned: true})), 0, "runs, pruned ones too")
			equal(t, len(t.runs(onerun.Query{Namespace: t.ns, RunID: g.Lease.RunID})), 0, "runs of its id")
			equal(t, len(t.skips(c)), 0, "rows of refusals")
			_, err := t.s.Detail(t.ctx, t.ns, g.Lease.RunID)
			t.is(err, onerun.ErrNotFound, "read an unkeyed run that was pruned")
			_, err = t.s.Approve(t.ctx, approval(g.Run))
			t.is(err, onerun.ErrNotFound, "approve a rerun of an unkeyed run that was pruned")
			next := t.granted(again(c))
			if next.Lease.Token <= g.Lease.Token {
				t.failf("token after pruning: expected more than %d, got %d", g.Lease.Token, next.Lease.Token)
			}
		}},
		{"prune/refusals of keys without a run", func(t *trial) { t.refusalsPruned() }},
		{"prune/ends of what is pruned", func(t *trial) {
			g := t.granted(t.job("settle", day))
			t.finish(g, succeeded)
			t.pruned(onerun.PruneRequest{Oldest: true}, g.Lease.RunID)
			_, err := t.s.Deliver(t.ctx, g.Lease, late(onerun.Failed))
			t.is(err, onerun.ErrLost, "deliver the end of an attempt that was pruned")
			_, err = t.s.Heartbeat(t.ctx, g.Lease)
			t.is(err, onerun.ErrLost, "heartbeat of an attempt that was pruned")
		}},
		{"prune/what people decided stays", func(t *trial) {
			c := t.job("settle", day)
			first, next := t.takenOver(c)
			t.refused(again(c), onerun.RefusedRunning)
			t.finish(next, failed)
			r := t.run(first.Lease.RunID)
			t.event(r.RunID, onerun.EventTakenOver)
			t.approve(r)
			t.finish(t.granted(again(c)), failed)
			r = t.resolve(t.run(r.RunID), onerun.Succeeded)
			t.refused(again(c), onerun.RefusedSucceeded)
			t.pruned(onerun.PruneRequest{Oldest: true}, r.RunID)
			d := t.detail(r.RunID)
			equal(t, len(d.Events), 2, "events that stay: rerun_approved and resolved")
			t.decided(r.RunID, onerun.EventRerunApproved)
			t.decided(r.RunID, onerun.EventResolved)
			equal(t, len(d.Attempts)+len(d.Approvals)+len(d.Skips), 0, "attempts, approvals and refusals that stay")
			equal(t, len(t.skips(c)), 0, "rows of refusals that stay")
		}},
		{"prune/nothing across namespaces", func(t *trial) {
			r := t.ended(t.job("settle", day), succeeded)
			other := t.ns + "-b"
			there := t.job("settle", day)
			there.Namespace = other
			g := t.grantedBy(t.s, there)
			t.finish(g, succeeded)
			before := t.look()
			p, err := t.s.Prune(t.ctx, onerun.PruneRequest{Namespace: other, Oldest: true})
			t.must(err, "prune another namespace")
			equal(t, p.Runs, 1, "runs removed in another namespace")
			t.unchanged(before, t.look(), "pruning another namespace")
			t.refused(t.job("settle", day), onerun.RefusedSucceeded)
			t.pruned(onerun.PruneRequest{Oldest: true}, r.RunID)
			_, err = t.s.Detail(t.ctx, other, r.RunID)
			t.is(err, onerun.ErrNotFound, "read a pruned run in another namespace")
			_, err = t.s.Prune(t.ctx, onerun.PruneRequest{Namespace: other, Oldest: true, ForgetKeys: true, Who: onerun.Who{By: operator, Reason: because}})
			t.must(err, "forget the keys of another namespace")
			t.refused(t.job("settle", day), onerun.RefusedSucceeded)
			there = again(there)
			equal(t, t.grantedBy(t.s, there).Lease.Attempt, 1, "attempt of a key that was forgotten in another namespace")
		}},
		{"prune/malformed", func(t *trial) {
			t.ended(t.job("settle", day), succeeded)
			before := t.look()
			for what, q := range map[string]onerun.PruneRequest{
				"no limit":                {},
				"no limit but a job":      {Job: "settle"},
				"a partition without job": {Partition: day},
				"a negative number":       {Keep: -1},
				"a negative step":         {Oldest: true, Limit: -1},
				"keys, without a reason":  {Oldest: true, ForgetKeys: true, Who: onerun.Who{By: operator}},
				"keys, without a person":  {Oldest: true, ForgetKeys: true, Who: onerun.Who{Reason: because}},
			} {
				q.Namespace = t.ns
				_, err := t.s.Prune(t.ctx, q)
				t.is(err, onerun.ErrUsage, "prune with %s", what)
			}
			t.unchanged(before, t.look(), "a malformed request to prune")
		}},
		{"prune/under claims", func(t *trial) { t.pruneUnderClaims() }},
	}
}

// neverPruned prunes by every limit what must stay.
func (t *trial) neverPruned() {
	t.ended(t.job("settle", "failed"), failed)
	t.ended(retrying(t.job("settle", "retry"), 1, time.Hour), failed)
	t.ended(t.job("settle", "skipped"), skipped)
	t.cancel("settle", "cancelled")
	t.ended(t.job("sweep", ""), failed)
	approved := t.job("settle", "approved")
	r := t.ended(approved, succeeded)
	t.approve(r)
	requested := t.ended(t.job("settle", "requested"), succeeded)
	t.step(requested, onerun.ApproveRequest, "ana@h1")
	t.tick()
	running := t.granted(t.job("settle", "running"))
	all := t.now().Add(time.Hour)
	for _, q := range []onerun.PruneRequest{
		{Oldest: true},
		{Oldest: true, Job: "settle"},
		{Before: all},
		{Before: all, Keep: 1, ForgetKeys: true},
		{Job: "settle", Partition: "failed"},
		{Job: "settle", Partition: "skipped", ForgetKeys: true},
		{Job: "settle", Partition: "cancelled"},
		{Job: "settle", Partition: "approved"},
		{Job: "settle", Partition: "requested", ForgetKeys: true},
		{Job: "settle", Partition: "running"},
	} {
		equal(t, t.pruned(q), onerun.Pruned{}, "what was pruned of what must stay")
	}
	_, err := t.s.Heartbeat(t.ctx, running.Lease)
	t.must(err, "heartbeat of a run that was not pruned")
	t.finish(running, failed)
	t.finish(t.granted(again(approved)), succeeded) // spends the approval, and is a success of its own
	t.pruned(onerun.PruneRequest{Oldest: true}, r.RunID)
	t.step(requested, onerun.ApproveSecond, "kim@h1")
	t.pruned(onerun.PruneRequest{Oldest: true})
}

// tombstones looks for what is left of runs that were pruned.
func (t *trial) tombstones() {
	c := t.job("settle", partition(0))
	c.BusinessDate, c.ScheduledAt, c.Labels = day, time.Date(2026, 9, 15, 1, 0, 0, 0, time.UTC), map[string]string{"team": "ops"}
	first := t.ended(c, succeeded)
	t.tick()
	kept := t.ended(t.job("settle", "failed"), failed)
	t.tick()
	last := t.ended(t.job("report", day), succeeded)
	t.tick()
	from := t.now()
	t.pruned(onerun.PruneRequest{Oldest: true}, first.RunID, last.RunID)
	for what, r := range map[string]onerun.Run{
		"by its id":         t.only(onerun.Query{RunID: first.RunID}),
		"by its key":        t.only(onerun.Query{Job: "settle", Partition: partition(0)}),
		"in full":           t.run(first.RunID),
		"by key and status": t.only(onerun.Query{Job: "settle", Partition: partition(0), Statuses: []onerun.Status{onerun.Succeeded}}),
	} {
		equal(t, r.RunID, first.RunID, "%s: RunID", what)
		equal(t, r.Namespace+" "+r.Key(), t.ns+" "+first.Key(), "%s: namespace and key", what)
		equal(t, r.Status, onerun.Succeeded, "%s: Status", what)
		equal(t, onerun.Expected(r), onerun.Expected(first), "%s: status, attempt and token", what)
		equal(t, r.BusinessDate, day, "%s: BusinessDate", what)
		equal(t, r.Lock, first.Lock, "%s: Lock", what)
		equal(t, r.Worker, onerun.Worker{}, "%s: Worker", what)
		equal(t, r.Evidence, "its history was pruned on "+r.Pruned.UTC().Format(time.DateOnly), "%s: Evidence", what)
		t.near(r.ScheduledAt, first.ScheduledAt, 0, "%s: ScheduledAt", what)
		t.near(r.StartedAt, first.StartedAt, 0, "%s: StartedAt", what)
		t.near(r.FinishedAt, first.FinishedAt, 0, "%s: FinishedAt", what)
		if r.Pruned.Before(from.Add(-time.Second)) {
			t.failf("%s: Pruned: expected a time from %s, got %s", what, from, r.Pruned)
		}
	}
	for _, x := range []struct {
		what string
		q    onerun.Query
		want []string
	}{
		{"all", onerun.Query{}, []string{kept.RunID}},
		{"SUCCEEDED", onerun.Query{Statuses: []onerun.Status{onerun.Succeeded}}, nil},
		{"one job", onerun.Query{Job: "report"}, nil},
		{"pruned ones too", onerun.Query{Pruned: true}, []string{last.RunID, kept.RunID, first.RunID}},
		{"the newest, pruned ones too", onerun.Query{Pruned: true, Limit: 1}, []string{last.RunID}},
		{"two, pruned ones too", onerun.Query{Pruned: true, Limit: 2}, []string{last.RunID, kept.RunID}},
		{"SUCCEEDED, pruned ones too", onerun.Query{Pruned: true, Statuses: []onerun.Status{onerun.Succeeded}}, []string{last.RunID, first.RunID}},
		{"FAILED, pruned ones too", onerun.Query{Pruned: true, Statuses: []onerun.Status{onerun.Failed}}, []string{kept.RunID}},
		{"one job, pruned ones too", onerun.Query{Pruned: true, Job: "settle"}, []string{kept.RunID, first.RunID}},
		{"since, pruned ones too", onerun.Query{Pruned: true, Since: kept.StartedAt}, []string{last.RunID, kept.RunID}},
		{"with a retry, pruned ones too", onerun.Query{Pruned: true, RetryDue: true}, nil},
	} {
		x.q.Namespace = t.ns
		var got []string
		for _, r := range t.runs(x.q) {
			got = append(got, r.RunID)
		}
		if !slices.Equal(got, x.want) {
			t.failf("runs, %s: expected %v, got %v", x.what, x.want, got)
		}
	}
	equal(t, len(t.runs(onerun.Query{Namespace: t.ns + "-b", RunID: first.RunID})), 0, "pruned runs by id in another namespace")
	equal(t, len(t.runs(onerun.Query{Namespace: t.ns, Job: "settle", Partition: partition(0), Statuses: []onerun.Status{onerun.Failed}})), 0, "pruned runs by key and another status")
}

// rerunPruned prunes a run, and executes it once more by an approval.
func (t *trial) rerunPruned(c onerun.Claim, r onerun.Run) {
	t.pruned(onerun.PruneRequest{Oldest: true}, r.RunID)
	t.refused(again(c), onerun.RefusedSucceeded)
	t.approve(t.only(onerun.Query{RunID: r.RunID}))
	t.cameBack(r.RunID)
	back := t.only(onerun.Query{Job: c.Job, Partition: c.Partition})
	equal(t, back.Pruned.IsZero(), true, "whether an approved run is pruned no more")
	equal(t, onerun.Expected(back), onerun.Expected(r), "status, attempt and token of a run that came back")
	equal(t, len(t.runs(onerun.Query{Namespace: t.ns, Job: c.Job, Statuses: []onerun.Status{onerun.Succeeded}})), 1, "runs that are listed when one came back")
	next := again(c)
	next.BusinessDate = "2026-09-20"
	g := t.granted(next)
	equal(t, g.Lease.RunID, r.RunID, "run id of the rerun")
	equal(t, g.Lease.Attempt, r.Attempt+1, "attempt of the rerun")
	equal(t, g.Run.BusinessDate, r.BusinessDate, "BusinessDate of the rerun")
	t.near(g.Run.ScheduledAt, r.ScheduledAt, 0, "ScheduledAt of the rerun")
	if g.Lease.Token <= r.Token {
		t.failf("token of a rerun of a pruned key: expected more than %d, got %d", r.Token, g.Lease.Token)
	}
	t.spent(r.RunID, g.Lease.Attempt)
	t.finish(g, succeeded)
	t.refused(again(c), onerun.RefusedSucceeded)
	t.decided(r.RunID, onerun.EventRerunApproved)
	t.pruned(onerun.PruneRequest{Oldest: true}, r.RunID) // and once more
	t.refused(again(c), onerun.RefusedSucceeded)
	t.approve(t.run(r.RunID))
	t.cameBack(r.RunID)
	t.finish(t.granted(again(c)), failed)
	t.resolve(t.run(r.RunID), onerun.Skipped) // out of the way of what follows
}

// pruneUnderClaims prunes as fast as it can while several clients execute keys, each
// more than once if it could.
func (t *trial) pruneUnderClaims() {
	stores := t.opens(4)
	seen := &executions{}
	keys := 4 * t.h.Rounds
	claim := func(i int) onerun.Claim {
		c := t.job("settle", partition(i))
		if i%2 == 0 { // each under a lock of its own
			c.Lock = onerun.KeyLock(c.Key())
		}
		return c
	}
	done := make(chan struct{})
	claimers := 3
	left := int64(claimers)
	t.together(claimers+1, func(n int) error {
		if n == claimers {
			for {
				if _, err := stores[3].Prune(t.ctx, onerun.PruneRequest{Namespace: t.ns, Oldest: true}); err != nil {
					return fmt.Errorf("prune: %w", err)
				}
				select {
				case <-done:
					return nil
				default:
				}
			}
		}
		defer seen.last(&left, done)
		for round := range 2 {
			for i := range keys {
				if err := seen.execute(t, stores[n], claim((i+n*round)%keys)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	// A start that was refused because another one held the lock may have left a key out.
	for range 2 {
		for i := range keys {
			t.must(seen.execute(t, t.s, claim(i)), "execute what is left")
		}
		for more := true; more; {
			more = t.prune(onerun.PruneRequest{Oldest: true, Limit: 3}).More
		}
	}
	equal(t, len(t.runs(onerun.Query{Namespace: t.ns})), 0, "runs that are left")
	equal(t, len(t.runs(onerun.Query{Namespace: t.ns, Pruned: true})), keys, "tombstones")
	for i := range keys { // and once more, by an approval
		c := claim(i)
		r := t.only(onerun.Query{Job: c.Job, Partition: c.Partition})
		equal(t, r.Attempt, 1, "executions of %s", c.Key())
		t.approve(r)
		t.cameBack(r.RunID)
		t.must(seen.execute(t, t.s, c), "execute %s again", c.Key())
	}
	seen.check(t, keys)
}
