package onerun

import (
	"context"
	"time"
)

// SessionLister is an optional ability: of a store on a server that knows who is connected
// to it. Where a run is a suspect, what its job is doing there is evidence: a statement that
// still runs, or waits for somebody's lock.
type SessionLister interface {
	// Sessions lists the sessions on the store's server that carry the name of a run,
	// onerun/RUN_ID, oldest first: those of its owner, and those of its job that call
	// themselves so. It is no proof of anything: a session can outlive its job, and a job
	// needs none.
	Sessions(ctx context.Context, r Run) ([]Session, error)
}

// Session is a connection to the store's server, as the server sees it. What the store's
// role may not see is empty.
type Session struct {
	PID   int       // of the server's process that serves it
	State string    // in the server's words: active, idle, idle in transaction
	Since time.Time // when it came into that state
	Wait  string    // what it waits for: Lock/transactionid
	Query string    // the beginning of what it does, or did last, on one line, secrets masked
}
