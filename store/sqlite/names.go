package sqlite

import (
	"context"
	"database/sql"
	_ "embed" // the queries
	"errors"
	"net/url"
	"os"
	"strings"
)

//go:embed sql/known_jobs.sql
var sqlKnownJobs string

//go:embed sql/known_keys.sql
var sqlKnownKeys string

// Names lists the jobs of a namespace whose names begin with start. With keys it also
// lists keys, the greatest first, which for dates are the newest: of start if that has a
// colon, else of the only job that is left. It is for a shell's completion: it reads the
// database as it is, without making, migrating or locking anything.
func Names(ctx context.Context, path, namespace, start string, keys bool) (names []string, err error) {
	if path, err = database(path); err != nil {
		return nil, cantOpen(path, err)
	}
	if _, err := os.Stat(path); err != nil {
		return nil, cantOpen(path, err)
	}
	if err := regular(path); err != nil {
		return nil, err
	}
	dsn := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: url.Values{
		"mode": {"rw"}, "_pragma": {"query_only(1)", "busy_timeout(50)"}, // rw: of what is there; ro would leave its journal behind
	}.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if !keys || !strings.Contains(start, ":") {
		names, err = column(ctx, db, sqlKnownJobs, namespace, start, after(start))
		if err != nil || !keys || len(names) != 1 {
			return names, err
		}
		start = names[0] + ":"
	}
	found, err := column(ctx, db, sqlKnownKeys, namespace, start, after(start))
	return append(names, found...), err
}

// after is greater than every name that begins with start.
func after(start string) string { return start + "\U0010FFFF" }

// column is the one column of a query.
func column(ctx context.Context, db *sql.DB, query string, args ...any) (values []string, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, rows.Err()
}
