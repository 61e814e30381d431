package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/sqlite"
)

// TestWaitingIsWoken: who waits for a lock has it as soon as the holder lets go, or is
// killed.
func TestWaitingIsWoken(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"releases", "is killed"} {
		for _, alone := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s alone=%v", how, alone), func(t *testing.T) {
				t.Parallel()
				b := newBed(t)
				c := claimOf("sweep", "")
				if alone {
					c = lockClaim("db")
				}
				holder := b.child(plan{})
				holder.do(order{Do: "claim", Claim: c})
				woken := make(chan time.Time, 1)
				next := again(c)
				next.Asking = true
				go func() {
					g, err := b.waitFor(next)
					if err != nil {
						t.Errorf("waiting: %v", err)
					} else if err := b.Finish(soon(t), g.Lease, ended(onerun.Succeeded)); err != nil {
						t.Errorf("finish: %v", err)
					}
					woken <- time.Now()
				}()
				b.waited(c.Lock)
				var freed time.Time
				if how == "releases" {
					freed = time.Now()
					holder.do(order{Do: "finish", Outcome: ended(onerun.Succeeded)})
				} else {
					freed = time.Now()
					holder.kill()
				}
				if took := (<-woken).Sub(freed); took > 5*time.Second {
					t.Errorf("it took %s", took)
				}
				if alone {
					return
				}
				if n := one[int](t, b.sql(), "SELECT count(*) FROM onerun_skip"); n != 0 {
					t.Errorf("refusals recorded of one who waits: %d", n)
				}
			})
		}
	}
}

// waitFor waits as the runner does: it asks again when it is refused. A process that is
// killed lets go of its lock a moment before it is gone, and counts as alive until then.
func (b *bed) waitFor(c onerun.Claim) (onerun.Grant, error) {
	for ctx := soon(b.t); ; {
		g, err := b.ClaimWaiting(ctx, c)
		var ref *onerun.Refusal
		if !errors.As(err, &ref) || ref.Reason != onerun.RefusedLocked || !moment(ctx) {
			return g, err
		}
	}
}

// waited returns when somebody waits for a lock's file: the kernel lists that with an
// arrow (proc_locks(5)).
func (b *bed) waited(lock onerun.LockName) {
	b.t.Helper()
	st, err := os.Stat(b.LockPath(lock))
	if err != nil {
		b.t.Fatal(err)
	}
	inode := fmt.Sprintf(":%d ", st.Sys().(*syscall.Stat_t).Ino)
	for ctx := soon(b.t); ; {
		text, err := os.ReadFile("/proc/locks")
		if err != nil {
			b.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "-> FLOCK") && strings.Contains(line, inode) {
				return
			}
		}
		if !moment(ctx) {
			b.t.Fatal("nobody waits for the lock")
		}
	}
}

// TestWaitingGivenUp: a wait that its caller gives up leaves nothing behind, neither a
// goroutine nor a lock. It is not parallel, since it looks at all goroutines.
func TestWaitingGivenUp(t *testing.T) {
	path := filepath.Join(home(t), sqlite.DatabaseName)
	func() {
		s, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		b := &bed{t: t, path: path, Store: s}
		g := b.granted(claimOf("sweep", ""))
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error)
		for range 5 {
			go func() {
				c := claimOf("sweep", "")
				c.Asking = true
				_, err := b.ClaimWaiting(ctx, c)
				done <- err
			}()
		}
		b.waited(g.Lease.Lock)
		cancel(fmt.Errorf("no more of this: %w", onerun.ErrLost)) // whose error must not be taken for the store's
		for range 5 {
			is(t, <-done, "unavailable", "a wait that was given up")
		}
		b.refused(claimOf("sweep", ""), onerun.RefusedLocked) // the holder isn't disturbed
		b.finish(g, onerun.Succeeded)
		for range 20 { // and nobody finds a lock that none holds
			b.lived(claimOf("sweep", ""), onerun.Succeeded)
			b.finish(b.granted(lockClaim("db")), "")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for ctx := soon(t); ; {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if !bytes.Contains(stacks, []byte("waitFlock")) {
			return
		}
		if !moment(ctx) {
			t.Fatalf("goroutines that still wait:\n%s", stacks)
		}
	}
}

// TestWaitingForALockAlone: likewise, for a lock that no ledger knows of.
func TestWaitingForALockAlone(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for range 10 {
		g := b.granted(lockClaim("db"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := b.ClaimWaiting(ctx, lockClaim("db"))
			done <- err
		}()
		b.waited(g.Lease.Lock)
		cancel()
		is(t, <-done, "unavailable", "a wait that was given up")
		b.finish(g, "")
		// The waiter's thread may get the lock now, for the moment in which it lets go of it.
		b.finish(b.granted(lockClaim("db")), "")
	}
}

// TestBetweenTwoSteps: a start takes the lock file before it knows whether it may run. If
// it may not, it lets go at once, and whoever came in that moment isn't refused for it.
func TestBetweenTwoSteps(t *testing.T) {
	t.Parallel()
	for _, c := range []onerun.Claim{lockClaim("db"), claimOf("sweep", "")} {
		c.Lock = onerun.NamedLock("db")
		t.Run("job "+c.Job, func(t *testing.T) {
			t.Parallel()
			met, tried := make(chan struct{}), make(chan struct{})
			b := newBed(t)
			done := claimOf("settle", day)
			done.Lock = c.Lock
			b.lived(done, onerun.Succeeded)
			first := b.reopen(sqlite.WithHook(func(step string) {
				if step == stepBegin {
					met <- struct{}{} // it has the lock, and knows nothing yet
					<-tried
					<-time.After(300 * time.Millisecond) // as long as a busy disk can need for a commit
				}
			}))
			opened := 0
			second := b.reopen(sqlite.WithHook(func(step string) {
				if step == "acquire: lock file opened" {
					if opened++; opened == 2 { // it has met the other one once
						close(tried)
					}
				}
			}))
			for round := 1; ; round++ { // it comes back for a second, which can be too short on a busy machine
				tried, opened = make(chan struct{}), 0
				refused := make(chan error)
				go func() {
					_, err := first.Claim(soon(t), again(done))
					refused <- err
				}()
				<-met
				g, err := second.Claim(soon(t), again(c))
				if opened < 2 {
					close(tried)
				}
				var ref *onerun.Refusal
				if e := <-refused; !errors.As(e, &ref) || ref.Reason != onerun.RefusedSucceeded {
					t.Fatalf("the first start: %v", e)
				}
				switch {
				case err == nil:
					second.finish(g, onerun.Succeeded)
					return
				case !errors.As(err, &ref) || round == 20:
					t.Fatalf("the second start: %v", err)
				}
			}
		})
	}
}
