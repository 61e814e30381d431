package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/go-zookeeper/zk"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	driver "github.com/redis/go-redis/v9"

	"github.com/onerun-dev/onerun"
)

// What follows writes the rows that a claim and its end leave in a store, and decides nothing: no lock is waited for,
// nothing is read, nothing is compared. It is what the ledger alone costs on a server, so that a ratio to the floor can
// be told from one to what can be had. A store is faster than its rows where it gets along with fewer round trips.

// some stands for the texts of a worker, which all rows have.
const some = "bench:4711@0123456789abcdef"

// alone holds them against a floor.
func alone(ctx context.Context, workers, rounds int, floor, rows side) error {
	times, err := turns(ctx, workers, rounds, [2]side{floor, rows})
	if err == nil {
		fmt.Printf("%2d workers, %-28s %-18s %s   (nothing is decided)\n", workers, "the ledger's rows alone", "/ floor", ratio(times[0], times[1]))
	}
	return err
}

// pgRows writes them on PostgreSQL: each of the two as one batch, which is one round trip of prepared statements and one
// transaction.
func pgRows(ctx context.Context, pool *pgxpool.Pool, key string) error {
	job, _, _ := strings.Cut(key, ":")
	id, owner, at := onerun.NewRunID(time.Now()), onerun.NewID(), time.Now()
	begin := &pgx.Batch{}
	begin.Queue(`INSERT INTO onerun_run (run_id, namespace, job, partition, key, lock, started_at, token, worker_id, host, pid, status, attempt)
		VALUES ($1, 'default', $2, $3, $3, $2, $4, 1, $5, 'bench', 1, 'RUNNING', 1)`, id, job, key, at, some)
	begin.Queue(`INSERT INTO onerun_attempt (run_id, attempt, status, owner, token, lock, worker_id, host, machine, boot, pid_ns, time_ns, pid, start_ticks, ttl, on_crash,
			retries, backoff_min, backoff_max, retry_lost, started_at)
		VALUES ($1, 1, 'RUNNING', $2, 1, $3, $4, 'bench', $2, $2, 1, 1, 1, 1, 60000000, 'auto', 0, 0, 0, false, $5)`, id, owner, job, some, at)
	begin.Queue(`INSERT INTO onerun_lock (namespace, lock, token, owner, run_id, attempt, ttl, expires_at, on_crash, acquired_at, worker_id, host, pid)
		VALUES ('default', $1, 1, $2, $3, 1, 60000000, $4, 'auto', $4, $5, 'bench', 1)
		ON CONFLICT (namespace, lock) DO UPDATE SET owner = excluded.owner, run_id = excluded.run_id, expires_at = excluded.expires_at, acquired_at = excluded.acquired_at`,
		job, owner, id, at, some)
	if err := pool.SendBatch(ctx, begin).Close(); err != nil {
		return err
	}
	end := &pgx.Batch{}
	end.Queue(`UPDATE onerun_lock SET owner = NULL, run_id = NULL, attempt = NULL, expires_at = NULL WHERE namespace = 'default' AND lock = $1`, job)
	end.Queue(`UPDATE onerun_run SET status = 'SUCCEEDED', exit_code = 0, finished_at = $2 WHERE run_id = $1`, id, at)
	end.Queue(`UPDATE onerun_attempt SET status = 'SUCCEEDED', exit_code = 0, finished_at = $2 WHERE run_id = $1 AND attempt = 1`, id, at)
	return pool.SendBatch(ctx, end).Close()
}

// mysqlRows writes them on MariaDB: each of the two in one round trip, and one transaction.
func mysqlRows(ctx context.Context, db *sql.DB, key string) error {
	job, _, _ := strings.Cut(key, ":")
	id, owner, at := onerun.NewRunID(time.Now()), onerun.NewID(), time.Now().UnixMicro()
	err := again(func() error {
		_, err := db.ExecContext(ctx, `SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION;
		INSERT INTO onerun_run (run_id, namespace, job, `+"`partition`, `key`, `lock`"+`, running_lock, started_at, token, worker_id, host, pid, status, attempt)
			VALUES (?, 'default', ?, ?, ?, ?, ?, ?, 1, ?, 'bench', 1, 'RUNNING', 1);
		INSERT INTO onerun_attempt (run_id, attempt, status, running_run, owner, token, `+"`lock`"+`, worker_id, host, machine, boot, pid_ns, time_ns, pid, start_ticks, ttl, on_crash,
			retries, backoff_min, backoff_max, retry_lost, started_at)
			VALUES (?, 1, 'RUNNING', ?, ?, 1, ?, ?, 'bench', ?, ?, 1, 1, 1, 1, 60000000, 'auto', 0, 0, 0, FALSE, ?);
		INSERT INTO onerun_lock (namespace, `+"`lock`"+`, token, owner, run_id, attempt, ttl, expires_at, on_crash, acquired_at, worker_id, host, pid)
			VALUES ('default', ?, 1, ?, ?, 1, 60000000, ?, 'auto', ?, ?, 'bench', 1)
			ON DUPLICATE KEY UPDATE owner = VALUES(owner), run_id = VALUES(run_id), expires_at = VALUES(expires_at), acquired_at = VALUES(acquired_at);
		COMMIT`,
			id, job, key, key, job, job, at, some,
			id, id, owner, job, some, owner, owner, at,
			job, owner, id, at, at, some)
		return err
	})
	if err != nil {
		return err
	}
	return again(func() error {
		_, err := db.ExecContext(ctx, `SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION;
		UPDATE onerun_lock SET owner = NULL, run_id = NULL, attempt = NULL, expires_at = NULL WHERE namespace = 'default' AND `+"`lock`"+` = ?;
		UPDATE onerun_run SET status = 'SUCCEEDED', running_lock = NULL, exit_code = 0, finished_at = ? WHERE run_id = ?;
		UPDATE onerun_attempt SET status = 'SUCCEEDED', running_run = NULL, exit_code = 0, finished_at = ? WHERE run_id = ? AND attempt = 1;
		COMMIT`, job, at, id, at, id)
		return err
	})
}

