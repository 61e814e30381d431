package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// Runs implements onerun.Ledger.
func (s *Store) Runs(ctx context.Context, q onerun.Query) ([]onerun.Run, error) {
	return sqlledger.Select(ctx, s.read, q)
}

// Pages implements sqlledger.Selector: all is asked for in one round trip.
func (t *tx) Pages(q onerun.Query, groups [][]onerun.Status) (found []*sqlledger.RunRow, err error) {
	b := &pgx.Batch{}
	for _, statuses := range groups {
		query, args := page(q, statuses)
		b.Queue(query, sqlledger.Params(args)...)
	}
	if b.Len() == 0 {
		return nil, nil
	}
	r := t.conn.SendBatch(t.ctx, b)
	defer func() {
		if cerr := r.Close(); err == nil {
			err = cerr
		}
	}()
	for range groups {
		rows, err := r.Query()
		if err != nil {
			return nil, err
		}
		for rows.Next() {
			row, err := scanRun(rows.Scan)
			if err != nil {
				rows.Close()
				return nil, err
			}
			found = append(found, row)
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// page is a query for runs in some states.
func page(q onerun.Query, statuses []onerun.Status) (query string, args []any) {
	var c sqlledger.Where
	c.AndAt("namespace = $%d", q.Namespace)
	if q.RunID != "" {
		c.AndAt("run_id = $%d", q.RunID)
	}
	switch {
	case q.Partition != "":
		c.AndAt("key = $%d", onerun.MakeKey(q.Job, q.Partition))
	case q.Job != "":
		c.AndAt("job = $%d", q.Job)
	}
	switch {
	case q.RetryDue:
		c.And("next_retry_at IS NOT NULL")
	case len(statuses) == 1:
		c.AndAt("status = $%d", statuses[0])
	case len(statuses) < sqlledger.States:
		names := make([]string, len(statuses))
		for i, st := range statuses {
			names[i] = string(st)
		}
		c.AndAt("status = ANY ($%d)", names)
	}
	if !q.Since.IsZero() {
		c.AndAt("started_at >= onerun_at($%d)", micros(q.Since))
	}
	if !q.Until.IsZero() {
		c.AndAt("started_at < onerun_at($%d)", micros(q.Until))
	}
	query = "SELECT to_jsonb(v)::text FROM onerun_look v " + c.String() + " ORDER BY started_at DESC, run_id DESC"
	if q.Limit > 0 {
		query += fmt.Sprintf(" LIMIT %d", q.Limit)
	}
	return query, c.Args
}

// Tombs implements sqlledger.Selector.
func (t *tx) Tombs(q onerun.Query) ([]onerun.Run, error) {
	if q.RetryDue {
		return nil, nil
	}
	var c sqlledger.Where
	c.AndAt("namespace = $%d", q.Namespace)
	switch {
	case q.Partition != "":
		c.AndAt("key = $%d", onerun.MakeKey(q.Job, q.Partition))
	case q.Job != "":
		c.AndAt("job = $%d", q.Job)
	}
	if q.RunID != "" {
		c.AndAt("run_id = $%d", q.RunID)
	}
	if !q.Since.IsZero() {
		c.AndAt("started_at >= onerun_at($%d)", micros(q.Since))
	}
	if !q.Until.IsZero() {
		c.AndAt("started_at < onerun_at($%d)", micros(q.Until))
	}
	tail := " ORDER BY started_at DESC, run_id DESC"
	if q.Limit > 0 && len(q.Statuses) == 0 {
		tail += fmt.Sprintf(" LIMIT %d", q.Limit)
	}
	tombs, err := sqlledger.Rows(t.each, scanTomb, tombColumns+c.String()+tail, c.Args...)
	return sqlledger.InStates(tombs, q.Statuses), err
}
