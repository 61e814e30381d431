package redis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// DeliverUnclaimed implements onerun.UnclaimedKeeper. The run is over, so it wants no lock.
func (s *Store) DeliverUnclaimed(ctx context.Context, c onerun.Claim, started time.Time, o onerun.Outcome) (onerun.Delivery, error) {
	c.Order = onerun.OrderAny // it waited for nobody
	if err := check(c); err != nil {
		return onerun.Delivery{}, err
	}
	switch {
	case c.Job == "":
		return onerun.Delivery{}, fmt.Errorf("%w: a lock alone has no run that could be recorded", onerun.ErrUsage)
	case !ended(o.Status):
		return onerun.Delivery{}, fmt.Errorf("%w: an attempt can't end as %q", onerun.ErrUsage, o.Status)
	}
	return s.delivery(ctx, "deliver an unclaimed end", c.Namespace, o, func(ch *change, o onerun.Outcome) (onerun.Delivery, error) {
		return ch.deliverUnclaimed(unclaimed{Claim: c, started: started, end: o})
	})
}

// unclaimed is a run that was executed without having been claimed.
type unclaimed struct {
	onerun.Claim
	started time.Time
	end     onerun.Outcome
}

func (c *change) deliverUnclaimed(u unclaimed) (onerun.Delivery, error) {
	known, err := c.run(u.RunID)
	if err != nil {
		return onerun.Delivery{}, err
	}
	if u.started.IsZero() {
		u.started = c.now
	}
	if known != nil {
		if run := known.run(); run.Job != u.Job || run.Partition != u.Partition {
			return onerun.Delivery{}, fmt.Errorf("%w: the run id %s is taken by %s", onerun.ErrUsage, u.RunID, run.Name())
		}
		if l := granted(known, u); l != nil {
			return c.deliverTo(known, *l, u.end)
		}
		return before(known, u), nil
	}
	if u.Partition == "" {
		return c.oneMore(u, nil)
	}
	found, err := c.get([]string{"HGET", c.k.dir(), "k:" + u.Key()})
	if err != nil {
		return onerun.Delivery{}, err
	}
	if isTomb(found[0]) {
		return c.keepUnclaimed(u, found[0])
	}
	r, err := c.run(found[0])
	switch {
	case err != nil:
		return onerun.Delivery{}, err
	case r == nil:
		return c.oneMore(u, nil)
	}
	if l := granted(r, u); l != nil {
		return c.deliverTo(r, *l, u.end)
	}
	delivered, err := c.delivered(r.id, u.RunID)
	if err != nil {
		return onerun.Delivery{}, err
	}
	if delivered {
		return before(r, u), nil
	}
	run := r.run()
	attempts := r.attempts()
	closed := len(attempts) > 0 && attempts[len(attempts)-1].ClosedBy == onerun.ByOperator // by a person, whose word stands
	if onerun.UnclaimedDelivery(&run) == onerun.DeliveredApplied && !closed {
		return c.oneMore(u, r)
	}
	d := onerun.Delivery{Kind: onerun.DeliveredKept, Outcome: u.end, Run: run}
	return d, c.note(u, run, d.Kind)
}

// granted is the lease of a claim that was granted after all, its reply having been lost; nil:
// it wasn't.
func granted(r *record, u unclaimed) *onerun.Lease {
	for _, a := range r.attempts() {
		if a.Owner == u.Owner && a.Token != 0 {
			return &onerun.Lease{Namespace: r.namespace, Lock: r.lock(), RunID: r.id, Attempt: a.Number, Owner: u.Owner, Token: a.Token}
		}
	}
	return nil
}

// before tells of what was delivered already.
func before(r *record, u unclaimed) onerun.Delivery {
	d := onerun.Delivery{Kind: onerun.DeliveredBefore, Outcome: u.end, Run: r.run()}
	for _, a := range r.attempts() {
		if a.Owner == u.Owner {
			d.Attempt = a.Number
		}
	}
	return d
}

