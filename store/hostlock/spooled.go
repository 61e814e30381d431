package hostlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// What was executed without a claim waits in a file of its own (see package filelock), whatever
// becomes of the lock meanwhile. It is delivered by its owner, by a claim on this host, or by a
// flush, with the store's own answer to what it is to be; twice changes nothing. A run that has a
// claim, and whose end could not be recorded at once, has such a file too, since the store may have
// forgotten the claim by then: see forgotten.go.

// ours reports whether a run waits for this store, and not for another one whose locks are in
// the same directory.
func (s *Store) ours(w filelock.Spooled) bool { return w.Err == nil && w.Run.Store == s.name }

// sameKey reports whether a run that waits is of the key that a claim is for.
func (s *Store) sameKey(w filelock.Spooled, c onerun.Claim) bool {
	o := w.Run.Claim
	return s.ours(w) && c.Partition != "" && o.Namespace == c.Namespace && o.Key() == c.Key()
}

// concerning are the runs without a claim that a claim may have to do with, whose lock is in
// hand: for a key every one that waits here, else the last one under the lock.
func (s *Store) concerning(c onerun.Claim, lock *filelock.Lock) ([]filelock.Spooled, error) {
	n := lock.Previous
	named := n != nil && n.Unclaimed
	switch {
	case c.Partition != "" && (named || s.dir.Waiting() != s.dir.DeliveredUntil()):
		return s.dir.Spooled()
	case !named:
		return nil, nil
	}
	spool, w, err := s.dir.OpenSpool(c.Namespace, c.Lock, n.Owner)
	if spool == nil || err != nil {
		return nil, err
	}
	spool.Close()
	return []filelock.Spooled{w}, nil
}

// conclude finds out what became of a run without a claim, as far as a claim has to know: one
// of the same key, or under the claim's own lock, which is in hand. The end of one whose owner
// is gone is written down before anybody takes the note's place that proves it. It returns who
// is still at work, if somebody is.
func (s *Store) conclude(ctx context.Context, w *filelock.Spooled, c onerun.Claim, same bool, lock *filelock.Lock) (*onerun.HostKnowledge, error) {
	here := w.Base == filelock.FileName(c.Namespace, c.Lock)
	switch {
	case here && w.Err != nil: // it could be of this key
		return nil, w.Err
	case w.Outcome != nil || !here && !same:
		return nil, nil
	case here:
		return s.settleSpooled(w, lock)
	}
	o := w.Run.Claim
	other, busy, err := s.dir.Acquire(ctx, filelock.Request{Namespace: o.Namespace, Lock: o.Lock, Owner: onerun.NewID(), Job: o.Job})
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	if busy != nil {
		return &onerun.HostKnowledge{Held: ptr(holderOf(*w, busy.Evidence)), HeldOwner: w.Owner, HeldStale: busy.Unreadable || busy.Liveness == onerun.Unknown}, nil
	}
	defer func() { _ = other.Release() }()
	return s.settleSpooled(w, other)
}

// settleSpooled judges a run whose end isn't known by its lock, which is in hand, and writes its
// end to the spool.
func (s *Store) settleSpooled(w *filelock.Spooled, lock *filelock.Lock) (*onerun.HostKnowledge, error) {
	n, v := lock.Previous, lock.Verdict
	owner := ""
	if n != nil {
		owner = n.Owner
	}
	out := onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonOwnerDied, FinishedAt: time.Now().Round(time.Millisecond)}
	switch {
	case owner == w.Owner && n.Outcome != nil:
		out = n.Outcome.Outcome()
	case owner == w.Owner && v.Liveness != onerun.Dead:
		return &onerun.HostKnowledge{Held: ptr(holderOf(*w, v.Evidence)), HeldOwner: w.Owner, HeldStale: v.Liveness != onerun.Alive}, nil
	case owner == w.Owner && v.Void, !w.Begun && w.SameBoot():
		out.Void, out.Error = true, diedOf(true, "")
	case owner == w.Owner:
		out.Error = diedOf(false, v.Evidence)
	default: // another store's start has used the lock since, and found nothing alive
		out.Error = diedOf(false, "its lock file doesn't name it any more")
	}
	spool, now, err := s.dir.Spool(*w)
	if err != nil || spool == nil { // nil: it was delivered meanwhile
		return nil, err
	}
	defer spool.Close()
	if now.Outcome == nil {
		s.hook("spool the end of a dead owner")
		if err := spool.End(out); err != nil {
			return nil, err
		}
		now.Outcome = &out
	}
	w.Outcome = now.Outcome
	if owner == w.Owner {
		_ = lock.Clear() // a note that stays says what the spool says
	}
	return nil, nil
}

