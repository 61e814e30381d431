package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of database/sql

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/postgres"
)

// transaction is one of the caller's own, by either way.
type transaction struct {
	exec     func(query string, args ...any) error
	fence    func(l onerun.Lease) error
	item     func(l onerun.Lease, name, payload string) (bool, error)
	commit   func() error
	rollback func() error
}

// ways are those in which callers have transactions.
var ways = map[string]func(t *testing.T, s *postgres.Store, url string) transaction{
	"pgx": func(t *testing.T, s *postgres.Store, url string) transaction {
		tx, err := direct(t, url).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return transaction{
			exec:     func(query string, args ...any) error { _, err := tx.Exec(t.Context(), query, args...); return err },
			fence:    func(l onerun.Lease) error { return s.Fence(soon(t), tx, l) },
			item:     func(l onerun.Lease, name, payload string) (bool, error) { return s.Item(soon(t), tx, l, name, payload) },
			commit:   func() error { return tx.Commit(t.Context()) },
			rollback: func() error { return tx.Rollback(t.Context()) },
		}
	},
	"database/sql": func(t *testing.T, s *postgres.Store, url string) transaction {
		db, err := sql.Open("pgx", withoutSchema(url))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return transaction{
			exec: func(query string, args ...any) error {
				_, err := tx.ExecContext(t.Context(), query, args...)
				return err
			},
			fence: func(l onerun.Lease) error { return s.FenceSQL(soon(t), tx, l) },
			item: func(l onerun.Lease, name, payload string) (bool, error) {
				return s.ItemSQL(soon(t), tx, l, name, payload)
			},
			commit:   tx.Commit,
			rollback: tx.Rollback,
		}
	},
}

func forEachWay(t *testing.T, f func(t *testing.T, s *postgres.Store, url string, begin func() transaction)) {
	for name, begin := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, url := fresh(t)
			if _, _, err := s.Migrate(soon(t)); err != nil {
				t.Fatal(err)
			}
			mustExec(t, direct(t, url), "CREATE TABLE "+schemaOf(url)+".paid (what text)")
			f(t, s, url, func() transaction { return begin(t, s, url) })
		})
	}
}

