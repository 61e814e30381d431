package storetest

import (
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// began is when a job ran that could not be claimed, by its host's clock.
var began = time.Date(2026, 9, 16, 1, 0, 0, 123_456_000, time.UTC)

// keeperOf gives a client's ability to record what ran without its claim.
func keeperOf(t *trial, s onerun.Store) onerun.UnclaimedKeeper {
	k, ok := onerun.Ability[onerun.UnclaimedKeeper](s)
	if !ok {
		t.failf("a store of many machines: expected an UnclaimedKeeper, got none")
	}
	return k
}

// unclaimed delivers the end of what ran without its claim, and checks what is told of it
// and what the journal says.
func (t *trial) unclaimed(c onerun.Claim, o onerun.Outcome, want onerun.DeliveryKind) onerun.Delivery {
	d, err := keeperOf(t, t.s).DeliverUnclaimed(t.ctx, c, began, o)
	t.must(err, "deliver the end %s of %s, which ran without its claim", o.Status, nameOf(c))
	equal(t, d.Kind, want, "what became of the unclaimed end of %s", nameOf(c))
	equal(t, d.Outcome.Status, o.Status, "Delivery.Outcome.Status")
	now := t.detail(d.Run.RunID)
	equal(t, d.Run.Status, now.Run.Status, "Delivery.Run.Status")
	equal(t, d.Run.Attempt, now.Run.Attempt, "Delivery.Run.Attempt")
	if len(now.Events) == 0 {
		t.failf("events of %s: expected %s, got none", nameOf(c), onerun.EventLateOutcome)
	}
	e := now.Events[len(now.Events)-1]
	equal(t, e.Name, onerun.EventLateOutcome, "the last event of %s", nameOf(c))
	equal(t, e.By, "", "who is kept with event %s", e.Name)
	equal(t, strings.Contains(e.Detail, "unclaimed") && strings.Contains(e.Detail, c.RunID), true, "whether the journal says that the run was unclaimed, and which it was: %q", e.Detail)
	if want != onerun.DeliveredBefore {
		equal(t, strings.Contains(e.Detail, onerun.MayHaveRunTwice), want == onerun.DeliveredKept, "whether the journal says that it may have run twice: %q", e.Detail)
	}
	return d
}

// recorded checks an unclaimed attempt that is its run's last one.
func (t *trial) recorded(c onerun.Claim, runID string, attempt int, o onerun.Outcome) onerun.Run {
	r := t.run(runID)
	equal(t, r.Attempt, attempt, "Run.Attempt")
	equal(t, r.Job, c.Job, "Run.Job")
	equal(t, r.Partition, c.Partition, "Run.Partition")
	equal(t, r.Lock, c.Lock, "Run.Lock")
	equal(t, r.Owner, c.Owner, "Run.Owner")
	equal(t, r.Token, 0, "Run.Token of a run that was never claimed")
	equal(t, r.Worker.PID, 0, "Run.Worker.PID of a process that is gone, and not of whoever delivered its end")
	equal(t, r.StartedAt.Equal(began), true, "whether Run.StartedAt is when the job was started")
	t.endedBy(onerun.Grant{Lease: onerun.Lease{RunID: runID, Attempt: attempt}}, o, onerun.ByOwner)
	return r
}

// forgotten checks that a run's last event says what the store has forgotten.
func (t *trial) forgotten(runID string) {
	events := t.detail(runID).Events
	detail := events[len(events)-1].Detail
	equal(t, strings.Contains(detail, "token 7, which the store has forgotten"), true, "whether the journal says what the store has forgotten: %q", detail)
}

// unclaimedTwice delivers, and delivers again: the run id alone makes that known.
func (t *trial) unclaimedTwice(c onerun.Claim, o onerun.Outcome, want onerun.DeliveryKind) {
	d := t.unclaimed(c, o, want)
	before := t.look()
	equal(t, t.unclaimed(c, o, onerun.DeliveredBefore).Attempt, d.Attempt, "Delivery.Attempt of what was delivered before")
	c.Owner = onerun.NewID()
	t.unclaimed(c, o, onerun.DeliveredBefore)
	t.unchanged(before, t.look(), "an unclaimed end that is recorded already")
}

// unclaimedInVain delivers to runs that others have decided about, or work at.
func (t *trial) unclaimedInVain() {
	var alive onerun.Grant
	for what, make := range map[string]func(c onerun.Claim) string{
		"succeeded": func(c onerun.Claim) string { return t.ended(c, succeeded).RunID },
		"skipped":   func(c onerun.Claim) string { return t.ended(c, skipped).RunID },
		"cancelled": func(c onerun.Claim) string { return t.cancel(c.Job, c.Partition).RunID },
		"running": func(c onerun.Claim) string {
			alive = t.granted(under(c, onerun.KeyLock(c.Key())))
			return alive.Lease.RunID
		},
		"stale": func(c onerun.Claim) string {
			c.TTL = onerun.MinTTL
			return t.orphan(under(manual(c), onerun.KeyLock(c.Key()))).Lease.RunID
		},
		"pruned": func(c onerun.Claim) string {
			id := t.ended(c, succeeded).RunID
			t.pruned(onerun.PruneRequest{Job: c.Job, Partition: c.Partition}, id)
			return id
		},
	} {
		c := t.job("settle", what)
		id := make(c)
		before := t.detail(id)
		d := t.unclaimed(again(c), late(onerun.Failed), onerun.DeliveredKept)
		equal(t, d.Run.RunID, id, "run that is told of, which was %s", what)
		equal(t, d.Attempt, 0, "Delivery.Attempt of what is only kept")
		after := t.detail(id)
		after.Events = after.Events[:len(after.Events)-1]
		if len(after.Events) == 0 {
			after.Events = before.Events
		}
		before.Run, after.Run = still(before.Run), still(after.Run)
		t.unchanged(view{Runs: []onerun.Detail{before}}, view{Runs: []onerun.Detail{after}}, "an unclaimed end of a run that was "+what)
	}
	_, err := t.s.Heartbeat(t.ctx, alive.Lease)
	t.must(err, "heartbeat of the run's owner")
	t.finish(alive, succeeded)
}

// unclaimedMalformed delivers what no claim could have been, and no end.
func (t *trial) unclaimedMalformed() {
	c := t.job("settle", day)
	other := t.ended(t.job("report", day), failed)
	before := t.look()
	for what, change := range map[string]func(c *onerun.Claim, o *onerun.Outcome){
		"no status":              func(_ *onerun.Claim, o *onerun.Outcome) { o.Status = "" },
		"status RUNNING":         func(_ *onerun.Claim, o *onerun.Outcome) { o.Status = onerun.Running },
		"no job":                 func(c *onerun.Claim, _ *onerun.Outcome) { c.Job, c.Partition = "", "" },
		"no lock":                func(c *onerun.Claim, _ *onerun.Outcome) { c.Lock = "" },
		"no owner":               func(c *onerun.Claim, _ *onerun.Outcome) { c.Owner = "" },
		"no run id":              func(c *onerun.Claim, _ *onerun.Outcome) { c.RunID = "" },
		"the run id of another":  func(c *onerun.Claim, _ *onerun.Outcome) { c.RunID = other.RunID },
		"another's, for unkeyed": func(c *onerun.Claim, _ *onerun.Outcome) { c.RunID, c.Partition = other.RunID, "" },
		"another's, of its own's": func(c *onerun.Claim, _ *onerun.Outcome) {
			c.RunID, c.Job = other.RunID, "report"
			c.Partition = "2026-09-16"
		},
	} {
		c, o := again(c), late(onerun.Succeeded)
		change(&c, &o)
		_, err := keeperOf(t, t.s).DeliverUnclaimed(t.ctx, c, began, o)
		t.is(err, onerun.ErrUsage, "deliver an unclaimed end with %s", what)
	}
	t.unchanged(before, t.look(), "a malformed unclaimed end")
}
