package hostlock

import (
	"context"
	"errors"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// A store can forget a claim that it has granted: a restored backup, a failover that lost it,
// an emptied server. The job has run all the same, so its end is not to be dropped. The note in the
// lock file can't tell of which key it is, so an end that isn't recorded at once is spooled with
// all of the claim, and delivered as that of a run without a claim is, should the store know
// nothing of it: the store decides what it is to be in one step, whoever has claimed the key since.
//
//	noted      the end stands in the note, and the store is told. Death: delivered from the note; of
//	           a store that has forgotten the run, too, nothing is left to tell it of which key.
//	spooled    the end stands in both. Death: delivered from the spool, first as the end of the
//	           attempt that was granted, then, if the store knows no such attempt and no tombstone
//	           of it, as that of a run without a claim.
//	delivered  the spool goes, then the note. Death in between: the end is delivered from the note,
//	           which changes nothing.

// granted is what the store would have to be told of a run that it grants now.
func (s *Store) granted(c onerun.Claim, g onerun.Grant) *filelock.Unclaimed {
	if c.Job == "" || s.name == "" { // a lock alone has no end; a store without a name finds nothing again
		return nil
	}
	u := &filelock.Unclaimed{Store: s.name, Claim: c, StartedAt: g.At, Worker: filelock.ThisWorker(c.WorkerLabel), RunID: g.Lease.RunID, Attempt: g.Lease.Attempt}
	u.Claim.Granted = g.Lease.Token
	if u.Attempt == 1 {
		u.Claim.RunID = u.RunID
	}
	return u
}

// keep spools a run whose end could not be recorded. Without room for that, the note is all there is.
func (s *Store) keep(h *filelock.Holding, out onerun.Outcome) {
	if h.Granted == nil || h.Kept {
		return
	}
	s.hook("spool the claim with its end")
	if h.Lock.SpoolEnd(*h.Granted, out) == nil {
		h.Kept = true
		_ = s.dir.SetSpooled() // else the next start under the same lock finds it
	}
}

// deliverClaimed delivers the end of a run that had a claim, as what it is, or, if the store has
// forgotten that, as one without a claim. What the store has removed itself it knows about.
func (s *Store) deliverClaimed(ctx context.Context, w filelock.Spooled) (onerun.Delivery, error) {
	l := w.Run.Lease()
	d, err := s.Remote.Deliver(ctx, l, *w.Outcome)
	if !errors.Is(err, onerun.ErrLost) {
		return d, err
	}
	known, err := s.Remote.Runs(ctx, onerun.Query{Namespace: l.Namespace, RunID: l.RunID})
	if err != nil {
		return onerun.Delivery{}, err
	}
	if len(known) == 1 && !known[0].Pruned.IsZero() {
		return onerun.Delivery{Kind: onerun.DeliveredBefore, Attempt: l.Attempt, Outcome: *w.Outcome, Run: known[0]}, nil
	}
	return s.deliverUnclaimed(ctx, w)
}

// deliverForgotten delivers an end from a lock file that is in hand, of a run that the store
// doesn't know any more. Where nothing but the note is left of it, it can't.
func (s *Store) deliverForgotten(ctx context.Context, namespace string, lock onerun.LockName, l filelock.Left) (onerun.Delivery, error) {
	before := onerun.Delivery{Kind: onerun.DeliveredBefore}
	spool, w, err := s.dir.OpenSpool(namespace, lock, l.Owner)
	if spool == nil || err != nil {
		return before, err
	}
	spool.Close()
	if !s.ours(w) || w.Outcome == nil {
		return before, nil
	}
	return s.deliverSpooled(ctx, w)
}

// deliverAlone delivers a run from its spool file, with the lock in hand if it is free, to clear
// the end from its note as well. What isn't cleared is found again, and known to be recorded.
func (s *Store) deliverAlone(ctx context.Context, w filelock.Spooled) (onerun.Delivery, error) {
	if !w.Run.Claimed() { // its note holds no end
		return s.deliverSpooled(ctx, w)
	}
	o := w.Run.Claim
	lock, busy, err := s.dir.Acquire(ctx, filelock.Request{Namespace: o.Namespace, Lock: o.Lock, Owner: onerun.NewID(), Job: o.Job})
	if err != nil {
		return onerun.Delivery{}, unavailable(ctx, err)
	}
	d, err := s.deliverSpooled(ctx, w)
	if busy != nil {
		return d, err
	}
	if ends := endsOf(lock.Previous, lock.Left); err == nil && len(ends) == 1 && ends[0].Owner == w.Owner {
		_ = lock.Clear()
	}
	return d, errors.Join(err, lock.Release())
}

// judgedAsDead reports whether a run that waits has failed, and is known to the store: then what
// its key may do next is told by how the store judges a dead owner.
func (s *Store) judgedAsDead(ctx context.Context, w filelock.Spooled) bool {
	if !w.Run.Claimed() || w.Outcome.Status != onerun.Failed {
		return false
	}
	l := w.Run.Lease()
	known, err := s.Remote.Runs(ctx, onerun.Query{Namespace: l.Namespace, RunID: l.RunID})
	return err == nil && len(known) == 1 && known[0].Attempt >= l.Attempt
}
