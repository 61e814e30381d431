package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/pgbed"
	"github.com/onerun-dev/onerun/store/postgres"
)

// fillPostgres puts $1 runs into a ledger that onerun has made: of two hundred jobs in turn, every
// five seconds one, with a failure and its retry now and then, refusals, and what some of them printed.
var fillPostgres = []string{
	`INSERT INTO onerun_run (run_id, namespace, job, partition, key, business_date, lock, status, attempt, scheduled_at, started_at, finished_at,
		token, worker_id, host, pid, reason, exit_code, error, processed, failed, version_label)
	SELECT id, 'default', job, part, job || ':' || part, left(part, 10), 'job/' || job, status, 1 + (n % 40 = 0)::integer, at, at, at + interval '90 s',
		(extract(epoch FROM at) * 1000)::bigint, host || '/4711', host, 4711, CASE status WHEN 'FAILED' THEN 'exit' END, (status = 'FAILED')::integer,
		CASE status WHEN 'FAILED' THEN 'exit status 1: no connection to the ledger of the bank' END, n % 10000, 0, 'v1.2.3'
	FROM (SELECT n, 'job-' || to_char(n % 200, 'FM000') AS job, 'batch-' || n % 12 || '.example.org' AS host, at,
		to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS+00:00') AS part,
		CASE WHEN n % 1000 = 7 THEN 'FAILED' WHEN n % 500 = 3 THEN 'SKIPPED' ELSE 'SUCCEEDED' END AS status,
		regexp_replace(lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 1, 19),
			'(.{8})(.{4})(.{4})(.{4})(.{12})', '\1-\2-\3-\4-\5') AS id
		FROM (SELECT n, now() - ($1::bigint - n) * interval '5 s' - interval '1 h' AS at FROM generate_series(1, $1::bigint) n) i) r`,
	`INSERT INTO onerun_attempt (run_id, attempt, status, owner, token, lock, worker_id, host, machine, boot, pid_ns, time_ns, pid, start_ticks, ttl, on_crash,
		retries, backoff_min, backoff_max, retry_lost, started_at, finished_at, reason, exit_code, error, processed, failed)
	SELECT run_id, k, CASE WHEN k < r.attempt THEN 'FAILED' ELSE status END, md5(run_id || k), token + k, lock, worker_id, host, md5(host), md5(host || 'b'), 4026531836,
		4026531834, pid, 123456789, 60000000, 'auto', 3, 60000000, 600000000, false, started_at, finished_at, CASE WHEN k < r.attempt THEN 'exit' ELSE reason END,
		CASE WHEN k < r.attempt THEN 1 ELSE exit_code END, error, processed, failed
	FROM onerun_run r, generate_series(1, r.attempt) k`,
	`INSERT INTO onerun_lock (namespace, lock, token) SELECT namespace, lock, max(token) + 2 FROM onerun_run GROUP BY namespace, lock`,
	`INSERT INTO onerun_skip (namespace, job, key, reason, holder, detail, count, first_at, last_at)
	SELECT namespace, job, key, 'succeeded', run_id || '/' || attempt, key || ' by ' || worker_id, 1 + token % 5, finished_at, finished_at FROM onerun_run WHERE token / 5000 % 10 = 3`,
	`INSERT INTO onerun_output (run_id, attempt, at, bytes_total, truncated, text)
	SELECT run_id, attempt, finished_at, 320, false, repeat(md5(run_id) || E'\n', 10) FROM onerun_run WHERE token / 5000 % 20 = 4`,
}

// fillLedgerOf fills a database as if it were old: indexes are made when the rows are there, and
// what the server knows of tables is up to date.
func fillLedgerOf(ctx context.Context, server *pgbed.Server, database string, runs int) error {
	conn, err := pgx.Connect(ctx, server.URL(database))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, `SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index JOIN pg_class c ON c.oid = indrelid
		WHERE c.relname IN ('onerun_run', 'onerun_attempt', 'onerun_skip') AND NOT indisprimary`)
	if err != nil {
		return err
	}
	var drop, remake []string
	var name, text string
	_, err = pgx.ForEachRow(rows, []any{&name, &text}, func() error {
		drop, remake = append(drop, "DROP INDEX "+name), append(remake, text)
		return nil
	})
	if err != nil {
		return err
	}
	for _, query := range slices.Concat([]string{"SET synchronous_commit = off", "SET maintenance_work_mem = '512MB'"}, drop, fillPostgres, remake, []string{"VACUUM ANALYZE", "CHECKPOINT"}) {
		var args []any
		if query == fillPostgres[0] {
			args = []any{runs}
		}
		if _, err := conn.Exec(ctx, query, args...); err != nil {
			return fmt.Errorf("fill the ledger: %.60s: %w", query, err)
		}
	}
	return nil
}

// onLedgers claims and ends runs on an empty ledger and on one of many runs, in turns, and
// compares how long the slowest claims of each hundred take.
func onLedgers(ctx context.Context, server *pgbed.Server, rounds, runs int) error {
	const each = 1000 // claims of a ledger in a round
	var stores [2]*postgres.Store
	var size int64
	for i, database := range []string{"ledger_empty", "ledger_full"} {
		store, err := opened(ctx, server, database, 1)
		if err == nil && database == "ledger_full" {
			if err = fillLedgerOf(ctx, server, database, runs); err == nil {
				size, err = number(ctx, server, "SELECT pg_database_size($1)", database)
			}
		}
		if err != nil {
			return err
		}
		stores[i] = store
	}
	var usual, slow, all [2][]time.Duration
	for r := -1; r < rounds; r++ { // the first warms the caches
		var took [2][]time.Duration
		for n := range each {
			for i := range stores {
				i = (i + n) % 2
				c := claimOf(0, 0)
				c.Job = fmt.Sprintf("job-%03d", n%200)
				c.Partition, c.Lock = fmt.Sprintf("%s-%d-%d", time.Now().UTC().Format(time.DateOnly), r+1, n), onerun.JobLock(c.Job)
				begin := time.Now()
				g, err := stores[i].Claim(ctx, c)
				took[i] = append(took[i], time.Since(begin))
				if err == nil {
					err = stores[i].Finish(ctx, g.Lease, onerun.Outcome{Status: onerun.Succeeded})
				}
				if err != nil {
					return err
				}
			}
		}
		for i := range took {
			if r < 0 {
				continue
			}
			slices.Sort(took[i])
			usual[i], slow[i] = append(usual[i], took[i][each/2]), append(slow[i], took[i][each*99/100])
			all[i] = append(all[i], took[i]...)
		}
	}
	for i := range all {
		slices.Sort(all[i])
	}
	fmt.Printf("\n# A claim on a ledger of %d runs (%.1f GiB), to one on an empty ledger: %d rounds of %d each in turns\n\n", runs, float64(size)/(1<<30), rounds, each)
	fmt.Printf("%-38s %s\n", "the median", ratio(usual[1], usual[0]))
	fmt.Printf("%-38s %s   goal 1.2\n", "the 99th percentile", ratio(slow[1], slow[0]))
	at := len(all[0]) * 99 / 100
	fmt.Printf("%-38s %5.2f\n", "the 99th percentile of all rounds", float64(all[1][at])/float64(all[0][at]))
	for _, s := range stores {
		if err := s.Close(); err != nil {
			return err
		}
	}
	return nil
}
