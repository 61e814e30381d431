package jobapi

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/onerun-dev/onerun"
)

// retryEvery is how often ends that the store didn't take are tried again, and for how long each.
const retryEvery = time.Second

// ends are the ends of items that the store didn't take: it has no room, say, or is busy. What was
// done was done, so they are tried again as long as the job runs.
type ends struct {
	mu     sync.Mutex
	kept   []onerun.ItemEnd
	timer  *time.Timer
	closed bool
}

func (e *ends) keep(s onerun.Store, end onerun.ItemEnd) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.kept = append(e.kept, end)
	if e.timer == nil && !e.closed {
		e.timer = time.AfterFunc(retryEvery, func() { e.retry(s) })
	}
}

func (e *ends) retry(s onerun.Store) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), retryEvery)
	defer cancel()
	e.kept = Record(ctx, s, e.kept)
	e.timer = nil
	if len(e.kept) > 0 {
		e.timer = time.AfterFunc(retryEvery, func() { e.retry(s) })
	}
}

// settle tries again if the end of this item is among them: whoever begins it has to know that.
// It reports whether none is left of it.
func (e *ends) settle(ctx context.Context, s onerun.Store, name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	of := func(end onerun.ItemEnd) bool { return end.Name == name }
	if !slices.ContainsFunc(e.kept, of) {
		return true
	}
	e.kept = Record(ctx, s, e.kept)
	return !slices.ContainsFunc(e.kept, of)
}

// close ends the trying, and gives what is left.
func (e *ends) close() []onerun.ItemEnd {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	if e.timer != nil {
		e.timer.Stop()
	}
	return e.kept
}

// Record tries to record the ends of items, in their order, and gives those that it couldn't.
// One that others have decided about meanwhile is done with.
func Record(ctx context.Context, s onerun.Store, kept []onerun.ItemEnd) []onerun.ItemEnd {
	for i, end := range kept {
		if err := s.EndItem(ctx, end); err != nil && !errors.Is(err, onerun.ErrLost) {
			return kept[i:]
		}
	}
	return nil
}
