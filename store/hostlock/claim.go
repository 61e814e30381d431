package hostlock

import (
	"context"
	"errors"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// betweenSteps is for how long a lock file that is held is looked at again while its holder
// is between two steps: long enough for a claim on a store that is not slow.
const betweenSteps = 2 * time.Second

// Claim implements onerun.Claimer.
func (s *Store) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	if c.Namespace == "" || c.Lock == "" || c.Owner == "" { // malformed: the store says how
		return s.Remote.Claim(ctx, c)
	}
	var delivered []onerun.Delivery
	if c.Job != "" {
		delivered = s.deliverWaiting(ctx)
	}
	g, err := s.take(ctx, c)
	var refused *onerun.Refusal
	if errors.As(err, &refused) {
		refused.Delivered = append(delivered, refused.Delivered...)
	}
	g.Delivered = append(delivered, g.Delivered...)
	return g, err
}

// take takes the lock file and claims, or claims without a prospect, for the record, while
// somebody has the file.
func (s *Store) take(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	until := time.Now().Add(betweenSteps)
	for next := 2 * time.Millisecond; ; next = min(2*next, 50*time.Millisecond) {
		if h := s.Holding(c.Owner); h != nil { // this process has won it already
			g, err := s.Remote.Claim(ctx, c)
			g.LockPath = h.Lock.Path
			return g, err
		}
		lock, held, err := s.dir.Acquire(ctx, filelock.Request{
			Namespace: c.Namespace, Lock: c.Lock, Mode: c.LockMode, Owner: c.Owner, Job: c.Job, VersionLabel: c.VersionLabel,
		})
		switch {
		case err != nil:
			return onerun.Grant{}, unavailable(ctx, err)
		case held == nil:
			return s.claimHolding(ctx, c, lock)
		case held.Unreadable || settled(held) && held.Note.Owner != c.Owner || time.Now().After(until):
			return s.Remote.ClaimKnowing(ctx, c, knowing(held))
		}
		if err := pause(ctx, next); err != nil {
			return onerun.Grant{}, err
		}
	}
}

// settled reports whether the holder of a lock file is at work, and not between two steps.
func settled(h *filelock.Held) bool {
	return h.Note != nil && granted(h.Note) && h.Note.Outcome == nil
}

// granted reports whether a note is of an owner that may execute, and not of one that only asks.
func granted(n *filelock.Note) bool { return n.Token != 0 || n.Unclaimed }

func knowing(h *filelock.Held) onerun.HostKnowledge {
	holder := h.Holder()
	if holder.Name == "" {
		holder.Name = h.Path
	}
	k := onerun.HostKnowledge{Held: &holder, HeldStale: h.Unreadable || h.Liveness == onerun.Unknown}
	if h.Note != nil {
		k.HeldOwner = h.Note.Owner
	}
	return k
}

func unavailable(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return &onerun.StoreError{Kind: onerun.ErrUnavailable, What: "wait for the lock", Err: ctx.Err()}
	}
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return unavailable(ctx, ctx.Err())
	}
}

// claimHolding claims with the lock file in hand, which is freed unless the claim is granted.
func (s *Store) claimHolding(ctx context.Context, c onerun.Claim, lock *filelock.Lock) (g onerun.Grant, err error) {
	kept := false
	defer func() {
		if !kept {
			_ = lock.Release()
		}
	}()
	seen, err := s.settle(ctx, c, lock)
	if err != nil {
		return onerun.Grant{}, err
	}
	note := filelock.Note{State: filelock.StateStarting, VersionLabel: c.VersionLabel, RunID: c.RunID, Proven: seen.proven, Manual: c.OnCrash == onerun.CrashManual, Ledger: s.name}
	if seen.Held == nil { // it may be granted: make known who asks
		s.hook("note the asking")
		if err := lock.Write(note); err != nil {
			return onerun.Grant{}, err
		}
	}
	s.hook("claim")
	g, err = s.Remote.ClaimKnowing(ctx, c, seen.HostKnowledge)
	if refused := refusalOf(err); refused != nil && refused.Reason != onerun.RefusedLocked {
		if dead := s.deadElsewhere(ctx, c, refused); dead != nil {
			seen.Dead = append(seen.Dead, *dead)
			g, err = s.Remote.ClaimKnowing(ctx, c, seen.HostKnowledge)
		}
	}
	if refused := refusalOf(err); refused != nil {
		if seen.Held == nil {
			s.hook("take the asking back")
			takeBack(lock, seen)
		}
		refused.Delivered = append(seen.delivered, refused.Delivered...)
		return onerun.Grant{}, err
	}
	if err != nil { // it may be granted: the note tells whoever comes next by whom
		return onerun.Grant{}, err
	}
	s.hook("note the grant")
	note.Proven = nil
	note.RunID, note.Attempt, note.Token, note.StartedAt = g.Lease.RunID, g.Lease.Attempt, g.Lease.Token, g.At
	if c.InProcess {
		note.State = filelock.StateInProcess
	}
	if err := lock.Write(note); err != nil {
		s.giveBack(ctx, g.Lease, err)
		return onerun.Grant{}, err
	}
	kept = true
	s.Hold(&filelock.Holding{Lock: lock, Lease: g.Lease, Mode: c.LockMode, Granted: s.granted(c, g)})
	s.hook("claimed")
	g.LockPath = lock.Path
	g.Delivered = append(seen.delivered, g.Delivered...)
	return g, nil
}

// takeBack undoes the note of who asked, and was refused. What the note before it proves is
// still needed: a person may have to decide about a dead owner.
func takeBack(lock *filelock.Lock, seen seen) {
	if seen.spent {
		_ = lock.Clear() // a note that stays says only that a dead process asked
		return
	}
	_ = lock.Restore() // else the note of who asked carries the proof on
}

func refusalOf(err error) *onerun.Refusal {
	var r *onerun.Refusal
	if errors.As(err, &r) {
		return r
	}
	return nil
}

// giveBack ends a granted attempt that can't be started, because there is no room for its
// note.
func (s *Store) giveBack(ctx context.Context, l onerun.Lease, why error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = s.Remote.Finish(ctx, l, onerun.Outcome{ // else the lease runs out
		Status: onerun.Failed, Reason: onerun.ReasonCanceled, Void: true, Error: onerun.CutError("the job was not started: " + why.Error()),
	})
}
