package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// call asks one of the schema's functions, in one round trip: the statement is a transaction
// of its own. The functions rely on READ COMMITTED, and a role or a database can have another
// default; a statement that finds itself in that does nothing, and goes out again with
// a BEGIN that says it. f must be one that may be asked again when its reply was lost.
//
// The name of the function is not qualified where the URL names no schema. So the server
// finds it by the search path, nothing has to be asked before, and the function itself
// knows the schema that it is of.
func (s *Store) call(ctx context.Context, what, function string, args []any, dest any) error {
	return s.explain(what, s.patiently(ctx, func() error { return s.callOnce(ctx, function, args, dest) }))
}

// callOnce is call without patience and explanation.
func (s *Store) callOnce(ctx context.Context, function string, args []any, dest any) error {
	return s.asks(ctx, function, args, dest, true)
}

// asks is callOnce for what may be asked again when its reply was lost, or may not.
func (s *Store) asks(ctx context.Context, function string, args []any, dest any, again bool) error {
	err := s.ask(ctx, function, args, dest, again)
	switch code(err) {
	case codeNoFunction, codeNoSchema, codeNoTable: // the first use of all
		s.mu.Lock()
		s.schema = ""
		s.mu.Unlock()
		if err := s.ready(ctx); err != nil {
			return err
		}
		err = s.ask(ctx, function, args, dest, again)
	}
	return err
}

func (s *Store) ask(ctx context.Context, function string, args []any, dest any, again bool) error {
	query := "SELECT " + function
	if s.named != "" {
		query = "SELECT " + quoted(s.named) + "." + function
	}
	return s.connected(ctx, func(conn *pgx.Conn) error {
		err := pgx.ErrNoRows
		if !s.begins.Load() {
			err = conn.QueryRow(ctx, query+" WHERE current_setting('transaction_isolation') = 'read committed'", sqlledger.Params(args)...).Scan(dest)
		}
		if noRows(err) {
			s.begins.Store(true)
			err = begun(ctx, conn, query, args, dest)
		}
		if err != nil {
			rollback(ctx, conn)
			if again || pgconn.SafeToRetry(err) {
				return &unbegun{err}
			}
			return err
		}
		return nil
	})
}

// begun asks within a transaction, which goes out and comes back with the question.
func begun(ctx context.Context, conn *pgx.Conn, query string, args []any, dest any) error {
	b := &pgx.Batch{}
	b.Queue(beginWrite)
	b.Queue(query, sqlledger.Params(args)...)
	b.Queue("COMMIT")
	r := conn.SendBatch(ctx, b)
	_, err := r.Exec()
	if err == nil {
		err = r.QueryRow().Scan(dest)
	}
	if err == nil {
		_, err = r.Exec()
	}
	return errors.Join(err, r.Close())
}

// badAnswer can't happen: the functions are this program's own.
func badAnswer(what string, err error) error {
	return &onerun.StoreError{
		Kind: onerun.ErrInternal, What: what, Err: fmt.Errorf("the server's answer can't be read: %w", err), Do: "please report this",
	}
}
