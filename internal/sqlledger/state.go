package sqlledger

import (
	"time"

	"github.com/onerun-dev/onerun"
)

// State is what a claim is decided on, as it was at one moment.
type State struct {
	Name     onerun.LockName // of the lock that is claimed
	Run      *RunRow         // of the key
	Tomb     *onerun.Run     // what was left of it
	Lock     *LockRow        // the lock, if it is held
	Other    *LockRow        // the key's own, if it runs under another
	Holder   *RunRow         // the RUNNING run under the lock
	Paused   *onerun.JobState
	Approval *onerun.Approval
	First    *onerun.Holder // in line before the claim, where the store keeps a line and the claim asks for an order
}

// StateReader is a transaction that State is read in.
type StateReader interface {
	// RunOfKey reads the run of a key; nil: there is none.
	RunOfKey(namespace, key string) (*RunRow, error)
	// RunOf reads a run; nil: there is none.
	RunOf(runID string) (*RunRow, error)
	// OpenApproval reads the approval of a run that is unspent, or the request for one; nil: there is none.
	OpenApproval(runID string) (*onerun.Approval, error)
	// TombstoneOf reads the tombstone of a run, or else of a key; nil: there is none.
	TombstoneOf(namespace, key, runID string) (*onerun.Run, error)
	// HeldOf reads those of the locks that have an owner.
	HeldOf(namespace string, locks ...onerun.LockName) ([]*LockRow, error)
	// PausedOf says by whom a job is paused; nil: it isn't.
	PausedOf(namespace, job string) (*onerun.JobState, error)
}

// ReadState reads what a claim is decided on.
func ReadState(t StateReader, c onerun.Claim) (*State, error) {
	st := &State{Name: c.Lock}
	var err error
	if c.Partition != "" {
		if st.Run, err = t.RunOfKey(c.Namespace, c.Key()); err != nil {
			return nil, err
		}
		if st.Run != nil {
			st.Approval, err = t.OpenApproval(st.Run.RunID)
		} else {
			st.Tomb, err = t.TombstoneOf(c.Namespace, c.Key(), "")
		}
		if err != nil {
			return nil, err
		}
	}
	names := []onerun.LockName{c.Lock}
	if st.Run != nil && st.Run.Status == onerun.Running && st.Run.Lock != c.Lock {
		names = append(names, st.Run.Lock)
	}
	held, err := t.HeldOf(c.Namespace, names...)
	if err != nil {
		return nil, err
	}
	for _, l := range held {
		if l.Name == string(c.Lock) {
			st.Lock = l
		} else {
			st.Other = l
		}
	}
	if st.Lock != nil && st.Lock.RunID != "" {
		if st.Holder, err = t.RunOf(st.Lock.RunID); err != nil {
			return nil, err
		}
	}
	if c.Job != "" {
		st.Paused, err = t.PausedOf(c.Namespace, c.Job)
	}
	if err != nil {
		return nil, err
	}
	return st, nil
}

// Foresee does to the dead what a claim would, without writing it down.
func (st *State) Foresee(k onerun.HostKnowledge, now time.Time) {
	for _, l := range []**LockRow{&st.Lock, &st.Other} {
		reason, _, dead := (*l).Judged(k, now)
		if reason == "" {
			continue
		}
		if r := st.Run; r != nil && r.RunID == (*l).RunID {
			r.Status, r.Reason, r.FinishedAt = onerun.Failed, reason, now
			at, ok := r.Policy.NextRetry(now, r.Failures+1, reason, 0)
			if dead.Void {
				at, ok = now, true
			}
			if ok && r.Partition != "" {
				r.NextRetryAt = at
			}
		}
		*l = nil
	}
}

// Facts are what the claim table is applied to.
func (st *State) Facts(now time.Time) onerun.Facts {
	f := onerun.Facts{Now: now, Paused: st.Paused, Approval: st.Approval, Run: st.Tomb}
	if st.Run != nil {
		run := st.Run.Seen()
		lock := st.Lock
		if run.Lock != st.Name {
			lock = st.Other
		}
		f.Run, f.RunStale = &run, run.Status == onerun.Running && lock.Over(now)
		if !f.RunStale {
			run.Evidence = ""
		}
	}
	if l := st.Lock; l != nil && (st.Run == nil || l.RunID != st.Run.RunID) {
		h := l.Holder()
		if st.Holder != nil {
			h = st.Holder.Seen().Holder()
			if !l.Over(now) {
				h.Detail = ""
			}
		}
		f.LockHolder, f.LockStale = &h, l.Over(now)
	}
	if f.LockHolder == nil {
		f.LockHolder = st.First
	}
	return f
}

