// Package outcome says in one word how an attempt ended, for those who count ends.
package outcome

import (
	"errors"
	"strings"

	"github.com/onerun-dev/onerun"
)

// The words for ends that the ledger doesn't have as the owner saw them.
const (
	LeaseLost   = "lease_lost"
	NotRecorded = "not_recorded"
)

// Of is the word for an observation that has an Outcome: succeeded, skipped, the reason of a
// failure, lease_lost, or not_recorded when the store could not be told.
func Of(o onerun.Observation) string {
	switch {
	case o.Event == onerun.EventLeaseLost:
		return LeaseLost
	case errors.As(o.Err, new(*onerun.NotRecordedError)):
		return NotRecorded
	case o.Outcome.Status == onerun.Failed:
		return string(o.Outcome.Reason)
	}
	return strings.ToLower(string(o.Outcome.Status))
}
