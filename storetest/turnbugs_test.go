package storetest_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
	"github.com/onerun-dev/onerun/storetest"
)

// places keeps the places of those who wait, on a store that keeps no order; or keeps them
// badly.
type places struct {
	onerun.Store
	hasty     bool // nobody waits
	forgets   bool // a place is had for as long as somebody asks
	stays     bool // … and after it was given up
	outlives  bool // … and after the grant
	eternal   bool // … and whoever is silent
	strict    bool // who asks for no order stands in line too
	lineFirst bool // the line comes before the claim table
	blind     bool // Explain doesn't see the line

	mu   sync.Mutex
	line []place
}

type place struct {
	owner string
	heard time.Time
}

// How long they are, here.
const (
	placeSilence = 2 * time.Second
	placeWhile   = 100 * time.Millisecond
)

// alive are those whose place counts. The caller has the lock.
func (p *places) alive() []place {
	p.line = slices.DeleteFunc(p.line, func(x place) bool { return !p.eternal && time.Since(x.heard) > placeSilence })
	return p.line
}

func (p *places) queued() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.alive())
}

func (p *places) stand(owner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.alive() {
		if p.line[i].owner == owner {
			p.line[i].heard = time.Now()
			return
		}
	}
	p.line = append(p.line, place{owner, time.Now()})
}

func (p *places) leave(owner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line = slices.DeleteFunc(p.line, func(x place) bool { return x.owner == owner })
}

// behind refuses who is not the first of those who wait.
func (p *places) behind(c onerun.Claim) *onerun.Refusal {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.Order != onerun.OrderFIFO && !p.strict {
		return nil
	}
	line := p.alive()
	if len(line) == 0 || line[0].owner == c.Owner {
		return nil
	}
	return &onerun.Refusal{
		Reason: onerun.RefusedLocked, Namespace: c.Namespace, Job: c.Job, Key: c.Key(), Lock: c.Lock, At: time.Now(),
		Holder: onerun.Holder{Name: "the line", Detail: "a start waits before this one"},
	}
}

func (p *places) Explain(ctx context.Context, c onerun.Claim) (*onerun.Refusal, error) {
	ref := p.behind(c)
	if c.Order = onerun.OrderAny; ref != nil && p.lineFirst {
		return ref, nil
	}
	if first, err := p.Store.Explain(ctx, c); err != nil || first != nil || ref == nil || p.blind {
		return first, err
	}
	return ref, nil
}

func (p *places) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	behind := p.behind(c)
	order := c.Order
	c.Order = onerun.OrderAny
	if behind != nil {
		ref, err := p.Store.Explain(ctx, c)
		if err != nil {
			return onerun.Grant{}, err
		}
		if ref == nil || p.lineFirst {
			return onerun.Grant{}, behind
		}
	}
	g, err := p.Store.Claim(ctx, c)
	if err == nil && order == onerun.OrderFIFO && !p.outlives {
		p.leave(c.Owner)
	}
	return g, err
}

func (p *places) AwaitTurn(ctx context.Context, c onerun.Claim) error {
	if p.forgets {
		defer p.leave(c.Owner)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(placeWhile); ; {
		if c.Order == onerun.OrderFIFO {
			p.stand(c.Owner)
		}
		ref, err := p.Explain(ctx, c)
		if err != nil || ref == nil || p.hasty || time.Now().After(end) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return &onerun.StoreError{Kind: onerun.ErrUnavailable, What: "wait", Err: ctx.Err()}
		}
	}
}

func (p *places) LeaveLine(_ context.Context, c onerun.Claim) error {
	if !p.stays {
		p.leave(c.Owner)
	}
	return nil
}

// TestTurns: the cases about places pass on a store that keeps them, and notice one that
// keeps them badly.
func TestTurns(t *testing.T) {
	for what, c := range map[string]struct {
		store  *places
		caught string
	}{
		"kept":                       {&places{}, ""},
		"nobody waits":               {&places{hasty: true}, "turns/when the lock comes free"},
		"forgotten":                  {&places{forgets: true}, "turns/at once where nobody is in the way"},
		"not given up":               {&places{stays: true}, "turns/a place that is given up"},
		"not spent":                  {&places{outlives: true}, "turns/at once where nobody is in the way"},
		"of the dead":                {&places{eternal: true}, "turns/a place is lost by silence"},
		"before everybody":           {&places{strict: true}, "turns/in the order of the places"},
		"before the table":           {&places{lineFirst: true}, "turns/the table comes first"},
		"not foretold":               {&places{blind: true}, "turns/in the order of the places"},
		"lost with the wait for one": {&places{forgets: true}, "turns/who gives up keeps its place until it says so"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			cases := storetest.Cases(storetest.Harness{
				Open: func(context.Context) (onerun.Store, error) { return c.store, nil }, Leases: true, InProcess: true, Turns: true,
				Queued: func(context.Context, string, onerun.LockName) (int, error) { return c.store.queued(), nil },
			})
			for _, x := range cases {
				if !strings.HasPrefix(x.Name, "turns/") || c.caught != "" && x.Name != c.caught {
					continue
				}
				c.store.Store, c.store.line = memory.New(), nil
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // that somebody stays is seen in the end
				defer cancel()
				switch err := x.Run(ctx); {
				case c.caught == "" && err != nil:
					t.Errorf("%s: %v", x.Name, err)
				case c.caught != "" && (err == nil || !strings.Contains(err.Error(), "expected")):
					t.Errorf("case %q: %v", c.caught, err)
				}
			}
		})
	}
}
