package sqlite

import (
	"context"
	_ "embed" // queries
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/onerun-dev/onerun"
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
	at, err := decodeCursor(q.Cursor)
	if err != nil {
		return onerun.Pruned{}, err
	}
	var found []chosen
	err = s.read(ctx, "look for what to prune", func(t *tx) error {
		found, err = t.prunable(q, at)
		return err
	})
	if err != nil {
		return onerun.Pruned{}, err
	}
	more := len(found) > q.Limit
	found = found[:min(len(found), q.Limit)]
	if n := len(found); n > 0 {
		at.Started, at.ID = found[n-1].started, found[n-1].id
	}
	var p onerun.Pruned
	began := time.Now()
	err = s.lightly(ctx, "prune", func(t *tx) error {
		p, began = onerun.Pruned{More: more, Cursor: at.encode()}, t.now
		for _, c := range found {
			if err := t.remove(c, q.ForgetKeys, &p); err != nil {
				return err
			}
		}
		if q.ForgetKeys && !more {
			n, err := t.forget(q)
			p.Forgotten += min(n, int64(q.Limit))
			p.More = n > int64(q.Limit)
			if err != nil {
				return err
			}
		}
		p.Held = time.Since(began)
		if p.Runs+p.Forgotten == 0 || q.By == "" || q.Cursor != "" { // the first step stands for all
			return nil
		}
		return t.event(decision(onerun.EventPruned, q.Who, q.Words()), onerun.Run{Namespace: q.Namespace, Job: q.Job, Partition: q.Partition})
	})
	return p, err
}

// chosen is a run that a request is about, as it was when it was looked for.
type chosen struct {
	id      string
	started int64
}

// cursor is where a request has come to, and what its first step found out.
type cursor struct {
	Cuts    map[string]cut // by job: the newest of its successes that are too many
	Started int64          // everything up to here has been looked at
	ID      string
}

type cut struct {
	Started int64
	ID      string
}

func (c *cursor) encode() string {
	b, _ := json.Marshal(c) // numbers and strings
	return string(b)
}

func decodeCursor(s string) (*cursor, error) {
	c := &cursor{Started: math.MinInt64}
	if s == "" {
		return c, nil
	}
	if err := json.Unmarshal([]byte(s), c); err != nil {
		return nil, fmt.Errorf("%w: that is no cursor of this store's: %w", onerun.ErrUsage, err)
	}
	return c, nil
}

// prunable finds the runs that a request is about, at most one more than it may remove,
// those that began first first. What is open for a run keeps it.
func (t *tx) prunable(q onerun.PruneRequest, at *cursor) ([]chosen, error) {
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
	if q.Keep > 0 {
		if err := t.cuts(q, at); err != nil {
			return nil, err
		}
	}
	if q.Partition == "" && !q.Oldest { // nothing beyond the last of all bounds
		last := int64(math.MinInt64)
		if !q.Before.IsZero() {
			last = before
		}
		for _, c := range at.Cuts {
			last = max(last, c.Started)
		}
		args[3] = last
	}
	query := `SELECT run_id, started_at, coalesce(finished_at, started_at), job FROM onerun_run r
		WHERE namespace = ?1 AND status = 'SUCCEEDED' AND started_at BETWEEN ?2 AND ?4 AND (started_at, run_id) > (?2, ?3) AND ` + where + `
		AND NOT EXISTS (SELECT 1 FROM onerun_approval a WHERE a.run_id = r.run_id AND a.used_at IS NULL)
		ORDER BY started_at, run_id`
	var found []chosen
	err := t.each(func(scan func(...any) error) error {
		var c chosen
		var finished int64
		var job string
		if err := scan(&c.id, &c.started, &finished, &job); err != nil {
			return err
		}
		if q.Partition != "" || q.Oldest || !q.Before.IsZero() && finished < before || at.Cuts[job].includes(c) {
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

// errEnough ends the reading of rows.
var errEnough = errors.New("enough")

// includes reports whether a run is one of those that are too many of its job.
func (c cut) includes(r chosen) bool {
	return c.ID != "" && (r.started < c.Started || r.started == c.Started && r.id <= c.ID)
}

// cuts finds, for each job, the newest of its successes that are too many. To find it is
// to walk over all that stay, so it is done in a request's first step only.
func (t *tx) cuts(q onerun.PruneRequest, at *cursor) error {
	if at.Cuts != nil {
		return nil
	}
	at.Cuts = map[string]cut{}
	jobs := []string{q.Job}
	if q.Job == "" {
		var err error
		if jobs, err = t.jobNames(q.Namespace); err != nil {
			return err
		}
	}
	for _, job := range jobs {
		var c cut
		err := t.row(`SELECT started_at, run_id FROM onerun_run WHERE namespace = ?1 AND job = ?2 AND status = 'SUCCEEDED'
			ORDER BY started_at DESC, run_id DESC LIMIT 1 OFFSET ?3`, q.Namespace, job, q.Keep).Scan(&c.Started, &c.ID)
		if noRows(err) {
			continue
		}
		if err != nil {
			return err
		}
		at.Cuts[job] = c
	}
	return nil
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
func (t *tx) remove(c chosen, forget bool, p *onerun.Pruned) error {
	var namespace, job, key string
	id := c.id
	err := t.row(`SELECT namespace, job, coalesce(key, '') FROM onerun_run r WHERE run_id = ?1 AND started_at = ?2 AND status = 'SUCCEEDED'
		AND NOT EXISTS (SELECT 1 FROM onerun_approval a WHERE a.run_id = r.run_id AND a.used_at IS NULL)`, id, c.started).Scan(&namespace, &job, &key)
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

// forget removes tombstones that a request is about, and returns how many there were, at
// most one more than it may remove.
func (t *tx) forget(q onerun.PruneRequest) (n int64, err error) {
	where, args := "namespace = ?1 AND NOT two_people", []any{q.Namespace, q.Limit + 1}
	and := func(condition string, arg any) {
		args = append(args, arg)
		where += fmt.Sprintf(" AND "+condition, len(args))
	}
	switch {
	case q.Partition != "":
		and("key = ?%d", onerun.MakeKey(q.Job, q.Partition))
	case !q.Oldest && q.Before.IsZero(): // a number to keep says nothing of keys whose runs are gone
		return 0, nil
	case !q.Oldest:
		and("finished_at < ?%d", q.Before.UnixMicro())
	}
	if q.Partition == "" && q.Job != "" {
		and("job = ?%d", q.Job)
	}
	for _, job := range q.TwoPeople {
		and("job <> ?%d", job)
	}
	var keys []string
	err = t.each(func(scan func(...any) error) error {
		var key string
		err := scan(&key)
		keys = append(keys, key)
		return err
	}, "SELECT key FROM onerun_tombstone WHERE "+where+" LIMIT ?2", args...)
	for _, key := range keys[:min(len(keys), q.Limit)] {
		if err == nil {
			err = t.keepToken(q.Namespace, key)
		}
		if err == nil {
			err = t.exec("DELETE FROM onerun_tombstone WHERE namespace = ?1 AND key = ?2", q.Namespace, key)
		}
	}
	return int64(len(keys)), err
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