// again repeats what met another transaction in an index, as the store does.
func again(f func() error) error {
	for {
		var met *mysql.MySQLError
		if err := f(); !errors.As(err, &met) || met.Number != 1213 {
			return err
		}
	}
}

// redisRows writes them on Redis: each of the two by one script.
type redisRows struct {
	db         *driver.Client
	begin, end *driver.Script
}

func newRedisRows(db *driver.Client) *redisRows {
	return &redisRows{
		db,
		driver.NewScript(`redis.call('ZADD', KEYS[1], ARGV[1], ARGV[2])
			redis.call('HSET', KEYS[2], 'status', 'RUNNING', 'attempt', '1', 'lock', ARGV[3], 'token', '1', 'owner', ARGV[4], 'started', ARGV[1], 'policy', '0 0 0 0 60000000 auto',
				'job', ARGV[3], 'a1', ARGV[5], 'w1', ARGV[5], 'part', ARGV[6])
			redis.call('HSET', KEYS[3], 'l:' .. ARGV[3], ARGV[2], 'k:' .. ARGV[6], ARGV[2])
			redis.call('HSET', KEYS[4], 'owner', ARGV[4], 'token', '1', 'exp', ARGV[1], 'ttl', '60000000', 'crash', 'auto', 'run', ARGV[2], 'attempt', '1', 'stop', '')
			return 1`),
		driver.NewScript(`redis.call('ZADD', KEYS[5], ARGV[1], ARGV[2])
			redis.call('ZADD', KEYS[6], ARGV[1], ARGV[2])
			redis.call('ZREM', KEYS[1], ARGV[2])
			redis.call('HDEL', KEYS[3], 'l:' .. ARGV[3])
			redis.call('HSET', KEYS[2], 'status', 'SUCCEEDED', 'e1', ARGV[5], 'v', '1', 'finished', ARGV[1])
			redis.call('HSET', KEYS[4], 'owner', '')
			return 1`),
	}
}

func (r *redisRows) cycle(ctx context.Context, key string) error {
	job, _, _ := strings.Cut(key, ":")
	id, owner, at := onerun.NewRunID(time.Now()), onerun.NewID(), time.Now().UnixMicro()
	keys := []string{"rows:RUNNING", "rows:run:" + id, "rows:dir", "rows:lock:" + job, "rows:SUCCEEDED", "rows:SUCCEEDED:" + job}
	for _, script := range []*driver.Script{r.begin, r.end} {
		if err := script.Run(ctx, r.db, keys, at, id, job, owner, strings.Repeat(some, 4), key).Err(); err != nil {
			return err
		}
	}
	return nil
}

// zkRows writes them on ZooKeeper: each of the two as one multi. The nodes of a lock stay.
func zkRows(z *zk.Conn, dir string, w int) error {
	id, data := onerun.NewID(), []byte(strings.Repeat(some, 40))
	at := func(name string) string { return dir + "/" + name + id }
	lock := func(name string) string { return fmt.Sprintf("%s/%s%02d", dir, name, w) }
	create := func(path string, data []byte) any {
		return &zk.CreateRequest{Path: path, Data: data, Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagPersistent}
	}
	set := func(path string, data []byte) any { return &zk.SetDataRequest{Path: path, Data: data, Version: -1} }
	short := []byte(id)
	if _, err := z.Multi(create(at("key"), short), create(at("run"), data), create(at("time"), short), create(at("hist"), short),
		set(lock("lock"), data[:400]), set(lock("held"), short), set(lock("life"), short)); err != nil {
		return err
	}
	_, err := z.Multi(set(at("run"), data), create(at("done"), short), set(lock("lock"), data[:300]), set(lock("held"), short), set(lock("life"), short))
	return err
}

// zkLocks makes the nodes of some workers' locks.
func zkLocks(z *zk.Conn, dir string, workers int) error {
	if _, err := z.Create(dir, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil {
		return err
	}
	for w := range workers {
		for _, name := range []string{"lock", "held", "life"} {
			if _, err := z.Create(fmt.Sprintf("%s/%s%02d", dir, name, w), nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil {
				return err
			}
		}
	}
	return nil
}
