package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/mariadbbed"
	"github.com/onerun-dev/onerun/store/mysql"
)

// TestServersOwnSettings: a server whose defaults are none of those that the queries rely on. Its
// errors are in German, a COMMIT begins the next transaction, it lists one row and changes no table
// without a key, and the rows of its tables have room for no long key.
func TestServersOwnSettings(t *testing.T) {
	t.Parallel()
	server := ownServer(t, "--innodb-flush-log-at-trx-commit=0", "--completion-type=CHAIN", "--innodb-default-row-format=compact")
	mustExec(t, direct(t, server.URL("mysql")),
		"SET GLOBAL lc_messages = 'de_DE', GLOBAL sql_select_limit = 1, GLOBAL sql_safe_updates = 1, GLOBAL unique_checks = 0, GLOBAL max_join_size = 1")
	s, url := freshOn(t, server)
	for i := range 3 {
		succeed(t, s, granted(t, s, claimOf("settle", fmt.Sprint("p", i))))
	}
	if runs, err := s.Runs(soon(t), onerun.Query{Namespace: onerun.DefaultNamespace}); err != nil || len(runs) != 3 {
		t.Errorf("%d runs are listed, %v", len(runs), err)
	}
	if p, err := s.Prune(soon(t), onerun.PruneRequest{Namespace: onerun.DefaultNamespace, Keep: 1}); err != nil || p.Keys != 2 {
		t.Errorf("prune: %+v, %v", p, err)
	}
	// Between the first look of a claim and what it writes another makes the run of its key, under
	// another lock. What the server says then is understood.
	c := claimOf("settle", "p9")
	other := again(c)
	other.Lock = onerun.KeyLock(other.Key())
	at, met := "commit the claim", false
	slow := open(t, url, mysql.WithHook(func(step string) {
		if step == at && !met {
			met = true
			granted(t, s, other)
		}
	}))
	refused(t, slow, c, onerun.RefusedRunning)
	if !met {
		t.Error("the two didn't meet")
	}
}

// TestReadOnlyPrimary: a primary that has become a replica answers on the connections that there
// are, and its name leads to another server by now: so they aren't kept.
func TestReadOnlyPrimary(t *testing.T) {
	t.Parallel()
	server := ownServer(t, "--innodb-flush-log-at-trx-commit=0")
	_, admin := freshOn(t, server)
	db := direct(t, admin)
	mustExec(t, db, fmt.Sprintf("CREATE USER plain IDENTIFIED BY 'plain'; GRANT SELECT, INSERT, UPDATE, DELETE ON %s.* TO plain", database(admin)))
	s := open(t, mariadbbed.URLAs(server.Port, "plain", "plain", database(admin)))
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	mustExec(t, db, "SET GLOBAL read_only = 1")
	_, err := s.Heartbeat(soon(t), g.Lease)
	told(t, "a heartbeat", err, onerun.ErrUnavailable, "read-only")
	_, err = s.Claim(soon(t), claimOf("other", ""))
	told(t, "a claim", err, onerun.ErrUnavailable, "read-only")
	told(t, "a pause", s.Pause(soon(t), onerun.PauseRequest{Namespace: onerun.DefaultNamespace, Job: "x", Who: onerun.Who{By: "ana", Reason: "x"}}), onerun.ErrUnavailable, "read-only")
	waitFor(t, admin, "the connections are gone", "SELECT COUNT(*) = 0 FROM information_schema.processlist WHERE user = 'plain'")
	mustExec(t, db, "SET GLOBAL read_only = 0")
	succeed(t, s, g)
}

