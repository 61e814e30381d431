package onerun

import (
	"strings"
	"time"
)

// ApproveAllowed checks a step towards a rerun against the run and what is open of
// that kind: an approval, or the request for one (nil: nothing). It returns nil, or a
// StateError in words.
//
//	open \ step            alone                request    second
//	nothing                approved; not where  requested  refused: nothing was requested
//	                       two people decide
//	a request              the same             refused    approved, by another person
//	an approval            refused              refused    refused
//
// What is open for another state of the run than the present one counts as nothing.
func ApproveAllowed(run Run, open *Approval, q ApprovalRequest, now time.Time) error {
	name := run.Name()
	switch {
	case run.Partition == "":
		return &StateError{Why: run.Job + " has no key: its next start runs without an approval"}
	case run.Status == Running:
		return &StateError{Why: name + " is RUNNING; a rerun can be approved when it has ended, see: onerun explain " + name}
	case open.usable(&run, now):
		return &StateError{Why: name + " has an approved rerun already, by " + open.By + ": " + open.Reason}
	}
	requested := open.open(&run, now)
	if q.Step != ApproveAlone && strings.HasSuffix(q.By, InUserNamespace) {
		return &StateError{Why: "in a user namespace nobody can tell who you are; type it outside of it"}
	}
	switch q.Step {
	case ApproveAlone:
		if run.TwoPeople || q.TwoPeople {
			why := "a rerun of " + name + " needs two people: onerun rerun " + name + " --request --reason TEXT"
			if requested {
				why = "a rerun of " + name + " needs two people, and " + open.RequestedBy + " has requested it"
			}
			return &StateError{Why: why + "; then another account: onerun approve " + name + " --reason TEXT"}
		}
	case ApproveRequest:
		if requested {
			return &StateError{Why: "a rerun of " + name + " is requested already, by " + open.RequestedBy + ": " + open.RequestReason + "; another account approves it: onerun approve " + name + " --reason TEXT"}
		}
	case ApproveSecond:
		if !requested {
			return &StateError{Why: "nobody has requested a rerun of " + name + " as it is now: onerun rerun " + name + " --request --reason TEXT"}
		}
		if Person(open.RequestedBy) == Person(q.By) {
			return &StateError{Why: open.RequestedBy + " has requested the rerun of " + name + ", so somebody else has to approve it"}
		}
	}
	return nil
}

// InUserNamespace ends the name of an operator whose account is only called so, in a user
// namespace, in which everybody can be anybody: nothing shows that two such are two people.
const InUserNamespace = " in a user namespace"

// Person is who an operator is, whatever host and rights it worked with: of
// "ana@web1 as root" that is "ana". Two accounts of one name on two hosts count as one
// person, since nothing tells them apart.
func Person(by string) string {
	by = strings.TrimSuffix(by, InUserNamespace)
	by, _, _ = strings.Cut(by, " as ")
	if i := strings.LastIndexByte(by, '@'); i > 0 {
		by = by[:i]
	}
	return by
}
