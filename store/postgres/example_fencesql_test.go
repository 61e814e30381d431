package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver of database/sql

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/postgres"
)

// closeMonth writes the month's balance in a transaction that only the owner of the lease can
// commit.
func closeMonth(ctx context.Context, store *postgres.Store, db *sql.DB, lease onerun.Lease) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	if err := store.FenceSQL(ctx, tx, lease); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO balance (month, amount) VALUES ($1, 100)", "2026-09"); err != nil {
		return err
	}
	return tx.Commit()
}

// The same with database/sql. An owner whose lease is over, and whose lock another has, commits
// nothing.
func ExampleStore_FenceSQL() {
	ctx := context.Background()
	url, pool := exampleDatabase("CREATE TABLE balance (month text, amount int)")
	pool.Close()
	store, err := postgres.Open(ctx, url)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	db, err := sql.Open("pgx", appURL(url))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()

	runner := onerun.NewRunner(store)
	job := onerun.Job{Name: "close-month", Partition: "2026-09"}
	var ended onerun.Lease
	err = runner.Do(ctx, job, func(ctx context.Context, o *onerun.Owner) error {
		ended = o.Lease()
		return closeMonth(ctx, store, db, o.Lease())
	})
	fmt.Println("the owner:", err)

	err = closeMonth(ctx, store, db, ended)
	fmt.Println("afterwards, refused:", errors.Is(err, onerun.ErrLost))

	// Output:
	// the owner: <nil>
	// afterwards, refused: true
}
