package storetest_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
)

// delivers changes what becomes of an end that comes late.
func delivers(change func(right onerun.DeliveryKind, run onerun.Run, a onerun.Attempt, decided bool, o onerun.Outcome) onerun.DeliveryKind) memory.Rules {
	return memory.Rules{Deliver: func(run onerun.Run, a onerun.Attempt, decided bool, o onerun.Outcome) onerun.DeliveryKind {
		return change(onerun.DeliveryOf(run, a, decided, o), run, a, decided, o)
	}}
}

// instead takes one kind for another.
func instead(of, as onerun.DeliveryKind) memory.Rules {
	return delivers(func(right onerun.DeliveryKind, _ onerun.Run, _ onerun.Attempt, _ bool, _ onerun.Outcome) onerun.DeliveryKind {
		if right == of {
			return as
		}
		return right
	})
}

func deliveryBugs() []bug {
	as := func(f func(d *deliverer)) func(onerun.Store) onerun.Store {
		return func(s onerun.Store) onerun.Store {
			d := &deliverer{Store: s}
			f(d)
			return d
		}
	}
	told := func(d *onerun.Detail, change func(a *onerun.Attempt)) {
		for i := range d.Attempts {
			change(&d.Attempts[i])
		}
	}
	return []bug{
		{name: "a late end isn't applied", caught: "delivery/to an attempt that is RUNNING", rules: instead(onerun.DeliveredApplied, onerun.DeliveredKept)},
		{name: "a late end doesn't free the lock", caught: "delivery/to an attempt that is RUNNING", rules: instead(onerun.DeliveredApplied, onerun.DeliveredCorrected)},
		{name: "a late end has no retry", caught: "delivery/a retry follows from it", rules: memory.Rules{Retry: func(onerun.Policy, time.Time, int, onerun.Reason) (time.Time, bool) { return time.Time{}, false }}},
		{name: "unkeyed ends are kept aside", caught: "delivery/of an unkeyed run", rules: delivers(func(right onerun.DeliveryKind, run onerun.Run, _ onerun.Attempt, _ bool, _ onerun.Outcome) onerun.DeliveryKind {
			if run.Partition == "" && right == onerun.DeliveredCorrected {
				return onerun.DeliveredKept
			}
			return right
		})},
		{name: "an end is recorded twice", caught: "delivery/what is recorded already", rules: instead(onerun.DeliveredBefore, onerun.DeliveredCorrected)},
		{name: "an end is kept twice", caught: "delivery/what is recorded already", rules: instead(onerun.DeliveredBefore, onerun.DeliveredKept)},
		{name: "what a machine closed stays", caught: "delivery/corrects what a machine closed", rules: instead(onerun.DeliveredCorrected, onerun.DeliveredKept)},
		{name: "only a success corrects", caught: "delivery/corrects what a machine closed", rules: delivers(func(right onerun.DeliveryKind, _ onerun.Run, _ onerun.Attempt, _ bool, o onerun.Outcome) onerun.DeliveryKind {
			if right == onerun.DeliveredCorrected && o.Status == onerun.Failed {
				return onerun.DeliveredKept
			}
			return right
		})},
		{name: "a correction leaves the retry", caught: "delivery/a correction takes the retry back", disguise: as(func(d *deliverer) {
			retry := map[string]time.Time{}
			d.detail = func(x *onerun.Detail) {
				if at := x.Run.NextRetryAt; !at.IsZero() {
					retry[x.Run.RunID] = at
				}
				x.Run.NextRetryAt = retry[x.Run.RunID]
			}
		})},
		{name: "a late end changes a run that was executed again", caught: "delivery/kept when a later attempt is there", rules: delivers(func(right onerun.DeliveryKind, run onerun.Run, a onerun.Attempt, decided bool, o onerun.Outcome) onerun.DeliveryKind {
			run.Attempt, run.Status = a.Number, a.Status
			return onerun.DeliveryOf(run, a, decided, o)
		})},
		{name: "approvals aren't looked at", caught: "delivery/kept when a person has decided since", rules: delivers(func(_ onerun.DeliveryKind, run onerun.Run, a onerun.Attempt, _ bool, o onerun.Outcome) onerun.DeliveryKind {
			return onerun.DeliveryOf(run, a, false, o)
		})},
		{name: "resolutions aren't looked at", caught: "delivery/kept when a person has decided since", rules: delivers(func(_ onerun.DeliveryKind, run onerun.Run, a onerun.Attempt, decided bool, o onerun.Outcome) onerun.DeliveryKind {
			run.Status = a.Status
			return onerun.DeliveryOf(run, a, decided, o)
		})},
		{name: "a person's closing is a machine's", caught: "delivery/kept when a person has decided since", rules: delivers(func(_ onerun.DeliveryKind, run onerun.Run, a onerun.Attempt, decided bool, o onerun.Outcome) onerun.DeliveryKind {
			if a.ClosedBy == onerun.ByOperator {
				a.ClosedBy = onerun.ByMachine
			}
			return onerun.DeliveryOf(run, a, decided, o)
		})},
		{name: "every approval is a decision", caught: "delivery/a decision about an earlier attempt is none", rules: delivers(func(_ onerun.DeliveryKind, run onerun.Run, a onerun.Attempt, decided bool, o onerun.Outcome) onerun.DeliveryKind {
			return onerun.DeliveryOf(run, a, decided || a.Number > 1, o)
		})},
		{name: "an owner's end is corrected", caught: "delivery/of another end than the recorded one", rules: delivers(func(_ onerun.DeliveryKind, run onerun.Run, a onerun.Attempt, decided bool, o onerun.Outcome) onerun.DeliveryKind {
			if a.ClosedBy == onerun.ByOwner {
				a.ClosedBy = onerun.ByMachine
			}
			return onerun.DeliveryOf(run, a, decided, o)
		})},
		{name: "who the owner was is no matter", caught: "delivery/of what nobody knows", disguise: as(func(d *deliverer) { d.anyOwner = true })},
		{name: "an end of nothing is no error", caught: "delivery/of what nobody knows", disguise: as(func(d *deliverer) { d.easy = true })},
		{name: "an end may be RUNNING", caught: "delivery/malformed", disguise: as(func(d *deliverer) {
			d.end = func(o *onerun.Outcome) {
				if o.Status == onerun.Running {
					o.Status = onerun.Failed
				}
			}
		})},
		{name: "the text is kept as it came", caught: "delivery/the status, whatever the text", disguise: as(func(d *deliverer) {
			d.detail = func(x *onerun.Detail) {
				told(x, func(a *onerun.Attempt) {
					if a.Late != nil {
						a.Late.Error = strings.ReplaceAll(a.Late.Error, "\uFFFD", "\x00")
					}
				})
			}
		})},
		{name: "what was kept is not shown", caught: "delivery/kept when a later attempt is there", disguise: as(func(d *deliverer) {
			d.detail = func(x *onerun.Detail) { told(x, func(a *onerun.Attempt) { a.Late = nil }) }
		})},
		{name: "who closed is not shown", caught: "delivery/corrects what a machine closed", disguise: as(func(d *deliverer) {
			d.detail = func(x *onerun.Detail) { told(x, func(a *onerun.Attempt) { a.ClosedBy = "" }) }
		})},
		{name: "a late end is not journalled", caught: "delivery/to an attempt that is RUNNING", disguise: as(func(d *deliverer) {
			d.detail = func(x *onerun.Detail) { x.Events = without(x.Events, onerun.EventLateOutcome) }
		})},
		{name: "check, then act: ends", caught: "delivery/many at once have one effect", disguise: func(s onerun.Store) onerun.Store { return &hastyDeliverer{Store: s} }},
	}
}

