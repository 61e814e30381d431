package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// TestHeartbeatCollides (B30): one heartbeat, one claim and one end that the server gives up with a
// deadlock, or after a wait for a row, are repeated inside.
func TestHeartbeatCollides(t *testing.T) {
	t.Parallel()
	for _, number := range []string{"1213", "1205"} {
		t.Run(number, func(t *testing.T) {
			t.Parallel()
			s, url := fresh(t)
			db := direct(t, url)
			g := granted(t, s, claimOf("settle", "2026-09-15"))
			// A counter that no rollback takes back.
			mustExec(t, db, "CREATE TABLE failures (n INT NOT NULL) ENGINE=MyISAM; INSERT INTO failures VALUES (0)")
			mustExec(t, db, `CREATE TRIGGER collide BEFORE UPDATE ON onerun_lock FOR EACH ROW
				BEGIN
					UPDATE failures SET n = n + 1;
					IF (SELECT n FROM failures) = 1 THEN SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = `+number+`, MESSAGE_TEXT = 'by the test'; END IF;
				END`)
			if _, err := s.Heartbeat(soon(t), g.Lease); err != nil {
				t.Errorf("heartbeat: %v", err)
			}
			mustExec(t, db, "UPDATE failures SET n = 0")
			succeed(t, s, g)
			var n int
			if err := db.QueryRowContext(soon(t), "SELECT n FROM failures").Scan(&n); err != nil || n < 2 {
				t.Errorf("it didn't collide: %d, %v", n, err)
			}
		})
	}
}

// TestRowHeldForLong: somebody has the row of a lock in hand for longer than a wait lasts. A
// heartbeat goes on trying, and a claim is refused by whom the lock belongs to.
func TestRowHeldForLong(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	c := claimOf("settle", "")
	g := granted(t, s, c)
	tx, err := direct(t, url).BeginTx(soon(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "SELECT 1 FROM onerun_lock FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := s.Heartbeat(soon(t), g.Lease); err != nil {
			t.Errorf("heartbeat: %v", err)
		}
	})
	refused(t, s, again(c), onerun.RefusedLocked)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	all.Wait()
}

// TestManyThroughOne (B30): fifty jobs through a pool of one connection, each with a heartbeat.
func TestManyThroughOne(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t, "pool_max_conns", "1")
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			g, err := s.Claim(soon(t), claimOf(fmt.Sprint("job-", i), "2026-09-15"))
			if err == nil {
				_, err = s.Heartbeat(soon(t), g.Lease)
			}
			if err == nil {
				err = s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit})
			}
			if err != nil {
				t.Errorf("job %d: %v", i, err)
			}
		})
	}
	all.Wait()
	runs, err := s.Runs(soon(t), onerun.Query{Namespace: onerun.DefaultNamespace, Statuses: []onerun.Status{onerun.Failed}})
	if err != nil || len(runs) != 50 {
		t.Errorf("%d ends recorded, %v", len(runs), err)
	}
}

// TestKeyUnderTwoLocks: claims of one key under two locks, in both orders, beside claims of other
// keys under the same locks. Never two at once, no deadlock reaches a caller, and every claim is
// answered.
func TestKeyUnderTwoLocks(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	var mu sync.Mutex
	busy := map[string]string{} // by lock and by key: whose
	enter := func(names []string, owner string, in bool) {
		mu.Lock()
		defer mu.Unlock()
		for _, n := range names {
			if in && busy[n] != "" {
				t.Errorf("%s is %s's and %s's", n, busy[n], owner)
			}
			busy[n] = ""
			if in {
				busy[n] = owner
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var all sync.WaitGroup
	grants := 0
	for w := range 8 {
		mine := s
		if w%2 == 1 {
			mine = open(t, url)
		}
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				c := claimOf(fmt.Sprint("job", (w+i)%2), fmt.Sprint("p", i/3))
				c.Lock = onerun.NamedLock([]string{"a", "b"}[(w+i/2)%2])
				c.Retries = 1000
				g, err := mine.Claim(soon(t), c)
				var ref *onerun.Refusal
				if errors.As(err, &ref) {
					continue
				}
				if err != nil {
					t.Errorf("claim: %v", err)
					return
				}
				names := []string{string(c.Lock), c.Key()}
				enter(names, c.Owner, true)
				mu.Lock()
				grants++
				mu.Unlock()
				enter(names, c.Owner, false)
				o := onerun.Outcome{Status: onerun.Succeeded}
				if i%3 == 0 {
					o = onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit}
				}
				if err := mine.Finish(soon(t), g.Lease, o); err != nil {
					t.Errorf("finish: %v", err)
				}
			}
		})
	}
	all.Wait()
	if grants == 0 {
		t.Error("nothing was granted")
	}
}

// TestBugsAreErrors: two RUNNING runs under one lock, or two RUNNING attempts of a run, are refused
// by the database, whoever writes them.
func TestBugsAreErrors(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	db := direct(t, url)
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	for what, query := range map[string]string{
		"a second run under the lock": "INSERT INTO onerun_run (run_id, namespace, job, `lock`, running_lock, status, attempt, started_at) SELECT 'x', namespace, job, `lock`, running_lock, status, attempt, started_at FROM onerun_run",
		"a second attempt of the run": "INSERT INTO onerun_attempt (run_id, attempt, status, running_run, owner, token, `lock`, ttl, on_crash, retries, backoff_min, backoff_max, retry_lost, started_at) SELECT run_id, 2, status, running_run, 'x', token, `lock`, ttl, on_crash, retries, backoff_min, backoff_max, retry_lost, started_at FROM onerun_attempt",
		"a second run of the key":     "INSERT INTO onerun_run (run_id, namespace, job, `key`, `lock`, status, attempt, started_at) SELECT 'x', namespace, job, `key`, 'job/x', status, attempt, started_at FROM onerun_run",
	} {
		if _, err := db.ExecContext(soon(t), query); err == nil || !strings.Contains(err.Error(), "Duplicate entry") {
			t.Errorf("%s: %v", what, err)
		}
	}
	// The lock's row is deleted under the run: it is put back by the next claim, and nobody gets in.
	mustExec(t, db, "DELETE FROM onerun_lock")
	if _, err := s.Heartbeat(soon(t), g.Lease); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("heartbeat without its row: %v", err)
	}
	refused(t, s, again(claimOf("settle", "2026-09-16")), onerun.RefusedLocked)
	alone := claimOf("", "")
	alone.Lock, alone.RunID = onerun.JobLock("settle"), ""
	refused(t, s, alone, onerun.RefusedLocked)
	if _, err := s.Heartbeat(soon(t), g.Lease); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("heartbeat when its row is put back: %v", err)
	}
	if err := s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded}); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("end when its row is put back: %v", err)
	}
	if d, err := s.Deliver(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded}); err != nil || d.Kind != onerun.DeliveredApplied {
		t.Errorf("the end of who has lost the lock: %+v, %v", d, err)
	}
	granted(t, s, again(claimOf("settle", "2026-09-16")))
}
