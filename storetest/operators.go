package storetest

import (
	"github.com/onerun-dev/onerun"
)

const (
	operator = "kim"
	because  = "checked the bank's statement"
)

func (t *trial) pause(job string) {
	t.must(t.s.Pause(t.ctx, t.pauseOf(job)), "pause %s", job)
}

func (t *trial) resume(job string) {
	t.must(t.s.Resume(t.ctx, t.pauseOf(job)), "resume %s", job)
}

func (t *trial) pauseOf(job string) onerun.PauseRequest {
	return onerun.PauseRequest{Namespace: t.ns, Job: job, Who: onerun.Who{By: operator, Reason: because}}
}

// approval asks for a rerun of a run as it was read.
func approval(r onerun.Run) onerun.ApprovalRequest {
	return onerun.ApprovalRequest{Namespace: r.Namespace, RunID: r.RunID, Expect: onerun.Expected(r), Who: onerun.Who{By: operator, Reason: because}}
}

func (t *trial) approve(r onerun.Run) onerun.Approval {
	a, err := t.s.Approve(t.ctx, approval(r))
	t.must(err, "approve a rerun of %s, which is %s", r.Name(), r.Status)
	equal(t, a.RunID, r.RunID, "Approval.RunID")
	equal(t, a.Status, r.Status, "Approval.Status")
	equal(t, a.Attempt, r.Attempt, "Approval.Attempt")
	equal(t, a.By, operator, "Approval.By")
	equal(t, a.Reason, because, "Approval.Reason")
	equal(t, a.UsedAt.IsZero(), true, "whether a new approval is unspent")
	return a
}

// resolution asks to close a run as it was read.
func resolution(r onerun.Run, as onerun.Status) onerun.Resolution {
	return onerun.Resolution{
		Namespace: r.Namespace, RunID: r.RunID, Job: r.Job, Partition: r.Partition,
		Expect: onerun.Expected(r), As: as, Who: onerun.Who{By: operator, Reason: because},
	}
}

func (t *trial) resolve(r onerun.Run, as onerun.Status) onerun.Run {
	got, err := t.s.Resolve(t.ctx, resolution(r, as))
	t.must(err, "resolve %s, which is %s, as %s", r.Name(), r.Status, as)
	equal(t, got.RunID, r.RunID, "RunID that Resolve returns")
	equal(t, got.Status, as, "status that Resolve returns")
	equal(t, t.run(r.RunID).Status, as, "status of %s after Resolve", r.Name())
	return got
}

// cancellation asks to cancel a key in advance.
func (t *trial) cancellation(job, partition string) onerun.Resolution {
	return onerun.Resolution{
		Namespace: t.ns, Job: job, Partition: partition, BusinessDate: day, As: onerun.Skipped, Who: onerun.Who{By: operator, Reason: because},
	}
}

func (t *trial) cancel(job, partition string) onerun.Run {
	r, err := t.s.Resolve(t.ctx, t.cancellation(job, partition))
	t.must(err, "cancel %s:%s in advance", job, partition)
	equal(t, r.Status, onerun.Skipped, "status of a key cancelled in advance")
	equal(t, r.Attempt, 0, "attempts of a key cancelled in advance")
	if r.RunID == "" {
		t.failf("cancel %s:%s in advance: expected a run with an id, got none", job, partition)
	}
	return r
}

// event finds the last event of a run by its name.
func (t *trial) event(runID, name string) onerun.Event {
	var last onerun.Event
	for _, e := range t.detail(runID).Events {
		if e.Name == name && e.ID > last.ID {
			last = e
		}
	}
	if last.ID == 0 || last.At.IsZero() || last.RunID != runID {
		t.failf("event %s: expected one with an id, a time and run %s, got %d, %s, %q", name, runID, last.ID, last.At, last.RunID)
	}
	return last
}

// decided checks that an operator's action is kept with who and why.
func (t *trial) decided(runID, name string) {
	e := t.event(runID, name)
	equal(t, e.By, operator, "who is kept with event %s", name)
	equal(t, e.Reason, because, "reason that is kept with event %s", name)
}

// stepBy asks for a step towards a rerun of a run as it was read.
func stepBy(r onerun.Run, step onerun.ApprovalStep, by string) onerun.ApprovalRequest {
	q := approval(r)
	q.Step, q.By, q.Reason = step, by, or(string(step), "alone")+" by "+by
	return q
}

func (t *trial) step(r onerun.Run, step onerun.ApprovalStep, by string) onerun.Approval {
	a, err := t.s.Approve(t.ctx, stepBy(r, step, by))
	t.must(err, "step %q towards a rerun of %s by %s", step, r.Name(), by)
	equal(t, a.RunID, r.RunID, "Approval.RunID")
	equal(t, a.Status, r.Status, "Approval.Status")
	equal(t, a.Attempt, r.Attempt, "Approval.Attempt")
	return a
}

// stepRefused takes a step that isn't allowed, which must change nothing.
func (t *trial) stepRefused(r onerun.Run, step onerun.ApprovalStep, by, what string) {
	before := t.look()
	_, err := t.s.Approve(t.ctx, stepBy(r, step, by))
	t.is(err, onerun.ErrState, "%s", what)
	t.unchanged(before, t.look(), what)
}
