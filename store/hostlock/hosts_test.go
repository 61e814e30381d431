package hostlock_test

import (
	"context"
	"os"
	"sync"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/hostlock"
)

// hosts is a client of the store, and each acquisition of it on a host of its own.
type hosts struct {
	onerun.Store // on one more
	onerun.UnclaimedKeeper
	on func() (*hostlock.Store, error)

	mu    sync.Mutex
	hosts map[string]*hostlock.Store // by owner id
}

func newHosts(url, dir string, hook func(step string)) (*hosts, error) {
	remote, err := openRemote(url, hook)
	if err != nil {
		return nil, err
	}
	h := &hosts{UnclaimedKeeper: remote, hosts: map[string]*hostlock.Store{}}
	h.on = func() (*hostlock.Store, error) {
		own, err := os.MkdirTemp(dir, "host")
		if err != nil {
			return nil, err
		}
		return hostlock.Open(remote, own, hostlock.Options{Hook: hook})
	}
	s, err := h.on()
	h.Store = s
	return h, err
}

// of is the host of an acquisition.
func (h *hosts) of(owner string) (*hostlock.Store, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.hosts[owner]; s != nil {
		return s, nil
	}
	s, err := h.on()
	h.hosts[owner] = s
	return s, err
}

func (h *hosts) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	s, err := h.of(c.Owner)
	if err != nil {
		return onerun.Grant{}, err
	}
	return s.Claim(ctx, c)
}

func (h *hosts) ClaimWaiting(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	s, err := h.of(c.Owner)
	if err != nil {
		return onerun.Grant{}, err
	}
	return s.ClaimWaiting(ctx, c)
}

func (h *hosts) Heartbeat(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
	s, err := h.of(l.Owner)
	if err != nil {
		return onerun.Beat{}, err
	}
	return s.Heartbeat(ctx, l)
}

func (h *hosts) Report(ctx context.Context, l onerun.Lease, p onerun.Progress) error {
	s, err := h.of(l.Owner)
	if err != nil {
		return err
	}
	return s.Report(ctx, l, p)
}

func (h *hosts) Finish(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
	s, err := h.of(l.Owner)
	if err != nil {
		return err
	}
	return s.Finish(ctx, l, o)
}
