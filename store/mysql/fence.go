package mysql

import (
	"context"
	"database/sql"
	_ "embed" // queries
	"errors"
	"fmt"
	"strings"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

//go:embed sql/fence.sql
var sqlFence string

//go:embed sql/item_done.sql
var sqlItemDone string

//go:embed sql/item_state.sql
var sqlItemState string

// Fence makes sure, in a transaction of the caller's own on the store's server, that a lease
// still owns its lock, and holds that true until the transaction ends: nobody else is
// granted the lock before. The lease's heartbeats go on meanwhile. So what the transaction
// writes is committed by the owner of the lock or not at all, even if its process was frozen
// and replaced on the way.
//
// Whoever wants the lock when the lease is over waits for the transaction to end, and is refused
// after some seconds: keep it short.
//
// Errors: onerun.ErrLost when the lease owns the lock no more: roll back; onerun.ErrUsage for a transaction that is over.
func (s *Store) Fence(ctx context.Context, work *sql.Tx, l onerun.Lease) error {
	_, err := s.fence(ctx, work, l)
	return err
}

// fence is Fence, and gives the job of the lease's run. That there is a fence is noted beside the
// lease first, so that those who take a lease away look for one only then. Then the row of the
// fence: it is shared, so that the transactions of one owner don't wait for each other. Whoever
// takes the lease away must have it alone, and so has either done that before, as the last
// look shows, or does it when this transaction is over.
func (s *Store) fence(ctx context.Context, work *sql.Tx, l onerun.Lease) (job string, err error) {
	b := &batch{}
	// The row is there since the lock's first grant, but for a lock that came back from a tombstone.
	// Then this takes no more than a share of it, which another transaction of the owner may have, too.
	b.add(`INSERT IGNORE INTO onerun_fence (namespace, "lock") VALUES (?, ?)`, l.Namespace, l.Lock)
	b.add("UPDATE onerun_lock SET fenced = TRUE WHERE "+owned, ownedArgs(l)...)
	err = s.once(ctx, func(t *tx) error { return t.run(b) })
	var one int
	if err == nil {
		err = work.QueryRowContext(ctx, s.in(sqlFence), []byte(l.Namespace), []byte(l.Lock)).Scan(&one)
	}
	if err == nil {
		job, err = s.jobOf(ctx, l)
	}
	if noRows(err) {
		return "", fmt.Errorf("%w: the lock %s has another owner, or none", onerun.ErrLost, l.Lock)
	}
	return job, s.ofTransaction("fence a transaction", err)
}

// ofTransaction explains an error in the caller's transaction. No server is to blame for one that is over.
func (s *Store) ofTransaction(what string, err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return sqlledger.TransactionOver(what, err)
	}
	return s.explain(what, err)
}

// jobOf reads, on a connection of the store's own, whether a lease is still its owner's: as it is
// now, whatever the caller's transaction sees, and without a lock that a heartbeat would wait for.
func (s *Store) jobOf(ctx context.Context, l onerun.Lease) (job string, err error) {
	err = s.once(ctx, func(t *tx) error {
		return t.row(`SELECT COALESCE(r.job, '') FROM onerun_lock l LEFT JOIN onerun_run r ON r.run_id = l.run_id
			WHERE l.namespace = ? AND l."lock" = ? AND l.owner = ? AND l.token = ? AND l.fenced`, l.Namespace, l.Lock, l.Owner, l.Token).Scan(&job)
	})
	return job, err
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
func (s *Store) Item(ctx context.Context, work *sql.Tx, l onerun.Lease, name, payload string) (bool, error) {
	name, err := onerun.CleanItem(name)
	if err != nil {
		return false, err
	}
	c := onerun.ItemClaim{Lease: l, Name: name, Owner: onerun.NewID(), Payload: payload}
	if err := c.Check(); err != nil {
		return false, err
	}
	job, err := s.fence(ctx, work, l)
	if err != nil {
		return false, err
	}
	item := []any{[]byte(l.Namespace), []byte(job), []byte(name)} // bytes, whatever the character set of the caller's connection
	_, err = work.ExecContext(ctx, s.in(sqlItemDone), append(item, []byte(payload), l.RunID, l.Attempt, c.Owner)...)
	it := onerun.Item{Name: name}
	var owner string
	if err == nil {
		err = work.QueryRowContext(ctx, s.in(sqlItemState), item...).Scan(&it.State, &it.Payload, &owner)
	}
	if err != nil {
		return false, s.ofTransaction("mark an item", err)
	}
	if owner == c.Owner {
		return true, nil
	}
	it.Liveness = onerun.Unknown // whoever has begun it is not asked for here
	switch why := onerun.ItemVerdict(it, c); why {
	case onerun.RefusedDone:
		return false, nil
	default:
		return false, &onerun.ItemRefusal{Reason: why, Item: it}
	}
}

// in is a query with the database's name where it says so: the caller's transaction may have
// another one in use.
func (s *Store) in(query string) string {
	return strings.ReplaceAll(query, "{database}", "`"+strings.ReplaceAll(s.database, "`", "``")+"`")
}
