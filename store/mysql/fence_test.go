package mysql_test

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

func begun(t testing.TB, db *sql.DB, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// TestFence: a transaction that is sure of its lease keeps others from taking it over until it
// ends, while heartbeats and reports go on; one whose lease is lost is told, and rolls back.
func TestFence(t *testing.T) {
	t.Parallel()
	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead} {
		t.Run(level.String(), func(t *testing.T) {
			t.Parallel()
			s, url := fresh(t)
			db := direct(t, url, "time_zone", "'-03:00'", "sql_mode", "''")
			mustExec(t, db, "CREATE TABLE paid (what VARCHAR(100)) ENGINE=InnoDB")
			c := claimOf("settle", "2026-09-15")
			c.TTL, c.Retries, c.RetryLost = 4*time.Second, 1, true
			g := granted(t, s, c)

			tx, second := begun(t, db, level), begun(t, db, level)
			var n int
			if err := tx.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM paid").Scan(&n); err != nil { // its snapshot, if it has one, is from here
				t.Fatal(err)
			}
			for _, own := range []*sql.Tx{tx, second} { // the owner's don't wait for each other
				if err := s.Fence(soon(t), own, g.Lease); err != nil {
					t.Fatalf("fence: %v", err)
				}
			}
			if err := second.Commit(); err != nil {
				t.Fatal(err)
			}
			processed := int64(7) // if what follows waited for the transaction, it would until its own time is up
			if _, err := s.Heartbeat(soon(t), g.Lease); err != nil {
				t.Errorf("heartbeat beside a fence: %v", err)
			}
			if err := s.Report(soon(t), g.Lease, onerun.Progress{Processed: &processed}); err != nil {
				t.Errorf("report beside a fence: %v", err)
			}
			refused(t, s, again(c), onerun.RefusedRunning)
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO paid VALUES ('first')"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(c.TTL + 200*time.Millisecond) // the lease is over now
			refused(t, s, again(c), onerun.RefusedRunning)
			if err := tx.Commit(); err != nil {
				t.Errorf("commit: %v", err)
			}
			next := granted(t, s, again(c))
			late, others := begun(t, db, level), begun(t, db, level)
			if err := s.Fence(soon(t), others, next.Lease); err != nil {
				t.Errorf("fence of the next owner: %v", err)
			}
			if err := s.Fence(soon(t), late, g.Lease); !errors.Is(err, onerun.ErrLost) {
				t.Errorf("fence of a lease that is lost: %v", err)
			}
			succeed(t, s, next)
		})
	}
}

// TestFenceOfALockAlone: and a lease that its owner gave back.
func TestFenceOfALockAlone(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	db := direct(t, url)
	c := claimOf("", "")
	c.Lock, c.RunID = onerun.NamedLock("reports"), ""
	g := granted(t, s, c)
	tx := begun(t, db, sql.LevelDefault)
	if err := s.Fence(soon(t), tx, g.Lease); err != nil {
		t.Fatalf("fence: %v", err)
	}
	if err := s.Finish(soon(t), g.Lease, onerun.Outcome{}); err != nil {
		t.Fatalf("finish beside a fence of one's own: %v", err)
	}
	refused(t, s, again2(c), onerun.RefusedLocked) // the transaction isn't over
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	granted(t, s, again2(c))
	if err := s.Fence(soon(t), begun(t, db, sql.LevelDefault), g.Lease); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("fence of a lease that was given back: %v", err)
	}
}

// again2 is the same claim of a lock alone by another owner.
func again2(c onerun.Claim) onerun.Claim {
	c.Owner = onerun.NewID()
	return c
}

