package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// asked is a query as the database got it.
type asked struct {
	query string
	args  []any
}

// recorder is a database that notes what it is asked.
type recorder struct {
	driver.Conn
	asked *[]asked
}

func (r recorder) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	a := asked{query: query}
	for _, v := range args {
		a.args = append(a.args, v.Value)
	}
	*r.asked = append(*r.asked, a)
	return r.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (r recorder) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	a := asked{query: query}
	for _, v := range args {
		a.args = append(a.args, v.Value)
	}
	*r.asked = append(*r.asked, a)
	return r.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

type connector struct {
	driver driver.Driver
	path   string
	asked  *[]asked
}

func (c connector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(dsn(c.path))
	return recorder{conn, c.asked}, err
}

func (c connector) Driver() driver.Driver { return c.driver }

// TestPlans: what a claim, a listing and a step of pruning ask is answered from indexes,
// whatever else the ledger holds.
func TestPlans(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), DatabaseName)
	d, err := openDB(ctx, path, false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.close() }()
	var seen []asked
	rec := sql.OpenDB(connector{d.sql.Driver(), path, &seen})
	defer func() { _ = rec.Close() }()
	conn, err := rec.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	tx := &tx{ctx: ctx, conn: conn, now: time.Now()}
	runs := func(q onerun.Query) func() error {
		q.Namespace = "default"
		return func() error { _, err := tx.selected(q); return err }
	}
	prune := func(q onerun.PruneRequest) func() error {
		q.Namespace, q.Limit = "default", 100
		return func() error {
			var at sqlledger.Cursor
			err := at.Cut(tx, q)
			if err == nil {
				_, err = tx.Prunable(q, &at)
			}
			return err
		}
	}
	forget := func(q onerun.PruneRequest) func() error {
		q.Namespace, q.Limit = "default", 100
		return func() error {
			keys, err := tx.Forgettable(q)
			if err == nil {
				err = tx.Forget(q.Namespace, keys)
			}
			return err
		}
	}
	for _, id := range []string{"r", "r2"} {
		if err := tx.exec(`INSERT INTO onerun_run (run_id, namespace, job, partition, key, lock, status, attempt, started_at)
			VALUES (?1, 'default', 'j', ?1, 'j:' || ?1, 'job/j', 'SUCCEEDED', 1, 1)`, id); err != nil {
			t.Fatal(err)
		}
	}
	items := func(q onerun.ItemQuery) func() error {
		q.Namespace = "default"
		return func() error { where, args := itemsWhere(q); _, err := tx.items(where, args...); return err }
	}
	open := []onerun.ItemState{onerun.ItemFailed, onerun.ItemStarted}
	failed := []onerun.Status{onerun.Failed}
	cut := time.Now()
	for what, c := range map[string]struct {
		do    func() error
		index string // that one of the plans names
	}{
		"history":                     {runs(onerun.Query{Limit: 50}), "onerun_run_status (status=?)"},
		"history since":               {runs(onerun.Query{Limit: 50, Since: cut}), "onerun_run_status (status=? AND started_at>?)"},
		"history of a job":            {runs(onerun.Query{Limit: 50, Job: "j"}), "onerun_run_job (namespace=? AND job=? AND status=?)"},
		"history of a job since":      {runs(onerun.Query{Limit: 50, Job: "j", Since: cut}), "onerun_run_job (namespace=? AND job=? AND status=? AND started_at>?)"},
		"history of a state":          {runs(onerun.Query{Limit: 50, Statuses: failed}), "onerun_run_status (status=?)"},
		"history of a state of a job": {runs(onerun.Query{Limit: 50, Job: "j", Statuses: failed}), "onerun_run_job (namespace=? AND job=? AND status=?)"},
		"history without a limit":     {runs(onerun.Query{}), "onerun_run_status (status=?)"},
		"one key":                     {runs(onerun.Query{Job: "j", Partition: "p"}), "onerun_run_key (namespace=? AND key=?)"},
		"one run":                     {runs(onerun.Query{RunID: "r"}), "PRIMARY KEY (run_id=?)"},
		"what is due":                 {runs(onerun.Query{RetryDue: true}), "onerun_run_retry (namespace=?"},
		"what is due of a job":        {runs(onerun.Query{RetryDue: true, Job: "j"}), "onerun_run_retry (namespace=?"},
		"stale-after":                 {func() error { _, err := tx.usualLimit(onerun.Run{Namespace: "default", Job: "j"}); return err }, "onerun_run_job (namespace=? AND job=? AND status=?)"},
		"a claim": {func() error {
			_, err := tx.state(onerun.Claim{Namespace: "default", Job: "j", Partition: "p", Lock: "job/j"})
			return err
		}, "onerun_run_running"},
		"the key of a claim": {func() error {
			_, err := tx.state(onerun.Claim{Namespace: "default", Job: "j", Partition: "p", Lock: "job/j"})
			return err
		}, "onerun_run_key (namespace=? AND key=?)"},
		"a tombstone":                   {func() error { _, err := tx.TombstoneOf("default", "", "r"); return err }, "onerun_tombstone_run (run_id=?"},
		"events":                        {func() error { _, err := tx.EventsOf("r"); return err }, "onerun_event_run (run_id=?)"},
		"to prune by age":               {prune(onerun.PruneRequest{Before: cut}), "onerun_run_status (status=? AND started_at>? AND started_at<?)"},
		"to prune by age of a job":      {prune(onerun.PruneRequest{Before: cut, Job: "j"}), "onerun_run_job (namespace=? AND job=? AND status=? AND (started_at,run_id)>(?,?) AND started_at<?)"},
		"to prune by number of a job":   {prune(onerun.PruneRequest{Keep: 5, Job: "j"}), "onerun_run_job (namespace=? AND job=? AND status=?"},
		"to prune by number":            {prune(onerun.PruneRequest{Keep: 5}), "onerun_run_job (namespace=?"},
		"to prune the oldest":           {prune(onerun.PruneRequest{Oldest: true}), "onerun_run_status (status=? AND started_at>? AND started_at<?)"},
		"to prune the oldest of a job":  {prune(onerun.PruneRequest{Oldest: true, Job: "j"}), "onerun_run_job (namespace=? AND job=? AND status=? AND (started_at,run_id)>(?,?) AND started_at<?)"},
		"to prune one key":              {prune(onerun.PruneRequest{Job: "j", Partition: "p"}), "onerun_run_key (namespace=? AND key=?)"},
		"whether something is approved": {func() error { _, err := tx.OpenApproval("r"); return err }, "onerun_approval_run (run_id=?)"},
		"a step of pruning":             {func() error { return tx.remove(sqlledger.Chosen{ID: "r", Started: 1}, false, &onerun.Pruned{}) }, "PRIMARY KEY (namespace=? AND lock=?)"},
		"a step of forgetting":          {func() error { return tx.remove(sqlledger.Chosen{ID: "r2", Started: 1}, true, &onerun.Pruned{}) }, "PRIMARY KEY (run_id=?)"},
		"to forget by age":              {forget(onerun.PruneRequest{Before: cut}), "PRIMARY KEY (namespace=?)"},
		"items":                         {items(onerun.ItemQuery{Limit: 50}), "onerun_item_all (namespace=?)"},
		"items of a job":                {items(onerun.ItemQuery{Job: "j", Limit: 50}), "onerun_item_job (namespace=? AND job=?)"},
		"items that are not done":       {items(onerun.ItemQuery{States: open, Limit: 50}), "onerun_item_open (namespace=?)"},
		"one item":                      {func() error { _, err := tx.item("default", "j", "i"); return err }, "PRIMARY KEY (namespace=? AND job=? AND item=?)"},
		"to forget a key":               {forget(onerun.PruneRequest{Job: "j", Partition: "p"}), "PRIMARY KEY (namespace=? AND key=?)"},
	} {
		seen = nil
		if err := c.do(); err != nil || len(seen) == 0 {
			t.Errorf("%s: %v, after %d queries", what, err, len(seen))
			continue
		}
		named := false
		for _, a := range seen {
			for _, step := range planOf(t, d.conn, a) {
				named = named || strings.Contains(step, c.index)
				if !indexed(step) || step == "USE TEMP B-TREE FOR ORDER BY" && !sorted(what, a) {
					t.Errorf("%s: %s\nof: %s", what, step, a.query)
				}
			}
		}
		if !named {
			t.Errorf("%s: it isn't read from %s, but by %q", what, c.index, planOf(t, d.conn, seen[0]))
		}
	}
}

// indexed reports whether a step of a plan costs what it returns. The recursion over the
// names of jobs walks its own few rows; the last term of an order is sorted among runs
// that began in the same microsecond.
func indexed(step string) bool {
	switch {
	case step == "SCAN CONSTANT ROW", step == "SCAN j", strings.HasPrefix(step, "SCAN (subquery"):
		return true
	}
	return !strings.HasPrefix(step, "SCAN") && !strings.Contains(step, "AUTOMATIC")
}

// sorted are the queries whose few rows are sorted after they were found: those with a
// retry, and the tombstone of one key or run.
func sorted(what string, a asked) bool {
	return strings.HasPrefix(what, "what is due") || strings.HasPrefix(what, "one ") && strings.Contains(a.query, "onerun_tombstone")
}

func planOf(t *testing.T, conn *sql.Conn, a asked) (steps []string) {
	t.Helper()
	rows, err := conn.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+a.query, a.args...)
	if err != nil {
		t.Fatal(fmt.Errorf("explain %s: %w", a.query, err))
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, step)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return steps
}
