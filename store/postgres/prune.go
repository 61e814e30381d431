package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// Prune implements onerun.Operator.
func (s *Store) Prune(ctx context.Context, q onerun.PruneRequest) (onerun.Pruned, error) {
	return sqlledger.Prune(ctx, s.read, s.write, q)
}

// Remove implements sqlledger.Pruner.
func (t *tx) Remove(found []sqlledger.Chosen, forget bool, p *onerun.Pruned) error {
	ids := make([]string, len(found))
	for i, c := range found {
		ids[i] = c.ID
	}
	var text string
	if err := t.row("SELECT onerun_remove($1, $2)", ids, forget).Scan(&text); err != nil {
		return err
	}
	var a struct{ Runs, Keys, Forgotten int64 }
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return badAnswer("prune", err)
	}
	p.Runs, p.Keys, p.Forgotten = a.Runs, a.Keys, a.Forgotten
	return nil
}

// Prunable implements sqlledger.Looker.
func (t *tx) Prunable(q onerun.PruneRequest, at *sqlledger.Cursor) ([]sqlledger.Chosen, error) {
	query, args, err := prunableQuery(q, at)
	if err != nil {
		return nil, err
	}
	return sqlledger.Rows(t.each, sqlledger.ScanChosen, query, args...)
}

func prunableQuery(q onerun.PruneRequest, at *sqlledger.Cursor) (query string, args []any, err error) {
	var c sqlledger.Where
	c.AndAt("namespace = $%d", q.Namespace)
	c.And("status = 'SUCCEEDED'")
	switch {
	case q.Partition != "":
		c.AndAt("key = $%d", onerun.MakeKey(q.Job, q.Partition))
	case q.Job != "":
		c.AndAt("job = $%d", q.Job)
	}
	c.AndAt("started_at >= onerun_at($%d)", at.Started)
	c.And(fmt.Sprintf("(started_at, run_id) > (onerun_at($%d), $%d)", c.At(at.Started), c.At(at.ID)))
	if q.Partition == "" && !q.Oldest { // nothing beyond the last of all bounds
		c.AndAt("started_at <= onerun_at($%d)", at.Last(micros(q.Before), sqlledger.FirstTime().UnixMicro()))
	}
	if q.Partition == "" && !q.Oldest { // over one of the limits
		over := "false"
		if !q.Before.IsZero() {
			over = fmt.Sprintf("coalesce(finished_at, started_at) < onerun_at($%d)", c.At(micros(q.Before)))
		}
		if len(at.Cuts) > 0 {
			cuts, err := encode(at.Cuts)
			if err != nil {
				return "", nil, err
			}
			over += fmt.Sprintf(" OR (started_at, run_id) <= (onerun_at(($%[1]d::jsonb->job->>'Started')::bigint), $%[1]d::jsonb->job->>'ID')", c.At(cuts))
		}
		c.And("(" + over + ")")
	}
	if q.ForgetKeys { // what takes two people isn't for one to forget
		c.And("NOT EXISTS (SELECT 1 FROM onerun_attempt a WHERE a.run_id = r.run_id AND a.attempt = r.attempt AND a.two_people)")
		if len(q.TwoPeople) > 0 {
			c.AndAt("(key IS NULL OR job <> ALL ($%d))", q.TwoPeople)
		}
	}
	return "SELECT run_id, onerun_us(started_at) FROM onerun_run r " + c.String() + fmt.Sprintf(
		` AND NOT EXISTS (SELECT 1 FROM onerun_approval a WHERE a.run_id = r.run_id AND a.used_at IS NULL)
		ORDER BY started_at, run_id LIMIT %d`, q.Limit+1), c.Args, nil
}

