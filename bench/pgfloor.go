package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/pgbed"
)

// pgFloor is the least that can win a key and record its end on PostgreSQL, by the same
// driver: one prepared statement each. It knows no lock, no lease and no token, keeps one
// short row, and records no refusal.
type pgFloor struct{ pool *pgxpool.Pool }

func newFloor(ctx context.Context, server *pgbed.Server, database string, connections int) (*pgFloor, error) {
	if err := create(ctx, server, database); err != nil {
		return nil, err
	}
	err := execute(ctx, server, database, `CREATE TABLE run (namespace text NOT NULL, key text NOT NULL, status text NOT NULL, owner text NOT NULL,
		started_at timestamptz NOT NULL, finished_at timestamptz, PRIMARY KEY (namespace, key))`)
	if err != nil {
		return nil, err
	}
	// The driver prepares a statement when a connection first meets it, unless it is told.
	pool, err := pgxpool.New(ctx, server.URL(database, "pool_max_conns", fmt.Sprint(connections)))
	return &pgFloor{pool}, err
}

func (f *pgFloor) claim(ctx context.Context, key, owner string) (won bool, err error) {
	tag, err := f.pool.Exec(ctx, `INSERT INTO run (namespace, key, status, owner, started_at) VALUES ($1, $2, 'RUNNING', $3, clock_timestamp())
		ON CONFLICT DO NOTHING`, onerun.DefaultNamespace, key, owner)
	return tag.RowsAffected() == 1, err
}

// cycle claims a key that nobody had, and records its end.
func (f *pgFloor) cycle(ctx context.Context, key string) error {
	owner := onerun.NewID()
	won, err := f.claim(ctx, key, owner)
	if err != nil {
		return err
	}
	tag, err := f.pool.Exec(ctx, `UPDATE run SET status = 'SUCCEEDED', finished_at = clock_timestamp()
		WHERE namespace = $1 AND key = $2 AND owner = $3 AND status = 'RUNNING'`, onerun.DefaultNamespace, key, owner)
	if err == nil && (!won || tag.RowsAffected() != 1) {
		err = errors.New("the floor lost a key that nobody else claims")
	}
	return err
}