// Know puts what the claim's host knows into the facts that the store has: an owner that is
// dead, and was not closed, is stale. dead finds a lock's owner among the dead.
func (st *State) Know(f *onerun.Facts, k onerun.HostKnowledge, dead func(onerun.HostKnowledge, *LockRow) (onerun.DeadOwner, bool)) {
	if f.Run != nil && f.Run.Status == onerun.Running {
		lock := st.Lock
		if f.Run.Lock != st.Name {
			lock = st.Other
		}
		if d, proven := dead(k, lock); proven {
			f.RunStale, f.Run.Evidence = true, d.Evidence
		}
	}
	if d, proven := dead(k, st.Lock); proven && f.LockHolder != nil {
		f.LockStale, f.LockHolder.Detail = true, d.Evidence
	}
	st.Hold(f, k)
}

// Hold lets who stands in the way on the claim's host stand there, too.
func (st *State) Hold(f *onerun.Facts, k onerun.HostKnowledge) {
	owner := ""
	if st.Lock != nil {
		owner = st.Lock.Owner
	}
	k.Stand(f, owner)
}

// DeadOwner finds a lock's owner among those that are proven dead.
func DeadOwner(k onerun.HostKnowledge, l *LockRow) (dead onerun.DeadOwner, proven bool) {
	for _, d := range k.Dead {
		if l != nil && d.Owner == l.Owner {
			return d, true
		}
	}
	return onerun.DeadOwner{}, false
}

// Living reports whether a lock's owner is who stands in the way on the claim's host: that one is
// not dead.
func Living(k onerun.HostKnowledge, l *LockRow) bool { return k.Held != nil && l.Owner == k.HeldOwner }

// Judged says why the claim of a lock's owner is over and may be closed by a machine; "": it
// isn't, or may not.
func (l *LockRow) Judged(k onerun.HostKnowledge, now time.Time) (reason onerun.Reason, evidence string, d onerun.DeadOwner) {
	if l == nil || Living(k, l) {
		return "", "", d
	}
	d, proven := DeadOwner(k, l)
	switch {
	case !proven && !l.Over(now), !d.Void && l.Mode != onerun.CrashAuto:
		return "", "", d
	case !proven:
		return onerun.ReasonLeaseExpired, "its lease ran out at " + FromMicros(l.Expires).Format(time.RFC3339), d
	case d.Evidence == "":
		return onerun.ReasonOwnerDied, "its owner is proven dead", d
	}
	return onerun.ReasonOwnerDied, d.Evidence, d
}

// WordsOf are what the attempt of a dead owner says.
func WordsOf(d onerun.DeadOwner) string {
	switch {
	case d.Void:
		return "the worker died before the job was started"
	case d.Evidence != "":
		return onerun.CutError("the worker died: " + d.Evidence)
	}
	return "the worker died"
}

// Refusal is the answer to a claim that was decided against.
func Refusal(c onerun.Claim, v onerun.Verdict, now time.Time) *onerun.Refusal {
	return &onerun.Refusal{
		Reason: v.Reason, Namespace: c.Namespace, Job: c.Job, Key: c.Key(), Lock: c.Lock,
		Holder: v.Holder, RetryAt: v.RetryAt, At: now,
	}
}

// CheckClaim refuses a malformed claim. order is what the store has to say against the order that
// it asks for.
func CheckClaim(c onerun.Claim, order error) error {
	switch {
	case c.Namespace == "" || c.Lock == "" || c.Owner == "":
		return usage("a claim needs a namespace, a lock and an owner")
	case c.Job == "" && c.Partition != "":
		return usage("a claim of partition %s needs a job", c.Partition)
	case c.Job != "" && c.RunID == "":
		return usage("a claim of a job needs a run id")
	case order != nil:
		return order
	case c.TTL < 0 || c.TTL > onerun.MaxTTL:
		return usage("the lease of %s is out of range", c.TTL)
	case c.OnCrash != "" && c.OnCrash != onerun.CrashAuto && c.OnCrash != onerun.CrashManual:
		return usage("crash policy %q is unknown; use %s or %s", c.OnCrash, onerun.CrashAuto, onerun.CrashManual)
	}
	return nil
}

// UnknownOrder refuses an order that there is not.
func UnknownOrder(o onerun.Order) error { return usage("order %q is unknown", o) }