// TestItems: effect and mark are committed together, once, whatever the caller's session is like.
func TestItems(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	db := direct(t, url, "charset", "latin1", "sql_mode", "''", "time_zone", "'-03:00'")
	mustExec(t, db, "CREATE TABLE paid (what TEXT) ENGINE=InnoDB")
	g := granted(t, s, claimOf("일일정산", "2026-09-15"))
	pay := func(name, payload string, end func(tx *sql.Tx) error) (bool, error) {
		t.Helper()
		tx := begun(t, db, sql.LevelDefault)
		first, err := s.Item(soon(t), tx, g.Lease, name, payload)
		if err == nil && first {
			_, err = tx.ExecContext(t.Context(), "INSERT INTO paid VALUES (?)", payload)
		}
		if err != nil {
			_ = tx.Rollback()
			return first, err
		}
		return first, end(tx)
	}
	const order = "주문 4711"
	expect := func(what string, want bool, name, payload string, end func(tx *sql.Tx) error) {
		t.Helper()
		if first, err := pay(name, payload, end); err != nil || first != want {
			t.Errorf("%s: %t, %v", what, first, err)
		}
	}
	expect("rolled back", true, order, "a", (*sql.Tx).Rollback)
	expect("the first", true, order, "a", (*sql.Tx).Commit)
	expect("the second", false, order, "a", (*sql.Tx).Commit)
	expect("without its payload", false, order, "", (*sql.Tx).Commit)
	expect("another", true, order+"2", "a", (*sql.Tx).Commit)
	expect("as macOS names a file", true, "e\u0301", "a", (*sql.Tx).Rollback)
	long := strings.Repeat("x", onerun.MaxPayload)
	expect("the longest payload", true, "long", long, (*sql.Tx).Rollback)
	if _, err := pay("long", long+"x", (*sql.Tx).Commit); !errors.Is(err, onerun.ErrUsage) {
		t.Errorf("a longer payload: %v", err)
	}
	over := begun(t, db, sql.LevelDefault)
	if err := over.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := s.Fence(soon(t), over, g.Lease); !errors.Is(err, onerun.ErrUsage) {
		t.Errorf("fence of a transaction that is over: %v", err)
	}
	var conflict *onerun.ItemRefusal
	if _, err := pay(order, "b", (*sql.Tx).Commit); !errors.As(err, &conflict) || conflict.Reason != onerun.RefusedConflict {
		t.Errorf("with another payload: %v", err)
	}
	var n int
	if err := db.QueryRowContext(soon(t), "SELECT COUNT(*) FROM paid").Scan(&n); err != nil || n != 2 {
		t.Errorf("paid %d times, %v", n, err)
	}
	items, err := s.Items(soon(t), onerun.ItemQuery{Namespace: onerun.DefaultNamespace, Job: "일일정산", Name: order})
	if err != nil || len(items) != 1 || items[0].State != onerun.ItemDone || items[0].Tries != 1 || items[0].Payload != "a" {
		t.Errorf("the item: %+v, %v", items, err)
	}
	// One that failed is marked anew, and no other.
	begin := onerun.ItemClaim{Lease: g.Lease, Name: "begun", Owner: onerun.NewID()}
	if _, err := s.BeginItem(soon(t), begin); err != nil {
		t.Fatal(err)
	}
	var refusal *onerun.ItemRefusal
	if _, err := pay("begun", "c", (*sql.Tx).Commit); !errors.As(err, &refusal) || refusal.Reason != onerun.RefusedRunning {
		t.Errorf("one that is begun: %v", err)
	}
	end := onerun.ItemEnd{Namespace: onerun.DefaultNamespace, Job: "일일정산", Name: "begun", Owner: begin.Owner, State: onerun.ItemFailed, Error: "no"}
	if err := s.EndItem(soon(t), end); err != nil {
		t.Fatal(err)
	}
	expect("one that failed", true, "begun", "c", (*sql.Tx).Commit)
	succeed(t, s, g)
	if _, err := pay("late", "", (*sql.Tx).Commit); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("after the end: %v", err)
	}
}

// TestItemAtOnce: of two transactions that come to one item, the second waits for the first.
func TestItemAtOnce(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	db := direct(t, url)
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	one, two := begun(t, db, sql.LevelDefault), begun(t, db, sql.LevelDefault)
	if first, err := s.Item(soon(t), one, g.Lease, "4711", ""); err != nil || !first {
		t.Fatalf("the first: %t, %v", first, err)
	}
	type answer struct {
		first bool
		err   error
	}
	got := make(chan answer, 1)
	go func() {
		first, err := s.Item(soon(t), two, g.Lease, "4711", "")
		got <- answer{first, err}
	}()
	waitFor(t, url, "the second waits", executing(".onerun_item"))
	if err := one.Commit(); err != nil {
		t.Fatal(err)
	}
	if a := <-got; a.err != nil || a.first {
		t.Errorf("the second: %+v", a)
	}
}
