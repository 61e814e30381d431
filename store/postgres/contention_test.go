package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// TestShortLeases: 32 clients, few locks, and leases so short that many run out under their
// owners. Nobody is granted a lock before the lease before is over, by the server's clock,
// and every token is larger.
func TestShortLeases(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t, "pool_max_conns", "16")
	const ttl = 20 * time.Millisecond
	type holding struct {
		from, until time.Time // by the server's clock; until: as far as anybody was told
		token       int64
		lock        onerun.LockName
		run         string
	}
	var mu sync.Mutex
	var all []holding
	var claims, grants atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	const enough = 100 // grants, below which nothing is shown
	least := time.Now().Add(5 * time.Second)
	var clients sync.WaitGroup
	failed := make(chan error, 32)
	for i := range 32 {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for time.Now().Before(least) || grants.Load() < enough {
				job := fmt.Sprintf("job-%d", random.IntN(3))
				partition := fmt.Sprintf("p%d", random.IntN(200))
				if random.IntN(3) == 0 {
					partition = ""
				}
				c := claimOf(job, partition)
				c.TTL, c.Retries, c.RetryLost = ttl, 1000, true
				if random.IntN(2) == 0 { // under a lock that jobs share: a key can be taken over under another one
					c.Lock = onerun.NamedLock("shared")
				}
				claims.Add(1)
				g, err := s.Claim(ctx, c)
				var ref *onerun.Refusal
				if errors.As(err, &ref) {
					continue
				}
				if err != nil {
					failed <- err
					return
				}
				grants.Add(1)
				h := holding{from: g.At, until: g.At.Add(ttl), token: g.Lease.Token, lock: c.Lock, run: g.Lease.RunID}
				if beat, err := s.Heartbeat(ctx, g.Lease); err == nil {
					h.until = beat.Now.Add(ttl)
				}
				switch random.IntN(3) {
				case 0: // it dies
				default:
					err := s.Finish(ctx, g.Lease, onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit})
					switch {
					case err == nil:
						h.until = g.At // it ended by itself, at some time after
					case !errors.Is(err, onerun.ErrLost):
						failed <- err
						return
					}
				}
				mu.Lock()
				all = append(all, h)
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	last := map[onerun.LockName][]holding{}
	for _, h := range all {
		last[h.lock] = append(last[h.lock], h)
	}
	for lock, hs := range last {
		for _, a := range hs {
			for _, b := range hs {
				if a.token == b.token && a.run != b.run {
					t.Errorf("%s: token %d was given twice", lock, a.token)
				}
				if a.from.Before(b.from) && b.from.Before(a.until) {
					t.Errorf("%s: granted at %s while the lease before it ran until %s", lock, b.from, a.until)
				}
				if a.from.Before(b.from) && b.token <= a.token {
					t.Errorf("%s: token %d after %d", lock, b.token, a.token)
				}
			}
		}
	}
	t.Logf("%d claims, %d grants", claims.Load(), len(all))
}

// TestPoolOfOne: fifty jobs at once share one connection, so nothing may hold it while it
// waits for another.
func TestPoolOfOne(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t, "pool_max_conns", "1")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	runner := onerun.NewRunner(s)
	var jobs sync.WaitGroup
	errs := make([]error, 50)
	var ran atomic.Int64
	for i := range errs {
		jobs.Go(func() {
			job := onerun.Job{Name: fmt.Sprintf("job-%d", i), Partition: "p", Policy: onerun.Policy{TTL: time.Minute}}
			errs[i] = runner.Do(ctx, job, func(ctx context.Context, run *onerun.Owner) error {
				ran.Add(1)
				_, err := s.Explain(ctx, claimOf(job.Name, "p"))
				return err
			})
		})
	}
	jobs.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	if ran.Load() != 50 {
		t.Errorf("%d jobs ran, expected 50", ran.Load())
	}
}

// TestDeadlocks: somebody else's transactions take the rows of locks in the wrong order.
// The server ends one of each two that wait for one another, and a claim that is ended asks
// again by itself.
func TestDeadlocks(t *testing.T) {
	t.Parallel()
	s, url := fresh(t, "pool_max_conns", "8")
	a, b := onerun.NamedLock("a"), onerun.NamedLock("b")
	// A key that runs under lock b makes a claim of it under lock a wait for both.
	key := claimOf("settle", "2026-09-15")
	key.Lock = b
	g := granted(t, s, key)
	free := claimOf("other", "")
	free.Lock = a
	succeed(t, s, granted(t, s, free)) // the row of a is there
	rogue := direct(t, url)
	mustExec(t, rogue, "SELECT set_config('search_path', $1, false), set_config('deadlock_timeout', '1h', false)", schemaOf(url))
	for range 5 {
		mustExec(t, rogue, "BEGIN")
		mustExec(t, rogue, "SELECT 1 FROM onerun_lock WHERE lock = $1 FOR UPDATE", string(b))
		answered := make(chan error, 1)
		go func() {
			c := again(key)
			c.Lock = a
			_, err := s.Claim(soon(t), c)
			answered <- err
		}()
		waitFor(t, url, "a claim that waits for lock b", `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%onerun_claim%' AND application_name LIKE 'onerun/%')`)
		mustExec(t, rogue, "SELECT 1 FROM onerun_lock WHERE lock = $1 FOR UPDATE", string(a)) // crosswise
		mustExec(t, rogue, "COMMIT")
		isRefusal(t, <-answered, onerun.RefusedRunning)
	}
	succeed(t, s, g)
}

// TestFence: a transaction that has made sure of its lease holds the lock's row in a way
// that heartbeats pass. Whoever comes when the lease is over waits for it, and is refused in
// the end: that transaction may commit any moment.
func TestFence(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	c := claimOf("settle", "2026-09-15")
	c.TTL = onerun.MinTTL
	g := granted(t, s, c)
	fence, err := direct(t, url).Begin(soon(t))
	must(t, err, "begin")
	must(t, s.Fence(soon(t), fence, g.Lease), "fence")
	if _, err := s.Heartbeat(soon(t), g.Lease); err != nil {
		t.Errorf("a heartbeat beside the fence: %v", err)
	}
	waitFor(t, url, "the lease to be over", "SELECT expires_at < clock_timestamp() FROM "+schemaOf(url)+".onerun_lock WHERE lock = 'job/settle'")
	next := again(c)
	refused(t, s, next, onerun.RefusedRunning)
	other := claimOf("settle", "2026-09-16")
	other.TTL = onerun.MinTTL
	ref := refusal(t, s, other, onerun.RefusedLocked)
	if ref.Holder.RunID != g.Lease.RunID || ref.Count != 1 {
		t.Errorf("the refusal: expected the fence's owner, recorded once, got %q, %d times", ref.Holder, ref.Count)
	}
	must(t, fence.Commit(soon(t)), "commit")
	refused(t, s, next, onerun.RefusedFailed) // now it is closed: lease_expired, without a retry
}
