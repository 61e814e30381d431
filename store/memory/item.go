package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
)

// BeginItem implements onerun.ItemKeeper.
func (s *Store) BeginItem(ctx context.Context, c onerun.ItemClaim) (onerun.Item, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return onerun.Item{}, err
	}
	defer s.mu.Unlock()
	if err := c.Check(); err != nil {
		return onerun.Item{}, err
	}
	l := s.lockOf(c.Lease.Namespace, c.Lease.Lock)
	if !s.rules.BeatOwns(l.lease, c.Lease) || l.run == nil {
		return onerun.Item{}, lost(l)
	}
	job := l.run.Job
	old := s.item(c.Lease.Namespace, job, c.Name)
	if old != nil {
		seen := s.lookAtItem(*old, now)
		if why := s.rules.Item(seen, c); why != "" {
			return onerun.Item{}, &onerun.ItemRefusal{Reason: why, Item: seen}
		}
		if old.State == onerun.ItemStarted && old.Owner == c.Owner {
			return seen, nil
		}
		*old = c.Begun(old, job, now)
		return s.lookAtItem(*old, now), nil
	}
	it := c.Begun(nil, job, now)
	s.items = append(s.items, &it)
	return s.lookAtItem(it, now), nil
}

func (s *Store) item(namespace, job, name string) *onerun.Item {
	i := slices.IndexFunc(s.items, func(it *onerun.Item) bool {
		return s.id(it.Namespace, it.Job) == s.id(namespace, job) && it.Name == name
	})
	if i < 0 {
		return nil
	}
	return s.items[i]
}

// lookAtItem says whether the owner of a started item is dead: it is when the attempt that it
// is part of has ended.
func (s *Store) lookAtItem(it onerun.Item, now time.Time) onerun.Item {
	if it.State != onerun.ItemStarted {
		return it
	}
	it.Over = true
	it.Liveness, it.Evidence = onerun.Dead, fmt.Sprintf("attempt %d of run %s has ended", it.Attempt, it.RunID)
	r := s.runs[it.RunID]
	switch {
	case r == nil || r.Status != onerun.Running || r.Attempt != it.Attempt:
	case s.over(s.lockOf(r.Namespace, r.Lock), now):
		it.Liveness, it.Evidence, it.Over = onerun.Unknown, "its run is stale", false
	default:
		it.Over = false
		it.Liveness, it.Evidence = onerun.Alive, fmt.Sprintf("attempt %d of run %s is RUNNING", it.Attempt, it.RunID)
	}
	return it
}

// EndItem implements onerun.ItemKeeper.
func (s *Store) EndItem(ctx context.Context, e onerun.ItemEnd) error {
	now, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if e.State != onerun.ItemDone && e.State != onerun.ItemFailed {
		return fmt.Errorf("%w: an item can't end as %q", onerun.ErrUsage, e.State)
	}
	it := s.item(e.Namespace, e.Job, e.Name)
	if it == nil || it.Owner != e.Owner || it.State != onerun.ItemStarted && it.State != e.State {
		return fmt.Errorf("%w: the item is not this owner's any more", onerun.ErrLost)
	}
	if it.State == onerun.ItemStarted {
		it.State, it.FinishedAt = e.State, now
		it.ExitCode, it.Signal, it.Error = e.ExitCode, e.Signal, onerun.CutError(e.Error)
	}
	return nil
}

// Items implements onerun.ItemKeeper.
func (s *Store) Items(ctx context.Context, q onerun.ItemQuery) ([]onerun.Item, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var found []onerun.Item
	for _, it := range s.items {
		if s.rules.Namespace(it.Namespace) != s.rules.Namespace(q.Namespace) || q.Job != "" && it.Job != q.Job || q.Name != "" && it.Name != q.Name ||
			len(q.States) > 0 && !slices.Contains(q.States, it.State) {
			continue
		}
		found = append(found, s.lookAtItem(*it, now))
	}
	slices.Reverse(found)
	slices.SortStableFunc(found, func(a, b onerun.Item) int { return b.StartedAt.Compare(a.StartedAt) })
	if q.Limit > 0 && len(found) > q.Limit {
		found = found[:q.Limit]
	}
	return found, nil
}

// DecideItem implements onerun.ItemKeeper.
func (s *Store) DecideItem(ctx context.Context, d onerun.ItemDecision) (onerun.Item, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return onerun.Item{}, err
	}
	defer s.mu.Unlock()
	it := s.item(d.Namespace, d.Job, d.Name)
	if it == nil {
		return onerun.Item{}, fmt.Errorf("item %q of job %s: %w", d.Name, d.Job, onerun.ErrNotFound)
	}
	if err := s.rules.DecideItem(s.lookAtItem(*it, now), d); err != nil {
		return onerun.Item{}, err
	}
	detail := d.Detail(*it)
	*it = d.Decided(*it, now)
	s.event(now, onerun.EventItemResolved, onerun.Run{Namespace: it.Namespace, Job: it.Job}, d.Who, detail)
	return *it, nil
}
