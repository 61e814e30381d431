package postgres

import (
	"context"
	"database/sql"
	_ "embed" // queries
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

//go:embed sql/fence.sql
var sqlFence string

//go:embed sql/item_done.sql
var sqlItemDone string

//go:embed sql/item_state.sql
var sqlItemState string

// Fence makes sure, in a transaction of the caller's own on the store's database, that a lease
// still owns its lock, and holds that true until the transaction ends: nobody else is
// granted the lock before. The lease's heartbeats go on meanwhile, and its end is recorded, too. So what the transaction
// writes is committed by the owner of the lock or not at all, even if its process was frozen
// and replaced on the way.
//
// Whoever wants the lock waits for the transaction to end, and is refused after some seconds:
// keep it short.
//
// Call it in the transaction itself: what a savepoint has fenced is free again when that is rolled back.
//
// Errors: onerun.ErrLost when the lease owns the lock no more: roll back; onerun.ErrUsage for a transaction that
// is over, or that a failed statement has aborted. Under an isolation
// level above READ COMMITTED call it first; else the database may end the transaction with a
// serialization failure (40001) instead.
func (s *Store) Fence(ctx context.Context, tx pgx.Tx, l onerun.Lease) error {
	return s.fence(ctx, one(tx), l)
}

// FenceSQL is Fence for a transaction of database/sql.
func (s *Store) FenceSQL(ctx context.Context, tx *sql.Tx, l onerun.Lease) error {
	return s.fence(ctx, oneSQL(tx), l)
}

// Item marks an item as done in a transaction of the caller's own, under its lease as by Fence:
// effect and mark are committed together, or neither is. It tells whether this
// transaction is the one that does it; false: it has been done, and there is nothing to do.
// Of several transactions at once that come to one item, the others wait for the first to end.
//
// payload stands for the item's content, such as a digest, in up to onerun.MaxPayload bytes; empty: it isn't told.
//
// Errors: onerun.ErrLost as by Fence; onerun.ErrUsage for a name that CleanItem refuses, a longer payload, or
// the lease of a lock alone; an
// *onerun.ItemRefusal when the item was marked with another payload (conflict), or begun by
// BeginItem and not ended (running).
func (s *Store) Item(ctx context.Context, tx pgx.Tx, l onerun.Lease, name, payload string) (bool, error) {
	return s.item(ctx, one(tx), l, name, payload)
}

// ItemSQL is Item for a transaction of database/sql.
func (s *Store) ItemSQL(ctx context.Context, tx *sql.Tx, l onerun.Lease, name, payload string) (bool, error) {
	return s.item(ctx, oneSQL(tx), l, name, payload)
}

// row is the one row of a query, or what pgx.ErrNoRows and sql.ErrNoRows say.
type row func(ctx context.Context, query string, args []any, to ...any) error

func one(tx pgx.Tx) row {
	return func(ctx context.Context, query string, args []any, to ...any) error {
		return tx.QueryRow(ctx, query, args...).Scan(to...)
	}
}

func oneSQL(tx *sql.Tx) row {
	return func(ctx context.Context, query string, args []any, to ...any) error {
		return tx.QueryRowContext(ctx, query, args...).Scan(to...)
	}
}

func noRow(err error) bool { return errors.Is(err, pgx.ErrNoRows) || errors.Is(err, sql.ErrNoRows) }

// in is a query with the schema's name where it says so: the caller's transaction has a search
// path of its own.
func (s *Store) in(query string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return withSchema(query, s.schema)
}

func (s *Store) fence(ctx context.Context, query row, l onerun.Lease) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	var owns bool
	err := query(ctx, s.in(sqlFence), []any{l.Namespace, string(l.Lock), l.Owner, l.Token}, &owns)
	if noRow(err) {
		return fmt.Errorf("%w: the lock %s has another owner, or none", onerun.ErrLost, l.Lock)
	}
	return s.ofTransaction("fence a transaction", err)
}

// ofTransaction explains an error in the caller's transaction. Where that can't go on by itself, no server
// is to blame.
func (s *Store) ofTransaction(what string, err error) error {
	switch {
	case errors.Is(err, pgx.ErrTxClosed), errors.Is(err, sql.ErrTxDone):
		return sqlledger.TransactionOver(what, err)
	case code(err) == codeNoTable, code(err) == codeNoSchema:
		return &onerun.StoreError{Kind: onerun.ErrConfig, What: what, Path: s.place, Err: err, Do: "begin it on the store's own database"}
	case code(err) == codePermission:
		return &onerun.StoreError{Kind: onerun.ErrPermission, What: what, Path: s.place, Err: err, Do: "grant the role of the transaction what docs/stores/postgres.md lists under Permissions"}
	case code(err) == codeAborted:
		return &onerun.StoreError{Kind: onerun.ErrUsage, What: what, Err: err, Do: "an earlier statement of it has failed: roll it back"}
	}
	return s.explain(what, err)
}

func (s *Store) item(ctx context.Context, query row, l onerun.Lease, name, payload string) (bool, error) {
	name, err := onerun.CleanItem(name)
	if err != nil {
		return false, err
	}
	c := onerun.ItemClaim{Lease: l, Name: name, Owner: onerun.NewID(), Payload: payload}
	if err := c.Check(); err != nil {
		return false, err
	}
	if err := s.fence(ctx, query, l); err != nil {
		return false, err
	}
	var marked bool
	err = query(ctx, s.in(sqlItemDone), []any{l.Namespace, l.RunID, l.Attempt, name, onerun.KeptPayload(payload), c.Owner}, &marked)
	if err == nil || !noRow(err) {
		return err == nil, s.ofTransaction("mark an item", err)
	}
	it := onerun.Item{Name: name}
	err = query(ctx, s.in(sqlItemState), []any{l.Namespace, l.RunID, name}, &it.State, &it.Payload)
	if noRow(err) {
		return false, fmt.Errorf("%w: there is no run %s", onerun.ErrLost, l.RunID)
	}
	if err != nil {
		return false, s.ofTransaction("mark an item", err)
	}
	it.Payload = onerun.PayloadOf(it.Payload)
	it.Liveness = onerun.Unknown // whoever has begun it is not asked for here
	switch why := onerun.ItemVerdict(it, c); why {
	case onerun.RefusedDone:
		return false, nil
	default:
		return false, &onerun.ItemRefusal{Reason: why, Item: it}
	}
}