// Refused implements sqlledger.Looker.
func (t *tx) Refused(q onerun.PruneRequest) ([]onerun.Skip, error) {
	return sqlledger.Rows(t.each, sqlledger.ScanRefused, `SELECT job, key, reason, holder FROM onerun_skip k
		WHERE namespace = $1 AND ($2 = '' OR job = $2) AND last_at < onerun_at($3)
		AND (key = '' OR NOT EXISTS (SELECT 1 FROM onerun_run r WHERE r.namespace = k.namespace AND r.key = k.key)) LIMIT $4`,
		q.Namespace, q.Job, micros(q.Before), q.Limit+1)
}

// RemoveRefused implements sqlledger.Pruner.
func (t *tx) RemoveRefused(q onerun.PruneRequest, found []onerun.Skip) (int64, error) {
	var columns [4][]string
	for _, k := range found {
		for i, text := range []string{k.Job, k.Key, string(k.Reason), k.Holder} {
			columns[i] = append(columns[i], text)
		}
	}
	return t.changed(`DELETE FROM onerun_skip k USING unnest($2::text[], $3::text[], $4::text[], $5::text[]) AS f (job, key, reason, holder)
		WHERE k.namespace = $1 AND k.job = f.job AND k.key = f.key AND k.reason = f.reason AND hashtextextended(k.holder, 0) = hashtextextended(f.holder, 0)
		AND k.holder = f.holder AND k.last_at < onerun_at($6)`, q.Namespace, columns[0], columns[1], columns[2], columns[3], micros(q.Before))
}

// CutOf implements sqlledger.Cutter.
func (t *tx) CutOf(namespace, job string, keep int) (c sqlledger.Cut, ok bool, err error) {
	err = t.row(`SELECT onerun_us(started_at), run_id FROM onerun_run WHERE namespace = $1 AND job = $2 AND status = 'SUCCEEDED'
		ORDER BY started_at DESC, run_id DESC LIMIT 1 OFFSET $3`, namespace, job, keep).Scan(&c.Started, &c.ID)
	if noRows(err) {
		return c, false, nil
	}
	return c, true, err
}

// JobNames implements sqlledger.Cutter, by one look-up each.
func (t *tx) JobNames(namespace string) ([]string, error) {
	return sqlledger.Texts(t.each, `WITH RECURSIVE j (job) AS (
			SELECT min(job) FROM onerun_run WHERE namespace = $1
			UNION ALL
			SELECT (SELECT min(job) FROM onerun_run WHERE namespace = $1 AND job > j.job) FROM j WHERE j.job IS NOT NULL
		) SELECT job FROM j WHERE job IS NOT NULL`, namespace)
}

// Forgettable implements sqlledger.Pruner.
func (t *tx) Forgettable(q onerun.PruneRequest) ([]string, error) {
	query, args := forgetQuery(q)
	return sqlledger.Texts(t.each, query, args...)
}

// Forget implements sqlledger.Pruner.
func (t *tx) Forget(namespace string, keys []string) error {
	err := t.exec("SELECT onerun_keep_tokens($1, $2)", namespace, keys)
	if err == nil {
		err = t.exec("DELETE FROM onerun_tombstone WHERE namespace = $1 AND key = ANY ($2)", namespace, keys)
	}
	return err
}

func forgetQuery(q onerun.PruneRequest) (query string, args []any) {
	var c sqlledger.Where
	c.AndAt("namespace = $%d", q.Namespace)
	c.And("NOT two_people")
	switch {
	case q.Partition != "":
		c.AndAt("key = $%d", onerun.MakeKey(q.Job, q.Partition))
	case !q.Oldest:
		c.AndAt("finished_at < onerun_at($%[1]d) AND started_at < onerun_at($%[1]d)", micros(q.Before)) // an index knows the second
	}
	if q.Partition == "" && q.Job != "" {
		c.AndAt("job = $%d", q.Job)
	}
	if len(q.TwoPeople) > 0 {
		c.AndAt("job <> ALL ($%d)", q.TwoPeople)
	}
	return "SELECT key FROM onerun_tombstone " + c.String() + fmt.Sprintf(" ORDER BY started_at, run_id LIMIT %d FOR UPDATE SKIP LOCKED", q.Limit+1), c.Args
}
