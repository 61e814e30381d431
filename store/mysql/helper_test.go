package mysql_test

import (
	"errors"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/mysql"
)

// claimOf is a claim of a key, or of an unkeyed job, by a new owner.
func claimOf(job, partition string) onerun.Claim {
	return onerun.Claim{
		Namespace: onerun.DefaultNamespace, Job: job, Partition: partition, Lock: onerun.JobLock(job), Owner: onerun.NewID(),
		RunID: onerun.NewRunID(time.Now()), Policy: onerun.Policy{TTL: time.Minute, OnCrash: onerun.CrashAuto},
	}
}

// again is the same claim by another owner.
func again(c onerun.Claim) onerun.Claim {
	c.Owner, c.RunID = onerun.NewID(), onerun.NewRunID(time.Now())
	return c
}

func granted(t testing.TB, s *mysql.Store, c onerun.Claim) onerun.Grant {
	t.Helper()
	g, err := s.Claim(soon(t), c)
	if err != nil {
		t.Fatalf("claim %s %s: %v", c.Lock, c.Key(), err)
	}
	return g
}

func refused(t testing.TB, s *mysql.Store, c onerun.Claim, reason onerun.Reason) {
	t.Helper()
	_ = refusal(t, s, c, reason)
}

// refusal is refused, for who wants to look at it.
func refusal(t testing.TB, s *mysql.Store, c onerun.Claim, reason onerun.Reason) *onerun.Refusal {
	t.Helper()
	_, err := s.Claim(soon(t), c)
	return refusalOf(t, err, reason)
}

func refusalOf(t testing.TB, err error, reason onerun.Reason) *onerun.Refusal {
	t.Helper()
	var ref *onerun.Refusal
	if !errors.As(err, &ref) || ref.Reason != reason {
		t.Fatalf("expected a refusal %s, got: %v", reason, err)
	}
	return ref
}

func succeed(t testing.TB, s *mysql.Store, g onerun.Grant) {
	t.Helper()
	if err := s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded}); err != nil {
		t.Fatalf("finish: %v", err)
	}
}

func detail(t testing.TB, s *mysql.Store, runID string) onerun.Detail {
	t.Helper()
	d, err := s.Detail(soon(t), onerun.DefaultNamespace, runID)
	if err != nil {
		t.Fatalf("read run %s: %v", runID, err)
	}
	return d
}

// waitFor asks until a query says yes. What is waited for is in the server, which nobody is
// told of.
func waitFor(t testing.TB, raw, what, query string) {
	t.Helper()
	db := direct(t, raw)
	for ctx := soon(t); ; {
		var yes bool
		if err := db.QueryRowContext(ctx, query).Scan(&yes); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if yes {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not yet, after minutes", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// executing asks whether a session on the database is at a statement with those words in it. Not
// information_schema.innodb_trx, which stays as it was for as long as many ask for it.
func executing(words string) string {
	return "SELECT EXISTS (SELECT 1 FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID() AND info LIKE '%" + words + "%')"
}

// isLocked reports whether a claim was refused because its lock is held.
func isLocked(err error) bool {
	var ref *onerun.Refusal
	return errors.As(err, &ref) && ref.Reason == onerun.RefusedLocked
}
