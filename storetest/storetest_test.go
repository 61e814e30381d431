package storetest_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
	"github.com/onerun-dev/onerun/storetest"
)

// clock is a store's clock that a test moves. It is far from the real one, so that
// a store which asks the wrong one is seen.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock {
	return &clock{now: time.Date(2031, 3, 30, 0, 59, 0, 0, time.UTC)}
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// inMemory is a store in memory, good or with a seeded bug.
func inMemory(rules memory.Rules, disguise func(onerun.Store) onerun.Store) storetest.Harness {
	c := newClock()
	store := onerun.Store(memory.New(memory.WithNow(c.Now), memory.WithRules(rules)))
	if disguise != nil {
		store = disguise(store)
	}
	return storetest.Harness{
		Open:      func(context.Context) (onerun.Store, error) { return store, nil },
		Leases:    true,
		Advance:   c.Advance,
		InProcess: true,
		Hosts:     true,
	}
}

func TestMemory(t *testing.T) {
	storetest.Run(t, inMemory(memory.Rules{}, nil))
}

// A store whose clock can't be moved is waited for. In a bubble of synctest waiting
// takes no time.
func TestMemoryThatIsWaitedFor(t *testing.T) {
	open := func(context.Context) (onerun.Store, error) { return memory.New(), nil }
	for i := range storetest.Cases(storetest.Harness{Open: open, Leases: true, InProcess: true}) {
		synctest.Test(t, func(t *testing.T) {
			store := memory.New()
			c := storetest.Cases(storetest.Harness{
				Open:      func(context.Context) (onerun.Store, error) { return store, nil },
				Leases:    true,
				InProcess: true,
				Hosts:     true,
			})[i]
			if err := c.Run(t.Context()); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		})
	}
}

// A harness that leaves something out must not pass.
func TestHarness(t *testing.T) {
	open := func(context.Context) (onerun.Store, error) { return memory.New(), nil }
	for what, h := range map[string]storetest.Harness{
		"nothing":                           {},
		"neither processes nor a word":      {Open: open, Leases: true},
		"processes and none":                {Open: open, Leases: true, InProcess: true, Command: storetest.Self},
		"holders that can't be made to die": {Open: open, InProcess: true},
		"places in no line":                 {Open: open, Leases: true, InProcess: true, Turns: true},
	} {
		cases := storetest.Cases(h)
		if len(cases) != 1 {
			t.Errorf("harness with %s: expected one case, got %d", what, len(cases))
			continue
		}
		if err := cases[0].Run(t.Context()); err == nil {
			t.Errorf("harness with %s: expected an error, got none", what)
		}
	}
}