// TestFreeRowHeldForLong: somebody has the row of a free lock in hand for longer than a wait lasts.
// Nobody stands in the claim's way, so it isn't refused, but asked again.
func TestFreeRowHeldForLong(t *testing.T) {
	t.Parallel()
	_, url := fresh(t)
	asked := make(chan struct{}, 100)
	s := open(t, url, mysql.WithHook(func(step string) {
		if step == "send the claim" {
			asked <- struct{}{}
		}
	}))
	succeed(t, s, granted(t, s, claimOf("settle", "2026-09-15")))
	<-asked
	tx := begun(t, direct(t, url), sql.LevelDefault)
	if _, err := tx.ExecContext(t.Context(), "SELECT 1 FROM onerun_lock FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := s.Claim(soon(t), claimOf("settle", "2026-09-16"))
		answer <- err
	}()
	<-asked
	select {
	case <-asked: // once more, after a wait in vain
	case err := <-answer:
		t.Fatalf("a claim that could not be decided: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-answer; err != nil {
		t.Error(err)
	}
}

// TestKinds: what a server says is of the kind that it is, whichever of its many words it takes for
// it: only what is no fault of anybody's but this program's is to be reported.
func TestKinds(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	db := direct(t, url)
	for number, kind := range map[int]error{
		1317: onerun.ErrUnavailable, // KILL QUERY, by whoever looks for slow ones
		1047: onerun.ErrUnavailable, // a node of a cluster that isn't ready
		1206: onerun.ErrUnavailable, // no room for more locks
		1041: onerun.ErrUnavailable, // out of memory
		1135: onerun.ErrUnavailable, // or of threads
		1637: onerun.ErrUnavailable, // or of transactions
		1290: onerun.ErrUnavailable, // read-only
		1180: onerun.ErrIO,          // at COMMIT
		1114: onerun.ErrIO,          // the table is full
		1021: onerun.ErrIO,          // the disk is
		1146: onerun.ErrConfig,
		1142: onerun.ErrPermission,
		1690: onerun.ErrInternal,
	} {
		mustExec(t, db, fmt.Sprintf("CREATE OR REPLACE TRIGGER fails BEFORE INSERT ON onerun_run FOR EACH ROW SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = %d, MESSAGE_TEXT = 'by the test'", number))
		_, err := s.Claim(soon(t), claimOf("settle", fmt.Sprint("p", number)))
		told(t, fmt.Sprint("error ", number), err, kind, "by the test")
	}
}

// TestRunVanished (B29): a run that somebody deleted is a lease lost, as a lock is: else the key
// could be claimed under another lock while its owner goes on.
func TestRunVanished(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	mustExec(t, direct(t, url), "DELETE FROM onerun_run")
	lost(t, s, g)
	if _, err := s.Detail(soon(t), onerun.DefaultNamespace, g.Lease.RunID); !errors.Is(err, onerun.ErrNotFound) {
		t.Errorf("the run after that: %v", err)
	}
}

// TestTablesVanished: where the tables are dropped, so is the lease; its owner doesn't ask on and on.
func TestTablesVanished(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	mustExec(t, direct(t, url), "DROP TABLE onerun_lock")
	if _, err := s.Heartbeat(soon(t), g.Lease); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("a heartbeat without the table of locks: %v", err)
	}
}

// TestLockVanishedUnderAKey: the row of a lock is deleted, and its run's key is claimed under another
// lock. Nobody gets in before a lease's time has passed, and somebody does then.
func TestLockVanishedUnderAKey(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	db := direct(t, url)
	c := claimOf("settle", "2026-09-15")
	c.Retries, c.RetryLost = 1, true
	g := granted(t, s, c)
	mustExec(t, db, "DELETE FROM onerun_lock")
	for part, reason := range map[string]onerun.Reason{"2026-09-15": onerun.RefusedRunning, "2026-09-16": onerun.RefusedLocked} {
		if ref, err := s.Explain(soon(t), claimOf("settle", part)); err != nil || ref == nil || ref.Reason != reason {
			t.Errorf("explain %s: %v, %v", part, ref, err)
		}
	}
	other := again(c)
	other.Lock = onerun.KeyLock(c.Key())
	refused(t, s, other, onerun.RefusedRunning)
	mustExec(t, db, "UPDATE onerun_lock SET expires_at = 1 WHERE owner IS NOT NULL") // as if that time had passed
	next := granted(t, s, again(other))
	if len(next.TakenOver) != 1 || next.Lease.Attempt != 2 {
		t.Errorf("the next grant: %+v", next)
	}
	lost(t, s, g)
}