func paid(t *testing.T, url string) (n int) {
	t.Helper()
	if err := direct(t, url).QueryRow(soon(t), "SELECT count(*) FROM "+schemaOf(url)+".paid").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestFencedCommit: the owner commits, beside its heartbeats; one that was frozen and replaced
// doesn't.
func TestFencedCommit(t *testing.T) {
	t.Parallel()
	forEachWay(t, func(t *testing.T, s *postgres.Store, url string, begin func() transaction) {
		pay := "INSERT INTO " + schemaOf(url) + ".paid VALUES ('page 1')"
		c := claimOf("settle", "2026-09-15")
		c.TTL, c.RetryLost, c.Retries = onerun.MinTTL, true, 5
		g := granted(t, s, c)
		tx := begin()
		must(t, tx.fence(g.Lease), "fence of the owner")
		must(t, tx.exec(pay), "write")
		if _, err := s.Heartbeat(soon(t), g.Lease); err != nil {
			t.Errorf("a heartbeat beside it: %v", err)
		}
		must(t, tx.commit(), "commit of the owner")

		// The owner freezes, its lease runs out, and another takes the run over.
		waitFor(t, url, "the lease to be over", "SELECT expires_at < clock_timestamp() FROM "+schemaOf(url)+".onerun_lock WHERE lock = 'job/settle'")
		next := granted(t, s, again(c))
		tx = begin()
		must(t, tx.exec(pay), "write of the one that was replaced")
		if err := tx.fence(g.Lease); !errors.Is(err, onerun.ErrLost) {
			t.Fatalf("fence of the one that was replaced: %v", err)
		}
		must(t, tx.rollback(), "roll back")
		for name, change := range map[string]func(*onerun.Lease){
			"token":     func(l *onerun.Lease) { l.Token++ },
			"owner":     func(l *onerun.Lease) { l.Owner = onerun.NewID() },
			"lock":      func(l *onerun.Lease) { l.Lock = onerun.JobLock("other") },
			"namespace": func(l *onerun.Lease) { l.Namespace += "x" },
		} {
			l := next.Lease
			change(&l)
			tx := begin()
			if err := tx.fence(l); !errors.Is(err, onerun.ErrLost) {
				t.Errorf("fence with another %s: %v", name, err)
			}
			must(t, tx.rollback(), "roll back")
		}
		if n := paid(t, url); n != 1 {
			t.Errorf("paid %d times", n)
		}
	})
}

// TestEndBesideFence: an owner that ends while a transaction of its own is still open has its end recorded at
// once, and nobody is granted the lock before that transaction is over.
func TestEndBesideFence(t *testing.T) {
	t.Parallel()
	forEachWay(t, func(t *testing.T, s *postgres.Store, url string, begin func() transaction) {
		for _, c := range []onerun.Claim{claimOf("settle", "2026-09-15"), lockAlone("reports")} {
			g := granted(t, s, c)
			tx := begin()
			must(t, tx.fence(g.Lease), "fence")
			must(t, tx.exec("INSERT INTO "+schemaOf(url)+".paid VALUES ('page 1')"), "write")
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			if err := s.Finish(ctx, g.Lease, onerun.Outcome{Status: onerun.Succeeded}); err != nil {
				t.Errorf("the end of %s: %v", c.Lock, err)
			}
			cancel()
			next := claimOf("other", "")
			next.Lock, next.TTL = c.Lock, onerun.MinTTL // it waits for a third of that
			if _, err := s.Claim(soon(t), next); !errors.As(err, new(*onerun.Refusal)) {
				t.Errorf("a claim of %s beside the transaction: %v", c.Lock, err)
			}
			must(t, tx.commit(), "commit")
			granted(t, s, again(next))
		}
	})
}

// lockAlone is a claim of a lock alone.
func lockAlone(name string) onerun.Claim {
	c := claimOf("", "")
	c.Lock, c.RunID = onerun.NamedLock(name), ""
	return c
}

// TestFenceOfNoTransaction: of a transaction that can't go on, no server is to blame.
func TestFenceOfNoTransaction(t *testing.T) {
	t.Parallel()
	forEachWay(t, func(t *testing.T, s *postgres.Store, _ string, begin func() transaction) {
		g := granted(t, s, claimOf("settle", ""))
		aborted, over := begin(), begin()
		if err := aborted.exec("SELECT 1 / 0"); err == nil {
			t.Error("no error")
		}
		must(t, over.rollback(), "roll back")
		for what, tx := range map[string]transaction{"aborted": aborted, "over": over} {
			if err := tx.fence(g.Lease); !errors.Is(err, onerun.ErrUsage) || errors.Is(err, onerun.ErrUnavailable) {
				t.Errorf("fence of one that is %s: %v", what, err)
			}
			if _, err := tx.item(g.Lease, "a", ""); !errors.Is(err, onerun.ErrUsage) {
				t.Errorf("item of one that is %s: %v", what, err)
			}
		}
		must(t, aborted.rollback(), "roll back")
	})
}

// TestFenceAsAnother: a transaction of another role needs the rights that the guide lists, and one on another database
// is told so.
func TestFenceAsAnother(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	g := granted(t, s, claimOf("settle", ""))
	owner, schema := direct(t, url), schemaOf(url)
	role := "app_" + schema
	mustExec(t, owner, "CREATE ROLE "+role)
	both := func(as string) (fence, item error) {
		mustExec(t, owner, "SET ROLE "+as)
		defer mustExec(t, owner, "RESET ROLE")
		fence = pgx.BeginFunc(soon(t), owner, func(tx pgx.Tx) error { return s.Fence(soon(t), tx, g.Lease) })
		item = pgx.BeginFunc(soon(t), owner, func(tx pgx.Tx) error { _, err := s.Item(soon(t), tx, g.Lease, "a", "b"); return err })
		return fence, item
	}
	for _, grant := range []string{"", "USAGE ON SCHEMA " + schema, "SELECT ON " + schema + ".onerun_lock"} {
		if grant != "" {
			mustExec(t, owner, "GRANT "+grant+" TO "+role)
		}
		if fence, item := both(role); !errors.Is(fence, onerun.ErrPermission) || !errors.Is(item, onerun.ErrPermission) {
			t.Errorf("with %q: %v, %v", grant, fence, item)
		}
	}
	mustExec(t, owner, "GRANT UPDATE (stop) ON "+schema+".onerun_lock TO "+role)
	if fence, item := both(role); fence != nil || !errors.Is(item, onerun.ErrPermission) {
		t.Errorf("with what a fence needs: %v, %v", fence, item)
	}
	mustExec(t, owner, "GRANT SELECT ON "+schema+".onerun_run TO "+role)
	mustExec(t, owner, "GRANT SELECT, INSERT, UPDATE ON "+schema+".onerun_item TO "+role)
	if fence, item := both(role); fence != nil || item != nil {
		t.Errorf("with what an item needs: %v, %v", fence, item)
	}
	mustExec(t, owner, "CREATE DATABASE "+role)
	other := direct(t, sharedServer(t).URL(role))
	err := pgx.BeginFunc(soon(t), other, func(tx pgx.Tx) error { return s.Fence(soon(t), tx, g.Lease) })
	if !errors.Is(err, onerun.ErrConfig) || !strings.Contains(err.Error(), "the store's own database") {
		t.Errorf("on another database: %v", err)
	}
}

// TestItemsInTransactions: effect and mark are committed together, once.
func TestItemsInTransactions(t *testing.T) {
	t.Parallel()
	forEachWay(t, func(t *testing.T, s *postgres.Store, url string, begin func() transaction) {
		pay := "INSERT INTO " + schemaOf(url) + ".paid VALUES ('order')"
		g := granted(t, s, claimOf("settle", "2026-09-15"))
		do := func(name, payload string, end func(tx transaction) error) (bool, error) {
			tx := begin()
			mine, err := tx.item(g.Lease, name, payload)
			if err != nil || !mine {
				must(t, tx.rollback(), "roll back")
				return mine, err
			}
			must(t, tx.exec(pay), "write")
			must(t, end(tx), "end")
			return true, nil
		}
		commit := func(tx transaction) error { return tx.commit() }
		for i, c := range []struct {
			name, payload string
			end           func(tx transaction) error
			mine          bool
			why           onerun.Reason
			paid          int
		}{
			{"a", "", func(tx transaction) error { return tx.rollback() }, true, "", 0}, // effect and mark vanish together
			{"a", "x", commit, true, "", 1},
			{"a", "x", commit, false, "", 1},
			{"a", "", commit, false, "", 1},
			{"a", "y", commit, false, onerun.RefusedConflict, 1},
			{"b", "", commit, true, "", 2},
			{"e\u0301", "", commit, true, "", 3}, // as macOS names a file
			{"\u00e9", "", commit, false, "", 3},
		} {
			mine, err := do(c.name, c.payload, c.end)
			var refusal *onerun.ItemRefusal
			if mine != c.mine || (err != nil) != (c.why != "") || err != nil && (!errors.As(err, &refusal) || refusal.Reason != c.why) || paid(t, url) != c.paid {
				t.Errorf("step %d: mine %v, %v, paid %d", i, mine, err, paid(t, url))
			}
		}
		// One that was begun outside of SQL, and one that failed there.
		it, err := s.BeginItem(soon(t), onerun.ItemClaim{Lease: g.Lease, Name: "c", Owner: onerun.NewID()})
		must(t, err, "begin")
		var refusal *onerun.ItemRefusal
		if _, err := do("c", "", commit); !errors.As(err, &refusal) || refusal.Reason != onerun.RefusedRunning {
			t.Errorf("an item at work: %v", err)
		}
		must(t, s.EndItem(soon(t), onerun.ItemEnd{Namespace: it.Namespace, Job: it.Job, Name: it.Name, Owner: it.Owner, State: onerun.ItemFailed}), "end")
		if mine, err := do("c", "", commit); !mine || err != nil {
			t.Errorf("an item that failed: %v, %v", mine, err)
		}
		if _, err := s.BeginItem(soon(t), onerun.ItemClaim{Lease: g.Lease, Name: "a", Owner: onerun.NewID()}); !errors.As(err, &refusal) || refusal.Reason != onerun.RefusedDone {
			t.Errorf("an item that is done, outside of SQL: %v", err)
		}
		if _, err := do("bad\n", "", commit); !errors.Is(err, onerun.ErrUsage) {
			t.Errorf("a name that can't be: %v", err)
		}
		if _, err := do("long", strings.Repeat("x", onerun.MaxPayload+1), commit); !errors.Is(err, onerun.ErrUsage) {
			t.Errorf("a payload that is too long: %v", err)
		}
		before := paid(t, url)
		succeed(t, s, g)
		if _, err := do("d", "", commit); !errors.Is(err, onerun.ErrLost) || paid(t, url) != before {
			t.Errorf("an item after the run's end: %v", err)
		}
	})
}

// TestItemContention: of many transactions that come to one item, one does it.
func TestItemContention(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	mustExec(t, direct(t, url), "CREATE TABLE "+schemaOf(url)+".paid (what text)")
	conns := make([]*pgx.Conn, 6)
	for i := range conns {
		conns[i] = direct(t, url)
	}
	for round := range 20 {
		var group sync.WaitGroup
		for _, conn := range conns {
			group.Go(func() {
				err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
					mine, err := s.Item(context.WithoutCancel(t.Context()), tx, g.Lease, fmt.Sprint("order-", round), "")
					if err != nil || !mine {
						return err
					}
					_, err = tx.Exec(t.Context(), "INSERT INTO "+schemaOf(url)+".paid VALUES ($1)", fmt.Sprint(round))
					return err
				})
				if err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		group.Wait()
	}
	if n := paid(t, url); n != 20 {
		t.Errorf("paid %d times, want 20", n)
	}
}

func must(t testing.TB, err error, what string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
