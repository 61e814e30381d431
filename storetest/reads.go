package storetest

import (
	"context"
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
)

// readCases: what can be looked at.
func readCases() []check {
	return []check{
		{"reads/runs, newest first, by every filter", func(t *trial) { t.filters() }},
		{"reads/nothing there", func(t *trial) {
			equal(t, len(t.runs(onerun.Query{Namespace: t.ns})), 0, "runs")
			equal(t, len(t.locks(t.ns)), 0, "locks")
			equal(t, len(t.skips(t.job("settle", day))), 0, "skips")
			jobs, err := t.s.Jobs(t.ctx, t.ns)
			t.must(err, "list jobs")
			equal(t, len(jobs), 0, "jobs")
			_, err = t.s.Detail(t.ctx, t.ns, onerun.NewRunID(time.Now()))
			t.is(err, onerun.ErrNotFound, "read a run that nobody knows")
		}},
		{"reads/a run in full", func(t *trial) { t.inFull() }},
		{"reads/a run that is RUNNING", func(t *trial) {
			c := t.job("settle", day)
			g := t.granted(c)
			r := t.run(g.Lease.RunID)
			equal(t, r.Status, onerun.Running, "Run.Status")
			equal(t, r.Owner, c.Owner, "Run.Owner")
			equal(t, r.FinishedAt.IsZero(), true, "whether FinishedAt is empty")
			equal(t, r.Stale, false, "Run.Stale")
			if r.Liveness == onerun.Dead {
				t.failf("Run.Liveness of a live run: expected alive or unknown, got dead (%s)", r.Evidence)
			}
		}},
		{"reads/by another client at once", func(t *trial) {
			s := t.open()
			c := t.job("settle", day)
			g := t.granted(c)
			rs, err := s.Runs(t.ctx, onerun.Query{Namespace: t.ns})
			t.must(err, "list runs through another client")
			equal(t, len(rs), 1, "runs that another client sees")
			t.finish(g, succeeded)
			t.refusedBy(s, again(c), onerun.RefusedSucceeded)
		}},
		{"reads/what was read is the reader's", func(t *trial) {
			c := t.job("settle", day)
			c.Labels = map[string]string{"team": "ops"}
			g := t.granted(c)
			c.Labels["team"] = "changed by the claim's caller"
			r := t.run(g.Lease.RunID)
			r.Labels["team"] = "changed by the reader"
			equal(t, t.run(g.Lease.RunID).Labels["team"], "ops", "label that is kept")
		}},
		{"reads/a cancelled context", func(t *trial) { t.cancelled() }},
	}
}

// filters makes five runs and asks for some of them.
func (t *trial) filters() {
	var ids []string // oldest first
	var at []time.Time
	start := func(c onerun.Claim) onerun.Grant {
		t.tick()
		g := t.granted(c)
		ids, at = append(ids, g.Lease.RunID), append(at, g.Run.StartedAt)
		return g
	}
	t.finish(start(t.job("settle", day)), succeeded)
	t.finish(start(t.job("settle", "2026-09-16")), failed)
	t.finish(start(t.job("sweep", "")), failed)
	t.finish(start(retrying(t.job("report", day), 1, time.Hour)), failed)
	start(t.job("sweep", ""))
	for _, x := range []struct {
		what string
		q    onerun.Query
		want []int
	}{
		{"all", onerun.Query{}, []int{4, 3, 2, 1, 0}},
		{"two", onerun.Query{Limit: 2}, []int{4, 3}},
		{"more than there are", onerun.Query{Limit: 100}, []int{4, 3, 2, 1, 0}},
		{"one job", onerun.Query{Job: "sweep"}, []int{4, 2}},
		{"a job that is none", onerun.Query{Job: "Sweep"}, nil},
		{"one key", onerun.Query{Job: "settle", Partition: day}, []int{0}},
		{"one run", onerun.Query{RunID: ids[2]}, []int{2}},
		{"RUNNING", onerun.Query{Statuses: []onerun.Status{onerun.Running}}, []int{4}},
		{"FAILED or SUCCEEDED", onerun.Query{Statuses: []onerun.Status{onerun.Failed, onerun.Succeeded}}, []int{3, 2, 1, 0}},
		{"SKIPPED", onerun.Query{Statuses: []onerun.Status{onerun.Skipped}}, nil},
		{"since", onerun.Query{Since: at[2]}, []int{4, 3, 2}},
		{"since later than all", onerun.Query{Since: at[4].Add(time.Hour)}, nil},
		{"with a retry", onerun.Query{RetryDue: true}, []int{3}},
		{"FAILED of one job, the newest", onerun.Query{Job: "sweep", Statuses: []onerun.Status{onerun.Failed}, Limit: 1}, []int{2}},
	} {
		x.q.Namespace = t.ns
		var got []int
		for _, r := range t.runs(x.q) {
			got = append(got, slices.Index(ids, r.RunID))
		}
		if !slices.Equal(got, x.want) {
			t.failf("runs, %s: expected %v, got %v (0 is the oldest, -1 unknown)", x.what, x.want, got)
		}
	}
}

