package postgres_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/postgres"
)

// node is a step of a plan, as EXPLAIN (FORMAT JSON) has it.
type node struct {
	NodeType  string `json:"Node Type"`
	Relation  string `json:"Relation Name"`
	Index     string `json:"Index Name"`
	IndexCond string `json:"Index Cond"`
	Plans     []node
}

func (n node) each(f func(node)) {
	f(n)
	for _, p := range n.Plans {
		p.each(f)
	}
}

func planOf(t *testing.T, conn *pgx.Conn, query string, args []any) node {
	t.Helper()
	var text string
	if err := conn.QueryRow(soon(t), "EXPLAIN (FORMAT JSON) "+query, append([]any{pgx.QueryExecModeExec}, args...)...).Scan(&text); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	var plans []struct{ Plan node }
	if err := json.Unmarshal([]byte(text), &plans); err != nil {
		t.Fatal(err)
	}
	return plans[0].Plan
}

// TestPlans: a page of a listing, a step of pruning and what a claim asks are answered from
// indexes, whatever else the ledger holds.
func TestPlans(t *testing.T) {
	t.Parallel()
	_, url := fresh(t)
	conn := direct(t, url)
	mustExec(t, conn, "SELECT set_config('search_path', $1, false)", schemaOf(url))
	// A ledger of some size, so that the planner has a choice to make.
	mustExec(t, conn, `INSERT INTO onerun_run (run_id, namespace, job, partition, key, lock, status, attempt, started_at, finished_at, next_retry_at)
		SELECT 'r' || i, 'default', 'job-' || i % 20, 'p' || i, 'job-' || i % 20 || ':p' || i, 'job/job-' || i % 20,
			CASE WHEN i <= 20 THEN 'RUNNING' WHEN i % 50 = 0 THEN 'FAILED' ELSE 'SUCCEEDED' END, 1,
			now() - i * interval '1 minute', now() - i * interval '1 minute', CASE WHEN i % 5000 = 0 THEN now() END FROM generate_series(1, 20000) i`)
	mustExec(t, conn, `INSERT INTO onerun_attempt (run_id, attempt, status, owner, token, lock, ttl, on_crash, retries, backoff_min, backoff_max, retry_lost, started_at)
		SELECT run_id, 1, status, run_id, 1, lock, 1, 'auto', 0, 0, 0, false, started_at FROM onerun_run`)
	mustExec(t, conn, `INSERT INTO onerun_skip SELECT namespace, job, key, 'succeeded', run_id || '/1', 'x', 1, now(), now() FROM onerun_run`)
	mustExec(t, conn, `INSERT INTO onerun_item (namespace, job, item, state, tries, run_id, attempt, owner, on_crash, started_at)
		SELECT 'default', 'job-' || i % 20, 'item ' || i, CASE WHEN i % 1000 = 0 THEN 'failed' ELSE 'done' END, 1, 'r1', 1, 'o', 'auto', now() - i * interval '1 s'
		FROM generate_series(1, 20000) i`)
	mustExec(t, conn, `INSERT INTO onerun_tombstone SELECT 'default', 'gone-' || i % 20 || ':' || i, 'g' || i, 'gone-' || i % 20, '' || i, NULL, 'job/gone', 'SUCCEEDED', 1, 1, false, 'auto', NULL,
		now() - i * interval '1 minute', now() - i * interval '1 minute', now() FROM generate_series(1, 20000) i`)
	mustExec(t, conn, `INSERT INTO onerun_event (at, event, namespace, job, run_id, chain, hash) SELECT now(), 'x', 'default', 'j', 'r' || i, 'r' || i, '' FROM generate_series(1, 20000) i`)
	mustExec(t, conn, `INSERT INTO onerun_lock (namespace, lock, token) SELECT 'default', 'key/' || i, 1 FROM generate_series(1, 5000) i`)
	mustExec(t, conn, `INSERT INTO onerun_approval (run_id, status, attempt, reason, approved_by, created_at, used_at) SELECT run_id, 'FAILED', 1, 'x', 'x', now(), now() FROM onerun_run`)
	mustExec(t, conn, "ANALYZE")
	var q postgres.Queries
	ask := func(query string, args []any) func() (string, []any) {
		return func() (string, []any) { return query, args }
	}
	runs := func(r onerun.Query, st ...onerun.Status) func() (string, []any) {
		r.Namespace = "default"
		return ask(q.Page(r, st...))
	}
	items := func(r onerun.ItemQuery) func() (string, []any) {
		r.Namespace = "default"
		return ask(q.Items(r))
	}
	prune := func(r onerun.PruneRequest, cuts map[string]string) func() (string, []any) {
		r.Namespace, r.Limit = "default", 100
		return ask(q.Prunable(r, cuts))
	}
	all := []onerun.Status{onerun.Running, onerun.Succeeded, onerun.Failed, onerun.Skipped}
	ago := time.Now().Add(-time.Hour)
	for what, c := range map[string]struct {
		query func() (string, []any)
		index string
	}{
		"history":                     {runs(onerun.Query{Limit: 50}, onerun.Succeeded), "onerun_run_status"},
		"history since":               {runs(onerun.Query{Limit: 50, Since: ago}, onerun.Succeeded), "onerun_run_status"},
		"history until":               {runs(onerun.Query{Limit: 50, Until: ago}, onerun.Succeeded), "onerun_run_status"},
		"what is running":             {runs(onerun.Query{}, onerun.Running), "onerun_run_running"},
		"history of a job":            {runs(onerun.Query{Limit: 50, Job: "job-3"}, onerun.Succeeded), "onerun_run_job"},
		"history of a job since":      {runs(onerun.Query{Limit: 50, Job: "job-3", Since: ago}, onerun.Succeeded), "onerun_run_job"},
		"history of a state of a job": {runs(onerun.Query{Limit: 50, Job: "job-3"}, onerun.Failed), "onerun_run_job"},
		"one key":                     {runs(onerun.Query{Job: "job-3", Partition: "p3"}, all...), "onerun_run_key"},
		"one run":                     {runs(onerun.Query{RunID: "r3"}, all...), "onerun_run_pkey"},
		"what is due":                 {runs(onerun.Query{RetryDue: true}, all...), "onerun_run_retry"},
		"items":                       {items(onerun.ItemQuery{Limit: 50}), "onerun_item_all"},
		"items of a job":              {items(onerun.ItemQuery{Job: "job-3", Limit: 50}), "onerun_item_job"},
		"items that are not done":     {items(onerun.ItemQuery{States: []onerun.ItemState{onerun.ItemFailed, onerun.ItemStarted}, Limit: 50}), "onerun_item_open"},
		"one item":                    {items(onerun.ItemQuery{Job: "job-3", Name: "item 3"}), "onerun_item_pkey"},
		"to prune by age":             {prune(onerun.PruneRequest{Before: ago}, nil), "onerun_run_status"},
		"to prune by number":          {prune(onerun.PruneRequest{Keep: 5}, map[string]string{"job-3": "r3"}), "onerun_run_status"},
		"to prune by number of a job": {prune(onerun.PruneRequest{Keep: 5, Job: "job-3"}, map[string]string{"job-3": "r3"}), "onerun_run_job"},
		"to prune the oldest":         {prune(onerun.PruneRequest{Oldest: true}, nil), "onerun_run_status"},
		"to prune one key":            {prune(onerun.PruneRequest{Job: "job-3", Partition: "p23"}, nil), "onerun_run_key"},
		"to forget by age":            {ask(q.Forget(onerun.PruneRequest{Namespace: "default", Before: ago, Limit: 100})), "onerun_tombstone_all"},
		"to forget by age of a job":   {ask(q.Forget(onerun.PruneRequest{Namespace: "default", Before: ago, Limit: 100, Job: "gone-3"})), "onerun_tombstone_job"},
		"a tombstone":                 {ask("SELECT 1 FROM onerun_tombstone WHERE namespace = $1 AND run_id = $2", []any{"default", "g3"}), "onerun_tombstone_run"},
		"tombstones":                  {ask("SELECT 1 FROM onerun_tombstone WHERE namespace = $1 ORDER BY started_at DESC, run_id DESC LIMIT 50", []any{"default"}), "onerun_tombstone_all"},
		"events of a run":             {ask("SELECT 1 FROM onerun_event WHERE run_id = $1 ORDER BY id", []any{"r3"}), "onerun_event_run"},
		"the end of a chain":          {ask("SELECT hash FROM onerun_event WHERE chain = $1 ORDER BY id DESC LIMIT 1", []any{"r3"}), "onerun_event_chain"},
		"the run of a lock":           {ask("SELECT 1 FROM onerun_run WHERE namespace = $1 AND lock = $2 AND status = 'RUNNING'", []any{"default", "job/job-3"}), "onerun_run_running"},
		"a lock":                      {ask("SELECT 1 FROM onerun_lock WHERE namespace = $1 AND lock = $2 FOR UPDATE", []any{"default", "key/3"}), "onerun_lock_pkey"},
	} {
		query, args := c.query()
		plan := planOf(t, conn, query, args)
		named := false
		plan.each(func(n node) {
			named = named || n.Index == c.index
			if n.NodeType == "Seq Scan" && n.Relation != "onerun_lock" { // a join's, of the few that are held
				t.Errorf("%s: it walks over %s", what, n.Relation)
			}
			if n.NodeType == "Sort" && !strings.HasPrefix(what, "what is") && !strings.HasPrefix(what, "one ") && !strings.HasPrefix(what, "to prune one") {
				t.Errorf("%s: it sorts", what)
			}
		})
		if !named {
			t.Errorf("%s: it isn't read from %s: %+v\n%s", what, c.index, plan, query)
		}
	}
}

