package sqlledger

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/onerun-dev/onerun"
)

// States are all states of a run: a query that names so many asks for any.
const States = 4

// Selector is a transaction that runs are selected in.
type Selector interface {
	// Pages reads one page of each group of states.
	Pages(q onerun.Query, groups [][]onerun.Status) ([]*RunRow, error)
	// Tombs reads the tombstones that a query selects.
	Tombs(q onerun.Query) ([]onerun.Run, error)
}

// Select gives the runs that a query selects, newest first. The newest runs of each state are read
// from an index that begins with the state, and merged: so a page costs what it shows, whatever
// else the ledger holds.
func Select[T Selector](ctx context.Context, read Transact[T], q onerun.Query) (runs []onerun.Run, err error) {
	err = read(ctx, "read the runs", func(t T) (err error) {
		runs, err = selected(t, q)
		return err
	})
	return runs, err
}

func selected(t Selector, q onerun.Query) ([]onerun.Run, error) {
	one := q.RunID != "" || q.Partition != ""
	statuses := q.Statuses
	if len(statuses) == 0 {
		statuses = []onerun.Status{onerun.Running, onerun.Succeeded, onerun.Failed, onerun.Skipped}
	}
	var runs []onerun.Run
	var pages [][]onerun.Status
	switch {
	case q.RetryDue && !slices.Contains(statuses, onerun.Failed):
	case q.RetryDue, one: // an index of its own
		pages = append(pages, statuses)
	default:
		for _, status := range statuses {
			pages = append(pages, []onerun.Status{status})
		}
	}
	more, err := t.Pages(q, pages)
	if err != nil {
		return nil, err
	}
	for _, r := range more {
		runs = append(runs, r.Seen())
	}
	if q.Pruned || one {
		tombs, err := t.Tombs(q)
		if err != nil {
			return nil, err
		}
		runs = append(runs, tombs...)
	}
	slices.SortFunc(runs, func(a, b onerun.Run) int {
		return cmp.Or(b.StartedAt.Compare(a.StartedAt), strings.Compare(b.RunID, a.RunID))
	})
	if q.Limit > 0 && len(runs) > q.Limit {
		runs = runs[:q.Limit]
	}
	return runs, nil
}

// InStates keeps the runs that are in one of the states: all, where none are named.
func InStates(runs []onerun.Run, statuses []onerun.Status) []onerun.Run {
	if len(statuses) == 0 {
		return runs
	}
	return slices.DeleteFunc(runs, func(r onerun.Run) bool { return !slices.Contains(statuses, r.Status) })
}