// inFull makes a run with everything that can be kept of one.
func (t *trial) inFull() {
	c := retrying(t.job("settle", day), 1, 0)
	g := t.granted(c)
	t.refused(again(c), onerun.RefusedRunning)
	t.finish(g, failed)
	t.finish(t.granted(again(c)), failed)
	t.refused(again(c), onerun.RefusedFailed)
	t.refused(again(c), onerun.RefusedFailed)
	r := t.run(g.Lease.RunID)
	t.approve(r)
	third := t.granted(again(c))
	t.finish(third, failed)
	t.resolve(t.run(r.RunID), onerun.Skipped)

	d := t.detail(r.RunID)
	equal(t, d.Run.Status, onerun.Skipped, "Run.Status")
	equal(t, d.Run.Attempt, 3, "Run.Attempt")
	equal(t, d.Run.Skips, 3, "Run.Skips")
	equal(t, len(d.Attempts), 3, "attempts")
	for i, a := range d.Attempts {
		equal(t, a.Number, i+1, "number of attempt %d", i+1)
		equal(t, a.Status, onerun.Failed, "status of attempt %d", i+1)
		equal(t, a.Reason, failed.Reason, "reason of attempt %d", i+1)
		equal(t, a.Error, failed.Error, "error of attempt %d", i+1)
		equal(t, a.Void, false, "Void of attempt %d", i+1)
	}
	equal(t, d.Attempts[2].Owner, third.Lease.Owner, "owner of attempt 3")
	equal(t, len(d.Skips), 2, "rows of refusals")
	equal(t, d.Skips[0].Reason, onerun.RefusedRunning, "reason of the oldest refusal")
	equal(t, d.Skips[1].Count, 2, "count of the newest refusal")
	equal(t, len(d.Approvals), 1, "approvals")
	equal(t, d.Approvals[0].UsedBy, 3, "attempt that spent the approval")
	t.decided(r.RunID, onerun.EventRerunApproved)
	t.decided(r.RunID, onerun.EventResolved)
	for i := 1; i < len(d.Events); i++ {
		if d.Events[i].ID <= d.Events[i-1].ID {
			t.failf("events: expected the oldest first, got %d before %d", d.Events[i-1].ID, d.Events[i].ID)
		}
	}
}

// cancelled calls everything with a context that is over.
func (t *trial) cancelled() {
	running := t.granted(t.job("settle", day))
	r := t.ended(t.job("report", day), failed)
	t.pause("sweep")
	c := t.job("settle", "2026-09-16")
	before := t.lookAll(c)
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	for what, call := range map[string]func() error{
		"Claim of a new key":     func() error { _, err := t.s.Claim(ctx, t.job("new", day)); return err },
		"Claim of a RUNNING key": func() error { _, err := t.s.Claim(ctx, t.job("settle", day)); return err },
		"Claim of a held lock":   func() error { _, err := t.s.Claim(ctx, c); return err },
		"Claim of a lock alone":  func() error { _, err := t.s.Claim(ctx, t.lockOnly("db")); return err },
		"Finish":                 func() error { return t.s.Finish(ctx, running.Lease, succeeded) },
		"Heartbeat":              func() error { _, err := t.s.Heartbeat(ctx, running.Lease); return err },
		"Explain":                func() error { _, err := t.s.Explain(ctx, c); return err },
		"Runs":                   func() error { _, err := t.s.Runs(ctx, onerun.Query{Namespace: t.ns}); return err },
		"Detail":                 func() error { _, err := t.s.Detail(ctx, t.ns, r.RunID); return err },
		"Skips":                  func() error { _, err := t.s.Skips(ctx, t.ns, "settle", day); return err },
		"Jobs":                   func() error { _, err := t.s.Jobs(ctx, t.ns); return err },
		"Locks":                  func() error { _, err := t.s.Locks(ctx, t.ns); return err },
		"Resolve":                func() error { _, err := t.s.Resolve(ctx, resolution(r, onerun.Succeeded)); return err },
		"Approve":                func() error { _, err := t.s.Approve(ctx, approval(r)); return err },
		"Deliver":                func() error { _, err := t.s.Deliver(ctx, running.Lease, succeeded); return err },
		"Prune":                  func() error { _, err := t.s.Prune(ctx, onerun.PruneRequest{Namespace: t.ns, Oldest: true}); return err },
		"Pause":                  func() error { return t.s.Pause(ctx, t.pauseOf("report")) },
		"Resume":                 func() error { return t.s.Resume(ctx, t.pauseOf("sweep")) },
	} {
		t.is(call(), onerun.ErrUnavailable, "%s with a cancelled context", what)
	}
	t.unchanged(before, t.lookAll(c), "calls with a cancelled context")
	t.finish(running, succeeded)
}
