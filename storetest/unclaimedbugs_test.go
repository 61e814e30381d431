package storetest_test

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
)

// unclaims changes what becomes of what ran without its claim.
func unclaims(of func(run *onerun.Run) bool, as onerun.DeliveryKind) memory.Rules {
	return memory.Rules{Unclaimed: func(run *onerun.Run) onerun.DeliveryKind {
		if of(run) {
			return as
		}
		return onerun.UnclaimedDelivery(run)
	}}
}

func unclaimedBugs() []bug {
	is := func(s onerun.Status) func(*onerun.Run) bool {
		return func(run *onerun.Run) bool { return run != nil && run.Status == s }
	}
	as := func(f func(k *unclaimedKeeper)) func(onerun.Store) onerun.Store {
		return func(s onerun.Store) onerun.Store {
			k := &unclaimedKeeper{Store: s}
			f(k)
			return k
		}
	}
	const (
		lost   = "unclaimed/the claim had been granted"
		made   = "unclaimed/of a key that has no run"
		vain   = "unclaimed/the run is unchanged unless it FAILED"
		twice  = "unclaimed/delivered twice"
		wrong  = "unclaimed/malformed"
		anyTxt = "unclaimed/the status, whatever the text"
	)
	return []bug{
		{name: "nobody keeps what ran unclaimed", caught: made, disguise: func(s onerun.Store) onerun.Store { return struct{ onerun.Store }{s} }},
		{name: "an unclaimed run is not recorded", caught: made, rules: unclaims(func(run *onerun.Run) bool { return run == nil }, onerun.DeliveredKept)},
		{name: "an unclaimed run begins when it is delivered", caught: made, disguise: as(func(k *unclaimedKeeper) { k.started = time.Now })},
		{name: "an unclaimed run has a token", caught: made, disguise: as(func(k *unclaimedKeeper) {
			k.detail = func(d *onerun.Detail) { d.Run.Token++ }
		})},
		{name: "an unclaimed run is that of whoever delivers it", caught: made, disguise: as(func(k *unclaimedKeeper) {
			k.detail = func(d *onerun.Detail) { d.Run.Worker.PID++ }
		})},
		{name: "an unclaimed end is not journalled", caught: made, disguise: as(func(k *unclaimedKeeper) {
			k.detail = func(d *onerun.Detail) { d.Events = without(d.Events, onerun.EventLateOutcome) }
		})},
		{name: "the journal doesn't say unclaimed", caught: made, disguise: as(func(k *unclaimedKeeper) {
			k.detail = func(d *onerun.Detail) {
				for i := range d.Events {
					d.Events[i].Detail = strings.ReplaceAll(d.Events[i].Detail, "unclaimed", "late")
				}
			}
		})},
		{name: "what was forgotten passes for unclaimed", caught: "unclaimed/the store has forgotten the claim", disguise: as(func(k *unclaimedKeeper) { k.claim = func(c *onerun.Claim) { c.Granted = 0 } })},
		{name: "the labels of an unclaimed run are lost", caught: made, disguise: as(func(k *unclaimedKeeper) { k.claim = func(c *onerun.Claim) { c.Labels = nil } })},
		{name: "unkeyed runs share what was unclaimed", caught: "unclaimed/of an unkeyed job", disguise: as(func(k *unclaimedKeeper) {
			first := ""
			k.claim = func(c *onerun.Claim) {
				if c.Partition == "" && first == "" {
					first = c.RunID
				} else if c.Partition == "" {
					c.RunID = first
				}
			}
		})},
		{name: "a claim whose reply was lost is forgotten", caught: lost, disguise: as(func(k *unclaimedKeeper) { k.claim = func(c *onerun.Claim) { c.Owner = onerun.NewID() } })},
		{name: "what a person has closed is open", caught: "unclaimed/what a person has decided stays", disguise: func(s onerun.Store) onerun.Store { return overruling{s, s.(onerun.UnclaimedKeeper)} }},
		{name: "a run that FAILED stays as it is", caught: "unclaimed/one more attempt of a run that FAILED", rules: unclaims(is(onerun.Failed), onerun.DeliveredKept)},
		{name: "no retry follows an unclaimed end", caught: "unclaimed/a retry follows from it, by its own policy", disguise: as(func(k *unclaimedKeeper) { k.claim = func(c *onerun.Claim) { c.Retries = 0 } })},
		{name: "a retry follows by another's policy", caught: "unclaimed/a retry follows from it, by its own policy", disguise: as(func(k *unclaimedKeeper) {
			k.claim = func(c *onerun.Claim) { c.Retries = max(c.Retries, 5) }
		})},
		{name: "an unclaimed end replaces a success", caught: vain, rules: unclaims(is(onerun.Succeeded), onerun.DeliveredApplied)},
		{name: "an unclaimed end replaces a decision", caught: vain, rules: unclaims(is(onerun.Skipped), onerun.DeliveredApplied)},
		{name: "an unclaimed end takes a run from its owner", caught: vain, rules: unclaims(is(onerun.Running), onerun.DeliveredApplied)},
		{name: "what was unclaimed is known by nothing", caught: twice, disguise: as(func(k *unclaimedKeeper) { k.claim = func(c *onerun.Claim) { c.RunID = onerun.NewRunID(time.Now()) } })},
		{name: "what was unclaimed is known by its owner", caught: twice, disguise: as(func(k *unclaimedKeeper) { k.claim = func(c *onerun.Claim) { c.RunID = c.Owner } })},
		{name: "an approval lifts what came after it", caught: "unclaimed/an approval of what was before lifts nothing", rules: memory.Rules{Facts: func(_ onerun.Claim, f *onerun.Facts) {
			if f.Approval != nil && f.Run != nil {
				a := *f.Approval
				a.Status, a.Attempt = f.Run.Status, f.Run.Attempt
				f.Approval = &a
			}
		}}},
		{name: "an unclaimed end frees another's lock", caught: "unclaimed/whoever holds the lock keeps it", disguise: as(func(k *unclaimedKeeper) { k.frees = true })},
		{name: "an unclaimed end may be RUNNING", caught: wrong, disguise: as(func(k *unclaimedKeeper) {
			k.end = func(o *onerun.Outcome) {
				if o.Status == onerun.Running {
					o.Status = onerun.Failed
				}
			}
		})},
		{name: "an unclaimed run may be anybody's", caught: wrong, disguise: as(func(k *unclaimedKeeper) {
			k.claim = func(c *onerun.Claim) {
				if c.Owner == "" {
					c.Owner = onerun.NewID()
				}
			}
		})},
		{name: "an unclaimed run may take another's id", caught: wrong, disguise: as(func(k *unclaimedKeeper) { k.anyID = true })},
		{name: "the output of an unclaimed run is lost", caught: anyTxt, disguise: as(func(k *unclaimedKeeper) { k.end = func(o *onerun.Outcome) { o.Output = nil } })},
		{name: "the text of an unclaimed end is kept as it came", caught: anyTxt, disguise: as(func(k *unclaimedKeeper) {
			k.detail = func(d *onerun.Detail) { d.Run.Error = strings.ReplaceAll(d.Run.Error, "\uFFFD", "\x00") }
		})},
		{name: "check, then act: unclaimed ends", caught: "unclaimed/many at once have one effect", disguise: func(s onerun.Store) onerun.Store { return &hastyKeeper{Store: s} }},
		{name: "an unclaimed end and a claim both win", caught: "unclaimed/beside a claim", disguise: as(func(k *unclaimedKeeper) { k.granted = make(chan struct{}) })},
	}
}

