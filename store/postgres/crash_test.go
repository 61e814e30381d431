package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// TestServerKilled: the server is killed again and again, as by pg_ctl stop -m immediate,
// while clients claim and finish. Whatever it acknowledged is there afterwards; even where a
// role's settings would let it forget (synchronous_commit off, and a writer that sleeps).
func TestServerKilled(t *testing.T) {
	t.Parallel()
	server, err := newServer("-c", "synchronous_commit=off", "-c", "wal_writer_delay=10s", "-c", "wal_writer_flush_after=0")
	if err != nil {
		t.Fatal(err)
	}
	url := server.URL("postgres", "schema", "onerun")
	s := open(t, url)
	if _, _, err := s.Migrate(soon(t)); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var acknowledged []onerun.Lease
	ended := map[string]bool{} // by run id
	done := make(chan struct{})
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				c := claimOf(fmt.Sprintf("job-%d", i), fmt.Sprintf("p%d", n))
				g, err := live(t, done, func(ctx context.Context) (onerun.Grant, error) { return s.Claim(ctx, c) })
				if err != nil {
					return
				}
				mu.Lock()
				acknowledged = append(acknowledged, g.Lease)
				mu.Unlock()
				_, err = live(t, done, func(ctx context.Context) (onerun.Grant, error) {
					return g, s.Finish(ctx, g.Lease, onerun.Outcome{Status: onerun.Succeeded})
				})
				if err != nil {
					return
				}
				mu.Lock()
				ended[g.Lease.RunID] = true
				mu.Unlock()
			}
		})
	}
	enough := func(more int) {
		mu.Lock()
		from := len(ended)
		mu.Unlock()
		for ctx := soon(t); ; {
			mu.Lock()
			n := len(ended)
			mu.Unlock()
			if n >= from+more {
				return
			}
			select {
			case <-ctx.Done():
				t.Fatalf("%d ends are recorded, and no more come", n)
			case <-time.After(time.Millisecond):
			}
		}
	}
	for range 3 {
		enough(20)
		server.Stop(syscall.SIGQUIT)
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
	}
	enough(20)
	close(done)
	clients.Wait()
	tokens := map[onerun.LockName]int64{}
	for _, l := range acknowledged {
		d := detail(t, s, l.RunID)
		if len(d.Attempts) != 1 || d.Attempts[0].Owner != l.Owner || d.Attempts[0].Token != l.Token {
			t.Errorf("run %s: expected one attempt of owner %s with token %d, got %+v", l.RunID, l.Owner, l.Token, d.Attempts)
		}
		if ended[l.RunID] != (d.Run.Status == onerun.Succeeded) && ended[l.RunID] {
			t.Errorf("run %s: its end was acknowledged, and it is %s", l.RunID, d.Run.Status)
		}
		if l.Token <= tokens[l.Lock] {
			t.Errorf("%s: token %d after %d", l.Lock, l.Token, tokens[l.Lock])
		}
		tokens[l.Lock] = l.Token
	}
}

// live asks until there is an answer, as a Runner does. It gives up when done is closed.
func live(t *testing.T, done chan struct{}, ask func(ctx context.Context) (onerun.Grant, error)) (onerun.Grant, error) {
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		g, err := ask(ctx)
		cancel()
		if err == nil {
			return g, nil
		}
		if !errors.Is(err, onerun.ErrUnavailable) {
			t.Error(err)
			return g, err
		}
		select {
		case <-done:
			return g, err
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// TestServerDown: what a server that isn't there, or goes away in the middle, is called.
func TestServerDown(t *testing.T) {
	t.Parallel()
	server, err := newServer("-c", "fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, server.URL("postgres", "schema", "onerun"))
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	server.Stop(syscall.SIGQUIT)
	_, err = s.Heartbeat(soon(t), g.Lease)
	told(t, "a heartbeat without a server", err, onerun.ErrUnavailable, "is the server up")
	_, err = s.Claim(soon(t), claimOf("report", ""))
	told(t, "a claim without a server", err, onerun.ErrUnavailable, "is the server up")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Heartbeat(soon(t), g.Lease); err != nil {
		t.Errorf("a heartbeat when the server is back: %v", err)
	}
	succeed(t, s, g)
}
