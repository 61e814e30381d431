package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/postgres"
)

// payOrder books a payment and marks its order as done in one transaction: both are committed,
// or neither is. It reports whether this call did it.
func payOrder(ctx context.Context, store *postgres.Store, pool *pgxpool.Pool, lease onerun.Lease, order string) (paid bool, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if paid, err = store.Item(ctx, tx, lease, order, ""); err != nil || !paid {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO payment (what) VALUES ($1)", order)
		return err
	})
	return paid, err
}

// A job that pays orders, each once ever: in a second run, after a failure, what was paid before
// is passed over.
func ExampleStore_Item() {
	ctx := context.Background()
	url, pool := exampleDatabase("CREATE TABLE payment (what text)")
	defer pool.Close()
	store, err := postgres.Open(ctx, url)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()

	pay := func(orders ...string) func(context.Context, *onerun.Owner) error {
		return func(ctx context.Context, o *onerun.Owner) error {
			for _, order := range orders {
				paid, err := payOrder(ctx, store, pool, o.Lease(), order)
				if err != nil {
					return err
				}
				fmt.Println(order, "paid now:", paid)
			}
			return nil
		}
	}
	runner := onerun.NewRunner(store)
	fmt.Println(runner.Do(ctx, onerun.Job{Name: "pay"}, pay("order-1001", "order-1002")))
	fmt.Println(runner.Do(ctx, onerun.Job{Name: "pay"}, pay("order-1001", "order-1002", "order-1003")))

	// Output:
	// order-1001 paid now: true
	// order-1002 paid now: true
	// <nil>
	// order-1001 paid now: false
	// order-1002 paid now: false
	// order-1003 paid now: true
	// <nil>
}

// payOrderSQL is payOrder with database/sql. amount stands for the order's content: under the same
// name with another content it is a conflict, and not paid.
func payOrderSQL(ctx context.Context, store *postgres.Store, db *sql.DB, lease onerun.Lease, order, amount string) (paid bool, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	if paid, err = store.ItemSQL(ctx, tx, lease, order, amount); err != nil || !paid {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO payment (what) VALUES ($1)", order); err != nil {
		return false, err
	}
	return true, tx.Commit()
}

// The same with database/sql, and with what stands for an order's content.
func ExampleStore_ItemSQL() {
	ctx := context.Background()
	url, pool := exampleDatabase("CREATE TABLE payment (what text)")
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

	err = onerun.NewRunner(store).Do(ctx, onerun.Job{Name: "pay"}, func(ctx context.Context, o *onerun.Owner) error {
		for _, amount := range []string{"100 EUR", "100 EUR", "999 EUR"} {
			paid, err := payOrderSQL(ctx, store, db, o.Lease(), "order-1001", amount)
			var refusal *onerun.ItemRefusal
			if errors.As(err, &refusal) {
				fmt.Println(amount, "refused:", refusal.Reason)
				continue
			}
			if err != nil {
				return err
			}
			fmt.Println(amount, "paid now:", paid)
		}
		return nil
	})
	fmt.Println(err)

	// Output:
	// 100 EUR paid now: true
	// 100 EUR paid now: false
	// 999 EUR refused: conflict
	// <nil>
}
