package hostlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// Unclaimed is a Store for runs that are executed although the store of many machines can't be
// asked. A claim of it is granted by what this host alone knows: its lock file, and the runs
// of this kind that wait here to be delivered. It has no token and no lease, and the rest of
// what a run can do with its store (items, progress, asking for its lock) is ErrUnavailable.
// Finish writes its end to the spool, and then delivers it.
type Unclaimed struct {
	*Store
	told func(onerun.Delivery)
}

// Unclaimed is the view of this store for such runs. told is called with what became of one that
// Finish has delivered; it may be nil. ok is false where the remote store can't be told of them.
func (s *Store) Unclaimed(told func(onerun.Delivery)) (view onerun.Store, ok bool) {
	if _, ok = onerun.Ability[onerun.UnclaimedKeeper](s.Remote); !ok {
		return nil, false
	}
	if told == nil {
		told = func(onerun.Delivery) {}
	}
	return &Unclaimed{s, told}, true
}

// ClaimWaiting implements onerun.WaitingClaimer: its caller asks again.
func (u *Unclaimed) ClaimWaiting(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	return u.Claim(ctx, c)
}

// Claim implements onerun.Claimer, by what this host knows:
//
//	its lock is held here, or work that was started under it lives    locked, running, or stale
//	the last owner's work is dead, and its policy is manual           stale
//	the end of an earlier run stands in the lock file, or a key's
//	last owner died in the middle: the store has to be told first     ErrUnavailable
//	a run of the key without a claim is at work under another lock    running
//	one has ended, and waits to be delivered                          succeeded, skipped, failed
//	otherwise                                                         granted
//
// Nothing of a refusal is recorded.
//
// Errors: ErrUsage for a claim of a lock alone, of policy manual, or for a place in line; ErrIO
// when there is no room for the run's end.
func (u *Unclaimed) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	switch {
	case c.Namespace == "" || c.Lock == "" || c.Owner == "" || c.Job == "" || c.RunID == "":
		return onerun.Grant{}, fmt.Errorf("%w: a run without a claim needs a namespace, a job, a lock, an owner and a run id", onerun.ErrUsage)
	case c.OnCrash == onerun.CrashManual:
		return onerun.Grant{}, fmt.Errorf("%w: a run of policy manual is never executed without a claim", onerun.ErrUsage)
	case c.Order != onerun.OrderAny:
		return onerun.Grant{}, fmt.Errorf("%w: without a claim there is no order among those who wait", onerun.ErrUsage)
	}
	if h := u.Holding(c.Owner); h != nil && h.Spool != nil {
		g := grantOf(h)
		g.Adopted = true
		return g, nil
	}
	until := time.Now().Add(betweenSteps)
	for next := 2 * time.Millisecond; ; next = min(2*next, 50*time.Millisecond) {
		lock, held, err := u.dir.Acquire(ctx, filelock.Request{
			Namespace: c.Namespace, Lock: c.Lock, Mode: c.LockMode, Owner: c.Owner, Job: c.Job, VersionLabel: c.VersionLabel,
		})
		switch {
		case err != nil:
			return onerun.Grant{}, unavailable(ctx, err)
		case held == nil:
			return u.begin(ctx, c, lock)
		case settled(held) || time.Now().After(until):
			return onerun.Grant{}, u.refuseHeld(c, held)
		}
		if err := pause(ctx, next); err != nil {
			return onerun.Grant{}, err
		}
	}
}

// refuseHeld refuses a claim whose lock somebody holds.
func (u *Unclaimed) refuseHeld(c onerun.Claim, h *filelock.Held) error {
	k := knowing(h)
	if n := h.Note; n != nil && n.Unclaimed && c.Partition != "" {
		if spool, w, err := u.dir.OpenSpool(c.Namespace, c.Lock, n.Owner); err == nil && spool != nil {
			spool.Close()
			if u.sameKey(w, c) {
				return refuse(c, onerun.RefusedRunning, holderOf(w, h.Evidence))
			}
		}
	}
	return refuseKnowing(c, k)
}

func refuse(c onerun.Claim, reason onerun.Reason, holder onerun.Holder) *onerun.Refusal {
	return &onerun.Refusal{Reason: reason, Namespace: c.Namespace, Job: c.Job, Key: c.Key(), Lock: c.Lock, Holder: holder, At: time.Now()}
}

func refuseKnowing(c onerun.Claim, k onerun.HostKnowledge) *onerun.Refusal {
	reason := onerun.RefusedLocked
	if k.HeldStale {
		reason = onerun.RefusedStale
	}
	return refuse(c, reason, *k.Held)
}

// begin decides with the lock in hand, which is freed unless the claim is granted.
func (u *Unclaimed) begin(ctx context.Context, c onerun.Claim, lock *filelock.Lock) (g onerun.Grant, err error) {
	h := &filelock.Holding{Lock: lock, Mode: c.LockMode, Lease: onerun.Lease{Namespace: c.Namespace, Lock: c.Lock, Owner: c.Owner, RunID: c.RunID, Attempt: 1}}
	defer func() {
		if err == nil {
			return
		}
		if h.Spool != nil {
			_ = h.Spool.Remove()
		}
		_ = lock.Release()
	}()
	run := filelock.Unclaimed{Store: u.name, Claim: c, StartedAt: time.Now().Round(time.Millisecond), Worker: filelock.ThisWorker(c.WorkerLabel)}
	if run.Proven, err = u.admit(ctx, c, lock); err != nil {
		return g, err
	}
	u.hook("spool the run")
	if h.Spool, err = lock.Spool(run); err != nil {
		return g, err
	}
	h.Spooled = h.Spool.Of(run)
	u.hook("mark the spool")
	if err = u.dir.SetSpooled(); err != nil {
		return g, err
	}
	note := filelock.Note{
		State: filelock.StateStarting, VersionLabel: c.VersionLabel, RunID: c.RunID, Attempt: h.Lease.Attempt, Unclaimed: true, StartedAt: run.StartedAt, Ledger: u.name,
	}
	if c.InProcess {
		note.State = filelock.StateInProcess
		if err = h.Spool.Begin(); err != nil {
			return g, err
		}
	}
	u.hook("note the start without a claim")
	if err = lock.Write(note); err != nil {
		return g, err
	}
	u.Hold(h)
	u.hook("begun without a claim")
	return grantOf(h), nil
}

