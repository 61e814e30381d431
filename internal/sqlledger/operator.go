package sqlledger

import (
	"context"
	"fmt"

	"github.com/onerun-dev/onerun"
)

// OperatorsChain is the one chain of what people decided; a run's own events have a
// chain each, so that machines never queue for one chain's end.
const OperatorsChain = "operator"

// RunCloser is a transaction in which a run is closed as a person decided.
type RunCloser interface {
	Journal
	// Again is the error of a transaction whose run has changed meanwhile.
	Again() error
	// ResolveRun closes a run, if it is as r says; false: it isn't.
	ResolveRun(r onerun.Run, as onerun.Status, reason onerun.Reason) (bool, error)
	// ResolveAttempt closes the run's attempt, if it is RUNNING; false: it isn't.
	ResolveAttempt(r onerun.Run, as onerun.Status, reason onerun.Reason) (bool, error)
	// FreeLock frees a lock, if it is still that owner's.
	FreeLock(namespace string, lock onerun.LockName, owner string) error
	// RunByID reads a run that is known to be there.
	RunByID(runID string) (onerun.Run, error)
}

// CloseAs closes a run as decided. A decision is final: no retry follows from it. failed is the
// reason where that is FAILED.
func CloseAs(t RunCloser, r onerun.Run, as onerun.Status, failed onerun.Reason) (onerun.Run, error) {
	reason := onerun.Reason("")
	if as == onerun.Failed {
		reason = failed
	}
	done, err := t.ResolveRun(r, as, reason)
	if err == nil && !done {
		err = t.Again()
	}
	if err == nil && r.Status == onerun.Running {
		done, err = t.ResolveAttempt(r, as, reason)
		if err == nil && !done {
			err = t.Again()
		}
		if err == nil {
			err = t.FreeLock(r.Namespace, r.Lock, r.Owner)
		}
	}
	if err != nil {
		return onerun.Run{}, err
	}
	return t.RunByID(r.RunID)
}

// Resolver is a transaction in which a run is resolved.
type Resolver interface {
	RunCloser
	Runs
	// MakeSkipped makes the run that was cancelled in advance; false: somebody was faster.
	MakeSkipped(runID string, q onerun.Resolution) (bool, error)
}

// Resolve closes a run as a person decided, or cancels it in advance.
func Resolve[T Resolver](ctx context.Context, write Transact[T], q onerun.Resolution) (run onerun.Run, err error) {
	err = write(ctx, "resolve", func(t T) (err error) {
		id := q.RunID
		if id == "" {
			if id, err = t.RunIDOf(q.Namespace, onerun.MakeKey(q.Job, q.Partition)); err != nil {
				return err
			}
		}
		r, err := t.InHand(q.Namespace, id)
		if err != nil {
			return err
		}
		if r == nil {
			run, err = cancelInAdvance(t, q)
			return err
		}
		was := r.Seen()
		if err := Expect(was, q.Expect); err != nil {
			return err
		}
		if err := onerun.ResolveAllowed(&was, q.As, r.Status == onerun.Running && (r.Expires != nil && r.Over() || was.Owner != "" && was.Owner == q.OwnerDead)); err != nil {
			return err
		}
		if run, err = CloseAs(t, was, q.As, onerun.ReasonLeaseExpired); err != nil {
			return err
		}
		return t.Event(Resolved(q, was.Status), run)
	})
	return run, err
}

// Expect refuses to decide about a run that isn't what its operator saw.
func Expect(r onerun.Run, x onerun.Expect) error {
	if onerun.Expected(r) != x {
		return Changed(r)
	}
	return nil
}

// Resolved is the event of a run that was closed.
func Resolved(q onerun.Resolution, was onerun.Status) onerun.Event {
	return decision(onerun.EventResolved, q.Who, fmt.Sprintf("%s to %s", was, q.As))
}

// CancelledInAdvance is the event of a run that was cancelled before there was one.
func CancelledInAdvance(q onerun.Resolution) onerun.Event {
	return decision(onerun.EventResolved, q.Who, "cancelled in advance")
}

// CancelAllowed reports whether a run may be cancelled of which the store has nothing.
func CancelAllowed(q onerun.Resolution) error {
	if err := onerun.ResolveAllowed(nil, q.As, false); err != nil {
		return err
	}
	if q.Expect.Status != "" || q.RunID != "" || q.Partition == "" {
		return &onerun.StateError{Why: "the run is gone"}
	}
	return nil
}

