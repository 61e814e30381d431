package sqlite

import (
	"context"
	_ "embed" // queries
	"encoding/json"
	"fmt"

	"github.com/onerun-dev/onerun"
)

//go:embed sql/bury.sql
var sqlBury string

// removals take away what is kept of a run beside its row: ?1 the run id. Decisions of
// operators stay, since their chain of events is one for all.
var removals = [...]string{
	"DELETE FROM onerun_attempt WHERE run_id = ?1",
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
	var ids []string
	cut := cutoffs{}
	if err := cut.decode(q.Cursor); err != nil {
		return onerun.Pruned{}, err
	}
	err = s.read(ctx, "look for what to prune", func(t *tx) error {
		ids, err = t.prunable(q, &cut)
		return err
	})
	if err != nil {
		return onerun.Pruned{}, err
	}
	more := len(ids) > q.Limit
	ids = ids[:min(len(ids), q.Limit)]
	var p onerun.Pruned
	err = s.lightly(ctx, "prune", func(t *tx) error {
		p = onerun.Pruned{More: more, Cursor: cut.encode()}
		for _, id := range ids {
			if err := t.remove(id, q.ForgetKeys, &p); err != nil {
				return err
			}
		}
		if q.ForgetKeys && p.Runs < int64(q.Limit) {
			n, err := t.forget(q)
			p.Forgotten += n
			p.More = p.More || n == int64(q.Limit)
			if err != nil {
				return err
			}
		}
		if p.Runs+p.Forgotten == 0 || q.By == "" {
			return nil
		}
		return t.event(decision(onerun.EventPruned, q.Who, p.String()), onerun.Run{Namespace: q.Namespace, Job: q.Job, Partition: q.Partition})
	})
	return p, err
}

// prunable finds the runs that a request is about, at most one more than it may remove,
// those that began first first.
func (t *tx) prunable(q onerun.PruneRequest, cut *cutoffs) ([]string, error) {
	var ids []string
	add := func(where string, args ...any) error {
		if len(ids) > q.Limit {
			return nil
		}
		// What is open for a run keeps it.
		query := `SELECT run_id FROM onerun_run r WHERE namespace = ?1 AND status = 'SUCCEEDED' AND ` + where + `
			AND NOT EXISTS (SELECT 1 FROM onerun_approval a WHERE a.run_id = r.run_id AND a.used_at IS NULL)
			ORDER BY started_at, run_id LIMIT ?2`
		return t.each(func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			ids = append(ids, id)
			return err
		}, query, append([]any{q.Namespace, q.Limit + 1 - len(ids)}, args...)...)
	}
	switch {
	case q.Partition != "":
		return ids, add("key = ?3", onerun.MakeKey(q.Job, q.Partition))
	case q.Oldest && q.Job != "":
		return ids, add("job = ?3", q.Job)
	case q.Oldest:
		return ids, add("true")
	}
	if !q.Before.IsZero() {
		before := q.Before.UnixMicro() // what ended before it began before it, which the index knows
		where, args := "started_at < ?3 AND finished_at < ?3", []any{before}
		if q.Job != "" {
			where, args = where+" AND job = ?4", append(args, q.Job)
		}
		if err := add(where, args...); err != nil {
			return nil, err
		}
	}
	if q.Keep > 0 {
		if err := t.beyond(q, cut); err != nil {
			return nil, err
		}
		have := len(ids)
		for i := range cut.Jobs {
			c, before := &cut.Jobs[i], len(ids)
			if c.Done || before > q.Limit {
				continue
			}
			if err := add("job = ?3 AND started_at <= ?4 AND (started_at, run_id) <= (?4, ?5)", c.Job, c.At, c.ID); err != nil {
				return nil, err
			}
			c.Done = len(ids) <= q.Limit // all that there was; what others remove meanwhile is gone too
		}
		if have > 0 {
			ids = distinct(ids)
		}
	}
	return ids, nil
}

// cutoffs are, for each job, the newest of its successes that are too many. To find them
// is to walk over all that stay, so it is done once.
type cutoffs struct {
	Known bool
	Jobs  []cutoff
}

