package hostlock

import (
	"context"
	"errors"
	"time"

	"github.com/onerun-dev/onerun"
)

// How often who waits asks again, at first and at least, when the store calls free what is held
// on this host.
const (
	pollMin = 2 * time.Millisecond
	pollMax = time.Second
)

// ClaimWaiting implements onerun.WaitingClaimer. The lock file isn't held while it waits:
// whoever is waited for must be found dead by others too, and starts that don't wait are to
// be told of the real holder.
func (s *Store) ClaimWaiting(ctx context.Context, c onerun.Claim) (g onerun.Grant, err error) {
	line, ok := s.Remote.(onerun.LineWaiter)
	if !ok {
		return s.Claim(ctx, c)
	}
	if c.Order == onerun.OrderFIFO {
		defer func() {
			if errors.Is(err, onerun.ErrUnavailable) && ctx.Err() == nil { // its caller asks again, and has kept its place if that is soon
				return
			}
			leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = line.LeaveLine(leave, c) // else it is lost by our silence
		}()
	}
	c.Asking = true // it is here that it is asked again
	for next := pollMin; ; {
		g, err = s.Claim(ctx, c)
		var refused *onerun.Refusal
		if !errors.As(err, &refused) || refused.Reason != onerun.RefusedRunning && refused.Reason != onerun.RefusedLocked {
			return g, err
		}
		began := time.Now()
		if err = line.AwaitTurn(ctx, c); err != nil {
			return onerun.Grant{}, err
		}
		if time.Since(began) > pollMax/10 { // there was something to wait for in the store
			next = pollMin
			continue
		}
		if err = pause(ctx, next); err != nil {
			return onerun.Grant{}, err
		}
		next = min(2*next, pollMax)
	}
}
