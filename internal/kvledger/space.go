package kvledger

import (
	"context"
	"time"
)

// Space is a store of keys with versions, and transactions over them: all that the ledger asks
// of a technology.
//
// A key is one or more segments divided by "/". A segment is 1 to 160 of the characters
// A-Z a-z 0-9 . _ ~ % - and doesn't begin with a dot; a key has at most 700 bytes. Keys are ordered
// byte by byte. Several segments hold a number of fixed width, so that order is by time;
// they say little by their first digits. A value has at most MaxValue bytes.
//
// Errors are onerun.StoreErrors with the right kind. After an error of Commit, the change may
// or may not have been made. All methods are safe for concurrent use.
type Space interface {
	// Read gives one entry for each key, in the order of keys, as they were at one moment where
	// the store can say so (else each as it was at some moment during the call: what is
	// decided by them is checked by Commit). What was committed before the call began is
	// seen. At most MaxOps keys.
	Read(ctx context.Context, keys ...string) ([]Entry, error)

	// Range gives the entries whose keys are at least from and less than to, which need be no
	// keys themselves (from may be a key and a NUL, to begin after it), in order: at most
	// limit of them, fewer only when there are no more. A limit is never over MaxRange. (From
	// the end on no server is quick: what is listed newest first has keys in that order.)
	Range(ctx context.Context, from, to string, limit int) ([]Entry, error)

	// Commit does all of the writes of a transaction in one step, if all of its checks hold; else
	// nothing, and ok is false. version is the one that every key has which was put; 0: this
	// store doesn't say.
	Commit(ctx context.Context, t Txn) (version int64, ok bool, err error)

	// Now is the store's clock, as well as this client knows it: where a store has no clock,
	// this host's. It stamps what is recorded and says when a retry is due, and decides nothing
	// about a lease: that a mortal key is gone does. It is asked at least once for every call of
	// the ledger, so it should not be a round trip.
	Now(ctx context.Context) (time.Time, error)

	// Close releases the client. Mortal keys stay until their time has run out.
	Close() error
}

// Limits that every Space has room for.
const (
	MaxValue = 256 << 10 // bytes of a value
	MaxTxn   = 700 << 10 // bytes of all keys and values of a transaction
	MaxOps   = 100       // keys of a Read, checks of a transaction, writes of a transaction
	MaxRange = 500       // entries of a Range
)

// Entry is a key with what it holds.
type Entry struct {
	Key     string
	Value   []byte
	Version int64 // 0: the key is absent. Else no other state of this key, before or after, has it
}

// Txn is a transaction. No key is written twice in it. A key may be checked and not written, and
// written and not checked.
type Txn struct {
	Checks []Check
	Writes []Write
}

// Check says which version a key must have.
type Check struct {
	Key     string
	Version int64 // 0: it must be absent
}

// Write puts a key, or deletes it.
type Write struct {
	Key    string
	Value  []byte
	Delete bool // it is no error when the key is absent

	// TTL makes the key mortal: it goes by itself when TTL has passed by the store's own clock
	// since the Commit that put it last; perhaps a little later, never earlier, counted from
	// when that Commit was called. From then on it is absent for Read, Range and every Check. Put
	// again it has a new TTL; whoever must not bring it back to life checks its version in the
	// same transaction.
	//
	// At most one key of a transaction is mortal, and a key that was put as mortal is always put
	// as such.
	TTL time.Duration
}
