package sqlite_test

import (
	"context"
	"database/sql"
	"net/url"
	"testing"
)

// sql opens the database beside the store, as the sqlite3 program would.
func (b *bed) sql() *sql.DB { b.t.Helper(); return rawSQL(b.t, b.path) }

func rawSQL(t testing.TB, path string) *sql.DB {
	t.Helper()
	d, err := sql.Open("sqlite", (&url.URL{Scheme: "file", OmitHost: true, Path: path}).String()+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// execer is a database, a connection or a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func mustExec(t testing.TB, d execer, query string, args ...any) {
	t.Helper()
	if _, err := d.ExecContext(soon(t), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// one reads one value.
func one[T any](t testing.TB, d *sql.DB, query string, args ...any) T {
	t.Helper()
	var v T
	if err := d.QueryRowContext(soon(t), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// sound checks what must hold of the database whatever happened.
func sound(t testing.TB, path string) {
	t.Helper()
	d := rawSQL(t, path)
	defer func() { _ = d.Close() }()
	if s := one[string](t, d, "PRAGMA integrity_check"); s != "ok" {
		t.Fatalf("integrity_check of the database: %s", s)
	}
	if n := one[int](t, d, "SELECT count(*) FROM sqlite_schema WHERE name = 'onerun_run'"); n == 0 {
		return // it was never migrated
	}
	for what, query := range map[string]string{
		"locks with more than one RUNNING run":                    "SELECT count(*) FROM (SELECT 1 FROM onerun_run WHERE status = 'RUNNING' GROUP BY namespace, lock HAVING count(*) > 1)",
		"runs whose last attempt says otherwise":                  "SELECT count(*) FROM onerun_run r JOIN onerun_attempt a ON a.run_id = r.run_id AND a.attempt = r.attempt WHERE a.status <> r.status AND r.status = 'RUNNING'",
		"attempts that are RUNNING although their run is not":     "SELECT count(*) FROM onerun_attempt a JOIN onerun_run r USING (run_id) WHERE a.status = 'RUNNING' AND (r.status <> 'RUNNING' OR r.attempt <> a.attempt)",
		"locks whose owner is not the one of a RUNNING attempt":   "SELECT count(*) FROM onerun_lock l WHERE l.owner IS NOT NULL AND NOT EXISTS (SELECT 1 FROM onerun_attempt a WHERE a.owner = l.owner AND a.status = 'RUNNING')",
		"ended runs without an end":                               "SELECT count(*) FROM onerun_run WHERE status <> 'RUNNING' AND finished_at IS NULL",
		"runs whose number of attempts is not that of their rows": "SELECT count(*) FROM onerun_run r WHERE r.attempt <> (SELECT count(*) FROM onerun_attempt a WHERE a.run_id = r.run_id)",
	} {
		if n := one[int](t, d, query); n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
}
