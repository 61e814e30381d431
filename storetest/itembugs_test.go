package storetest_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
)

func itemBugs() []bug {
	verdict := func(f func(it onerun.Item, c onerun.ItemClaim, right onerun.Reason) onerun.Reason) memory.Rules {
		return memory.Rules{Item: func(it onerun.Item, c onerun.ItemClaim) onerun.Reason { return f(it, c, onerun.ItemVerdict(it, c)) }}
	}
	lets := func(reason onerun.Reason) memory.Rules {
		return verdict(func(_ onerun.Item, _ onerun.ItemClaim, right onerun.Reason) onerun.Reason {
			if right == reason {
				return ""
			}
			return right
		})
	}
	as := func(f func(i *itemizer)) func(onerun.Store) onerun.Store {
		return func(s onerun.Store) onerun.Store {
			i := &itemizer{Store: s}
			f(i)
			return i
		}
	}
	return []bug{
		{name: "an item is done twice", caught: "items/done once", rules: lets(onerun.RefusedDone)},
		{name: "items are of every namespace", caught: "items/of each job and namespace", disguise: as(func(i *itemizer) {
			i.named = func(c *onerun.ItemClaim, e *onerun.ItemEnd) {}
			i.shared = true
		})},
		{name: "items are compared without case", caught: "items/by bytes", disguise: as(func(i *itemizer) {
			i.named = func(c *onerun.ItemClaim, e *onerun.ItemEnd) {
				if c != nil {
					c.Name = strings.ToLower(c.Name)
				} else {
					e.Name = strings.ToLower(e.Name)
				}
			}
		})},
		{name: "items are cut", caught: "items/by bytes", disguise: as(func(i *itemizer) {
			i.named = func(c *onerun.ItemClaim, e *onerun.ItemEnd) {
				if c != nil {
					c.Name = c.Name[:min(len(c.Name), 190)]
				} else {
					e.Name = e.Name[:min(len(e.Name), 190)]
				}
			}
		})},
		{name: "a failed item is never begun again", caught: "items/failed is begun again", rules: verdict(func(it onerun.Item, _ onerun.ItemClaim, right onerun.Reason) onerun.Reason {
			if it.State == onerun.ItemFailed {
				return onerun.RefusedDone
			}
			return right
		})},
		{name: "an item is begun beside its owner", caught: "items/one at a time", rules: lets(onerun.RefusedRunning)},
		{name: "a lost reply is a second owner", caught: "items/a lost reply", rules: verdict(func(it onerun.Item, c onerun.ItemClaim, right onerun.Reason) onerun.Reason {
			if it.State == onerun.ItemStarted && it.Owner == c.Owner {
				return onerun.RefusedRunning
			}
			return right
		})},
		{name: "anybody ends an item", caught: "items/its owner's alone", disguise: as(func(i *itemizer) { i.anybody = true })},
		{name: "items need no lease", caught: "items/under the run's lease alone", disguise: as(func(i *itemizer) { i.unleased = true })},
		{name: "a payload doesn't matter", caught: "items/another payload", rules: lets(onerun.RefusedConflict)},
		{name: "long payloads are cut", caught: "items/the longest payload", disguise: as(func(i *itemizer) {
			i.named = func(c *onerun.ItemClaim, _ *onerun.ItemEnd) {
				if c != nil {
					c.Payload = c.Payload[:min(len(c.Payload), onerun.MaxPayload-1)]
				}
			}
		})},
		{name: "a dead owner's item is the caller's to decide", caught: "items/an owner that died", rules: verdict(func(it onerun.Item, c onerun.ItemClaim, _ onerun.Reason) onerun.Reason {
			it.OnCrash = c.OnCrash
			return onerun.ItemVerdict(it, c)
		})},
		{name: "a dead owner's item blocks for ever", caught: "items/an owner that died", rules: verdict(func(it onerun.Item, c onerun.ItemClaim, right onerun.Reason) onerun.Reason {
			if it.State == onerun.ItemStarted && it.Owner != c.Owner {
				return onerun.RefusedRunning
			}
			return right
		})},
		{name: "an end needs the run", caught: "items/an end after the run's", disguise: as(func(i *itemizer) { i.endsWithRun = true })},
		{name: "anything may be decided", caught: "items/decided by a person", rules: memory.Rules{DecideItem: func(onerun.Item, onerun.ItemDecision) error { return nil }}},
		{name: "a started item can't be decided", caught: "items/a dead owner's, decided by a person", rules: memory.Rules{DecideItem: func(it onerun.Item, d onerun.ItemDecision) error {
			if it.State == onerun.ItemStarted {
				return &onerun.StateError{Why: "it is started"}
			}
			return onerun.ItemDecisionAllowed(it, d)
		}}},
		{name: "a listing is oldest first", caught: "items/listings", disguise: as(func(i *itemizer) { i.reversed = true })},
		{name: "any name will do", caught: "items/malformed", disguise: as(func(i *itemizer) { i.lax = true })},
		{name: "items go with their run", caught: "items/outlive their run", disguise: as(func(i *itemizer) { i.pruned = true })},
	}
}

// itemizer keeps items in ways that are wrong.
type itemizer struct {
	onerun.Store
	named       func(c *onerun.ItemClaim, e *onerun.ItemEnd)
	shared      bool
	anybody     bool
	unleased    bool
	endsWithRun bool
	reversed    bool
	lax         bool
	pruned      bool
	begun       map[string]onerun.Lease
}

func (i *itemizer) BeginItem(ctx context.Context, c onerun.ItemClaim) (onerun.Item, error) {
	if i.named != nil {
		i.named(&c, nil)
	}
	it, err := i.Store.BeginItem(ctx, c)
	switch {
	case i.shared && err == nil && i.begun[c.Name].RunID != "" && i.begun[c.Name].Namespace != c.Lease.Namespace:
		return it, &onerun.ItemRefusal{Reason: onerun.RefusedDone, Item: it}
	case i.unleased && err != nil, i.lax && err != nil:
		return onerun.Item{Name: c.Name, State: onerun.ItemStarted, Owner: c.Owner}, nil
	}
	if i.begun == nil {
		i.begun = map[string]onerun.Lease{}
	}
	i.begun[c.Name] = c.Lease
	return it, err
}

func (i *itemizer) EndItem(ctx context.Context, e onerun.ItemEnd) error {
	if i.named != nil {
		i.named(nil, &e)
	}
	if i.endsWithRun {
		if _, err := i.Heartbeat(ctx, i.begun[e.Name]); err != nil {
			return fmt.Errorf("end an item: %w", err)
		}
	}
	err := i.Store.EndItem(ctx, e)
	if i.anybody {
		return nil
	}
	return err
}

func (i *itemizer) Items(ctx context.Context, q onerun.ItemQuery) ([]onerun.Item, error) {
	items, err := i.Store.Items(ctx, q)
	if i.reversed {
		for a, b := 0, len(items)-1; a < b; a, b = a+1, b-1 {
			items[a], items[b] = items[b], items[a]
		}
	}
	if i.pruned {
		var kept []onerun.Item
		for _, it := range items {
			if d, err := i.Detail(ctx, it.Namespace, it.RunID); err == nil && d.Run.Pruned.IsZero() {
				kept = append(kept, it)
			}
		}
		items = kept
	}
	return items, err
}
