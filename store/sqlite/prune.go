package sqlite

import (
	"context"
	_ "embed" // queries
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

//go:embed sql/bury.sql
var sqlBury string

// removals take away what is kept of a run beside its row: ?1 the run id. Decisions of
// operators stay, since their chain of events is one for all.
var removals = [...]string{
	"DELETE FROM onerun_attempt WHERE run_id = ?1",
	"DELETE FROM onerun_output WHERE run_id = ?1",
	"DELETE FROM onerun_approval WHERE run_id = ?1",
	"DELETE FROM onerun_event WHERE chain = ?1",
}

// Prune implements onerun.Operator. What is to go is looked for in a transaction that
// only reads; the one that removes holds up a claim for as long as its few rows take, and
// doesn't wait for the disk, since a loss of power can only bring back what was there.
func (s *Store) Prune(ctx context.Context, q onerun.PruneRequest) (onerun.Pruned, error) {
	q, err := q.Checked()
	if err != nil {
		return onerun.Pruned{}, err
	}
	found, err := sqlledger.Look(ctx, s.read, q, math.MinInt64)
	if err != nil {
		return onerun.Pruned{}, err
	}
	var p onerun.Pruned
	err = s.lightly(ctx, "prune", func(t *tx) (err error) {
		p, err = found.Remove(t, q)
		p.Held = time.Since(t.now)
		return err
	})
	return p, err
}

// Prunable implements sqlledger.Looker.
func (t *tx) Prunable(q onerun.PruneRequest, at *sqlledger.Cursor) ([]sqlledger.Chosen, error) {
	where, args := "true", []any{q.Namespace, at.Started, at.ID, math.MaxInt64}
	and := func(condition string, arg any) {
		args = append(args, arg)
		where += fmt.Sprintf(" AND "+condition, len(args))
	}
	before := q.Before.UnixMicro() // what ended before it began before it, which the index knows
	switch {
	case q.Partition != "":
		and("key = ?%d", onerun.MakeKey(q.Job, q.Partition))
	case q.Job != "":
		and("job = ?%d", q.Job)
	}
	if q.ForgetKeys { // what takes two people isn't for one to forget
		where += ` AND NOT EXISTS (SELECT 1 FROM onerun_attempt a WHERE a.run_id = r.run_id AND a.attempt = r.attempt AND a.two_people)`
		for _, job := range q.TwoPeople {
			and("(key IS NULL OR job <> ?%d)", job)
		}
	}
	if q.Partition == "" && !q.Oldest { // nothing beyond the last of all bounds
		var bound *int64
		if !q.Before.IsZero() {
			bound = &before
		}
		args[3] = at.Last(bound, math.MinInt64)
	}
	query := `SELECT run_id, started_at, coalesce(finished_at, started_at), job FROM onerun_run r
		WHERE namespace = ?1 AND status = 'SUCCEEDED' AND started_at BETWEEN ?2 AND ?4 AND (started_at, run_id) > (?2, ?3) AND ` + where + `
		AND NOT EXISTS (SELECT 1 FROM onerun_approval a WHERE a.run_id = r.run_id AND a.used_at IS NULL)
		ORDER BY started_at, run_id`
	var found []sqlledger.Chosen
	err := t.each(func(scan func(...any) error) error {
		var c sqlledger.Chosen
		var finished int64
		var job string
		if err := scan(&c.ID, &c.Started, &finished, &job); err != nil {
			return err
		}
		if q.Partition != "" || q.Oldest || !q.Before.IsZero() && finished < before || at.Cuts[job].Includes(c) {
			found = append(found, c)
		}
		if len(found) > q.Limit {
			return errEnough
		}
		return nil
	}, query, args...)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return found, err
}

// Refused implements sqlledger.Looker.
func (t *tx) Refused(q onerun.PruneRequest) ([]onerun.Skip, error) {
	return sqlledger.Rows(t.each, sqlledger.ScanRefused, `SELECT job, key, reason, holder FROM onerun_skip k
		WHERE namespace = ?1 AND (?2 = '' OR job = ?2) AND last_at < ?3
		AND (key = '' OR NOT EXISTS (SELECT 1 FROM onerun_run r WHERE r.namespace = k.namespace AND r.key = k.key)) LIMIT ?4`,
		q.Namespace, q.Job, q.Before.UnixMicro(), q.Limit+1)
}

// RemoveRefused implements sqlledger.Pruner.
func (t *tx) RemoveRefused(q onerun.PruneRequest, found []onerun.Skip) (n int64, err error) {
	for _, k := range found {
		gone, err := t.changed("DELETE FROM onerun_skip WHERE namespace = ?1 AND job = ?2 AND key = ?3 AND reason = ?4 AND holder = ?5 AND last_at < ?6",
			q.Namespace, k.Job, k.Key, k.Reason, k.Holder, q.Before.UnixMicro())
		if n += gone; err != nil {
			return n, err
		}
	}
	return n, nil
}

// errEnough ends the reading of rows.
var errEnough = errors.New("enough")

// CutOf implements sqlledger.Cutter.
func (t *tx) CutOf(namespace, job string, keep int) (c sqlledger.Cut, ok bool, err error) {
	err = t.row(`SELECT started_at, run_id FROM onerun_run WHERE namespace = ?1 AND job = ?2 AND status = 'SUCCEEDED'
		ORDER BY started_at DESC, run_id DESC LIMIT 1 OFFSET ?3`, namespace, job, keep).Scan(&c.Started, &c.ID)
	if noRows(err) {
		return c, false, nil
	}
	return c, true, err
}

// JobNames implements sqlledger.Cutter, by one look-up each.
func (t *tx) JobNames(namespace string) ([]string, error) {
	return sqlledger.Texts(t.each, `WITH RECURSIVE j (job) AS (
			SELECT min(job) FROM onerun_run WHERE namespace = ?1
			UNION ALL
			SELECT (SELECT min(job) FROM onerun_run WHERE namespace = ?1 AND job > j.job) FROM j WHERE j.job IS NOT NULL
		) SELECT job FROM j WHERE job IS NOT NULL`, namespace)
}

// Remove implements sqlledger.Pruner.
func (t *tx) Remove(found []sqlledger.Chosen, forget bool, p *onerun.Pruned) error {
	for _, c := range found {
		if err := t.remove(c, forget, p); err != nil {
			return err
		}
	}
	return nil
}

// remove takes one run away, if it is still what it was when it was chosen.
func (t *tx) remove(c sqlledger.Chosen, forget bool, p *onerun.Pruned) error {
	var namespace, job, key string
	id := c.ID
	err := t.row(`SELECT namespace, job, coalesce(key, '') FROM onerun_run r WHERE run_id = ?1 AND started_at = ?2 AND status = 'SUCCEEDED'
		AND NOT EXISTS (SELECT 1 FROM onerun_approval a WHERE a.run_id = r.run_id AND a.used_at IS NULL)`, id, c.Started).Scan(&namespace, &job, &key)
	if noRows(err) {
		return nil
	}
	if err == nil && key != "" && !forget {
		err = t.exec(sqlBury, id, t.now.UnixMicro())
		p.Keys++
	}
	if err == nil {
		err = t.exec("DELETE FROM onerun_run WHERE run_id = ?1", id)
	}
	for _, q := range removals {
		if err == nil {
			err = t.exec(q, id)
		}
	}
	switch {
	case err != nil:
		return err
	case key == "":
		err = t.exec("DELETE FROM onerun_skip WHERE namespace = ?1 AND job = ?2 AND key = '' AND reason IN ('running', 'locked', 'stale') AND holder = ?3",
			namespace, job, id+"/1")
	default:
		err = t.exec("DELETE FROM onerun_skip WHERE namespace = ?1 AND job = ?2 AND key = ?3", namespace, job, key)
		if err == nil && !forget { // the token stands in the tombstone, until that goes
			err = t.exec(`DELETE FROM onerun_lock WHERE namespace = ?1 AND lock = ?2 AND owner IS NULL
				AND token <= (SELECT token FROM onerun_tombstone WHERE namespace = ?1 AND key = ?3)`, namespace, onerun.KeyLock(key), key)
		}
		if forget {
			p.Forgotten++
		}
	}
	p.Runs++
	return err
}

// Forgettable implements sqlledger.Pruner.
func (t *tx) Forgettable(q onerun.PruneRequest) ([]string, error) {
	where, args := "namespace = ?1 AND NOT two_people", []any{q.Namespace, q.Limit + 1}
	and := func(condition string, arg any) {
		args = append(args, arg)
		where += fmt.Sprintf(" AND "+condition, len(args))
	}
	switch {
	case q.Partition != "":
		and("key = ?%d", onerun.MakeKey(q.Job, q.Partition))
	case !q.Oldest:
		and("finished_at < ?%d", q.Before.UnixMicro())
	}
	if q.Partition == "" && q.Job != "" {
		and("job = ?%d", q.Job)
	}
	for _, job := range q.TwoPeople {
		and("job <> ?%d", job)
	}
	return sqlledger.Texts(t.each, "SELECT key FROM onerun_tombstone WHERE "+where+" LIMIT ?2", args...)
}

// Forget implements sqlledger.Pruner.
func (t *tx) Forget(namespace string, keys []string) error {
	for _, key := range keys {
		err := t.keepToken(namespace, key)
		if err == nil {
			err = t.exec("DELETE FROM onerun_tombstone WHERE namespace = ?1 AND key = ?2", namespace, key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Size implements onerun.Sizer.
func (s *Store) Size(ctx context.Context) (size int64, err error) {
	err = s.read(ctx, "measure the store", func(t *tx) error {
		return t.row("SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size").Scan(&size)
	})
	return size, err
}

// shrinkPages is how many pages one step gives back to the file system.
const shrinkPages = 500

// Shrink implements onerun.Shrinker. A store that version 1 of the schema began can't
// give room back, and uses it again instead; see docs/stores/sqlite.md.
func (s *Store) Shrink(ctx context.Context) (more bool, err error) {
	err = s.lightly(ctx, "shrink the store", func(t *tx) error {
		var mode, free int
		if err := t.row("SELECT auto_vacuum, freelist_count FROM pragma_auto_vacuum, pragma_freelist_count").Scan(&mode, &free); err != nil {
			return err
		}
		if mode != incrementalVacuum || free == 0 {
			return nil
		}
		more = free > shrinkPages
		return t.each(func(func(...any) error) error { return nil }, "PRAGMA incremental_vacuum(500)")
	})
	return more, err
}