// settleUnclaimed is the part of settle that is about runs without a claim: those that the claim
// is about are delivered. An error means that the store could not be told of them.
func (s *Store) settleUnclaimed(ctx context.Context, c onerun.Claim, lock *filelock.Lock) (out seen, err error) {
	all, err := s.concerning(c, lock)
	if err != nil {
		return out, err
	}
	for i := range all {
		w := &all[i]
		same := s.sameKey(*w, c)
		at, err := s.conclude(ctx, w, c, same, lock)
		if err != nil {
			return out, err
		}
		if at != nil {
			out.HostKnowledge = *at
			return out, nil
		}
		if !same || w.Outcome == nil {
			continue
		}
		d, err := s.deliverSpooled(ctx, *w)
		if err != nil {
			return out, err
		}
		if d.Kind != onerun.DeliveredBefore {
			out.delivered = append(out.delivered, d)
		}
	}
	return out, nil
}

// deliverSpooled delivers a run whose end is known, and removes its file.
func (s *Store) deliverSpooled(ctx context.Context, w filelock.Spooled) (onerun.Delivery, error) {
	deliver := s.deliverUnclaimed
	if w.Run.Claimed() {
		deliver = s.deliverClaimed
	}
	d, err := deliver(ctx, w)
	if err != nil {
		return d, err
	}
	s.hook("remove the spool file")
	if spool, _, err := s.dir.Spool(w); err == nil && spool != nil {
		_ = spool.Remove() // a file that stays is delivered again, which changes nothing
	}
	return d, nil
}

func (s *Store) deliverUnclaimed(ctx context.Context, w filelock.Spooled) (onerun.Delivery, error) {
	keeper, ok := onerun.Ability[onerun.UnclaimedKeeper](s.Remote)
	if !ok {
		return onerun.Delivery{}, &onerun.StoreError{Kind: onerun.ErrConfig, What: "store", Err: errors.New("it can't keep runs without a claim")}
	}
	if err := s.closeProven(ctx, w.Run); err != nil {
		return onerun.Delivery{}, err
	}
	d, err := keeper.DeliverUnclaimed(ctx, w.Run.Claim, w.Run.StartedAt, *w.Outcome)
	d.Unclaimed, d.Forgotten = !w.Run.Claimed(), w.Run.Claimed()
	return d, err
}

// closeProven tells the store of the earlier owners that the run's lock file proved dead: one of
// them may have been granted the key, and nobody got the answer.
func (s *Store) closeProven(ctx context.Context, u filelock.Unclaimed) error {
	if len(u.Proven) == 0 {
		return nil
	}
	runs, err := s.Remote.Runs(ctx, onerun.Query{Namespace: u.Claim.Namespace, Job: u.Claim.Job, Statuses: []onerun.Status{onerun.Running}})
	if err != nil {
		return err
	}
	for _, r := range runs {
		i := slices.IndexFunc(u.Proven, func(p filelock.Proven) bool { return p.Owner == r.Owner })
		if i < 0 || !u.Proven[i].Void && r.OnCrash == onerun.CrashManual {
			continue
		}
		out := onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonOwnerDied, Void: u.Proven[i].Void, Error: diedOf(u.Proven[i].Void, u.Proven[i].Evidence)}
		lease := onerun.Lease{Namespace: r.Namespace, Lock: r.Lock, RunID: r.RunID, Attempt: r.Attempt, Owner: r.Owner, Token: r.Token}
		if _, err := s.Remote.Deliver(ctx, lease, out); err != nil && !errors.Is(err, onerun.ErrLost) {
			return err
		}
	}
	return nil
}

// diedOf is what an attempt says whose owner died.
func diedOf(void bool, evidence string) string {
	if void {
		return "the worker died before the job was started"
	}
	return onerun.CutError("the worker died: " + evidence)
}

