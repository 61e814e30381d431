package kvledger

import (
	"context"
	"fmt"
	"slices"

	"github.com/onerun-dev/onerun"
)

// BeginItem implements onerun.ItemKeeper.
func (l *Ledger) BeginItem(ctx context.Context, c onerun.ItemClaim) (it onerun.Item, err error) {
	err = l.decide(ctx, "begin the item", nil, func(t *tx) error {
		if err := c.Check(); err != nil {
			return err
		}
		lease := c.Lease
		if err := t.read(keyLock(lease.Namespace, lease.Lock), keyLife(lease.Namespace, lease.Lock), keyRun(lease.RunID)); err != nil {
			return err
		}
		h, err := t.lock(lease.Namespace, lease.Lock)
		if err != nil {
			return err
		}
		r, err := load[runRecord](t, keyRun(lease.RunID))
		if err != nil {
			return err
		}
		if !h.lockRecord.owns(lease) || r == nil {
			return lost(h)
		}
		key := keyItem(lease.Namespace, r.Run.Job, c.Name)
		old, err := loadItem(t, key)
		if err != nil {
			return err
		}
		if err := t.clock(); err != nil {
			return err
		}
		if old != nil {
			seen, err := t.seenItem(*old)
			if err != nil {
				return err
			}
			if why := onerun.ItemVerdict(seen, c); why != "" {
				return &onerun.ItemRefusal{Reason: why, Item: seen}
			}
			if old.State == onerun.ItemStarted && old.Owner == c.Owner {
				it = seen
				return nil
			}
			t.delete(keyBegun(*old))
		}
		it = c.Begun(old, r.Run.Job, t.now)
		t.putItem(key, it)
		t.putText(keyBegun(it), key)
		if _, err := t.commit("begin an item"); err != nil {
			return err
		}
		it, err = t.fresh().seenItem(it)
		return err
	})
	if err != nil {
		return onerun.Item{}, err
	}
	return it, nil
}

// loadItem and putItem read and write an item, whose payload can be any bytes; JSON keeps text.
func loadItem(t *tx, key string) (*onerun.Item, error) {
	it, err := load[onerun.Item](t, key)
	if it != nil {
		it.Payload = onerun.PayloadOf(it.Payload)
	}
	return it, err
}

func (t *tx) putItem(key string, it onerun.Item) {
	it.Payload = onerun.KeptPayload(it.Payload)
	t.put(key, it)
}

// seenItem says whether the owner of a started item is dead: it is when the attempt that it
// is part of has ended.
func (t *tx) seenItem(it onerun.Item) (onerun.Item, error) {
	if it.State != onerun.ItemStarted {
		return it, nil
	}
	it.Over = true
	it.Liveness, it.Evidence = onerun.Dead, fmt.Sprintf("attempt %d of run %s has ended", it.Attempt, it.RunID)
	r, err := load[runRecord](t, keyRun(it.RunID))
	if err != nil || r == nil || r.Run.Status != onerun.Running || r.Run.Attempt != it.Attempt {
		return it, err
	}
	h, err := t.lock(r.Run.Namespace, r.Run.Lock)
	it.Over = false
	if h.over() {
		it.Liveness, it.Evidence = onerun.Unknown, "its run is stale"
	} else {
		it.Liveness, it.Evidence = onerun.Alive, fmt.Sprintf("attempt %d of run %s is RUNNING", it.Attempt, it.RunID)
	}
	return it, err
}

// EndItem implements onerun.ItemKeeper.
func (l *Ledger) EndItem(ctx context.Context, e onerun.ItemEnd) error {
	return l.decide(ctx, "end the item", nil, func(t *tx) error {
		if e.State != onerun.ItemDone && e.State != onerun.ItemFailed {
			return fmt.Errorf("%w: an item can't end as %q", onerun.ErrUsage, e.State)
		}
		key := keyItem(e.Namespace, e.Job, e.Name)
		it, err := loadItem(t, key)
		if err != nil {
			return err
		}
		if it == nil || it.Owner != e.Owner || it.State != onerun.ItemStarted && it.State != e.State {
			return fmt.Errorf("%w: the item is not this owner's any more", onerun.ErrLost)
		}
		if it.State != onerun.ItemStarted {
			return nil
		}
		if err := t.clock(); err != nil {
			return err
		}
		it.State, it.FinishedAt = e.State, t.now
		it.ExitCode, it.Signal, it.Error = e.ExitCode, e.Signal, onerun.CutError(e.Error)
		t.putItem(key, *it)
		_, err = t.commit("end an item")
		return err
	})
}

// Items implements onerun.ItemKeeper.
func (l *Ledger) Items(ctx context.Context, q onerun.ItemQuery) (out []onerun.Item, err error) {
	err = l.decide(ctx, "list the items", nil, func(t *tx) error {
		out = nil
		if err := t.clock(); err != nil {
			return err
		}
		if q.Job != "" && q.Name != "" {
			return t.addItems(q, &out, keyItem(q.Namespace, q.Job, q.Name))
		}
		var keys []string
		err := l.walk(ctx, path("begun", segment(q.Namespace)), func(e Entry) (bool, error) {
			keys = append(keys, string(e.Value))
			if len(keys) < MaxOps {
				return true, nil
			}
			some := keys
			keys = nil
			return q.Limit == 0 || len(out) < q.Limit, t.addItems(q, &out, some...)
		})
		if err != nil {
			return err
		}
		return t.addItems(q, &out, keys...)
	})
	if q.Limit > 0 && len(out) > q.Limit {
		out = out[:q.Limit]
	}
	return out, err
}

// addItems adds those that a query selects.
func (t *tx) addItems(q onerun.ItemQuery, out *[]onerun.Item, keys ...string) error {
	f := t.fresh()
	if err := f.read(keys...); err != nil {
		return err
	}
	for _, k := range keys {
		it, err := loadItem(f, k)
		if err != nil {
			return err
		}
		if it == nil || it.Namespace != q.Namespace || q.Job != "" && it.Job != q.Job || q.Name != "" && it.Name != q.Name ||
			len(q.States) > 0 && !slices.Contains(q.States, it.State) {
			continue
		}
		seen, err := f.seenItem(*it)
		if err != nil {
			return err
		}
		*out = append(*out, seen)
	}
	return nil
}

// DecideItem implements onerun.ItemKeeper.
func (l *Ledger) DecideItem(ctx context.Context, d onerun.ItemDecision) (it onerun.Item, err error) {
	err = l.decide(ctx, "decide the item", nil, func(t *tx) error {
		key := keyItem(d.Namespace, d.Job, d.Name)
		old, err := loadItem(t, key)
		if err != nil {
			return err
		}
		if old == nil {
			return fmt.Errorf("item %q of job %s: %w", d.Name, d.Job, onerun.ErrNotFound)
		}
		seen, err := t.seenItem(*old)
		if err != nil {
			return err
		}
		if err := t.clock(); err != nil {
			return err
		}
		if err := onerun.ItemDecisionAllowed(seen, d); err != nil {
			return err
		}
		it = d.Decided(*old, t.now)
		t.putItem(key, it)
		if err := t.event(nil, onerun.Run{Namespace: it.Namespace, Job: it.Job}, onerun.EventItemResolved, d.Who, d.Detail(*old)); err != nil {
			return err
		}
		_, err = t.commit("decide an item")
		return err
	})
	if err != nil {
		return onerun.Item{}, err
	}
	return it, nil
}
