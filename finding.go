package onerun

// Finding is one thing that was looked at for safety.
type Finding struct {
	Check    string // what was looked at, one word with dashes: lock-directory
	Status   FindingStatus
	Evidence string // what was found
	Remedy   string // what to do; empty: nothing
	Job      string // the one job that it is about; empty: all of them
}

// FindingStatus is how a finding turned out.
type FindingStatus string

// The four ways.
const (
	FindingOK      FindingStatus = "ok"
	FindingWarning FindingStatus = "warning" // safe now; look at it
	FindingDanger  FindingStatus = "danger"  // a job could run twice, or not at all, or its history be lost
	FindingUnknown FindingStatus = "unknown" // could not be found out
)
