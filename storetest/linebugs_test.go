package storetest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
	"github.com/onerun-dev/onerun/storetest"
)

func lineBugs() []bug {
	return []bug{
		{name: "an order is promised, and not kept", caught: "line/first come, first served", disguise: func(s onerun.Store) onerun.Store { return disorderly{s} }},
	}
}

// disorderly takes no notice of what it can't do.
type disorderly struct{ onerun.Store }

func (d disorderly) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	c.Order = onerun.OrderAny
	return d.Store.Claim(ctx, c)
}

func (d disorderly) Explain(ctx context.Context, c onerun.Claim) (*onerun.Refusal, error) {
	c.Order = onerun.OrderAny
	return d.Store.Explain(ctx, c)
}

// orderly keeps the order of those who wait, in this process, on a store that keeps none;
// or keeps it badly.
type orderly struct {
	onerun.Store
	last   bool // who came last is served first
	barges bool // who doesn't wait is served before those who do
	stays  bool // who gives up stays in line

	mu   sync.Mutex
	line []string // owners
	late chan struct{}
}

func (o *orderly) queued() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.line)
}

func (o *orderly) turn(owner string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last {
		return o.line[len(o.line)-1] == owner
	}
	return o.line[0] == owner
}

func (o *orderly) ClaimWaiting(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	o.mu.Lock()
	o.line = append(o.line, c.Owner)
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if ctx.Err() == nil || !o.stays {
			o.line = slices.DeleteFunc(o.line, func(s string) bool { return s == c.Owner })
		}
	}()
	if o.barges {
		select {
		case <-o.late:
		case <-ctx.Done():
		}
	}
	c.Order = onerun.OrderAny
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if o.turn(c.Owner) {
			g, err := o.Store.Claim(ctx, c)
			if ref := new(onerun.Refusal); !errors.As(err, &ref) || ref.Reason != onerun.RefusedLocked {
				return g, err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return onerun.Grant{}, &onerun.StoreError{Kind: onerun.ErrUnavailable, What: "wait", Err: ctx.Err()}
		}
	}
}

func (o *orderly) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	if c.Order == onerun.OrderAny {
		return o.Store.Claim(ctx, c)
	}
	c.Order = onerun.OrderAny
	if ref := o.behind(c); ref != nil && !o.barges {
		return onerun.Grant{}, ref
	}
	g, err := o.Store.Claim(ctx, c)
	if err == nil && o.barges && g.Run.Job == "hasty" {
		close(o.late)
	}
	return g, err
}

func (o *orderly) Explain(ctx context.Context, c onerun.Claim) (*onerun.Refusal, error) {
	c.Order = onerun.OrderAny
	if ref := o.behind(c); ref != nil {
		return ref, nil
	}
	return o.Store.Explain(ctx, c)
}

// behind refuses who doesn't wait while others do.
func (o *orderly) behind(c onerun.Claim) *onerun.Refusal {
	if o.queued() == 0 {
		return nil
	}
	return &onerun.Refusal{Reason: onerun.RefusedLocked, Namespace: c.Namespace, Job: c.Job, Key: c.Key(), Lock: c.Lock, At: time.Now()}
}

// TestLines: the cases about an order pass on a store that keeps it, and notice one that
// keeps it badly.
func TestLines(t *testing.T) {
	for what, c := range map[string]struct {
		store  *orderly
		caught string
	}{
		"kept":              {&orderly{}, ""},
		"last come":         {&orderly{last: true}, "line/first come, first served"},
		"served in passing": {&orderly{barges: true}, "line/first come, first served"},
		"left standing":     {&orderly{stays: true}, "line/nobody is left standing"},
	} {
		t.Run(what, func(t *testing.T) {
			c.store.Store, c.store.late = memory.New(), make(chan struct{})
			cases := storetest.Cases(storetest.Harness{
				Open: func(context.Context) (onerun.Store, error) { return c.store, nil }, Leases: true, InProcess: true,
				Queued: func(context.Context, string, onerun.LockName) (int, error) { return c.store.queued(), nil },
			})
			if c.caught != "" {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // that nobody leaves is seen in the end
				defer cancel()
				i := slices.IndexFunc(cases, func(x storetest.Case) bool { return x.Name == c.caught })
				if err := cases[i].Run(ctx); err == nil || !strings.Contains(err.Error(), "expected") {
					t.Errorf("case %q: %v", c.caught, err)
				}
				return
			}
			for _, x := range cases {
				if !strings.HasPrefix(x.Name, "line/") {
					continue
				}
				if err := x.Run(t.Context()); err != nil {
					t.Errorf("%s: %v", x.Name, err)
				}
			}
		})
	}
}