// grantOf is the grant of a run without a claim.
func grantOf(h *filelock.Holding) onerun.Grant {
	r := h.Spooled.Run
	return onerun.Grant{Lease: h.Lease, At: r.StartedAt, LockPath: h.Lock.Path, Run: runOf(h.Spooled)}
}

// runOf describes a run without a claim as one.
func runOf(w filelock.Spooled) onerun.Run {
	u, c := w.Run, w.Run.Claim
	r := onerun.Run{
		RunID: c.RunID, Namespace: c.Namespace, Job: c.Job, Partition: c.Partition, BusinessDate: c.BusinessDate, Lock: c.Lock,
		Status: onerun.Running, Attempt: 1, ScheduledAt: c.ScheduledAt, VersionLabel: c.VersionLabel, Labels: c.Labels,
		Execution: onerun.Execution{
			Owner: c.Owner, Token: c.Granted, Worker: u.Worker, StartedAt: u.StartedAt, StaleAfter: c.StaleAfter,
			OnCrash: cmp.Or(c.OnCrash, onerun.CrashAuto), TwoPeople: c.TwoPeople,
		},
	}
	if u.Claimed() {
		r.RunID, r.Attempt = u.RunID, u.Attempt
	}
	if out := w.Outcome; out != nil {
		r.Status, r.Reason, r.FinishedAt = out.Status, out.Reason, out.FinishedAt
	}
	return r
}

// holderOf describes a run without a claim as the one that stands in the way.
func holderOf(w filelock.Spooled, evidence string) onerun.Holder {
	h := runOf(w).Holder()
	h.Detail = join("it runs without a claim", evidence)
	switch {
	case w.Run.Claimed():
		h.Detail = join("it ran on this host, and its end waits to be recorded: onerun flush", evidence)
	case w.Outcome != nil:
		h.Detail = join("it ran without a claim on this host, and waits to be recorded: onerun flush", evidence)
	}
	return h
}

// admit says whether a run may begin without a claim, by what this host knows. It gives the
// earlier owners that the lock file proves dead.
func (u *Unclaimed) admit(ctx context.Context, c onerun.Claim, lock *filelock.Lock) ([]filelock.Proven, error) {
	n, v := lock.Previous, lock.Verdict
	if err := u.admitKey(ctx, c, lock); err != nil || n == nil {
		return nil, err
	}
	if len(endsOf(n, lock.Left)) > 0 {
		return nil, u.unknown(lock, "holds the end of an earlier run")
	}
	proven := slices.Clone(n.Proven)
	if n.Outcome == nil {
		p, dead := deadOwner(n, v)
		switch {
		case !dead:
			return nil, refuseKnowing(c, onerun.HostKnowledge{Held: ptr(held(lock.Path, n, v.Evidence)), HeldStale: v.Liveness != onerun.Alive})
		case !n.Unclaimed:
			proven = append(proven, p)
		}
	}
	for _, p := range proven {
		switch {
		case p.Void:
		case p.Manual:
			return nil, refuse(c, onerun.RefusedStale, onerun.Holder{Name: lock.Path, Detail: "it names an owner of policy manual whose worker died: " + p.Evidence})
		case c.Partition != "": // it may have been of this key
			return nil, u.unknown(lock, "names an owner whose worker died in the middle")
		}
	}
	return proven, nil
}

func ptr[T any](v T) *T { return &v }

// unknown is why a run doesn't begin without a claim: only the store could say whether it may.
func (u *Unclaimed) unknown(lock *filelock.Lock, what string) error {
	return &onerun.StoreError{
		Kind: onerun.ErrUnavailable, What: "lock file", Path: lock.Path,
		Err: errors.New("it " + what + ", of which the store has to be told first, so that this start can't run without it"),
		Do:  "when the store can be reached again, any start on this host tells it, or: onerun flush",
	}
}

// admitKey looks at the runs that wait here to be delivered.
func (u *Unclaimed) admitKey(ctx context.Context, c onerun.Claim, lock *filelock.Lock) error {
	all, err := u.concerning(c, lock)
	if err != nil {
		return err
	}
	for i := range all {
		w := &all[i]
		same := u.sameKey(*w, c)
		at, err := u.conclude(ctx, w, c, same, lock)
		switch {
		case err != nil:
			return err
		case at != nil && same && !at.HeldStale:
			return refuse(c, onerun.RefusedRunning, *at.Held)
		case at != nil:
			return refuseKnowing(c, *at)
		case !same || w.Outcome == nil || w.Outcome.Void:
			continue
		case w.Run.Claimed() && w.Outcome.Status == onerun.Failed: // only the store knows whether a retry is due
			return u.unknown(lock, "is of a key whose last run failed here")
		}
		return refuse(c, refusalFor(w.Outcome.Status), holderOf(*w, ""))
	}
	return nil
}

// refusalFor is why a key is refused that has ended so.
func refusalFor(s onerun.Status) onerun.Reason {
	switch s {
	case onerun.Succeeded:
		return onerun.RefusedSucceeded
	case onerun.Skipped:
		return onerun.RefusedSkipped
	}
	return onerun.RefusedFailed
}