func cancelInAdvance(t Resolver, q onerun.Resolution) (onerun.Run, error) {
	if err := buried(t, q); err != nil {
		return onerun.Run{}, err
	}
	if err := CancelAllowed(q); err != nil {
		return onerun.Run{}, err
	}
	id := onerun.NewRunID(t.Now())
	made, err := t.MakeSkipped(id, q)
	if err == nil && !made { // somebody was faster: look again
		err = t.Again()
	}
	if err == nil {
		err = buried(t, q)
	}
	if err != nil {
		return onerun.Run{}, err
	}
	run, err := t.RunByID(id)
	if err != nil {
		return onerun.Run{}, err
	}
	return run, t.Event(CancelledInAdvance(q), run)
}

// buried refuses to resolve what was pruned.
func buried(t Runs, q onerun.Resolution) error {
	tomb, err := t.TombstoneOf(q.Namespace, onerun.MakeKey(q.Job, q.Partition), q.RunID)
	if err == nil && tomb != nil {
		err = onerun.ResolveAllowed(tomb, q.As, false)
	}
	return err
}

// Stopper is a transaction in which a run is asked to stop.
type Stopper interface {
	Shared
	Runs
	// AskToStop tells the owner of a run at its next heartbeat; false: it owns the lock no more.
	AskToStop(r onerun.Run, words string) (bool, error)
}

// Stop asks a run to stop.
func Stop[T Stopper](ctx context.Context, write Transact[T], q onerun.StopRequest) error {
	return write(ctx, "stop", func(t T) error {
		r, err := t.InHand(q.Namespace, q.RunID)
		if err != nil {
			return err
		}
		if r == nil {
			return fmt.Errorf("run %s: %w", q.RunID, onerun.ErrNotFound)
		}
		run := r.Seen()
		if err := Expect(run, q.Expect); err != nil {
			return err
		}
		if err := onerun.StopAllowed(run, run.Status == onerun.Running && r.Over()); err != nil {
			return err
		}
		done, err := t.AskToStop(run, q.By+": "+q.Reason)
		if err == nil && !done {
			err = t.Again()
		}
		if err != nil {
			return err
		}
		return t.Event(StopRequested(q), run)
	})
}

// StopRequested is the event of a run that was asked to stop.
func StopRequested(q onerun.StopRequest) onerun.Event {
	return decision(onerun.EventStopRequested, q.Who, "")
}

// Pauser is a transaction in which a job is paused, or resumed.
type Pauser interface {
	Journal
	// Pause pauses a job; false: it is paused already.
	Pause(q onerun.PauseRequest) (bool, error)
	// PausedBy tells by whom a paused job was paused, and why.
	PausedBy(q onerun.PauseRequest) (by, reason string, err error)
	// Resume ends that; false: the job isn't paused.
	Resume(q onerun.PauseRequest) (bool, error)
}

// Pause pauses a job.
func Pause[T Pauser](ctx context.Context, write Transact[T], q onerun.PauseRequest) error {
	return write(ctx, "pause", func(t T) error {
		done, err := t.Pause(q)
		if err == nil && !done {
			err = pausedAlready(t, q)
		}
		if err != nil {
			return err
		}
		return t.Event(decision(onerun.EventPaused, q.Who, ""), onerun.Run{Namespace: q.Namespace, Job: q.Job})
	})
}

// pausedAlready says who has paused a job.
func pausedAlready(t Pauser, q onerun.PauseRequest) error {
	by, reason, err := t.PausedBy(q)
	if err != nil {
		return err
	}
	return &onerun.StateError{Why: fmt.Sprintf("%s is paused already, by %s: %s", q.Job, by, reason)}
}

// Resume ends the pause of a job.
func Resume[T Pauser](ctx context.Context, write Transact[T], q onerun.PauseRequest) error {
	return write(ctx, "resume", func(t T) error {
		done, err := t.Resume(q)
		if err == nil && !done {
			err = &onerun.StateError{Why: q.Job + " is not paused"}
		}
		if err != nil {
			return err
		}
		return t.Event(decision(onerun.EventResumed, q.Who, ""), onerun.Run{Namespace: q.Namespace, Job: q.Job})
	})
}

// RecordUnlock writes down that somebody unlocked a lock file.
func RecordUnlock[T Journal](ctx context.Context, write Transact[T], u onerun.UnlockRequest) error {
	return write(ctx, "record the unlocking", func(t T) error {
		return t.Event(decision(onerun.EventUnlocked, u.Who, string(u.Lock)), onerun.Run{Namespace: u.Namespace, Job: u.Lock.Name()})
	})
}