type cutoff struct {
	Job  string
	At   int64
	ID   string
	Done bool // nothing is left of it
}

func (c *cutoffs) encode() string {
	b, _ := json.Marshal(c) // strings and numbers
	return string(b)
}

func (c *cutoffs) decode(s string) error {
	if s == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(s), c); err != nil {
		return fmt.Errorf("%w: that is no cursor of this store's: %w", onerun.ErrUsage, err)
	}
	return nil
}

// beyond finds the cutoffs, unless they are known.
func (t *tx) beyond(q onerun.PruneRequest, cut *cutoffs) error {
	if cut.Known {
		return nil
	}
	jobs := []string{q.Job}
	if q.Job == "" {
		var err error
		if jobs, err = t.jobNames(q.Namespace); err != nil {
			return err
		}
	}
	cut.Known, cut.Jobs = true, nil
	for _, job := range jobs {
		c := cutoff{Job: job}
		err := t.row(`SELECT started_at, run_id FROM onerun_run WHERE namespace = ?1 AND job = ?2 AND status = 'SUCCEEDED'
			ORDER BY started_at DESC, run_id DESC LIMIT 1 OFFSET ?3`, q.Namespace, job, q.Keep).Scan(&c.At, &c.ID)
		if noRows(err) {
			continue
		}
		if err != nil {
			return err
		}
		cut.Jobs = append(cut.Jobs, c)
	}
	return nil
}

// distinct drops what is there twice: over its age and over the number.
func distinct(ids []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out
}

// jobNames lists the jobs that have runs, by one look-up each.
func (t *tx) jobNames(namespace string) ([]string, error) {
	var names []string
	err := t.each(func(scan func(...any) error) error {
		var n string
		err := scan(&n)
		names = append(names, n)
		return err
	}, `WITH RECURSIVE j (job) AS (
			SELECT min(job) FROM onerun_run WHERE namespace = ?1
			UNION ALL
			SELECT (SELECT min(job) FROM onerun_run WHERE namespace = ?1 AND job > j.job) FROM j WHERE j.job IS NOT NULL
		) SELECT job FROM j WHERE job IS NOT NULL`, namespace)
	return names, err
}

// remove takes one run away, if it is still what it was when it was chosen.
func (t *tx) remove(id string, forget bool, p *onerun.Pruned) error {
	var namespace, job, key string
	err := t.row(`SELECT namespace, job, coalesce(key, '') FROM onerun_run r WHERE run_id = ?1 AND status = 'SUCCEEDED'
		AND NOT EXISTS (SELECT 1 FROM onerun_approval a WHERE a.run_id = r.run_id AND a.used_at IS NULL)`, id).Scan(&namespace, &job, &key)
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
		if err == nil { // the token stands in the tombstone, or follows the clock
			err = t.exec("DELETE FROM onerun_lock WHERE namespace = ?1 AND lock = ?2 AND owner IS NULL", namespace, onerun.KeyLock(key))
		}
		if forget {
			p.Forgotten++
		}
	}
	p.Runs++
	return err
}

// forget removes tombstones that a request is about.
func (t *tx) forget(q onerun.PruneRequest) (int64, error) {
	where, args := "namespace = ?1", []any{q.Namespace, q.Limit}
	switch {
	case q.Partition != "":
		where += " AND key = ?3"
		args = append(args, onerun.MakeKey(q.Job, q.Partition))
	case q.Oldest:
	case q.Before.IsZero(): // a number to keep says nothing of keys whose runs are gone
		return 0, nil
	default:
		where += " AND finished_at < ?3"
		args = append(args, q.Before.UnixMicro())
	}
	if q.Partition == "" && q.Job != "" {
		where += " AND job = ?4"
		args = append(args, q.Job)
		if len(args) == 3 { // ?3 is not used
			args = []any{args[0], args[1], nil, q.Job}
		}
	}
	return t.changed("DELETE FROM onerun_tombstone WHERE (namespace, key) IN (SELECT namespace, key FROM onerun_tombstone WHERE "+where+" LIMIT ?2)", args...)
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
