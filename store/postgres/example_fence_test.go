package postgres_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store"
	"github.com/onerun-dev/onerun/store/postgres"
)

// settlePage settles the next page of a day's orders and notes how far the day has come, in one
// transaction that only the owner of the lease can commit. It says when none is left.
func settlePage(ctx context.Context, pg *postgres.Store, pool *pgxpool.Pool, o *onerun.Owner) (last int, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if err := pg.Fence(ctx, tx, o.Lease()); err != nil { // onerun.ErrLost: another may be at work
			return err
		}
		rows, err := tx.Query(ctx, `
			UPDATE orders SET settled = settled + 1 WHERE id IN (
				SELECT id FROM orders WHERE day = $1 AND id > coalesce((SELECT upto FROM settlement WHERE day = $1), 0)
				ORDER BY id LIMIT 4)
			RETURNING id`, o.Run().BusinessDate)
		if err != nil {
			return err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int])
		if err != nil || len(ids) == 0 {
			return err
		}
		for _, id := range ids {
			last = max(last, id)
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO settlement (day, upto) VALUES ($1, $2)
			ON CONFLICT (day) DO UPDATE SET upto = excluded.upto`, o.Run().BusinessDate, last)
		return err
	})
	return last, err
}

const settlementTables = `
	CREATE TABLE orders (id int PRIMARY KEY, day text NOT NULL, settled int NOT NULL DEFAULT 0);
	CREATE TABLE settlement (day text PRIMARY KEY, upto int NOT NULL);
	INSERT INTO orders (id, day) SELECT i, '2026-09-15' FROM generate_series(1, 10) i`

// The daily settlement, page by page, with a crash in the middle. Each page's transaction is
// fenced and says how far the day has come, so the next run goes on after the last page that was
// committed, and a worker that was frozen and replaced commits nothing.
func ExampleStore_Fence() {
	ctx := context.Background()
	url, pool := exampleDatabase(settlementTables) // in a program: from its configuration
	defer pool.Close()
	s, err := store.Open(ctx, url, store.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = s.Close() }()
	pg, ok := onerun.Ability[*postgres.Store](s)
	if !ok {
		fmt.Println("only PostgreSQL has fences")
		return
	}

	job := onerun.Job{
		Name: "daily-settlement", Partition: "2026-09-15", BusinessDate: "2026-09-15",
		Policy: onerun.Policy{Retries: 1}, RetryLater: true,
	}
	settle := func(ctx context.Context, o *onerun.Owner) error {
		for {
			last, err := settlePage(ctx, pg, pool, o)
			if err != nil || last == 0 {
				return err
			}
			fmt.Printf("attempt %d: settled up to order %d\n", o.Run().Attempt, last)
			if o.Run().Attempt == 1 && last == 8 {
				panic("out of memory")
			}
		}
	}

	runner := onerun.NewRunner(s)
	func() {
		defer func() { fmt.Println("crash:", recover()) }()
		_ = runner.Do(ctx, job, settle)
	}()
	fmt.Println("error:", runner.Do(ctx, job, settle))

	var once int
	if err := pool.QueryRow(ctx, "SELECT count(*) FROM orders WHERE settled = 1").Scan(&once); err != nil {
		fmt.Println(err)
	}
	fmt.Println("orders that were settled once:", once)

	// Output:
	// attempt 1: settled up to order 4
	// attempt 1: settled up to order 8
	// crash: out of memory
	// attempt 2: settled up to order 10
	// error: <nil>
	// orders that were settled once: 10
}
