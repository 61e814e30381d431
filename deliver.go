package onerun

// DeliveryKind says what became of an end that was delivered late.
type DeliveryKind string

// The kinds.
const (
	DeliveredApplied   DeliveryKind = "applied"   // the attempt was RUNNING, and has ended now
	DeliveredBefore    DeliveryKind = "recorded"  // the attempt had that end already
	DeliveredCorrected DeliveryKind = "corrected" // a machine had closed it otherwise
	DeliveredKept      DeliveryKind = "kept"      // beside the attempt: the run may have been executed twice
)

// Delivery is what became of one late end.
type Delivery struct {
	Kind    DeliveryKind
	Attempt int
	Outcome Outcome
	Run     Run   // as it is now
	Err     error // Flush: why this one could not be delivered; Kind is empty then

	Unclaimed bool // it was executed without a claim; see UnclaimedKeeper
	Forgotten bool // it had a claim, of which the store knew nothing any more; see UnclaimedKeeper
}

// Spooled is an end that waits on this host.
type Spooled struct {
	Namespace string
	RunID     string
	Attempt   int
	Job       string
	Path      string // the file that keeps it
	Outcome   Outcome
	Unclaimed bool   // it was executed without a claim
	Store     string // the store that it waits for, if that is another one
}

// DeliveryOf decides about an end that comes late. attempt is the one that it is the
// end of; decided says that a person has decided about the run since that attempt
// began: approved or requested a rerun of it, or resolved it.
func DeliveryOf(run Run, attempt Attempt, decided bool, o Outcome) DeliveryKind {
	switch {
	case attempt.Status == Running:
		return DeliveredApplied
	case attempt.Status == o.Status && attempt.Reason == o.Reason && attempt.ClosedBy == ByOwner:
		return DeliveredBefore
	case attempt.Late != nil && attempt.Late.Status == o.Status && attempt.Late.Reason == o.Reason:
		return DeliveredBefore
	case attempt.Reason == ReasonLeaseExpired && o.Reason == ReasonLeaseLost:
		return DeliveredBefore // the same, as its owner saw it; a retry that was granted for it stays
	case attempt.ClosedBy == ByMachine && run.Attempt == attempt.Number && run.Status == attempt.Status && !decided:
		return DeliveredCorrected
	}
	return DeliveredKept
}

// Words describe a delivery on one line.
func (d Delivery) Words() string {
	switch {
	case d.Kind == DeliveredApplied && d.Unclaimed:
		return "it ran without a claim, and is recorded now"
	case d.Kind == DeliveredApplied && d.Forgotten:
		return "the store had forgotten its claim; its end is recorded now"
	case d.Kind == DeliveredApplied:
		return "its end came late, and is recorded now"
	case d.Kind == DeliveredBefore:
		return "its end was recorded before"
	case d.Kind == DeliveredCorrected:
		return "its end came late, and corrects what a later claim had taken for its end"
	case d.Kind == DeliveredKept && d.Unclaimed:
		return "it ran without a claim, and others have run it too, or decided about it: " + MayHaveRunTwice
	case d.Kind == DeliveredKept && d.Forgotten:
		return "the store had forgotten its claim, and others have run it too, or decided about it: " + MayHaveRunTwice
	case d.Kind == DeliveredKept:
		return "its end came late, after others had decided about it: " + MayHaveRunTwice
	}
	return ""
}

// MayHaveRunTwice are the words of the alert for an end that was only kept.
const MayHaveRunTwice = "it may have run twice"
