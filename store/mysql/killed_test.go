package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/mysql"
)

// patient asks until the store answers, as a runner does.
func patient(ctx context.Context, f func(ctx context.Context) error) error {
	for {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := f(try)
		cancel()
		if !errors.Is(err, onerun.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		again := time.NewTimer(10 * time.Millisecond) // without a server each answer is at once
		select {
		case <-again.C:
		case <-ctx.Done():
		}
		again.Stop()
	}
}

// TestServerKilled: what was acknowledged outlasts the death of the server, and what was on its
// way is settled by asking again with the same owner id: every key is executed once.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	server := ownServer(t) // which waits for its disk
	s, url := freshOn(t, server)
	held := granted(t, s, claimOf("held", "2026-09-15"))
	done := granted(t, s, claimOf("done", "2026-09-15"))
	succeed(t, s, done)

	ctx, keys := soon(t), 40
	var all sync.WaitGroup
	var mu sync.Mutex
	executed := map[string]int{}
	worked := make(chan struct{}, 4*keys) // what was granted
	for w := range 4 {
		mine := open(t, url)
		all.Go(func() {
			for i := range keys {
				c := claimOf(fmt.Sprintf("job-%d", (i+w)%3), fmt.Sprint("p", i))
				c.Lock = onerun.KeyLock(c.Key())
				var g onerun.Grant
				err := patient(ctx, func(ctx context.Context) (err error) { g, err = mine.Claim(ctx, c); return err })
				var ref *onerun.Refusal
				if errors.As(err, &ref) {
					continue
				}
				if err != nil {
					t.Errorf("claim %s: %v", c.Key(), err)
					return
				}
				mu.Lock()
				executed[c.Key()]++
				mu.Unlock()
				worked <- struct{}{}
				if err := patient(ctx, func(ctx context.Context) error {
					return mine.Finish(ctx, g.Lease, onerun.Outcome{Status: onerun.Succeeded})
				}); err != nil {
					t.Errorf("finish %s: %v", c.Key(), err)
				}
			}
		})
	}
	over := make(chan struct{})
	go func() {
		all.Wait()
		close(over)
	}()
	for range 2 {
		for range len(worked) + 8 { // in the middle of their work
			select {
			case <-worked:
			case <-over:
			}
		}
		server.Stop(syscall.SIGKILL)
		if _, err := s.Heartbeat(soon(t), held.Lease); !errors.Is(err, onerun.ErrUnavailable) {
			t.Errorf("heartbeat without a server: %v", err)
		}
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
	}
	<-over
	if len(executed) == 0 {
		t.Fatal("nothing was executed")
	}
	for key, n := range executed {
		if n != 1 {
			t.Errorf("%s was executed %d times", key, n)
		}
	}
	refused(t, s, again(claimOf("held", "2026-09-15")), onerun.RefusedRunning)
	refused(t, s, again(claimOf("done", "2026-09-15")), onerun.RefusedSucceeded)
	if _, err := s.Heartbeat(soon(t), held.Lease); err != nil {
		t.Errorf("heartbeat after all: %v", err)
	}
	succeed(t, s, held)
}

// TestServerFrozen: a server that stands still for longer than a lease. When it goes on, one of
// the two owners has the lock and the other is told.
func TestServerFrozen(t *testing.T) {
	t.Parallel()
	server := ownServer(t, "--innodb-flush-log-at-trx-commit=0")
	s, url := freshOn(t, server)
	c := claimOf("settle", "2026-09-15")
	c.TTL, c.RetryLost, c.Retries = time.Second, true, 1
	g := granted(t, s, c)
	if err := server.Freeze(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // beyond the lease
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	_, err := s.Heartbeat(short, g.Lease)
	cancel()
	if !errors.Is(err, onerun.ErrUnavailable) {
		t.Errorf("heartbeat of a frozen server: %v", err)
	}
	if err := server.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	second := takeover(t, open(t, url), again(c))
	lost(t, s, g)
	if d := detail(t, s, second.Lease.RunID); d.Run.Status != onerun.Running || d.Run.Owner != second.Lease.Owner {
		t.Errorf("the second owner's run was touched: %+v", d.Run)
	}
	succeed(t, s, second)
}

// takeover claims until the lease of the owner before is over.
func takeover(t testing.TB, s *mysql.Store, c onerun.Claim) onerun.Grant {
	t.Helper()
	for ctx := soon(t); ; {
		g, err := s.Claim(ctx, c)
		var ref *onerun.Refusal
		if err == nil {
			return g
		}
		if !errors.As(err, &ref) && !errors.Is(err, onerun.ErrUnavailable) || ctx.Err() != nil {
			t.Fatalf("takeover: %v", err)
		}
		<-time.After(20 * time.Millisecond) // nobody is told when a lease is over
	}
}

// lost expects that an owner is told, and changes nothing.
func lost(t testing.TB, s *mysql.Store, g onerun.Grant) {
	t.Helper()
	if _, err := s.Heartbeat(soon(t), g.Lease); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("heartbeat of an owner that lost its lease: %v", err)
	}
	if err := s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded}); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("end of an owner that lost its lease: %v", err)
	}
	one := int64(1)
	if err := s.Report(soon(t), g.Lease, onerun.Progress{Processed: &one}); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("report of an owner that lost its lease: %v", err)
	}
}
