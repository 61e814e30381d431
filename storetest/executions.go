package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/onerun-dev/onerun"
)

// executions are the grants of many clients, in their order: each is written down while
// its lock is held.
type executions struct {
	mu     sync.Mutex
	grants []onerun.Lease
	names  []string
}

// execute lives a claim, if it is granted.
func (e *executions) execute(t *trial, s onerun.Store, c onerun.Claim) error {
	g, err := s.Claim(t.ctx, again(c))
	var ref *onerun.Refusal
	if errors.As(err, &ref) {
		switch ref.Reason {
		case onerun.RefusedSucceeded, onerun.RefusedRunning, onerun.RefusedLocked:
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("claim %s: expected to be granted, or refused succeeded, running or locked, got %s", c.Key(), said(err))
	}
	e.mu.Lock()
	e.grants, e.names = append(e.grants, g.Lease), append(e.names, c.Key())
	e.mu.Unlock()
	if err := s.Finish(context.WithoutCancel(t.ctx), g.Lease, succeeded); err != nil {
		return fmt.Errorf("finish %s: expected success, got: %w", c.Key(), err)
	}
	return nil
}

// last closes done when the last of several clients is through.
func (e *executions) last(left *int64, done chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if *left--; *left == 0 {
		close(done)
	}
}

// check looks at each key's executions, of which the second was approved, and at the
// tokens of each lock.
func (e *executions) check(t *trial, keys int) {
	attempts, tokens := map[string]int{}, map[onerun.LockName]int64{}
	for i, l := range e.grants {
		attempts[e.names[i]]++
		equal(t, l.Attempt, attempts[e.names[i]], "attempt of execution %d of %s", attempts[e.names[i]], e.names[i])
		if l.Token <= tokens[l.Lock] {
			t.failf("token under %s: expected more than %d, got %d", l.Lock, tokens[l.Lock], l.Token)
		}
		tokens[l.Lock] = l.Token
	}
	equal(t, len(attempts), keys, "keys that were executed")
	for name, n := range attempts {
		equal(t, n, 2, "executions of %s, the second one approved", name)
	}
}
