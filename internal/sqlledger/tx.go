package sqlledger

import (
	"context"
	"time"

	"github.com/onerun-dev/onerun"
)

// Transact runs f in a transaction of a store's. what says what it is about, if it fails. f may be
// run again when the transaction met another one.
type Transact[T any] func(ctx context.Context, what string, f func(t T) error) error

// Journal is a transaction in which something is decided that the journal has to tell.
type Journal interface {
	// Now is the store's time, as the transaction asked for it last.
	Now() time.Time
	// Event appends to the journal, in the chain of the run, or in that of the operators.
	Event(e onerun.Event, r onerun.Run) error
}

// Shared is a transaction that can meet others halfway.
type Shared interface {
	Journal
	// Tick asks for the store's time anew: after a wait.
	Tick() error
	// Again is the error of a transaction that met another one, and has to begin anew.
	Again() error
}

// Runs is a transaction that reads runs, and takes them in hand.
type Runs interface {
	// InHand reads a run, having locked its lock's row, if it is RUNNING, and then its own: the
	// order of a claim. It asks for the time anew. Nil: there is none.
	InHand(namespace, runID string) (*RunRow, error)
	// RunIDOf is the run of a key; "": there is none.
	RunIDOf(namespace, key string) (string, error)
	// RunByID reads a run that is known to be there.
	RunByID(runID string) (onerun.Run, error)
	// TombstoneOf reads the tombstone of a run, or else of a key; nil: there is none.
	TombstoneOf(namespace, key, runID string) (*onerun.Run, error)
}

// decision is the event of something that a person decided.
func decision(name string, w onerun.Who, detail string) onerun.Event {
	return onerun.Event{Name: name, By: w.By, Terminal: w.Terminal, Reason: w.Reason, Detail: detail}
}