// TestFenceOfAVanishedLock: the row of a lock is deleted while a transaction is sure of it. Who
// puts it back doesn't know that, and doesn't get past the transaction either.
func TestFenceOfAVanishedLock(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	db := direct(t, url)
	c := claimOf("settle", "")
	g := granted(t, s, c)
	tx := begun(t, db, sql.LevelDefault)
	if err := s.Fence(soon(t), tx, g.Lease); err != nil {
		t.Fatal(err)
	}
	mustExec(t, db, "DELETE FROM onerun_lock")
	refused(t, s, again(c), onerun.RefusedLocked)
	mustExec(t, db, "UPDATE onerun_lock SET expires_at = 1")
	refused(t, s, again(c), onerun.RefusedLocked) // not before the transaction is over
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	granted(t, s, again(c))
	lost(t, s, g)
}

// TestFenceSeesNothingNew: a transaction that may share nothing that came after its beginning
// (innodb_snapshot_isolation, MariaDB's default from 11.6 on) is sure of its lease all the same,
// under a lock that nobody has had before.
func TestFenceSeesNothingNew(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	db := direct(t, url)
	var known int
	if err := db.QueryRowContext(soon(t), "SELECT COUNT(*) FROM information_schema.global_variables WHERE variable_name = 'INNODB_SNAPSHOT_ISOLATION'").Scan(&known); err != nil || known == 0 {
		t.Skip("this server doesn't know innodb_snapshot_isolation", err)
	}
	strict := direct(t, url, "innodb_snapshot_isolation", "1")
	c := claimOf("settle", "2026-09-15")
	c.Lock = onerun.KeyLock(c.Key())
	g := granted(t, s, c)
	began := func() *sql.Tx {
		tx := begun(t, strict, sql.LevelRepeatableRead)
		var n int
		if err := tx.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM onerun_item").Scan(&n); err != nil { // what it sees is from here
			t.Fatal(err)
		}
		return tx
	}
	one, two := began(), began()
	for i, tx := range []*sql.Tx{one, two} {
		if err := s.Fence(soon(t), tx, g.Lease); err != nil {
			t.Fatalf("fence %d: %v", i, err)
		}
	}
	if first, err := s.Item(soon(t), one, g.Lease, "4711", ""); err != nil || !first {
		t.Errorf("item: %t, %v", first, err)
	}
	if err := one.Commit(); err != nil {
		t.Fatal(err)
	}
	_, err := s.Item(soon(t), two, g.Lease, "4711", "") // done after two began
	told(t, "an item that another has done meanwhile", err, onerun.ErrUnavailable, "begin the transaction anew")
	_ = two.Rollback()
	if first, err := s.Item(soon(t), began(), g.Lease, "4711", ""); err != nil || first {
		t.Errorf("item, anew: %t, %v", first, err)
	}
}

// TestCallersPrivileges: an account of the caller's with the rights that the guide lists, and no others
// on the store's tables.
func TestCallersPrivileges(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	s, url := freshOn(t, server)
	d := database(url)
	mustExec(t, direct(t, url), fmt.Sprintf(`CREATE USER caller_%[1]s IDENTIFIED BY 'x'; GRANT SELECT ON %[1]s.onerun_fence TO caller_%[1]s;
		GRANT SELECT, INSERT, UPDATE ON %[1]s.onerun_item TO caller_%[1]s`, d))
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	tx := begun(t, direct(t, mariadbbed.URLAs(server.Port, "caller_"+d, "x", d)), sql.LevelDefault)
	if err := s.Fence(soon(t), tx, g.Lease); err != nil {
		t.Errorf("fence: %v", err)
	}
	if first, err := s.Item(soon(t), tx, g.Lease, "4711", "a"); err != nil || !first {
		t.Errorf("item: %t, %v", first, err)
	}
}