// flushUnclaimed delivers the runs that wait for this store, without all only as long as it can be
// reached. left says that some still wait, for whatever store, or are still at work.
func (s *Store) flushUnclaimed(ctx context.Context, all bool) (done []onerun.Delivery, left bool, err error) {
	waiting, err := s.dir.Spooled()
	if err != nil {
		return nil, true, err
	}
	var away error // the store can't be reached
	for _, w := range waiting {
		if away != nil && !all {
			break
		}
		d := onerun.Delivery{Run: runOf(w), Unclaimed: !w.Run.Claimed(), Err: w.Err}
		d.Attempt = d.Run.Attempt
		switch {
		case w.Err != nil:
			d.Run.Job = w.Path
		case !s.ours(w):
			left = true
			continue
		default:
			ended, err := s.endedWithout(ctx, &w)
			if err == nil && !ended {
				left = true
				continue
			}
			if d.Err = err; err == nil {
				d.Outcome, d.Err = *w.Outcome, away
			}
		}
		if d.Err == nil {
			sent, err := s.deliverAlone(ctx, w)
			if err == nil {
				d = sent
			}
			if d.Err = err; errors.Is(err, onerun.ErrUnavailable) {
				away = err
			}
		}
		if d.Err != nil { // the store knows of no such run so far
			left, d.Run.Status = true, ""
		}
		done = append(done, d)
	}
	return done, left, nil
}

// endedWithout reports whether the end of a run is known, or can be found out since its owner
// is gone. One whose owner lives is left to that.
func (s *Store) endedWithout(ctx context.Context, w *filelock.Spooled) (bool, error) {
	o := w.Run.Claim
	if w.Outcome != nil {
		st, err := s.dir.Peek(o.Namespace, o.Lock)
		tries := err == nil && st.Held && st.Note != nil && st.Note.Owner == w.Owner
		return !tries, err
	}
	lock, busy, err := s.dir.Acquire(ctx, filelock.Request{Namespace: o.Namespace, Lock: o.Lock, Owner: onerun.NewID(), Job: o.Job})
	if err != nil || busy != nil {
		return false, unavailable(ctx, err)
	}
	defer func() { _ = lock.Release() }()
	_, err = s.settleSpooled(w, lock)
	return w.Outcome != nil, err
}

// spooledUnclaimed lists the runs that wait, for whatever store.
func (s *Store) spooledUnclaimed() ([]onerun.Spooled, error) {
	all, err := s.dir.Spooled()
	var out []onerun.Spooled
	for _, w := range all {
		if w.Err != nil || w.Outcome == nil {
			continue
		}
		r := runOf(w)
		sp := onerun.Spooled{Namespace: r.Namespace, RunID: r.RunID, Attempt: r.Attempt, Job: r.Job, Path: w.Path, Outcome: *w.Outcome, Unclaimed: !w.Run.Claimed()}
		if !s.ours(w) {
			sp.Store = w.Run.Store
		}
		out = append(out, sp)
	}
	return out, err
}

// foresee is the answer to a claim when what waits here of its key has been delivered first, as
// the claim does; refused is the answer as long as it isn't.
func (s *Store) foresee(ctx context.Context, c onerun.Claim, refused *onerun.Refusal) (*onerun.Refusal, error) {
	if refused != nil && (refused.Reason == onerun.RefusedRunning || refused.Reason == onerun.RefusedSucceeded || refused.Reason == onerun.RefusedSkipped) {
		return refused, nil
	}
	all, err := s.dir.Spooled()
	for _, w := range all {
		if s.sameKey(w, c) && w.Outcome != nil && !w.Outcome.Void && !s.judgedAsDead(ctx, w) {
			return refuse(c, refusalFor(w.Outcome.Status), holderOf(w, "")), err
		}
	}
	return refused, err
}

// unclaimedLocks are the locks that runs without a claim hold, of which the remote store knows
// nothing. Where this account can't look, none are listed.
func (s *Store) unclaimedLocks(namespace string) (locks []onerun.LockState) {
	all, _ := s.dir.Spooled()
	for _, w := range all {
		c := w.Run.Claim
		if !s.ours(w) || w.Run.Claimed() || c.Namespace != namespace {
			continue
		}
		st, err := s.dir.Peek(c.Namespace, c.Lock)
		if err != nil || !st.Held || st.Note == nil || st.Note.Owner != w.Owner {
			continue
		}
		locks = append(locks, onerun.LockState{
			Namespace: namespace, Lock: c.Lock, Path: st.Path, Mode: st.Mode, Holder: holderOf(w, st.Verdict.Evidence),
			Liveness: st.Verdict.Liveness, Evidence: join("it runs without a claim", st.Verdict.Evidence),
		})
	}
	return locks
}
