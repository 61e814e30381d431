package memory

import (
	"time"

	"github.com/onerun-dev/onerun"
)

// fate is what is known of the owner that a lock has.
type fate struct {
	evidence string // why its claim is over; "": it isn't
	alive    bool   // its host knows that it isn't dead, whether its lease is over or not
	dead     bool   // its work is proven over
	void     bool   // its job never started
}

// fateOf judges a lock's owner by its lease, and by what the claim's host knows.
func (s *Store) fateOf(l *lock, k onerun.HostKnowledge, now time.Time) fate {
	var f fate
	owner := l.lease.Owner
	if owner == "" {
		return f
	}
	if !s.rules.ExpiryClock(now).Before(l.expires) {
		f.evidence = "its lease ran out at " + l.expires.Format(time.RFC3339)
	}
	if k.Held != nil && k.HeldOwner == owner {
		f.alive = true
		return f
	}
	if s.rules.Dead(l.lease) {
		f.dead, f.evidence = true, "its owner is proven dead"
	}
	for _, d := range k.Dead {
		if d.Owner == owner {
			f.dead, f.void, f.evidence = true, d.Void, or(d.Evidence != "", d.Evidence, "its owner is proven dead")
		}
	}
	return f
}

// end is how a machine closes a run with this fate.
func (f fate) end() onerun.Outcome {
	out := onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonOwnerDied, Void: f.void}
	switch {
	case f.void:
		out.Error = "the worker died before the job was started"
	case f.dead:
		out.Error = onerun.CutError("the worker died: " + f.evidence)
	default:
		out.Reason, out.Error = onerun.ReasonLeaseExpired, "its lease ran out"
	}
	return out
}

// reasonHeld is the reason of row 7 of the claim table.
func reasonHeld(stale bool) onerun.Reason {
	if stale {
		return onerun.RefusedStale
	}
	return onerun.RefusedLocked
}
