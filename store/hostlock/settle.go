package hostlock

import (
	"context"
	"errors"
	"slices"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// seen is what a start knows when it has read the lock file that it holds.
type seen struct {
	onerun.HostKnowledge
	delivered []onerun.Delivery
	spent     bool              // the note that was found proves nothing that the store doesn't know
	proven    []filelock.Proven // what has to stand in the note that takes the place of the one that was read
}

// prove adds an owner whose work is over.
func (s *seen) prove(p filelock.Proven) {
	s.proven = append(s.proven, p)
	s.Dead = append(s.Dead, onerun.DeadOwner{Owner: p.Owner, Void: p.Void, Evidence: p.Evidence})
}

// settle delivers the ends that a lock file holds, and judges the owner that it names. An
// error means that the store could not be told what it has to know first.
func (s *Store) settle(ctx context.Context, c onerun.Claim, lock *filelock.Lock) (seen, error) {
	out, err := s.settleUnclaimed(ctx, c, lock)
	if err != nil || out.Held != nil {
		return out, err
	}
	n := lock.Previous
	if n == nil {
		out.spent = true
		return out, nil
	}
	for _, p := range n.Proven {
		out.prove(p)
	}
	if n.Owner == c.Owner { // this claim, before its reply was lost
		out.spent = len(out.Dead) == 0
		return out, nil
	}
	for _, l := range endsOf(n, lock.Left) {
		d, err := s.deliver(ctx, c.Namespace, c.Lock, l)
		if errors.Is(err, onerun.ErrLost) && s.wrote(n) {
			d, err = s.deliverForgotten(ctx, c.Namespace, c.Lock, l)
		}
		switch {
		case errors.Is(err, onerun.ErrLost): // it must not be written over
			h := held(lock.Path, n, "the lock file holds the end of run "+l.RunID+" of another store, which doesn't have it yet: start that job once on its own store, or type onerun flush with that --store, or delete the file")
			return seen{HostKnowledge: onerun.HostKnowledge{Held: &h, HeldStale: true}, delivered: out.delivered}, nil
		case err != nil:
			return seen{}, err
		case d.Kind != onerun.DeliveredBefore:
			out.delivered = append(out.delivered, d)
		}
	}
	v := lock.Verdict
	p, dead := deadOwner(n, v)
	switch {
	case n.Outcome != nil && n.RunID == "": // a lock alone, whose store could not be told
		out.prove(filelock.Proven{Owner: n.Owner, Evidence: evidenceEnded})
		return out, nil
	case n.Outcome != nil, dead && n.Unclaimed: // which no store calls an owner
		out.spent = true
		return out, nil
	case dead:
		out.prove(p)
		return out, nil
	}
	if v.Liveness != onerun.Alive && s.closed(ctx, n) { // a person has decided
		out.spent = true
		return out, nil
	}
	h := held(lock.Path, n, v.Evidence)
	out.Held, out.HeldOwner, out.HeldStale = &h, n.Owner, v.Liveness != onerun.Alive
	return out, nil
}

// wrote reports whether a note is of an owner of this store, and not of another one whose locks
// are in the same directory.
func (s *Store) wrote(n *filelock.Note) bool { return s.name != "" && n.Ledger == s.name }

// deadOwner is the owner that a note names, if its work is over.
func deadOwner(n *filelock.Note, v filelock.Verdict) (p filelock.Proven, dead bool) {
	p = filelock.Proven{Owner: n.Owner, Void: v.Void, Manual: n.Manual, Evidence: v.Evidence}
	if !granted(n) { // it was asking, and holds the lock no more: it never began
		p.Void, p.Evidence = true, "its start ended before the claim was answered; "+v.Evidence
		return p, true
	}
	return p, v.Liveness == onerun.Dead
}

// closed reports whether the store doesn't call the attempt of a note RUNNING any more: then
// nobody has to be proven dead.
func (s *Store) closed(ctx context.Context, n *filelock.Note) bool {
	if n.RunID == "" || n.Unclaimed {
		return false
	}
	d, err := s.Remote.Detail(ctx, n.Namespace, n.RunID)
	if err != nil {
		return errors.Is(err, onerun.ErrNotFound) && s.wrote(n)
	}
	for _, a := range d.Attempts {
		if a.Number == n.Attempt && a.Owner == n.Owner {
			return a.Status != onerun.Running
		}
	}
	return false
}

// held describes whoever a lock file names.
func held(path string, n *filelock.Note, evidence string) onerun.Holder {
	h := filelock.Held{Path: path, Note: n, Evidence: evidence}.Holder()
	if h.Name == "" {
		h.Name = path
	}
	return h
}

// endsOf are the ends of runs that a lock file holds. That of a run without a claim isn't among
// them: it stands in the spool.
func endsOf(n *filelock.Note, left *filelock.Left) (ends []filelock.Left) {
	if n != nil && n.Outcome != nil && n.RunID != "" && !n.Unclaimed {
		ends = append(ends, filelock.Left{Owner: n.Owner, RunID: n.RunID, Attempt: n.Attempt, Token: n.Token, Outcome: *n.Outcome})
	}
	if left == nil && n != nil {
		left = n.Left
	}
	if left != nil && left.RunID != "" {
		ends = append(ends, *left)
	}
	return ends
}

// deadElsewhere looks for proof that a key's owner, which runs under another lock, is dead:
// whoever refused the claim stands in another lock file of this host.
func (s *Store) deadElsewhere(ctx context.Context, c onerun.Claim, refused *onerun.Refusal) *onerun.DeadOwner {
	if refused.Reason != onerun.RefusedRunning && refused.Reason != onerun.RefusedStale {
		return nil
	}
	r, elsewhere := s.underAnother(ctx, c, refused)
	if !elsewhere {
		return nil
	}
	// Who starts under that lock meanwhile finds it held, so it is taken only for the proof of
	// what a look has shown.
	if st, err := s.dir.Look(r.Namespace, r.Lock); err != nil || st.Held || provenDead(st.Note, nil, st.Verdict, r.Owner) == nil {
		return nil
	}
	lock, other, err := s.dir.Acquire(ctx, filelock.Request{Namespace: r.Namespace, Lock: r.Lock, Owner: onerun.NewID(), Job: r.Job})
	if err != nil || other != nil {
		return nil
	}
	defer func() { _ = lock.Release() }()
	for _, l := range endsOf(lock.Previous, lock.Left) {
		if l.Owner == r.Owner {
			if _, err := s.deliver(ctx, r.Namespace, r.Lock, l); err != nil {
				return nil
			}
		}
	}
	return provenDead(lock.Previous, lock.Left, lock.Verdict, r.Owner)
}

// provenDead is an owner whose work a lock file that nobody holds proves over; nil: it doesn't.
func provenDead(n *filelock.Note, left *filelock.Left, v filelock.Verdict, owner string) *onerun.DeadOwner {
	if n == nil {
		return nil
	}
	for _, l := range endsOf(n, left) {
		if l.Owner == owner {
			return &onerun.DeadOwner{Owner: owner, Evidence: evidenceEnded}
		}
	}
	proven := n.Proven
	if p, dead := deadOwner(n, v); dead {
		proven = append(slices.Clone(proven), p)
	}
	for _, p := range proven {
		if p.Owner == owner {
			return &onerun.DeadOwner{Owner: owner, Void: p.Void, Evidence: p.Evidence}
		}
	}
	return nil
}

// underAnother finds the run that refused a claim, if it holds another lock than the claim's.
func (s *Store) underAnother(ctx context.Context, c onerun.Claim, refused *onerun.Refusal) (onerun.Run, bool) {
	runs, err := s.Remote.Runs(ctx, onerun.Query{Namespace: c.Namespace, RunID: refused.Holder.RunID})
	if err != nil || len(runs) != 1 || runs[0].Lock == c.Lock || runs[0].Status != onerun.Running {
		return onerun.Run{}, false
	}
	return runs[0], true
}
