package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// How long a transaction waits for a row, and how long the server lets it idle: a client
// that froze in the middle must not hold up everybody.
const (
	lockTimeout = 5 * time.Second
	idleTimeout = 3 * time.Second
)

const (
	beginWrite = "BEGIN ISOLATION LEVEL READ COMMITTED"
	beginRead  = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

	// The settings of one transaction, and the server's time. Nothing is set for a session,
	// which a pooling proxy gives to others between two transactions. What a person has
	// decided, and a late end, must outlast the server's crash as a claim does.
	setUp = `SELECT set_config('search_path', $1, true), set_config('lock_timeout', $2, true), set_config('idle_in_transaction_session_timeout', $3, true),
		set_config('synchronous_commit', coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), true),
		round(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`
)

// tx is a transaction of several round trips.
type tx struct {
	ctx  context.Context
	conn *pgx.Conn
	now  time.Time // the server's, as it was asked last
}

// read runs f in a transaction that sees one moment and changes nothing.
func (s *Store) read(ctx context.Context, what string, f func(t *tx) error) error {
	return s.transact(ctx, what, beginRead, f)
}

// write runs f in a transaction. f may be run again when the transaction met another one.
func (s *Store) write(ctx context.Context, what string, f func(t *tx) error) error {
	return s.transact(ctx, what, beginWrite, f)
}

func (s *Store) transact(ctx context.Context, what, begin string, f func(t *tx) error) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	err := s.patiently(ctx, func() error {
		return s.connected(ctx, func(conn *pgx.Conn) error {
			t := &tx{ctx: ctx, conn: conn}
			if err := t.begin(begin, s.searchPath()); err != nil {
				return &unbegun{err}
			}
			if err := f(t); err != nil {
				t.rollback()
				return err
			}
			_, err := conn.Exec(ctx, "COMMIT")
			return err
		})
	})
	return s.explain(what, err)
}

// unbegun is an error from before a transaction's first change, so that it may be tried
// again on another connection, whatever it is about.
type unbegun struct{ error }

func (u *unbegun) Unwrap() error { return u.error }

// connected runs f with a connection. One of the pool's can have been dead for long: it is
// replaced once by a new one, where f has changed nothing yet or may be repeated.
func (s *Store) connected(ctx context.Context, f func(conn *pgx.Conn) error) error {
	try := func() error {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return &unbegun{err}
		}
		defer conn.Release()
		return f(conn.Conn())
	}
	err := try()
	var u *unbegun
	if errors.As(err, &u) && disconnected(err) && ctx.Err() == nil {
		s.pool.Reset()
		err = try()
	}
	return err
}

// patiently repeats f for as long as it only meets others, or until ctx is over.
func (s *Store) patiently(ctx context.Context, f func() error) error {
	return sqlledger.Patiently(ctx, func(err error) bool { return collided(err) || errors.Is(err, errAgain) }, f)
}

// errAgain: a claim met another one halfway, and wrote nothing.
var errAgain = sqlledger.Met()

func (t *tx) begin(begin, searchPath string) error {
	b := &pgx.Batch{}
	b.Queue(begin)
	b.Queue(setUp, searchPath, millis(lockTimeout), millis(idleTimeout))
	r := t.conn.SendBatch(t.ctx, b)
	_, err := r.Exec()
	var us int64
	var skip string
	if err == nil {
		err = r.QueryRow().Scan(&skip, &skip, &skip, &skip, &us)
	}
	t.now = fromMicros(&us)
	err = errors.Join(err, r.Close())
	if err != nil {
		t.rollback()
	}
	return err
}

// rollback leaves the connection as it was, or closes it.
func (t *tx) rollback() { rollback(t.ctx, t.conn) }

func rollback(ctx context.Context, conn *pgx.Conn) {
	if conn.IsClosed() || conn.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
		_ = conn.Close(ctx)
	}
}

// Now implements sqlledger.Journal.
func (t *tx) Now() time.Time { return t.now }

// Again implements sqlledger.Shared.
func (t *tx) Again() error { return errAgain }

// Tick implements sqlledger.Shared.
func (t *tx) Tick() error {
	var us int64
	err := t.row("SELECT onerun_us(clock_timestamp())").Scan(&us)
	t.now = fromMicros(&us)
	return err
}

func (t *tx) row(query string, args ...any) pgx.Row {
	return t.conn.QueryRow(t.ctx, query, sqlledger.Params(args)...)
}

func (t *tx) exec(query string, args ...any) error {
	_, err := t.changed(query, args...)
	return err
}

// changed says how many rows a statement changed.
func (t *tx) changed(query string, args ...any) (int64, error) {
	tag, err := t.conn.Exec(t.ctx, query, sqlledger.Params(args)...)
	return tag.RowsAffected(), err
}

// each calls f for each row.
func (t *tx) each(f func(scan func(...any) error) error, query string, args ...any) error {
	rows, err := t.conn.Query(t.ctx, query, sqlledger.Params(args)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
