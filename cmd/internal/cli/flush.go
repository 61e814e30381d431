package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
)

type flushCmd struct {
	LockDir word `placeholder:"DIR" help:"Directory of the lock files, if it is not the store's."`
	JSON    bool `name:"json" help:"One JSON document instead of a table."`
}

// Help explains the command.
func (flushCmd) Help() string {
	return `The end of a job is kept on this host before the store is told. When that could not be told (76: a full disk, a store
that can't be reached), the next start on this host delivers it, or this command does so now. So it does with runs that were
executed without a claim (run --if-unavailable run), and with ends whose claim the store has forgotten meanwhile, as a restored backup has.`
}

// deliveryView is one end that was delivered, or could not be.
type deliveryView struct {
	RunID     string               `json:"run_id"`
	Key       *string              `json:"key"`
	Job       string               `json:"job"`
	Namespace string               `json:"namespace"`
	Attempt   int                  `json:"attempt"`
	Unclaimed bool                 `json:"unclaimed"`
	Delivery  *onerun.DeliveryKind `json:"delivery"`
	Outcome   onerun.Status        `json:"outcome"`
	Status    *onerun.Status       `json:"status"` // null: the store doesn't have the run so far
	Error     *string              `json:"error"`
}

func (c *flushCmd) run(ctx context.Context, e *env) error {
	_, d, leave, err := e.sit(ctx, string(c.LockDir))
	if err != nil {
		return err
	}
	defer leave()
	s, ok := d.Store.(onerun.Spooler)
	var done []onerun.Delivery
	if ok {
		if done, err = flushAll(ctx, e, s); err != nil {
			return err
		}
	}
	var failed error
	views := []deliveryView{}
	rows := [][]string{{"RUN", "ATTEMPT", "ENDED AS", "DELIVERY", "RUN IS NOW"}}
	for _, x := range done {
		v := deliveryView{
			RunID: x.Run.RunID, Key: nilIf(x.Run.Key(), ""), Job: x.Run.Job, Namespace: x.Run.Namespace, Attempt: x.Attempt, Unclaimed: x.Unclaimed,
			Delivery: nilIf(x.Kind, ""), Outcome: x.Outcome.Status, Status: nilIf(x.Run.Status, ""),
		}
		words := string(x.Kind)
		switch {
		case x.Err != nil:
			failed = fmt.Errorf("the end of %s could not be delivered, and waits on: %w", x.Run.Name(), x.Err)
			e.names = append(e.names, x.Run.Name())
			text := e.redacted(x.Err.Error())
			v.Error, words = &text, "waits on"
		case x.Kind == onerun.DeliveredBefore:
		default:
			if x.Kind == onerun.DeliveredKept {
				words += ": " + onerun.MayHaveRunTwice
			}
			d.log.Observe(onerun.Observation{Event: onerun.EventLateOutcome, At: time.Now(), Run: x.Run, Delivery: &x, Detail: x.Words()})
		}
		if x.Unclaimed {
			words = "unclaimed, " + words
		}
		views = append(views, v)
		rows = append(rows, []string{x.Run.Name(), fmt.Sprint(x.Attempt), string(x.Outcome.Status), words, string(x.Run.Status)})
	}
	switch {
	case c.JSON:
		err = writeJSON(e.out, views)
	case len(done) == 0:
		err = say(e, "nothing waits to be delivered")
	default:
		err = writeTable(e.out, rows)
	}
	if err == nil && ok {
		err = c.others(ctx, e, s)
	}
	if err != nil {
		return err
	}
	return failed
}

// flushAll delivers what waits, for --store-timeout at a time as long as that gets it on: a long
// outage can leave thousands.
func flushAll(ctx context.Context, e *env, s onerun.Spooler) (done []onerun.Delivery, err error) {
	for {
		step, cancel := e.bound(ctx)
		some, err := s.Flush(step)
		over := step.Err() != nil
		cancel()
		if err != nil {
			return done, err
		}
		waits := func(d onerun.Delivery) bool { return d.Err != nil }
		if !over || !slices.ContainsFunc(some, func(d onerun.Delivery) bool { return !waits(d) }) {
			return append(done, some...), nil
		}
		done = append(done, slices.DeleteFunc(some, waits)...)
	}
}

// others says which runs wait here for another store.
func (c *flushCmd) others(ctx context.Context, e *env, s onerun.Spooler) error {
	ctx, cancel := e.bound(ctx)
	defer cancel()
	waiting, err := s.Spooled(ctx)
	if err != nil {
		return err
	}
	count := map[string]int{}
	for _, w := range waiting {
		if w.Store != "" {
			count[w.Store]++
		}
	}
	for _, store := range slices.Sorted(maps.Keys(count)) {
		complain(e, fmt.Errorf("runs that wait for another store, %s: %d; type onerun flush with that --store", store, count[store]))
	}
	return nil
}
