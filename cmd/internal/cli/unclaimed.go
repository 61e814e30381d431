package cli

import (
	"context"
	"time"

	"github.com/onerun-dev/onerun"
)

// unclaimer is a store of many machines that can have runs without a claim, and deliver them
// when it can be asked.
type unclaimer interface {
	Unclaimed(told func(onerun.Delivery)) (view onerun.Store, ok bool)
}

// unclaimed reports whether a lease is that of a run without a claim.
func unclaimed(l onerun.Lease) bool { return l.RunID != "" && l.Token == 0 }

// carryUnclaimed executes the job although its store can't be asked, and away says why. It is one
// attempt: a retry would need a store that says whether there is one. The delivered run
// has the job's budget all the same, so that a later start may take it.
func (x *execution) carryUnclaimed(ctx context.Context, s onerun.Store, job onerun.Job, away error) error {
	host, ok := s.(unclaimer)
	if !ok { // it is on this host
		return away
	}
	view, ok := host.Unclaimed(func(d onerun.Delivery) {
		x.Observe(onerun.Observation{Event: onerun.EventLateOutcome, At: time.Now(), Run: d.Run, Delivery: &d, Detail: d.Words()})
	})
	if !ok {
		return away
	}
	x.away, x.store = away, view
	job.RetryLater = true
	job.Order = onerun.OrderAny // who comes first is known to nobody
	return x.runner(x.store).Do(ctx, job, x.execute)
}