// TestNewLedger: on a ledger that the server hasn't analyzed yet, whose plans it made when there
// was nothing in it, a claim and its end read no more rows than before.
func TestNewLedger(t *testing.T) {
	t.Parallel()
	s, url := fresh(t, "pool_max_conns", "1")
	conn := direct(t, url)
	mustExec(t, conn, "SELECT set_config('search_path', $1, false)", schemaOf(url))
	for _, table := range []string{"run", "attempt", "lock", "tombstone"} {
		mustExec(t, conn, "ALTER TABLE onerun_"+table+" SET (autovacuum_enabled = false)")
	}
	cycles := func(s *postgres.Store, name string) {
		t.Helper()
		for i := range 20 {
			succeed(t, s, granted(t, s, claimOf("settle", fmt.Sprint(name, i))))
		}
	}
	cycles(s, "before ") // the plans are kept with the connection
	const size = 20000
	mustExec(t, conn, `INSERT INTO onerun_run (run_id, namespace, job, partition, key, lock, status, attempt, started_at, finished_at)
		SELECT 'r' || i, 'default', 'settle', 'p' || i, 'settle:p' || i, 'job/settle', 'SUCCEEDED', 1, now(), now() FROM generate_series(1, $1) i`, size)
	mustExec(t, conn, `INSERT INTO onerun_tombstone SELECT 'default', 'settle:gone' || i, 'g' || i, 'settle', 'gone' || i, NULL, 'job/settle', 'SUCCEEDED', 1, 1, false, 'auto', NULL,
		now(), now(), now() FROM generate_series(1, $1) i`, size)
	cycles(s, "after ")
	anew := open(t, url)
	cycles(anew, "anew ")
	if err := errors.Join(s.Close(), anew.Close()); err != nil { // which makes the server count what it did
		t.Fatal(err)
	}
	waitFor(t, url, "the count of the attempts", "SELECT n_tup_ins >= 60 FROM pg_stat_user_tables WHERE schemaname = '"+schemaOf(url)+"' AND relname = 'onerun_attempt'")
	var read int
	err := conn.QueryRow(soon(t), `SELECT sum(coalesce(idx_tup_fetch, 0) + seq_tup_read) FROM pg_stat_user_tables
		WHERE schemaname = $1 AND relname IN ('onerun_run', 'onerun_tombstone', 'onerun_attempt', 'onerun_lock')`, schemaOf(url)).Scan(&read)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d rows read", read)
	if read > size {
		t.Errorf("60 claims and their ends read %d rows on a ledger of %d runs", read, size)
	}
}