func without(events []onerun.Event, name string) (out []onerun.Event) {
	for _, e := range events {
		if e.Name != name {
			out = append(out, e)
		}
	}
	return out
}

// deliverer delivers a little wrong.
type deliverer struct {
	onerun.Store
	end      func(*onerun.Outcome)
	detail   func(*onerun.Detail)
	anyOwner bool
	easy     bool
}

func (d *deliverer) Deliver(ctx context.Context, l onerun.Lease, o onerun.Outcome) (onerun.Delivery, error) {
	if d.end != nil {
		d.end(&o)
	}
	_, _ = d.Detail(ctx, l.Namespace, l.RunID) // what it was before
	if d.anyOwner {
		if x, err := d.Store.Detail(ctx, l.Namespace, l.RunID); err == nil && l.Attempt == x.Run.Attempt {
			l.Owner = x.Run.Owner
		}
	}
	got, err := d.Store.Deliver(ctx, l, o)
	if d.easy && errors.Is(err, onerun.ErrLost) {
		return onerun.Delivery{Kind: onerun.DeliveredBefore}, nil
	}
	return got, err
}

func (d *deliverer) Detail(ctx context.Context, namespace, runID string) (onerun.Detail, error) {
	x, err := d.Store.Detail(ctx, namespace, runID)
	if d.detail != nil {
		d.detail(&x)
	}
	return x, err
}

// hastyDeliverer says what it found, whatever others did in between.
type hastyDeliverer struct {
	onerun.Store
	mu    sync.Mutex
	first map[string]onerun.DeliveryKind
}

func (h *hastyDeliverer) Deliver(ctx context.Context, l onerun.Lease, o onerun.Outcome) (onerun.Delivery, error) {
	d, err := h.Store.Deliver(ctx, l, o)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.first == nil {
		h.first = map[string]onerun.DeliveryKind{}
	}
	if h.first[l.Owner] == "" {
		h.first[l.Owner] = d.Kind
	}
	d.Kind = h.first[l.Owner]
	return d, err
}
