package onerun

import (
	"fmt"
	"time"
)

// UnclaimedDelivery decides about the end of a run that was executed without having been
// claimed. run is that of its key; nil: there is none, or the job is unkeyed. (A run that a person
// has closed is none of its concern: see UnclaimedKeeper.)
func UnclaimedDelivery(run *Run) DeliveryKind {
	if run == nil || run.Status == Failed {
		return DeliveredApplied
	}
	return DeliveredKept
}

// UnclaimedMark begins what the journal says of a run that was executed without having been
// claimed: by it a store knows a second delivery again.
func UnclaimedMark(runID string) string { return "unclaimed run " + runID + ": " }

// UnclaimedDetail is what the journal says of such a run.
func UnclaimedDetail(c Claim, started time.Time, o Outcome, kind DeliveryKind) string {
	end := string(o.Status)
	if o.Reason != "" {
		end += " " + string(o.Reason)
	}
	if o.ExitCode != nil {
		end += fmt.Sprintf(" (exit code %d)", *o.ExitCode)
	}
	at := started.UTC().Format(time.RFC3339)
	words := UnclaimedMark(c.RunID) + "the store could not be asked at " + at + ", so the job ran without its claim, and ended as " + end
	if c.Granted != 0 {
		words = UnclaimedMark(c.RunID) + fmt.Sprintf("its claim was granted at %s with token %d, which the store has forgotten, and it ended as %s", at, c.Granted, end)
	}
	if kind == DeliveredKept {
		words += "; others had decided about the run: " + MayHaveRunTwice
	}
	return words
}