// unclaimedKeeper keeps what ran without its claim a little wrong.
type unclaimedKeeper struct {
	onerun.Store
	claim   func(*onerun.Claim)
	end     func(*onerun.Outcome)
	detail  func(*onerun.Detail)
	started func() time.Time
	frees   bool
	anyID   bool
	granted chan struct{} // closed by the first grant, for which a delivery that always wins waits

	mu   sync.Mutex
	last onerun.Lease
}

func (k *unclaimedKeeper) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	g, err := k.Store.Claim(ctx, c)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		if k.granted != nil && k.last.Owner == "" {
			close(k.granted)
		}
		k.last = g.Lease
	}
	return g, err
}

func (k *unclaimedKeeper) DeliverUnclaimed(ctx context.Context, c onerun.Claim, started time.Time, o onerun.Outcome) (onerun.Delivery, error) {
	if k.claim != nil {
		k.claim(&c)
	}
	if k.end != nil {
		k.end(&o)
	}
	if k.started != nil {
		started = k.started()
	}
	if k.granted != nil {
		<-k.granted
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.frees && k.last.Owner != "" {
		_ = k.Finish(ctx, k.last, onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit})
	}
	d, err := k.Store.(onerun.UnclaimedKeeper).DeliverUnclaimed(ctx, c, started, o)
	if k.anyID && err != nil {
		if x, e := k.Detail(ctx, c.Namespace, c.RunID); e == nil {
			return onerun.Delivery{Kind: onerun.DeliveredBefore, Outcome: o, Run: x.Run}, nil
		}
	}
	if k.granted != nil {
		d.Kind = onerun.DeliveredApplied
	}
	return d, err
}

func (k *unclaimedKeeper) Detail(ctx context.Context, namespace, runID string) (onerun.Detail, error) {
	d, err := k.Store.Detail(ctx, namespace, runID)
	if k.detail != nil {
		k.detail(&d)
	}
	return d, err
}

// hastyKeeper says what it found, whatever others did in between.
type hastyKeeper struct {
	onerun.Store
	mu    sync.Mutex
	first map[string]onerun.DeliveryKind
}

func (h *hastyKeeper) DeliverUnclaimed(ctx context.Context, c onerun.Claim, started time.Time, o onerun.Outcome) (onerun.Delivery, error) {
	d, err := h.Store.(onerun.UnclaimedKeeper).DeliverUnclaimed(ctx, c, started, o)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.first == nil {
		h.first = map[string]onerun.DeliveryKind{}
	}
	if h.first[c.Owner] == "" {
		h.first[c.Owner] = d.Kind
	}
	d.Kind = h.first[c.Owner]
	return d, err
}

// overruling says of each unclaimed end that it was applied, and changes nothing then.
type overruling struct {
	onerun.Store
	onerun.UnclaimedKeeper
}

func (f overruling) DeliverUnclaimed(ctx context.Context, c onerun.Claim, started time.Time, o onerun.Outcome) (onerun.Delivery, error) {
	d, err := f.UnclaimedKeeper.DeliverUnclaimed(ctx, c, started, o)
	if err == nil && d.Kind == onerun.DeliveredKept {
		d.Kind = onerun.DeliveredApplied
	}
	return d, err
}
