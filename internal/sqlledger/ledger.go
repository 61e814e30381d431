package sqlledger

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
)

// DetailReader is a transaction that all is read in that is kept of a run.
type DetailReader interface {
	// RunIn reads a run with what is found out about it; nil: there is none.
	RunIn(namespace, runID string) (*onerun.Run, error)
	// TombstoneOf reads the tombstone of a run; nil: there is none.
	TombstoneOf(namespace, key, runID string) (*onerun.Run, error)
	// Attempts reads the attempts of a run in their order.
	Attempts(runID string) ([]onerun.Attempt, error)
	// Approvals reads the approvals of a run, oldest first.
	Approvals(runID string) ([]onerun.Approval, error)
	// EventsOf reads the events of a run, oldest first.
	EventsOf(runID string) ([]onerun.Event, error)
	// Skips reads the refusals of a key, or of an unkeyed job, oldest first.
	Skips(namespace, job, key string) ([]onerun.Skip, error)
}

// Detail reads all that is kept of a run.
func Detail[T DetailReader](ctx context.Context, read Transact[T], namespace, runID string) (d onerun.Detail, err error) {
	err = read(ctx, "read a run", func(t T) error {
		run, err := t.RunIn(namespace, runID)
		if err != nil {
			return err
		}
		if run == nil {
			tomb, err := t.TombstoneOf(namespace, "", runID)
			if err == nil && tomb == nil {
				err = fmt.Errorf("run %s: %w", runID, onerun.ErrNotFound)
			}
			if err != nil {
				return err
			}
			d = onerun.Detail{Run: *tomb}
			d.Events, err = t.EventsOf(runID) // what people decided is never pruned
			return err
		}
		d = onerun.Detail{Run: *run}
		if d.Attempts, err = t.Attempts(runID); err != nil {
			return err
		}
		if d.Approvals, err = t.Approvals(runID); err != nil {
			return err
		}
		if d.Events, err = t.EventsOf(runID); err != nil {
			return err
		}
		d.Skips, err = t.Skips(namespace, run.Job, run.Key())
		if run.Partition == "" {
			d.Skips = slices.DeleteFunc(d.Skips, func(k onerun.Skip) bool { return k.Holder != run.Holder().ID() })
		}
		return err
	})
	return d, err
}

// LockReader is a transaction that the locks of a store on a server are read in.
type LockReader interface {
	Journal
	// HeldOf reads the locks that have an owner: all, where none are named.
	HeldOf(namespace string, locks ...onerun.LockName) ([]*LockRow, error)
	// Running reads the runs that are RUNNING.
	Running(namespace string) ([]*RunRow, error)
}

// Locks reads the locks that have an owner.
func Locks[T LockReader](ctx context.Context, read Transact[T], namespace string) (locks []onerun.LockState, err error) {
	err = read(ctx, "read the locks", func(t T) error {
		locks = nil
		held, err := t.HeldOf(namespace)
		if err != nil {
			return err
		}
		found, err := t.Running(namespace)
		if err != nil {
			return err
		}
		running := map[string]*RunRow{}
		for _, r := range found {
			running[r.RunID] = r
		}
		for _, l := range held {
			state := onerun.LockState{
				Namespace: namespace, Lock: onerun.LockName(l.Name), Token: l.Token, Holder: l.Holder(), Liveness: onerun.Unknown,
				Evidence: "its lease runs until " + FromMicros(l.Expires).Format(time.RFC3339),
			}
			if l.Over(t.Now()) {
				state.Evidence = "its lease ran out at " + FromMicros(l.Expires).Format(time.RFC3339)
			}
			if r := running[l.RunID]; r != nil {
				run := r.Seen()
				state.Run, state.Holder, state.Liveness, state.Evidence = &run, run.Holder(), run.Liveness, run.Evidence
			}
			locks = append(locks, state)
		}
		return nil
	})
	return locks, err
}
