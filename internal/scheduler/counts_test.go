package scheduler

import (
	"strings"
	"sync"
)

// counts are calls by name.
type counts struct {
	mu   sync.Mutex
	n    map[string]int
	away bool
}

// add counts a call, and reports whether the store is away.
func (c *counts) add(call string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[call]++
	return c.away
}

func (c *counts) set(away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = away
}

func (c *counts) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n = nil
}

func (c *counts) read(prefix string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for call, times := range c.n {
		if strings.HasPrefix(call, prefix) {
			n += times
		}
	}
	return n
}
