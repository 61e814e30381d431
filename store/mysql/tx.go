package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"time"

	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// How long a transaction waits for a row, and how long the server lets it idle: a client
// that froze in the middle must not hold up everybody.
const (
	lockTimeout = 5 * time.Second
	idleTimeout = "3"
)

// now is the server's time, in microseconds, as it was when the statement began: so it is asked
// for by a statement of its own after a wait. Not by way of a local time, since in some zones an
// hour is there twice; and not by SYSDATE, which a server can be told to take for NOW.
const now = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))"

const (
	// What a transaction begins with, in one round trip with what comes first in it. The isolation
	// is said each time: in READ COMMITTED a statement sees what was committed before it began, so
	// what decides is read after the wait for a row, and there are no locks on gaps.
	begin = "SET wait_timeout = " + idleTimeout + "; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION; "

	// What one begins with that sees one moment and changes nothing: it holds nobody up.
	beginRead = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY; "

	commit   = "COMMIT; SET wait_timeout = DEFAULT"
	rollback = "ROLLBACK; SET wait_timeout = DEFAULT"
)

// tx is a transaction of several round trips.
type tx struct {
	ctx  context.Context
	conn *sql.Conn
	now  time.Time // the server's, as it was asked last
}

// read runs f in a transaction that sees one moment and changes nothing.
func (s *Store) read(ctx context.Context, what string, f func(t *tx) error) error {
	return s.transact(ctx, what, beginRead, f)
}

// write runs f in a transaction. f may be run again when the transaction met another one.
func (s *Store) write(ctx context.Context, what string, f func(t *tx) error) error {
	return s.transact(ctx, what, begin, f)
}

func (s *Store) transact(ctx context.Context, what, begin string, f func(t *tx) error) error {
	return s.explain(what, s.prepared(ctx, func() error {
		return s.connected(ctx, func(conn *sql.Conn) error {
			t := &tx{ctx: ctx, conn: conn}
			var us, version int64
			if err := t.row(begin+"SELECT "+now+", version FROM onerun_schema").Scan(&us, &version); err != nil {
				t.rollback()
				return &unbegun{err}
			}
			t.now = fromMicros(&us)
			err := s.rightVersion(version)
			if err == nil {
				err = f(t)
			}
			if err != nil {
				t.rollback()
				if disconnected(err) { // before its commit: nothing has changed
					err = &unbegun{err}
				}
				return err
			}
			if err = t.exec(commit); err != nil { // it may not have been sent, where ctx was over
				t.rollback()
			}
			return err
		})
	}))
}

// prepared repeats f for as long as it only meets others, and once the schema is there.
func (s *Store) prepared(ctx context.Context, f func() error) error {
	err := s.patiently(ctx, f)
	if code(err) == errNoTable || code(err) == errNoColumn || errors.Is(err, errOlder) || code(err) == 0 && errors.Is(err, sql.ErrNoRows) {
		if _, _, err := s.migrate(ctx); err != nil {
			return err
		}
		err = s.patiently(ctx, f)
	}
	return err
}

// unbegun is an error from before a transaction's first change, or of one that may be asked for
// again, so that it may be tried on another connection, whatever it is about.
type unbegun struct{ error }

func (u *unbegun) Unwrap() error { return u.error }

// connected runs f with a connection. One of the pool's can have been dead for long: it is
// replaced once by a new one, where f has changed nothing yet or may be repeated.
func (s *Store) connected(ctx context.Context, f func(conn *sql.Conn) error) error {
	try := func() error {
		conn, err := s.db.Conn(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		err = f(conn)
		if disconnected(err) { // it doesn't go back into the pool
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
		return err
	}
	err := try()
	var u *unbegun
	if errors.As(err, &u) && disconnected(err) && ctx.Err() == nil {
		s.db.SetMaxIdleConns(0) // the others are as dead, perhaps
		s.db.SetMaxIdleConns(s.conns)
		err = try()
	}
	return err
}

// patiently repeats f for as long as it only meets others, or until ctx is over.
func (s *Store) patiently(ctx context.Context, f func() error) error {
	return sqlledger.Patiently(ctx, func(err error) bool { return collided(err) || errors.Is(err, errAgain) }, f)
}

// errAgain: a transaction met another one halfway, and wrote nothing.
var errAgain = sqlledger.Met()

// rollback leaves the connection as it was, or closes it.
func (t *tx) rollback() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), 2*time.Second)
	defer cancel()
	if _, err := t.conn.ExecContext(ctx, rollback); err != nil {
		_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
}

// Now implements sqlledger.Journal.
func (t *tx) Now() time.Time { return t.now }

// Again implements sqlledger.Shared.
func (t *tx) Again() error { return errAgain }

// Tick implements sqlledger.Shared.
func (t *tx) Tick() error {
	var us int64
	err := t.row("SELECT " + now).Scan(&us)
	t.now = fromMicros(&us)
	return err
}

// batch are statements that go out in one round trip, with their arguments.
type batch struct {
	text strings.Builder
	args []any
}

func (b *batch) add(query string, args ...any) {
	if b.text.Len() > 0 {
		b.text.WriteString("; ")
	}
	b.text.WriteString(strings.TrimRight(query, " \n;"))
	b.args = append(b.args, args...)
}

// row is the one row of a query of one statement or several, of which one has rows.
func (t *tx) row(query string, args ...any) *row {
	return &row{t: t, query: query, args: args}
}

type row struct {
	t     *tx
	query string
	args  []any
}

// Scan reads the row, and what comes after it: an error of a later statement is one, too.
func (r *row) Scan(dest ...any) error {
	found := false
	err := r.t.each(func(scan func(...any) error) error {
		found = true
		return scan(dest...)
	}, r.query, r.args...)
	if err == nil && !found {
		err = sql.ErrNoRows
	}
	return err
}

func (t *tx) run(b *batch) error { return t.exec(b.text.String(), b.args...) }

func (t *tx) exec(query string, args ...any) error {
	_, err := t.changed(query, args...)
	return err
}

// changed says how many rows a statement found to change.
func (t *tx) changed(query string, args ...any) (int64, error) {
	r, err := t.conn.ExecContext(t.ctx, query, sqlledger.Params(args)...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// each calls f for each row, of whichever statement.
func (t *tx) each(f func(scan func(...any) error) error, query string, args ...any) error {
	rows, err := t.conn.QueryContext(t.ctx, query, sqlledger.Params(args)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for {
		for rows.Next() {
			if err := f(rows.Scan); err != nil {
				return err
			}
		}
		if !rows.NextResultSet() {
			return rows.Err()
		}
	}
}

func noRows(err error) bool { return errors.Is(err, sql.ErrNoRows) }