// TestLeaseBeginsAfterTheWait: a claim that had to wait for a transaction is granted from then on,
// with the whole of its lease before it.
func TestLeaseBeginsAfterTheWait(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	db := direct(t, url)
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	tx := begun(t, db, sql.LevelDefault)
	if err := s.Fence(soon(t), tx, g.Lease); err != nil {
		t.Fatal(err)
	}
	succeed(t, s, g)
	grants := make(chan onerun.Grant, 1)
	go func() {
		defer close(grants)
		next, err := s.Claim(soon(t), claimOf("settle", "2026-09-16"))
		if err != nil {
			t.Error(err)
		}
		grants <- next
	}()
	waitFor(t, url, "the claim waits", executing("UPDATE onerun_fence"))
	var now int64
	if err := db.QueryRowContext(soon(t), "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))").Scan(&now); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if next := <-grants; next.At.UnixMicro() < now || next.Run.LeaseExpiresAt.Sub(next.At) != time.Minute {
		t.Errorf("granted at %d until %d, after a wait until %d", next.At.UnixMicro(), next.Run.LeaseExpiresAt.UnixMicro(), now)
	}
}

// TestTokensOutlivePruning: a key had owners under two locks, and both remember their last token
// when the key was pruned and runs again: the clock has gone back meanwhile.
func TestTokensOutlivePruning(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	db := direct(t, url)
	c := claimOf("settle", "2026-09-15")
	c.Retries = 1
	ahead := time.Now().Add(time.Hour).UnixMilli() // the clock's, when it was wrong
	own := onerun.KeyLock(c.Key())
	mustExec(t, db, "INSERT INTO onerun_lock (namespace, `lock`, token) VALUES ('default', ?, ?), ('default', ?, ?)", string(own), ahead, string(c.Lock), 2*ahead)
	first := c
	first.Lock = own
	g := granted(t, s, first)
	if err := s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit}); err != nil {
		t.Fatal(err)
	}
	succeed(t, s, granted(t, s, again(c)))
	who := onerun.Who{By: "ana", Reason: "x"}
	if p, err := s.Prune(soon(t), onerun.PruneRequest{Namespace: c.Namespace, Job: c.Job, Partition: c.Partition, Who: who}); err != nil || p.Keys != 1 {
		t.Fatalf("prune: %+v, %v", p, err)
	}
	run := detail(t, s, g.Lease.RunID).Run
	if _, err := s.Approve(soon(t), onerun.ApprovalRequest{Namespace: c.Namespace, RunID: run.RunID, Expect: onerun.Expected(run), Who: who}); err != nil {
		t.Fatal(err)
	}
	if next := granted(t, s, again(first)); next.Lease.Token <= g.Lease.Token {
		t.Errorf("token %d after %d", next.Lease.Token, g.Lease.Token)
	}
}

// TestFencesArePruned: the rows of the fences go with those of the locks.
func TestFencesArePruned(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	db := direct(t, url)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			c := claimOf("settle", fmt.Sprint("p", i))
			c.Lock = onerun.KeyLock(c.Key())
			g, err := s.Claim(soon(t), c)
			if err == nil && i%2 == 0 {
				err = fenced(t.Context(), s, db, g.Lease)
			}
			if err == nil {
				err = s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if p, err := s.Prune(soon(t), onerun.PruneRequest{Namespace: onerun.DefaultNamespace, Oldest: true}); err != nil || p.Keys != 8 {
		t.Fatalf("prune: %+v, %v", p, err)
	}
	var locks, fences int
	if err := db.QueryRowContext(soon(t), "SELECT (SELECT COUNT(*) FROM onerun_lock), (SELECT COUNT(*) FROM onerun_fence)").Scan(&locks, &fences); err != nil || locks+fences != 0 {
		t.Errorf("%d locks and %d fences are left, %v", locks, fences, err)
	}
}

// fenced makes sure of a lease in a transaction of its own.
func fenced(ctx context.Context, s *mysql.Store, db *sql.DB, l onerun.Lease) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := s.Fence(ctx, tx, l); err != nil {
		return err
	}
	return tx.Commit()
}
