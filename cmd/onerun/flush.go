package main

import (
	"context"
	"fmt"
	"time"

	"github.com/onerun-dev/onerun"
)

type flushCmd struct {
	JSON bool `name:"json" help:"One JSON document instead of a table."`
}

// Help explains the command.
func (flushCmd) Help() string {
	return `The end of a job is kept on this host before the store is told. When that could not be told (76: a full disk, a store
that can't be reached), the next start on this host delivers it, or this command does so now.`
}

// deliveryView is one end that was delivered, or could not be.
type deliveryView struct {
	RunID     string               `json:"run_id"`
	Key       *string              `json:"key"`
	Job       string               `json:"job"`
	Namespace string               `json:"namespace"`
	Attempt   int                  `json:"attempt"`
	Delivery  *onerun.DeliveryKind `json:"delivery"`
	Outcome   onerun.Status        `json:"outcome"`
	Status    onerun.Status        `json:"status"`
	Error     *string              `json:"error"`
}

func (c *flushCmd) run(ctx context.Context, e *env) error {
	ctx, d, leave, err := e.sit(ctx, "")
	if err != nil {
		return err
	}
	defer leave()
	var done []onerun.Delivery
	if s, ok := d.Store.(onerun.Spooler); ok {
		if done, err = s.Flush(ctx); err != nil {
			return err
		}
	}
	var failed error
	views := []deliveryView{}
	rows := [][]string{{"RUN", "ATTEMPT", "ENDED AS", "DELIVERY", "RUN IS NOW"}}
	for _, x := range done {
		v := deliveryView{
			RunID: x.Run.RunID, Key: nilIf(x.Run.Key(), ""), Job: x.Run.Job, Namespace: x.Run.Namespace, Attempt: x.Attempt,
			Delivery: nilIf(x.Kind, ""), Outcome: x.Outcome.Status, Status: x.Run.Status,
		}
		words := string(x.Kind)
		switch {
		case x.Err != nil:
			failed = fmt.Errorf("the end of %s could not be delivered, and waits on: %w", x.Run.Name(), x.Err)
			text := e.redacted(x.Err.Error())
			v.Error, words = &text, "waits on"
		case x.Kind == onerun.DeliveredBefore:
		default:
			if x.Kind == onerun.DeliveredKept {
				words += ": " + onerun.MayHaveRunTwice
			}
			d.log.Observe(onerun.Observation{Event: onerun.EventLateOutcome, At: time.Now(), Run: x.Run, Delivery: &x, Detail: x.Words()})
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
	if err != nil {
		return err
	}
	return failed
}
