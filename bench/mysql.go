package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/mariadbbed"
	"github.com/onerun-dev/onerun/store/mysql"
)

// onMySQL measures the store on MariaDB: a real server on this machine, its data on a disk, and
// its settings as it comes, so that every commit waits for that disk.
func onMySQL(rounds int) error {
	ctx := context.Background()
	bed := mariadbbed.New("")
	defer bed.Close()
	server, err := bed.Server("--max-connections=400", "--innodb-buffer-pool-size=128M", "--innodb-log-file-size=96M")
	if err != nil {
		return err
	}
	fmt.Printf("# Claims and their ends on MariaDB, to a floor of two prepared statements: %d rounds in turns; ratio of neighbours, median (middle half)\n\n", rounds)
	for _, workers := range []int{1, 8, 64} {
		if err := mysqlCycles(ctx, server, workers, rounds); err != nil {
			return err
		}
	}
	return nil
}

// mysqlCycles holds a claim and its end against the floor, and a plain GET_LOCK with its
// RELEASE_LOCK against it too. Each worker has a job of its own.
func mysqlCycles(ctx context.Context, server *mariadbbed.Server, workers, rounds int) (err error) {
	floor, err := newMySQLFloor(ctx, server, fmt.Sprint("floor", workers), workers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, floor.db.Close()) }()
	database := fmt.Sprint("ours", workers)
	if _, err := floor.db.ExecContext(ctx, "CREATE DATABASE "+database); err != nil {
		return err
	}
	store, err := mysql.Open(ctx, server.URL(database, "pool_max_conns", fmt.Sprint(workers)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if _, _, err := store.Migrate(ctx); err != nil {
		return err
	}
	for _, scope := range []string{"job", "key"} {
		ours := func(ctx context.Context, w, n int) error {
			c := claimOf(w, n)
			if scope == "key" {
				c.Partition += "-k"
				c.Lock = onerun.KeyLock(c.Key())
			}
			g, err := store.Claim(ctx, c)
			if err != nil {
				return err
			}
			return store.Finish(ctx, g.Lease, onerun.Outcome{Status: onerun.Succeeded})
		}
		theirs := func(ctx context.Context, w, n int) error {
			return floor.cycle(ctx, fmt.Sprintf("job-%02d:p%d-%s", w, n, scope))
		}
		times, err := turns(ctx, workers, rounds, [2]side{theirs, ours})
		if err != nil {
			return err
		}
		fmt.Printf("%2d workers, --scope %-20s %-18s %s   goal 0.7\n", workers, scope, "/ floor", ratio(times[0], times[1]))
	}
	theirs := func(ctx context.Context, w, n int) error {
		return floor.cycle(ctx, fmt.Sprintf("job-%02d:p%d-lock", w, n))
	}
	ledger, err := floor.inLedger(database, workers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	rows := func(ctx context.Context, w, n int) error {
		return mysqlRows(ctx, ledger, fmt.Sprintf("job-%02d:p%d-rows", w, n))
	}
	if err := alone(ctx, workers, rounds, func(ctx context.Context, w, n int) error {
		return floor.cycle(ctx, fmt.Sprintf("job-%02d:p%d-none", w, n))
	}, rows); err != nil {
		return err
	}
	lock := func(ctx context.Context, w, _ int) error { return floor.getLock(ctx, fmt.Sprintf("job-%02d", w)) }
	times, err := turns(ctx, workers, rounds, [2]side{theirs, lock})
	if err == nil {
		fmt.Printf("%2d workers, GET_LOCK, RELEASE_LOCK     %-18s %s   (nothing is kept)\n", workers, "/ floor", ratio(times[0], times[1]))
	}
	return err
}

// inLedger connects to another database, where a round trip may have several statements.
func (f *mysqlFloor) inLedger(database string, connections int) (*sql.DB, error) {
	c := f.config.Clone()
	c.DBName, c.MultiStatements, c.InterpolateParams = database, true, true
	db, err := sql.Open("mysql", c.FormatDSN())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	db.SetConnMaxIdleTime(time.Hour)
	return db, nil
}

// mysqlFloor is the least that could record a claim and its end on that server: one table, and
// two prepared statements, each a transaction by itself.
type mysqlFloor struct {
	config         *driver.Config
	db             *sql.DB
	insert, update *sql.Stmt
}

func newMySQLFloor(ctx context.Context, server *mariadbbed.Server, database string, connections int) (*mysqlFloor, error) {
	c := driver.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr, c.DBName = mariadbbed.Superuser, mariadbbed.Password, "tcp", fmt.Sprintf("127.0.0.1:%d", server.Port), "mysql"
	admin, err := sql.Open("mysql", c.FormatDSN())
	if err != nil {
		return nil, err
	}
	defer func() { _ = admin.Close() }()
	if _, err := admin.ExecContext(ctx, "CREATE DATABASE "+database); err != nil {
		return nil, err
	}
	c.DBName = database
	db, err := sql.Open("mysql", c.FormatDSN())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	db.SetConnMaxIdleTime(time.Hour)
	f := &mysqlFloor{config: c, db: db}
	_, err = db.ExecContext(ctx, `CREATE TABLE run (namespace VARBINARY(400) NOT NULL, job_key VARBINARY(810) NOT NULL, status VARBINARY(16) NOT NULL,
		owner VARBINARY(64) NOT NULL, started_at DATETIME(6) NOT NULL, finished_at DATETIME(6), PRIMARY KEY (namespace, job_key)) ENGINE=InnoDB`)
	if err == nil {
		f.insert, err = db.PrepareContext(ctx, "INSERT INTO run (namespace, job_key, status, owner, started_at) VALUES (?, ?, 'RUNNING', ?, UTC_TIMESTAMP(6)) ON DUPLICATE KEY UPDATE namespace = namespace")
	}
	if err == nil {
		f.update, err = db.PrepareContext(ctx, "UPDATE run SET status = 'SUCCEEDED', finished_at = UTC_TIMESTAMP(6) WHERE namespace = ? AND job_key = ? AND owner = ? AND status = 'RUNNING'")
	}
	return f, err
}

// cycle claims a key that nobody had, and records its end.
func (f *mysqlFloor) cycle(ctx context.Context, key string) error {
	owner := onerun.NewID()
	for _, step := range []struct {
		stmt *sql.Stmt
		args []any
	}{
		{f.insert, []any{onerun.DefaultNamespace, key, owner}},
		{f.update, []any{onerun.DefaultNamespace, key, owner}},
	} {
		r, err := step.stmt.ExecContext(ctx, step.args...)
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n != 1 {
			return errors.Join(err, errors.New("the floor lost a key that nobody else claims"))
		}
	}
	return nil
}

// getLock takes a lock of the server's and gives it back, on one connection.
func (f *mysqlFloor) getLock(ctx context.Context, name string) error {
	conn, err := f.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	var got int
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK('"+name+"', 0)").Scan(&got); err != nil {
		return err
	}
	if err := conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK('"+name+"')").Scan(&got); err != nil {
		return err
	}
	if got != 1 {
		return errors.New("a lock of the server's was lost")
	}
	return nil
}
