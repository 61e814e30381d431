package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"

	"github.com/onerun-dev/onerun"
)

// lookDB opens a database that is there, whatever it holds, for one who changes nothing.
// It is opened as every reader opens it, for writing too if that is allowed: else SQLite
// would leave its journal's files behind.
func lookDB(ctx context.Context, path string) (*db, error) {
	if _, err := os.Lstat(path); err != nil {
		return nil, cantOpen(path, err)
	}
	if err := regular(path); err != nil {
		return nil, err
	}
	d := &db{path: path, turn: make(chan struct{}, 1), statements: map[string]*sql.Stmt{}}
	var err error
	if d.sql, err = sql.Open("sqlite", dsn(path)+"&_pragma=query_only(1)"); err == nil {
		err = d.patiently(ctx, func() (err error) {
			d.conn, err = d.sql.Conn(context.WithoutCancel(ctx))
			return err
		})
	}
	if err == nil { // the first look opens the journal too, which is to be known before moved asks
		err = d.patiently(ctx, func() error {
			var version int
			return d.conn.QueryRowContext(context.WithoutCancel(ctx), "PRAGMA user_version").Scan(&version)
		})
	}
	if err != nil {
		err = d.explain("open the store", err)
		_ = d.close()
		return nil, err
	}
	return d, nil
}

// lookKnown is lookDB of a database with this program's schema.
func lookKnown(ctx context.Context, path string) (*db, error) {
	d, err := lookDB(ctx, path)
	if err != nil {
		return nil, err
	}
	version, err := d.version(ctx)
	if err == nil && version != len(schemas) {
		err = &onerun.StoreError{
			Kind: onerun.ErrConfig, What: "look at the store", Path: path,
			Err: fmt.Errorf("its schema is version %d, and this program's is %d", version, len(schemas)), Do: startOnce,
		}
	}
	if err != nil {
		err = d.explain("look at the store", err)
		_ = d.close()
		return nil, err
	}
	return d, nil
}

const startOnce = "start any job with this program: that brings it up"

// JobNames lists the jobs that have runs, in the order of their names.
func (s *Store) JobNames(ctx context.Context, namespace string) (names []string, err error) {
	err = s.read(ctx, "list the jobs", func(t *tx) (err error) {
		names, err = t.jobNames(namespace)
		return err
	})
	return names, err
}