// delivered reports whether a run's journal has an unclaimed one already.
func (c *change) delivered(runID, unclaimed string) (bool, error) {
	if _, err := c.get([]string{"LLEN", c.k.events(runID)}); err != nil { // nobody may add to it meanwhile
		return false, err
	}
	events, err := c.s.events(c.ctx, c.ns, runID, "")
	return slices.ContainsFunc(events, func(e onerun.Event) bool {
		return e.Name == onerun.EventLateOutcome && strings.HasPrefix(e.Detail, onerun.UnclaimedMark(unclaimed))
	}), err
}

func (c *change) note(u unclaimed, run onerun.Run, kind onerun.DeliveryKind) error {
	return c.event(onerun.EventLateOutcome, run, onerun.Who{}, onerun.UnclaimedDetail(u.Claim, u.started, u.end, kind))
}

// keepUnclaimed notes it beside a tombstone.
func (c *change) keepUnclaimed(u unclaimed, entry string) (onerun.Delivery, error) {
	tomb, err := readTomb(c.ns, entry)
	if err != nil {
		return onerun.Delivery{}, err
	}
	d := onerun.Delivery{Kind: onerun.DeliveredBefore, Outcome: u.end, Run: tomb.run()}
	if tomb.RunID == u.RunID {
		return d, nil
	}
	if delivered, err := c.delivered(tomb.RunID, u.RunID); err != nil || delivered {
		return d, err
	}
	d.Kind = onerun.DeliveredKept
	return d, c.note(u, d.Run, d.Kind)
}

// oneMore adds an attempt to a run that has FAILED, with its end, or makes the run. The retry
// that may follow goes by its own policy.
func (c *change) oneMore(u unclaimed, r *record) (onerun.Delivery, error) {
	started := micros(u.started)
	if r == nil {
		r = &record{namespace: c.ns, id: u.RunID, now: c.now, f: map[string]string{
			"job": u.Job, "part": u.Partition, "date": u.BusinessDate, "sched": micros(u.ScheduledAt), "status": string(onerun.Failed), "attempt": "0",
			"started": started, "finished": started, "lock": string(u.Lock), "v": "1",
		}}
		c.make(u.RunID, r.f)
	}
	n := r.attempt() + 1
	w := c.s.worker(u.WorkerLabel)
	w = onerun.Worker{Label: cmp.Or(w.Label, w.Host), Host: w.Host, Machine: w.Machine} // the process is gone
	fields := map[string]string{
		"attempt": digits(n), "lock": string(u.Lock), "started": started, "owner": u.Owner, "token": "",
		"policy":           policyOf(u.Claim, cmp.Or(u.TTL, onerun.DefaultTTL), cmp.Or(u.OnCrash, onerun.CrashAuto)),
		fmtField("a", n):   encode(beginning(u.Claim)),
		fmtField("w", n):   encode(workerOf(w)),
		fmtField("b", n-1): r.f["token"] + " " + r.f["started"] + " " + r.f["finished"],
	}
	if u.TwoPeople && r.f["two_from"] == "" {
		fields["two_from"] = digits(n)
	}
	c.unretry(r)
	c.move(r.id, u.Job, r.f["started"], r.status(), "") // the time by which it is listed changes
	after := &record{namespace: r.namespace, id: r.id, now: r.now, f: map[string]string{}}
	for name, v := range r.f {
		after.f[name] = v
	}
	var words []string
	for name, v := range fields {
		after.f[name] = v
		words = append(words, name, v)
	}
	delete(after.f, "retry")
	c.set(c.k.run(r.id), words...)
	if err := c.close(after, u.end); err != nil {
		return onerun.Delivery{}, err
	}
	run := after.run()
	return onerun.Delivery{Kind: onerun.DeliveredApplied, Attempt: n, Outcome: u.end, Run: run}, c.note(u, run, onerun.DeliveredApplied)
}
