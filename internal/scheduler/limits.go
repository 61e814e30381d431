package scheduler

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// limits say how many starts may be under way at once: in all, and of each group. Who waits
// longest is next, unless its own group is full.
type limits struct {
	none atomic.Bool  // there are none: nobody waits, and nobody takes the lock
	free atomic.Int64 // starts under way that came in while there were none

	mu      sync.Mutex
	most    int
	groups  map[string]int
	now     int
	each    map[string]int
	waiting []*waiter
}

type waiter struct {
	group string
	ready chan struct{}
}

// place is what a start has while it is under way.
type place struct {
	group string
	free  bool
}

func (l *limits) init(most int, groups map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most, l.groups = most, groups
	if l.each == nil {
		l.each = map[string]int{}
	}
	l.none.Store(most == 0 && len(groups) == 0)
	l.admit()
}

// room reports whether one more may be under way. Those that came in while there was no limit count, but in no group.
func (l *limits) room(group string) bool {
	most, limited := l.groups[group]
	return (l.most == 0 || l.now+int(l.free.Load()) < l.most) && (!limited || l.each[group] < most)
}

// enterNow takes a place; false: there is none.
func (l *limits) enterNow(group string) (place, bool) {
	if l.none.Load() {
		l.free.Add(1)
		return place{free: true}, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) > 0 || !l.room(group) {
		return place{}, false
	}
	l.take(group)
	return place{group: group}, true
}

// enter waits for a place; false: ctx ended first.
func (l *limits) enter(ctx context.Context, group string) (place, bool) {
	p := place{group: group}
	l.mu.Lock()
	w := &waiter{group, make(chan struct{})}
	l.waiting = append(l.waiting, w)
	l.admit()
	l.mu.Unlock()
	select {
	case <-w.ready:
		return p, true
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, w)
	if i < 0 { // it was let in meanwhile
		return p, true
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	return p, false
}

func (l *limits) leave(p place) {
	if p.free {
		if l.free.Add(-1); l.none.Load() {
			return
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !p.free {
		l.now--
		l.each[p.group]--
	}
	l.admit()
}

func (l *limits) take(group string) {
	l.now++
	l.each[group]++
}

// admit lets in whom there is a place for. The caller holds the lock.
func (l *limits) admit() {
	l.waiting = slices.DeleteFunc(l.waiting, func(w *waiter) bool {
		if !l.room(w.group) {
			return false
		}
		l.take(w.group)
		close(w.ready)
		return true
	})
}

// count is how many are under way, and how many wait.
func (l *limits) count() (now, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now + int(l.free.Load()), len(l.waiting)
}
