package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// How the ear finds out that its connection is dead, of which nobody tells who only
// listens; and how long it keeps one that nobody waits at any more, since whoever has waited
// for a while mostly goes on to wait.
const (
	quiet     = 10 * time.Second // then it asks
	pingLimit = 5 * time.Second
	linger    = 2 * time.Second
)

// ear is the one connection of a store that listens to the server's notifications, for as
// long as somebody waits. Nobody relies on it: who waits asks by itself now and then. A pool
// of one connection has none to spare for it.
type ear struct {
	s       *Store
	spare   bool          // the pool has a connection to spare
	closed  chan struct{} // with the store
	running sync.WaitGroup

	mu     sync.Mutex
	waits  map[*waiting][]string // the notifications that each is to be woken by
	hangUp context.CancelFunc    // nil: it doesn't listen
	idle   *time.Timer           // hangs up; nil: somebody waits
	deaf   bool                  // behind a proxy that pools, where it can't hear
}

func newEar(s *Store, connections int32) *ear {
	return &ear{s: s, spare: connections > 1, closed: make(chan struct{}), waits: map[*waiting][]string{}}
}

// expect lets a waiter be woken by what happens to its lock, and to another one unless that
// is empty.
func (e *ear) expect(ctx context.Context, w *waiting, other onerun.LockName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waits[w] = []string{w.c.Namespace + "/" + string(w.c.Lock)}
	if other != "" {
		e.waits[w] = append(e.waits[w], w.c.Namespace+"/"+string(other))
	}
	if e.idle != nil {
		e.idle.Stop()
		e.idle = nil
	}
	if e.hangUp != nil || e.deaf || !e.spare || e.isClosed() {
		return
	}
	ctx, e.hangUp = context.WithCancel(context.WithoutCancel(ctx))
	e.running.Go(func() { e.listen(ctx) })
}

// forget wakes a waiter no more. After the last one the connection goes.
func (e *ear) forget(w *waiting) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.waits, w)
	if len(e.waits) > 0 || e.hangUp == nil || e.idle != nil {
		return
	}
	e.idle = time.AfterFunc(linger, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if len(e.waits) == 0 && e.hangUp != nil {
			e.hangUp()
			e.hangUp, e.idle = nil, nil
		}
	})
}

func (e *ear) isClosed() bool {
	select {
	case <-e.closed:
		return true
	default:
		return false
	}
}

// close ends all waits, and returns when the connection is given back.
func (e *ear) close() {
	e.mu.Lock()
	if !e.isClosed() {
		close(e.closed)
	}
	if e.idle != nil {
		e.idle.Stop()
	}
	if e.hangUp != nil {
		e.hangUp()
	}
	e.mu.Unlock()
	e.running.Wait()
}

// errDeaf: a proxy gives each transaction another session, so that none can listen.
var errDeaf = errors.New("behind a proxy that pools transactions")

// listen listens until it is told to hang up. A connection that is lost is replaced.
func (e *ear) listen(ctx context.Context) {
	for again := pollMin; ; again = min(2*again, pollMax) {
		began := time.Now()
		if err := e.hear(ctx); errors.Is(err, errDeaf) {
			e.mu.Lock()
			e.deaf = true
			e.mu.Unlock()
			return
		}
		if time.Since(began) > pollMax {
			again = pollMin
		}
		if sqlledger.Wait(ctx, again) != nil {
			return
		}
	}
}

// hear listens on one connection for as long as that lasts.
func (e *ear) hear(ctx context.Context) error {
	pooled, err := e.s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	conn := pooled.Conn()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx) // it has cost the server a session of its own for long enough
		pooled.Release()
	}()
	channel, err := e.channel(ctx, conn)
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "LISTEN "+quoted(channel)); err != nil {
		return err
	}
	e.s.hook("listening")
	e.tell("") // what happened before went unheard
	for {
		waited, cancel := context.WithTimeout(ctx, quiet)
		n, err := conn.WaitForNotification(waited)
		over := waited.Err() != nil
		cancel()
		switch {
		case err == nil:
			e.tell(n.Payload)
		case ctx.Err() != nil || !over:
			return err
		default:
			asked, cancel := context.WithTimeout(ctx, pingLimit)
			err := conn.Ping(asked)
			cancel()
			if err != nil {
				return err
			}
		}
	}
}

// channel is what to listen to. A proxy that pools shows itself by its clients' sessions:
// each is told a process id by it that is not its server's.
func (e *ear) channel(ctx context.Context, conn *pgx.Conn) (channel string, err error) {
	function := "onerun_channel()"
	if e.s.named != "" {
		function = quoted(e.s.named) + "." + function
	}
	var pid uint32
	err = conn.QueryRow(ctx, "SELECT pg_backend_pid(), "+function).Scan(&pid, &channel)
	if err == nil && pid != conn.PgConn().PID() {
		err = errDeaf
	}
	return channel, err
}

// tell wakes those who wait for what a notification is about; "": all of them.
func (e *ear) tell(about string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for w, names := range e.waits {
		for _, name := range names {
			if about == "" || name == about {
				select {
				case w.wake <- struct{}{}:
				default: // it is awake already
				}
			}
		}
	}
}
