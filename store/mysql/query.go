package mysql

import (
	"context"
	"fmt"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// Runs implements onerun.Ledger.
func (s *Store) Runs(ctx context.Context, q onerun.Query) ([]onerun.Run, error) {
	return sqlledger.Select(ctx, s.read, q)
}

// Pages implements sqlledger.Selector.
func (t *tx) Pages(q onerun.Query, groups [][]onerun.Status) (found []*sqlledger.RunRow, err error) {
	for _, statuses := range groups {
		tail, args := page(q, statuses)
		more, err := t.runs(tail, args...)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

// page is a query for runs in some states.
func page(q onerun.Query, statuses []onerun.Status) (tail string, args []any) {
	var c sqlledger.Where
	c.And("r.namespace = ?", q.Namespace)
	if q.RunID != "" {
		c.And("r.run_id = ?", q.RunID)
	}
	switch {
	case q.Partition != "":
		c.And(`r."key" = ?`, onerun.MakeKey(q.Job, q.Partition))
	case q.Job != "":
		c.And("r.job = ?", q.Job)
	}
	switch {
	case q.RetryDue:
		c.And("r.next_retry_at IS NOT NULL")
	case len(statuses) == 1:
		c.And("r.status = ?", statuses[0])
	case len(statuses) < sqlledger.States:
		names := make([]any, len(statuses))
		for i, st := range statuses {
			names[i] = st
		}
		c.And("r.status IN ("+places(len(names))+")", names...)
	}
	if !q.Since.IsZero() {
		c.And("r.started_at >= ?", micros(q.Since))
	}
	if !q.Until.IsZero() {
		c.And("r.started_at < ?", micros(q.Until))
	}
	tail = c.String() + " ORDER BY r.started_at DESC, r.run_id DESC"
	if q.Limit > 0 {
		tail += fmt.Sprintf(" LIMIT %d", q.Limit)
	}
	return tail, c.Args
}

// Tombs implements sqlledger.Selector.
func (t *tx) Tombs(q onerun.Query) ([]onerun.Run, error) {
	if q.RetryDue {
		return nil, nil
	}
	var c sqlledger.Where
	c.And("namespace = ?", q.Namespace)
	switch {
	case q.Partition != "":
		c.And(`"key" = ?`, onerun.MakeKey(q.Job, q.Partition))
	case q.Job != "":
		c.And("job = ?", q.Job)
	}
	if q.RunID != "" {
		c.And("run_id = ?", q.RunID)
	}
	if !q.Since.IsZero() {
		c.And("started_at >= ?", micros(q.Since))
	}
	if !q.Until.IsZero() {
		c.And("started_at < ?", micros(q.Until))
	}
	tail := " ORDER BY started_at DESC, run_id DESC"
	if q.Limit > 0 && len(q.Statuses) == 0 {
		tail += fmt.Sprintf(" LIMIT %d", q.Limit)
	}
	tombs, err := sqlledger.Rows(t.each, scanTomb, tombColumns+c.String()+tail, c.Args...)
	return sqlledger.InStates(tombs, q.Statuses), err
}
