package storetest_test

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
)

// approves changes what a step towards a rerun is judged by.
func approves(change func(run *onerun.Run, open *onerun.Approval, q *onerun.ApprovalRequest)) memory.Rules {
	return memory.Rules{Approve: func(run onerun.Run, open *onerun.Approval, q onerun.ApprovalRequest, now time.Time) error {
		if open != nil {
			a := *open
			open = &a
		}
		change(&run, open, &q)
		return onerun.ApproveAllowed(run, open, q, now)
	}}
}

func twoPeopleBugs() []bug {
	as := func(f func(b *bothPeople)) func(onerun.Store) onerun.Store {
		return func(s onerun.Store) onerun.Store {
			b := &bothPeople{Store: s}
			f(b)
			return b
		}
	}
	lifts := forgets(func(_ onerun.Claim, f *onerun.Facts) {
		if f.Approval != nil && f.Approval.By == "" {
			f.Approval.By = f.Approval.RequestedBy
		}
	})
	return []bug{
		{name: "one person is enough", caught: "two people/the whole table", rules: approves(func(run *onerun.Run, _ *onerun.Approval, _ *onerun.ApprovalRequest) { run.TwoPeople = false })},
		{name: "any step is allowed", caught: "two people/the whole table", rules: memory.Rules{Approve: func(onerun.Run, *onerun.Approval, onerun.ApprovalRequest, time.Time) error { return nil }}},
		{name: "who requested is lost", caught: "two people/a rerun by two", disguise: as(func(b *bothPeople) {
			b.detail = func(d *onerun.Detail) {
				for i := range d.Approvals {
					d.Approvals[i].RequestedBy = ""
				}
			}
		})},
		{name: "a request is not journalled", caught: "two people/a rerun by two", disguise: as(func(b *bothPeople) {
			b.detail = func(d *onerun.Detail) { d.Events = without(d.Events, onerun.EventRerunRequested) }
		})},
		{name: "an account at another host is another person", caught: "two people/one person on two hosts", rules: approves(func(_ *onerun.Run, open *onerun.Approval, q *onerun.ApprovalRequest) {
			if open != nil && open.RequestedBy != q.By {
				open.RequestedBy = "somebody else"
			}
		})},
		{name: "an account with other rights is another person", caught: "two people/one person on two hosts", rules: approves(func(_ *onerun.Run, _ *onerun.Approval, q *onerun.ApprovalRequest) {
			if strings.Contains(q.By, " as ") {
				q.By = "root"
			}
		})},
		{name: "the owner's word for two is lost", caught: "two people/what its last owner said", disguise: as(func(b *bothPeople) { b.claim = func(c *onerun.Claim) { c.TwoPeople = false } })},
		{name: "the operator's side isn't heard", caught: "two people/what the operator's side says", disguise: as(func(b *bothPeople) { b.ask = func(q *onerun.ApprovalRequest) { q.TwoPeople = false } })},
		{name: "a request is an approval", caught: "two people/a request lifts nothing", rules: lifts},
		{name: "requests aren't bound to what was seen", caught: "two people/an outdated request", rules: approves(func(run *onerun.Run, open *onerun.Approval, _ *onerun.ApprovalRequest) {
			if open != nil {
				open.Status, open.Attempt = run.Status, run.Attempt
			}
		})},
		{name: "requests don't expire", caught: "two people/an outdated request", rules: approves(func(_ *onerun.Run, open *onerun.Approval, _ *onerun.ApprovalRequest) {
			if open != nil {
				open.ExpiresAt = time.Time{}
			}
		})},
		{name: "every approver wins", caught: "two people/approvers at once", disguise: as(func(b *bothPeople) { b.easy = true })},
		{name: "a step's expectation is ignored", caught: "two people/an outdated expectation", rules: memory.Rules{Expected: func(onerun.Run, onerun.Expect) bool { return true }}},
		{name: "terminals are lost", caught: "two people/where a decision was made", disguise: as(func(b *bothPeople) {
			b.detail = func(d *onerun.Detail) {
				for i := range d.Events {
					d.Events[i].Terminal = ""
				}
			}
		})},
		{name: "a request's terminal is lost", caught: "two people/where a decision was made", disguise: as(func(b *bothPeople) {
			b.ask = func(q *onerun.ApprovalRequest) {
				if q.Step == onerun.ApproveRequest {
					q.Terminal = ""
				}
			}
		})},
	}
}

// bothPeople takes steps towards a rerun a little wrong.
type bothPeople struct {
	onerun.Store
	claim  func(*onerun.Claim)
	ask    func(*onerun.ApprovalRequest)
	detail func(*onerun.Detail)
	easy   bool
}

func (b *bothPeople) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	if b.claim != nil {
		b.claim(&c)
	}
	return b.Store.Claim(ctx, c)
}

func (b *bothPeople) Approve(ctx context.Context, q onerun.ApprovalRequest) (onerun.Approval, error) {
	if b.ask != nil {
		b.ask(&q)
	}
	a, err := b.Store.Approve(ctx, q)
	if b.easy && errors.Is(err, onerun.ErrState) {
		return a, nil
	}
	return a, err
}

func (b *bothPeople) Detail(ctx context.Context, namespace, runID string) (onerun.Detail, error) {
	d, err := b.Store.Detail(ctx, namespace, runID)
	if b.detail != nil {
		b.detail(&d)
	}
	return d, err
}

// staleBugs reckon the default of stale-after from the wrong runs.
func staleBugs() []bug {
	const last = "leases/stale-after from the last successes"
	return []bug{
		{name: "stale-after from all successes", caught: last, rules: memory.Rules{Usual: func(ended []onerun.Run) []onerun.Run { return of(ended, onerun.Succeeded) }}},
		{name: "stale-after from failures too", caught: last, rules: memory.Rules{Usual: func(ended []onerun.Run) []onerun.Run { return ended[:min(len(ended), onerun.UsualRuns)] }}},
		{name: "stale-after from the last success", caught: last, rules: memory.Rules{Usual: func(ended []onerun.Run) []onerun.Run { return first(of(ended, onerun.Succeeded)) }}},
		{name: "stale-after from no history", caught: "leases/stale-after without a word", rules: memory.Rules{Usual: func([]onerun.Run) []onerun.Run { return nil }}},
	}
}

func of(runs []onerun.Run, s onerun.Status) (out []onerun.Run) {
	for _, r := range runs {
		if r.Status == s {
			out = append(out, r)
		}
	}
	return out
}

func first(runs []onerun.Run) []onerun.Run { return runs[:min(len(runs), 1)] }
