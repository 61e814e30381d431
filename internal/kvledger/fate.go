package kvledger

import (
	"cmp"
	"time"

	"github.com/onerun-dev/onerun"
)

// held is a lock as it was found: its record, and whether its owner's lease runs.
type held struct {
	*lockRecord      // nil: it never had an owner
	alive       bool // the mortal key is there
	vanished    bool // the record is gone and the mortal key isn't: somebody holds it yet, until that has run out
}

func (h held) owner() string {
	if h.lockRecord == nil {
		return ""
	}
	return h.Owner
}

// over reports whether the lock is held by an owner whose lease ran out.
func (h held) over() bool { return h.owner() != "" && !h.alive }

// lock reads a lock and its owner's mortal key.
func (t *tx) lock(ns string, name onerun.LockName) (held, error) {
	for {
		h, err := t.lockSeen(ns, name)
		if err != nil || !h.over() || !t.l.apart {
			return h, err
		}
		if sure, err := t.stillOver(keyLock(ns, name), keyLife(ns, name)); err != nil || sure {
			return h, err
		}
	}
}

func (t *tx) lockSeen(ns string, name onerun.LockName) (held, error) {
	kl, kf := keyLock(ns, name), keyLife(ns, name)
	if err := t.read(kl, kf); err != nil {
		return held{}, err
	}
	l, err := load[lockRecord](t, kl)
	if err != nil {
		return held{}, err
	}
	life, err := load[lifeRecord](t, kf)
	switch {
	case err != nil, l == nil && life == nil:
		return held{}, err
	case l == nil: // its owner may be at work for as long as its lease
		ghost := &lockRecord{Namespace: ns, Lock: name, Owner: life.Owner, Expires: life.Expires, Policy: &onerun.Policy{OnCrash: onerun.CrashAuto}}
		return held{lockRecord: ghost, alive: true, vanished: true}, nil
	}
	return held{lockRecord: l, alive: life != nil && life.Owner == l.Owner}, nil
}

// stillOver reports whether a lock has its owner when that one's lease is gone, where the two were
// read apart: the lease can be one that wasn't begun when it was looked for, or that was given back.
func (t *tx) stillOver(lock, life string) (bool, error) {
	for _, k := range []string{life, lock} { // one after the other
		e, err := t.l.space.Read(t.ctx, k)
		if err != nil {
			return false, err
		}
		if e[0].Version != t.seen[k].Version {
			delete(t.seen, lock)
			delete(t.seen, life)
			return false, nil
		}
	}
	return true, nil
}

// fate is what is known of the owner that a lock has.
type fate struct {
	evidence string // why its claim is over; "": it isn't
	alive    bool   // its host knows that it isn't dead, whether its lease is over or not
	dead     bool   // its work is proven over
	void     bool   // its job never started
}

// fateOf judges a lock's owner by its lease, and by what the claim's host knows.
func fateOf(h held, k onerun.HostKnowledge) fate {
	var f fate
	owner := h.owner()
	if owner == "" {
		return f
	}
	if h.over() {
		f.evidence = ranOut(h.Expires)
	}
	if k.Held != nil && k.HeldOwner == owner {
		f.alive = true
		return f
	}
	for _, d := range k.Dead {
		if d.Owner == owner {
			f.dead, f.void, f.evidence = true, d.Void, cmp.Or(d.Evidence, "its owner is proven dead")
		}
	}
	return f
}

// vanished is the evidence of a lock that somebody has deleted.
const vanished = "its lock has vanished from the store"

func ranOut(at time.Time) string { return "its lease ran out at " + at.Format(time.RFC3339) }

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
