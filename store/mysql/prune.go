package mysql

import (
	"context"
	"fmt"
	"strings"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// Prune implements onerun.Operator.
func (s *Store) Prune(ctx context.Context, q onerun.PruneRequest) (onerun.Pruned, error) {
	return sqlledger.Prune(ctx, s.read, s.write, q)
}

// Prunable implements sqlledger.Looker.
func (t *tx) Prunable(q onerun.PruneRequest, at *sqlledger.Cursor) ([]sqlledger.Chosen, error) {
	query, args := prunableQuery(q, at)
	return sqlledger.Rows(t.each, sqlledger.ScanChosen, query, args...)
}

func prunableQuery(q onerun.PruneRequest, at *sqlledger.Cursor) (query string, args []any) {
	var c sqlledger.Where
	c.And("namespace = ?", q.Namespace)
	c.And("status = 'SUCCEEDED'")
	switch {
	case q.Partition != "":
		c.And(`"key" = ?`, onerun.MakeKey(q.Job, q.Partition))
	case q.Job != "":
		c.And("job = ?", q.Job)
	}
	c.And("started_at >= ?", at.Started)
	c.And("(started_at > ? OR started_at = ? AND run_id > ?)", at.Started, at.Started, at.ID)
	if q.Partition == "" && !q.Oldest { // nothing beyond the last of all bounds
		c.And("started_at <= ?", at.Last(micros(q.Before), sqlledger.FirstTime().UnixMicro()))
	}
	if q.Partition == "" && !q.Oldest { // over one of the limits
		over, args := []string{"FALSE"}, []any{}
		if !q.Before.IsZero() {
			over, args = append(over, "COALESCE(finished_at, started_at) < ?"), append(args, micros(q.Before))
		}
		for job, cut := range at.Cuts {
			over = append(over, "job = ? AND (started_at < ? OR started_at = ? AND run_id <= ?)")
			args = append(args, job, cut.Started, cut.Started, cut.ID)
		}
		c.And("("+strings.Join(over, " OR ")+")", args...)
	}
	if q.ForgetKeys { // what takes two people isn't for one to forget
		c.And("NOT EXISTS (SELECT 1 FROM onerun_attempt a WHERE a.run_id = r.run_id AND a.attempt = r.attempt AND a.two_people)")
		if len(q.TwoPeople) > 0 {
			c.And(`("key" IS NULL OR job NOT IN (`+places(len(q.TwoPeople))+"))", texts(q.TwoPeople)...)
		}
	}
	return "SELECT run_id, started_at FROM onerun_run r " + c.String() + fmt.Sprintf(
		` AND NOT EXISTS (SELECT 1 FROM onerun_approval a WHERE a.run_id = r.run_id AND a.used_at IS NULL)
		ORDER BY started_at, run_id LIMIT %d`, q.Limit+1), c.Args
}

// Refused implements sqlledger.Looker. A holder is known by its hash, as the key of the table has it.
func (t *tx) Refused(q onerun.PruneRequest) ([]onerun.Skip, error) {
	return sqlledger.Rows(t.each, sqlledger.ScanRefused, `SELECT job, "key", reason, HEX(holder_hash) FROM onerun_skip k
		WHERE namespace = ? AND (? = '' OR job = ?) AND last_at < ?
		AND ("key" = '' OR NOT EXISTS (SELECT 1 FROM onerun_run r WHERE r.namespace = k.namespace AND r."key" = k."key"))`+fmt.Sprintf(" LIMIT %d", q.Limit+1),
		q.Namespace, q.Job, q.Job, micros(q.Before))
}

// RemoveRefused implements sqlledger.Pruner.
func (t *tx) RemoveRefused(q onerun.PruneRequest, found []onerun.Skip) (n int64, err error) {
	for _, k := range found {
		gone, err := t.changed(`DELETE FROM onerun_skip WHERE namespace = ? AND job = ? AND "key" = ? AND reason = ? AND holder_hash = UNHEX(?) AND last_at < ?`,
			q.Namespace, k.Job, k.Key, string(k.Reason), k.Holder, micros(q.Before))
		if n += gone; err != nil {
			return n, err
		}
	}
	return n, nil
}

// CutOf implements sqlledger.Cutter.
func (t *tx) CutOf(namespace, job string, keep int) (c sqlledger.Cut, ok bool, err error) {
	err = t.row(`SELECT started_at, run_id FROM onerun_run WHERE namespace = ? AND job = ? AND status = 'SUCCEEDED'
		ORDER BY started_at DESC, run_id DESC LIMIT 1 OFFSET ?`, namespace, job, keep).Scan(&c.Started, &c.ID)
	if noRows(err) {
		return c, false, nil
	}
	return c, true, err
}

// JobNames implements sqlledger.Cutter. The index of jobs is looked into once for each.
func (t *tx) JobNames(namespace string) ([]string, error) {
	return sqlledger.Texts(t.each, "SELECT DISTINCT job FROM onerun_run WHERE namespace = ? ORDER BY job", namespace)
}

// Forgettable implements sqlledger.Pruner.
func (t *tx) Forgettable(q onerun.PruneRequest) ([]string, error) {
	query, args := forgetQuery(q)
	return sqlledger.Texts(t.each, query, args...)
}

// Forget implements sqlledger.Pruner.
func (t *tx) Forget(namespace string, keys []string) error {
	if err := t.keepTokens(namespace, keys...); err != nil {
		return err
	}
	return t.exec(`DELETE FROM onerun_tombstone WHERE namespace = ? AND "key" IN (`+places(len(keys))+")", append([]any{namespace}, texts(keys)...)...)
}

func texts(all []string) []any {
	out := make([]any, len(all))
	for i, s := range all {
		out[i] = s
	}
	return out
}

func forgetQuery(q onerun.PruneRequest) (query string, args []any) {
	var c sqlledger.Where
	c.And("namespace = ?", q.Namespace)
	c.And("NOT two_people")
	switch {
	case q.Partition != "":
		c.And(`"key" = ?`, onerun.MakeKey(q.Job, q.Partition))
	case !q.Oldest:
		c.And("finished_at < ? AND started_at < ?", micros(q.Before), micros(q.Before)) // an index knows the second
	}
	if q.Partition == "" && q.Job != "" {
		c.And("job = ?", q.Job)
	}
	if len(q.TwoPeople) > 0 {
		c.And("job NOT IN ("+places(len(q.TwoPeople))+")", texts(q.TwoPeople)...)
	}
	return `SELECT "key" FROM onerun_tombstone ` + c.String() + fmt.Sprintf(" ORDER BY started_at, run_id LIMIT %d", q.Limit+1), c.Args
}
