package onerun_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// TestDeliveryOf goes through what an attempt can be when its end comes late.
func TestDeliveryOf(t *testing.T) {
	succeeded := onerun.Outcome{Status: onerun.Succeeded}
	exit := onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit}
	lost := onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonLeaseExpired}
	attempt := func(o onerun.Outcome, by onerun.ClosedBy, late *onerun.Outcome) onerun.Attempt {
		return onerun.Attempt{Number: 2, Status: o.Status, ClosedBy: by, Late: late, Execution: onerun.Execution{Reason: o.Reason}}
	}
	running := onerun.Outcome{Status: onerun.Running}
	for _, c := range []struct {
		what    string
		attempt onerun.Attempt
		run     onerun.Status
		last    int // the run's last attempt
		decided bool
		end     onerun.Outcome
		want    onerun.DeliveryKind
	}{
		{"RUNNING", attempt(running, onerun.ByOwner, nil), onerun.Running, 2, false, succeeded, onerun.DeliveredApplied},
		{"RUNNING, FAILED", attempt(running, onerun.ByOwner, nil), onerun.Running, 2, false, exit, onerun.DeliveredApplied},
		{"recorded", attempt(succeeded, onerun.ByOwner, nil), onerun.Succeeded, 2, false, succeeded, onerun.DeliveredBefore},
		{"recorded, decided about", attempt(exit, onerun.ByOwner, nil), onerun.Failed, 2, true, exit, onerun.DeliveredBefore},
		{"recorded, an earlier attempt", attempt(exit, onerun.ByOwner, nil), onerun.Running, 3, true, exit, onerun.DeliveredBefore},
		{"recorded otherwise", attempt(exit, onerun.ByOwner, nil), onerun.Failed, 2, false, succeeded, onerun.DeliveredKept},
		{"recorded with another reason", attempt(exit, onerun.ByOwner, nil), onerun.Failed, 2, false, lost, onerun.DeliveredKept},
		{"closed by a machine", attempt(lost, onerun.ByMachine, nil), onerun.Failed, 2, false, succeeded, onerun.DeliveredCorrected},
		{"closed by a machine, FAILED", attempt(lost, onerun.ByMachine, nil), onerun.Failed, 2, false, exit, onerun.DeliveredCorrected},
		{"closed by a machine in the same words", attempt(lost, onerun.ByMachine, nil), onerun.Failed, 2, false, lost, onerun.DeliveredCorrected},
		{"closed by a machine, decided about", attempt(lost, onerun.ByMachine, nil), onerun.Failed, 2, true, succeeded, onerun.DeliveredKept},
		{"closed by a machine, a later attempt", attempt(lost, onerun.ByMachine, nil), onerun.Failed, 3, false, succeeded, onerun.DeliveredKept},
		{"closed by a machine, a later attempt runs", attempt(lost, onerun.ByMachine, nil), onerun.Running, 3, false, succeeded, onerun.DeliveredKept},
		{"closed by a machine, then resolved", attempt(lost, onerun.ByMachine, nil), onerun.Succeeded, 2, false, exit, onerun.DeliveredKept},
		{"closed by a person", attempt(lost, onerun.ByOperator, nil), onerun.Failed, 2, false, succeeded, onerun.DeliveredKept},
		{"closed by a person in the same words", attempt(lost, onerun.ByOperator, nil), onerun.Failed, 2, false, lost, onerun.DeliveredKept},
		{"kept before", attempt(lost, onerun.ByOperator, &succeeded), onerun.Failed, 2, false, succeeded, onerun.DeliveredBefore},
		{"kept before, another end", attempt(lost, onerun.ByOperator, &succeeded), onerun.Failed, 2, false, exit, onerun.DeliveredKept},
	} {
		run := onerun.Run{Status: c.run, Attempt: c.last}
		if got := onerun.DeliveryOf(run, c.attempt, c.decided, c.end); got != c.want {
			t.Errorf("%s: %s, not %s", c.what, got, c.want)
		}
	}
	for _, k := range []onerun.DeliveryKind{onerun.DeliveredApplied, onerun.DeliveredBefore, onerun.DeliveredCorrected, onerun.DeliveredKept} {
		if words := (onerun.Delivery{Kind: k}).Words(); !strings.Contains(words, "its end") || strings.Contains(words, onerun.MayHaveRunTwice) != (k == onerun.DeliveredKept) {
			t.Errorf("words of %s: %q", k, words)
		}
	}
}

// TestPruneRequest: what is malformed, and what a request leaves open.
func TestPruneRequest(t *testing.T) {
	who := onerun.Who{By: "kim", Reason: "full"}
	cut := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for what, c := range map[string]struct {
		q     onerun.PruneRequest
		limit int // 0: malformed
	}{
		"nothing":                 {onerun.PruneRequest{}, 0},
		"a job":                   {onerun.PruneRequest{Job: "j"}, 0},
		"a step":                  {onerun.PruneRequest{Limit: 5}, 0},
		"a key":                   {onerun.PruneRequest{Job: "j", Partition: "p"}, 500},
		"a partition":             {onerun.PruneRequest{Partition: "p"}, 0},
		"a partition with an age": {onerun.PruneRequest{Partition: "p", Before: cut}, 0},
		"an age":                  {onerun.PruneRequest{Before: cut}, 500},
		"an age, in steps":        {onerun.PruneRequest{Before: cut, Limit: 7}, 7},
		"a number":                {onerun.PruneRequest{Keep: 1}, 500},
		"a negative number":       {onerun.PruneRequest{Keep: -1}, 0},
		"a negative step":         {onerun.PruneRequest{Oldest: true, Limit: -1}, 0},
		"the oldest":              {onerun.PruneRequest{Oldest: true}, 500},
		"keys":                    {onerun.PruneRequest{Oldest: true, ForgetKeys: true, Who: who}, 500},
		"keys, without a reason":  {onerun.PruneRequest{Oldest: true, ForgetKeys: true, Who: onerun.Who{By: "kim"}}, 0},
		"keys, without a person":  {onerun.PruneRequest{Oldest: true, ForgetKeys: true, Who: onerun.Who{Reason: "full"}}, 0},
		"keys, without a limit":   {onerun.PruneRequest{ForgetKeys: true, Who: who}, 0},
	} {
		got, err := c.q.Checked()
		if (err != nil) != (c.limit == 0) || err != nil && !errors.Is(err, onerun.ErrUsage) {
			t.Errorf("%s: %v", what, err)
		}
		if err == nil && got.Limit != c.limit {
			t.Errorf("%s: steps of %d, not %d", what, got.Limit, c.limit)
		}
	}
}
