package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// allStatuses in the order of nothing in particular.
var allStatuses = []onerun.Status{onerun.Running, onerun.Succeeded, onerun.Failed, onerun.Skipped}

// Runs implements onerun.Ledger. The newest runs of each state are read from an index
// that begins with the state, and merged: so a page costs what it shows, whatever else
// the ledger holds.
func (s *Store) Runs(ctx context.Context, q onerun.Query) ([]onerun.Run, error) {
	var runs []onerun.Run
	err := s.read(ctx, "read the runs", func(t *tx) error {
		found, err := t.selected(q)
		if err != nil {
			return err
		}
		runs = nil
		if len(found) > 2 { // else to compile it each time is as quick
			if err := t.keep(sqlSkipsOfKey); err != nil {
				return err
			}
		}
		for _, r := range found {
			if r.Pruned.IsZero() {
				if err := s.complete(t, r); err != nil {
					return err
				}
			}
			runs = append(runs, r.Run)
		}
		return nil
	})
	return runs, err
}

// selected are the runs that a query selects, newest first.
func (t *tx) selected(q onerun.Query) ([]*runRow, error) {
	var found []*runRow
	one := q.RunID != "" || q.Partition != ""
	switch {
	case one:
		more, err := t.page(q, q.Statuses...)
		if err != nil {
			return nil, err
		}
		found = more
	default:
		statuses := q.Statuses
		if len(statuses) == 0 {
			statuses = allStatuses
		}
		if q.RetryDue {
			statuses = statuses[:1] // an index of its own
			if len(q.Statuses) > 0 && !slices.Contains(q.Statuses, onerun.Failed) {
				return nil, nil
			}
		}
		for _, status := range statuses {
			more, err := t.page(q, status)
			if err != nil {
				return nil, err
			}
			found = append(found, more...)
		}
	}
	if q.Pruned || one {
		tombs, err := t.tombs(q)
		if err != nil {
			return nil, err
		}
		found = append(found, tombs...)
	}
	slices.SortFunc(found, func(a, b *runRow) int {
		return cmp.Or(b.StartedAt.Compare(a.StartedAt), strings.Compare(b.RunID, a.RunID))
	})
	if q.Limit > 0 && len(found) > q.Limit {
		found = found[:q.Limit]
	}
	return found, nil
}

// page is a query for runs in some states, or in any.
func (t *tx) page(q onerun.Query, statuses ...onerun.Status) ([]*runRow, error) {
	var c sqlledger.Where
	c.And("r.namespace = ?", q.Namespace)
	if q.RunID != "" {
		c.And("r.run_id = ?", q.RunID)
	}
	switch {
	case q.Partition != "":
		c.And("r.key = ?", onerun.MakeKey(q.Job, q.Partition))
	case q.Job != "":
		c.And("r.job = ?", q.Job)
	}
	switch {
	case q.RetryDue: // of the few with a retry, not of the many that FAILED: + keeps an index from being used
		c.And("+r.status = 'FAILED' AND r.next_retry_at IS NOT NULL")
	case len(statuses) == 1:
		c.And("r.status = ?", statuses[0])
	case len(statuses) > 1:
		in := make([]any, len(statuses))
		for i, st := range statuses {
			in[i] = st
		}
		c.And("r.status IN (?"+strings.Repeat(", ?", len(in)-1)+")", in...)
	}
	if !q.Since.IsZero() {
		c.And("r.started_at >= ?", q.Since.UnixMicro())
	}
	if !q.Until.IsZero() {
		c.And("r.started_at < ?", q.Until.UnixMicro())
	}
	tail := c.String() + " ORDER BY r.started_at DESC, r.run_id DESC"
	if q.Limit > 0 {
		tail += fmt.Sprintf(" LIMIT %d", q.Limit)
	}
	return t.runs(tail, c.Args...)
}

// tombs are the tombstones that a query selects.
func (t *tx) tombs(q onerun.Query) ([]*runRow, error) {
	var c sqlledger.Where
	c.And("namespace = ?", q.Namespace)
	switch {
	case q.RetryDue:
		return nil, nil
	case q.Partition != "":
		c.And("key = ?", onerun.MakeKey(q.Job, q.Partition))
	case q.Job != "":
		c.And("job = ?", q.Job)
	}
	if q.RunID != "" {
		c.And("run_id = ?", q.RunID)
	}
	if !q.Since.IsZero() {
		c.And("started_at >= ?", q.Since.UnixMicro())
	}
	if !q.Until.IsZero() {
		c.And("started_at < ?", q.Until.UnixMicro())
	}
	tail := " ORDER BY started_at DESC"
	if q.Limit > 0 && len(q.Statuses) == 0 {
		tail += fmt.Sprintf(" LIMIT %d", q.Limit)
	}
	var out []*runRow
	err := t.each(func(scan func(...any) error) error {
		r, err := scanTomb(scan)
		if len(q.Statuses) == 0 || slices.Contains(q.Statuses, r.Status) {
			out = append(out, &runRow{Run: r})
		}
		return err
	}, tombColumns+c.String()+tail, c.Args...)
	return out, err
}

// usualLimit is the default of stale-after, from the job's last successes.
func (t *tx) usualLimit(r onerun.Run) (time.Duration, error) {
	var longest int64
	err := t.row(`SELECT coalesce(max(finished_at - started_at), 0) FROM (
		SELECT started_at, finished_at FROM onerun_run
		WHERE namespace = ?1 AND job = ?2 AND status = 'SUCCEEDED' ORDER BY started_at DESC LIMIT ?3)`, r.Namespace, r.Job, onerun.UsualRuns).Scan(&longest)
	return onerun.UsualStaleAfter(time.Duration(longest) * time.Microsecond), err
}
