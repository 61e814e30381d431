package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// pollMax is how often the first in line asks again, at least, when what it waits for is
// nothing that the kernel would wake it for: a file of mode create, a dead owner's job.
const pollMax = time.Second

// claimInLine is ClaimWaiting for who wants to be served in the order of coming. The place
// in line is given back when the claim is written down: who is next waits for the lock by
// then.
func (s *Store) claimInLine(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	place, err := s.queue(ctx, c)
	if err != nil {
		return onerun.Grant{}, err
	}
	defer func() { place.Leave() }()
	c.Asking = true // it is here that it is asked again
	for next := 2 * time.Millisecond; ; next = min(2*next, pollMax) {
		g, err := s.claimFree(ctx, c, place)
		var refused *onerun.Refusal
		if !errors.As(err, &refused) || refused.Reason != onerun.RefusedRunning && refused.Reason != onerun.RefusedLocked {
			return g, err
		}
		if s.elsewhere(ctx, c, refused) { // so it is not this lock that it waits for, and others may
			place.Leave()
		}
		if err := pause(ctx, next); err != nil {
			return onerun.Grant{}, err
		}
		if place.Left() {
			again, err := s.queue(ctx, c)
			if err != nil {
				return onerun.Grant{}, err
			}
			place = again
		}
	}
}

// queue takes a place in line.
func (s *Store) queue(ctx context.Context, c onerun.Claim) (*filelock.Place, error) {
	place, err := s.dir.Queue(ctx, c.Namespace, c.Lock)
	if err != nil && ctx.Err() != nil {
		err = &onerun.StoreError{Kind: onerun.ErrUnavailable, What: "wait for the lock", Err: ctx.Err()}
	}
	return place, err
}

// elsewhere reports whether a claim was refused because its key runs under another lock.
func (s *Store) elsewhere(ctx context.Context, c onerun.Claim, refused *onerun.Refusal) bool {
	if refused.Reason != onerun.RefusedRunning {
		return false
	}
	runs, err := s.Runs(ctx, onerun.Query{Namespace: c.Namespace, RunID: refused.Holder.RunID})
	return err == nil && len(runs) == 1 && runs[0].Lock != c.Lock
}
