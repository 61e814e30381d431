package main_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/mysql"
	"github.com/onerun-dev/onerun/store/postgres"
)

// tables are what jobs write through the fence: a page at a time, and an item for the whole. nil
// stands for a store that isn't SQL, and has no fence.
type tables struct {
	url  string // the store's
	kind string
}

func openTables(at string) (*tables, error) {
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "mysql" {
		return nil, err
	}
	return &tables{at, u.Scheme}, nil
}

// ask opens the server's databases.
func (t *tables) ask(do func(ctx context.Context, db *sql.DB) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	u, err := url.Parse(t.url)
	if err != nil {
		return err
	}
	driver, source := "pgx", ""
	u.RawQuery = "" // schema is onerun's own parameter
	if source = u.String(); t.kind == "mysql" {
		driver, source = t.kind, fmt.Sprintf("%s@tcp(%s)/", u.User, u.Host)
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return err
	}
	return errors.Join(do(ctx, db), db.Close())
}

func (t *tables) create() error {
	if t == nil {
		return nil
	}
	return t.exec("CREATE SCHEMA witness",
		"CREATE TABLE witness.pages (n serial, token bigint, name varchar(200), page int)",
		"CREATE TABLE witness.settled (n serial, token bigint, name varchar(200))")
}

func (t *tables) exec(statements ...string) error {
	return t.ask(func(ctx context.Context, db *sql.DB) error {
		for _, s := range statements {
			if _, err := db.ExecContext(ctx, s); err != nil {
				return err
			}
		}
		return nil
	})
}

// check: no two commits for one key, and none with an older token after a newer one.
func (t *tables) check() error {
	return t.ask(func(ctx context.Context, db *sql.DB) error {
		var twice, back int
		if err := db.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT name FROM witness.settled GROUP BY name HAVING count(*) > 1) x").Scan(&twice); err != nil {
			return err
		}
		err := db.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT token, lag(token) OVER (ORDER BY n) AS earlier FROM witness.pages) x WHERE token < earlier").Scan(&back)
		if err == nil && twice+back > 0 {
			err = fmt.Errorf("%d keys were settled twice; %d pages were committed by an older owner after a newer one", twice, back)
		}
		return err
	})
}

// commit commits a page, and with the last one the item, in a transaction that ends by itself
// when the network doesn't let it.
func (t *tables) commit(ctx context.Context, l onerun.Lease, key string, page int) error {
	if t.kind == "mysql" {
		return t.commitMySQL(ctx, l, key, page)
	}
	store, err := postgres.Open(ctx, t.url)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	bare, _, _ := strings.Cut(t.url, "?")
	conn, err := pgx.Connect(ctx, bare)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL search_path TO one; SET LOCAL idle_in_transaction_session_timeout TO '3s'"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO witness.pages (token, name, page) VALUES ($1, $2, $3)", l.Token, key, page); err != nil {
			return err
		}
		if page < workerPages-1 {
			return store.Fence(ctx, tx, l)
		}
		first, err := store.Item(ctx, tx, l, "all-of-"+key, "")
		if err == nil && first {
			_, err = tx.Exec(ctx, "INSERT INTO witness.settled (token, name) VALUES ($1, $2)", l.Token, key)
		}
		return err
	})
}

func (t *tables) commitMySQL(ctx context.Context, l onerun.Lease, key string, page int) error {
	store, err := mysql.Open(ctx, t.url)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	return t.ask(func(_ context.Context, db *sql.DB) error {
		db.SetMaxOpenConns(1)
		if _, err := db.ExecContext(ctx, "SET SESSION idle_transaction_timeout = 3"); err != nil {
			return err
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(ctx, "INSERT INTO witness.pages (token, name, page) VALUES (?, ?, ?)", l.Token, key, page); err != nil {
			return err
		}
		if page < workerPages-1 {
			err = store.Fence(ctx, tx, l)
		} else {
			var first bool
			if first, err = store.Item(ctx, tx, l, "all-of-"+key, ""); err == nil && first {
				_, err = tx.ExecContext(ctx, "INSERT INTO witness.settled (token, name) VALUES (?, ?)", l.Token, key)
			}
		}
		if err != nil {
			return err
		}
		return tx.Commit()
	})
}
