package sqlledger

import (
	"context"
	"fmt"
	"time"

	"github.com/onerun-dev/onerun"
)

// ItemRow is an item with what its judge needs to know of the attempt that it is part of.
type ItemRow struct {
	onerun.Item
	Running bool   // the attempt is
	Expires *int64 // its lease; nil: it has none any more
}

// Seen says whether the owner of a started item is dead: it is when the attempt that it is
// part of has ended. Of a process on another host nobody can tell more.
func (it *ItemRow) Seen(now time.Time) onerun.Item {
	switch {
	case it.State != onerun.ItemStarted:
	case !it.Running:
		it.Liveness, it.Evidence = onerun.Dead, fmt.Sprintf("attempt %d of run %s has ended", it.Attempt, it.RunID)
	case it.Expires == nil || !FromMicros(it.Expires).After(now):
		it.Liveness, it.Evidence = onerun.Unknown, "its run is stale"
	default:
		it.Liveness, it.Evidence = onerun.Alive, fmt.Sprintf("attempt %d of run %s is RUNNING", it.Attempt, it.RunID)
	}
	return it.Item
}

// ScanItems reads items.
func ScanItems(each Each, query string, args ...any) ([]ItemRow, error) {
	return Rows(each, func(scan func(...any) error) (ItemRow, error) {
		var it ItemRow
		var w WorkerRow
		var started, finished *int64
		var state, crash string
		err := scan(&it.Namespace, &it.Job, &it.Name, &state, &it.Payload, &it.Tries, &it.RunID, &it.Attempt, &it.Owner, &crash,
			&w.Host, &w.Machine, &w.Boot, &w.PIDNS, &w.TimeNS, &w.PID, &w.StartTicks, &started, &finished, &it.ExitCode, &it.Signal, &it.Error,
			&it.Running, &it.Expires)
		it.State, it.OnCrash = onerun.ItemState(state), onerun.OnCrash(crash)
		it.Worker = w.Worker(nil)
		it.Worker.Label = ""
		it.StartedAt, it.FinishedAt = FromMicros(started), FromMicros(finished)
		return it, err
	}, query, args...)
}

// Itemer is a transaction in which an item is begun, or decided about.
type Itemer interface {
	Shared
	// OwnedJob is the job of the run that a lease owns, and keeps others from taking the run over
	// until the transaction ends. Errors: onerun.ErrLost.
	OwnedJob(l onerun.Lease) (string, error)
	// ItemInHand reads an item and takes its row in hand; nil: there is none.
	ItemInHand(namespace, job, name string) (*ItemRow, error)
	// Items reads items.
	Items(where string, args ...any) ([]ItemRow, error)
	// PutItem writes an item as it begins. owner is who had it before; "": it is a new one. If
	// somebody else has just begun it, the error is Again.
	PutItem(it onerun.Item, owner string) error
	// SetItem writes down what was decided about an item.
	SetItem(it onerun.Item) error
}

// BeginItem begins an item. For that moment nobody takes the run over.
func BeginItem[T Itemer](ctx context.Context, write Transact[T], c onerun.ItemClaim) (it onerun.Item, err error) {
	if err := c.Check(); err != nil {
		return onerun.Item{}, err
	}
	err = write(ctx, "begin an item", func(t T) error {
		job, err := t.OwnedJob(c.Lease)
		if err != nil {
			return err
		}
		old, err := t.ItemInHand(c.Lease.Namespace, job, c.Name)
		if err != nil {
			return err
		}
		if err := t.Tick(); err != nil {
			return err
		}
		if old == nil {
			it = c.Begun(nil, job, t.Now())
			return t.PutItem(it, "")
		}
		seen := old.Seen(t.Now())
		if why := onerun.ItemVerdict(seen, c); why != "" {
			return &onerun.ItemRefusal{Reason: why, Item: seen}
		}
		if old.State == onerun.ItemStarted && old.Owner == c.Owner {
			it = seen
			return nil
		}
		it = c.Begun(&old.Item, job, t.Now())
		return t.PutItem(it, old.Owner)
	})
	return it, err
}

// ListItems reads items with what is found out about them.
func ListItems[T Itemer](ctx context.Context, read Transact[T], where string, args ...any) (items []onerun.Item, err error) {
	err = read(ctx, "list items", func(t T) error {
		found, err := t.Items(where, args...)
		items = make([]onerun.Item, len(found))
		for i := range found {
			items[i] = found[i].Seen(t.Now())
		}
		return err
	})
	return items, err
}

// CheckItemEnd refuses an end that an item can't have.
func CheckItemEnd(e onerun.ItemEnd) error {
	if e.State != onerun.ItemDone && e.State != onerun.ItemFailed {
		return usage("an item can't end as %q", e.State)
	}
	return nil
}

// ItemLost is the error of one who ends an item that isn't theirs.
func ItemLost() error {
	return fmt.Errorf("%w: the item is not this owner's any more", onerun.ErrLost)
}

// DecideItem writes down what a person decided about an item.
func DecideItem[T Itemer](ctx context.Context, write Transact[T], d onerun.ItemDecision) (it onerun.Item, err error) {
	err = write(ctx, "decide about an item", func(t T) error {
		old, err := t.ItemInHand(d.Namespace, d.Job, d.Name)
		if err != nil {
			return err
		}
		if old == nil {
			return fmt.Errorf("item %q of job %s: %w", d.Name, d.Job, onerun.ErrNotFound)
		}
		if err := t.Tick(); err != nil {
			return err
		}
		if err := onerun.ItemDecisionAllowed(old.Seen(t.Now()), d); err != nil {
			return err
		}
		it = d.Decided(old.Item, t.Now())
		if err := t.SetItem(it); err != nil {
			return err
		}
		return t.Event(ItemResolved(d, old.Item))
	})
	return it, err
}

// ItemResolved is the event of an item that a person decided about, and what it is about.
func ItemResolved(d onerun.ItemDecision, old onerun.Item) (onerun.Event, onerun.Run) {
	return decision(onerun.EventItemResolved, d.Who, d.Detail(old)), onerun.Run{Namespace: d.Namespace, Job: d.Job}
}

// TransactionOver is the error of a transaction of the caller's that has ended before its time.
func TransactionOver(what string, err error) error {
	return &onerun.StoreError{
		Kind: onerun.ErrUsage, What: what, Err: err, Do: "it was committed or rolled back, or the context that it was begun with has ended: begin another",
	}
}
