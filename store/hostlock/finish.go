package hostlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// Heartbeat implements onerun.Claimer: of whoever holds the lock here.
func (s *Store) Heartbeat(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
	if _, err := s.Mine(l); err != nil {
		return onerun.Beat{}, err
	}
	return s.Remote.Heartbeat(ctx, l)
}

// Stop implements onerun.Operator. An owner on this host hears of it within a second.
func (s *Store) Stop(ctx context.Context, q onerun.StopRequest) error {
	runs, err := s.Runs(ctx, onerun.Query{Namespace: q.Namespace, RunID: q.RunID})
	if err != nil {
		return err
	}
	known := len(runs) == 1 && runs[0].Status == onerun.Running && onerun.Expected(runs[0]) == q.Expect
	if known && runs[0].Liveness == onerun.Dead {
		return onerun.StopAllowed(runs[0], true)
	}
	if err := s.Remote.Stop(ctx, q); err != nil || !known || !here(runs[0].Worker) {
		return err // the next heartbeat tells it
	}
	r := runs[0]
	if st, err := s.dir.Peek(r.Namespace, r.Lock); err == nil && st.Held && st.Note != nil && st.Note.Owner == r.Owner {
		_ = s.dir.RequestStop(r.Namespace, r.Lock, r.Owner, q.By+": "+q.Reason)
	}
	return nil
}

// slowRecord is how long an end may take to be recorded before others are told that one
// waits: this process may be killed meanwhile.
const slowRecord = 100 * time.Millisecond

// Finish implements onerun.Claimer. The end goes to the lock file, in room that was taken
// before the job started, and to the disk while the store is asked; it is cleared when the
// store has it. Whatever fails or dies in between, the next claim on this host finds it.
func (s *Store) Finish(ctx context.Context, l onerun.Lease, out onerun.Outcome) error {
	h := s.Holding(l.Owner)
	if h != nil && h.Lease != l {
		return fmt.Errorf("%w: this process holds another lease", onerun.ErrLost)
	}
	notes := h != nil && l.RunID != "" // a lock alone has no end to be kept
	synced := make(chan error, 1)
	if notes {
		s.hook("note the outcome")
		if err := h.Lock.SetOutcome(filelock.NewOutcome(out)); err != nil { // matters only if the store fails too
			synced <- err
		} else {
			go func() { synced <- h.Lock.Sync() }()
		}
	} else {
		synced <- nil
	}
	s.hook("record the outcome")
	slow := time.AfterFunc(slowRecord, func() {
		if notes {
			s.dir.SetWaiting()
		}
	})
	err := s.Remote.Finish(ctx, l, out)
	slow.Stop()
	noted := <-synced
	switch {
	case err == nil, l.RunID == "" && errors.Is(err, onerun.ErrLost):
		s.hook("clear the note")
		if h != nil {
			s.letGo(h)
		}
		return err
	case errors.Is(err, onerun.ErrUsage), errors.Is(err, onerun.ErrLost): // to be delivered, then
		return err
	}
	if notes {
		s.dir.SetWaiting()
		s.keep(h, out)
	}
	return errors.Join(err, noted)
}

// Deliver implements onerun.Claimer. By the owner itself, whose lease was lost, it ends what
// Finish could not: the note is cleared, and the lock freed. A store that doesn't know the run
// any more is told by the next start, or a flush: of the end alone, should it know the run again by
// then, else of all of it.
func (s *Store) Deliver(ctx context.Context, l onerun.Lease, out onerun.Outcome) (onerun.Delivery, error) {
	d, err := s.Remote.Deliver(ctx, l, out)
	h := s.Holding(l.Owner)
	switch {
	case h == nil || h.Lease != l:
	case err == nil:
		s.letGo(h)
	case errors.Is(err, onerun.ErrLost):
		s.keep(h, out)
		s.Free(h)
	default:
		s.dir.SetWaiting()
		s.keep(h, out)
	}
	return d, err
}
