package postgres_test

import (
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/postgres"
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

// dead is what a host knows that has seen the work of some owners ended.
func dead(owners ...string) onerun.HostKnowledge {
	var k onerun.HostKnowledge
	for _, o := range owners {
		k.Dead = append(k.Dead, onerun.DeadOwner{Owner: o, Evidence: "process 77 is gone"})
	}
	return k
}

func granted(t testing.TB, s *postgres.Store, c onerun.Claim) onerun.Grant {
	t.Helper()
	g, err := s.Claim(soon(t), c)
	if err != nil {
		t.Fatalf("claim %s %s: %v", c.Lock, c.Key(), err)
	}
	return g
}

func refused(t testing.TB, s *postgres.Store, c onerun.Claim, reason onerun.Reason) {
	t.Helper()
	_ = refusal(t, s, c, reason)
}

// refusal is refused, for who wants to look at it.
func refusal(t testing.TB, s *postgres.Store, c onerun.Claim, reason onerun.Reason) *onerun.Refusal {
	t.Helper()
	_, err := s.Claim(soon(t), c)
	return refusalOf(t, err, reason)
}

func isRefusal(t testing.TB, err error, reason onerun.Reason) {
	t.Helper()
	_ = refusalOf(t, err, reason)
}

func refusalOf(t testing.TB, err error, reason onerun.Reason) *onerun.Refusal {
	t.Helper()
	var ref *onerun.Refusal
	if !errors.As(err, &ref) || ref.Reason != reason {
		t.Fatalf("expected a refusal %s, got: %v", reason, err)
	}
	return ref
}

func succeed(t testing.TB, s *postgres.Store, g onerun.Grant) {
	t.Helper()
	if err := s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded}); err != nil {
		t.Fatalf("finish: %v", err)
	}
}

func detail(t testing.TB, s *postgres.Store, runID string) onerun.Detail {
	t.Helper()
	d, err := s.Detail(soon(t), onerun.DefaultNamespace, runID)
	if err != nil {
		t.Fatalf("read run %s: %v", runID, err)
	}
	return d
}

// fresh is a store in a schema of its own on the shared server, and its URL.
func fresh(t testing.TB, params ...string) (*postgres.Store, string) {
	t.Helper()
	url := sharedServer(t).URL("postgres", append(params, "schema", newSchema())...)
	s := open(t, url)
	if _, _, err := s.Migrate(soon(t)); err != nil {
		t.Fatal(err)
	}
	return s, url
}

// schemaOf is the schema that a test's URL names.
func schemaOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		panic(err)
	}
	return u.Query().Get("schema")
}

// waitFor asks until a query says yes. What is waited for is in the server, which nobody is
// told of.
func waitFor(t testing.TB, raw, what, query string) {
	t.Helper()
	conn := direct(t, raw)
	for ctx := soon(t); ; {
		var yes bool
		if err := conn.QueryRow(ctx, query).Scan(&yes); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if yes {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not yet, after a minute", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
