package redis_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/redis"
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

func granted(t testing.TB, s *redis.Store, c onerun.Claim) onerun.Grant {
	t.Helper()
	g, err := s.Claim(soon(t), c)
	if err != nil {
		t.Fatalf("claim %s %s: %v", c.Lock, c.Key(), err)
	}
	return g
}

func isRefusal(t testing.TB, err error, reason onerun.Reason) {
	t.Helper()
	var ref *onerun.Refusal
	if !errors.As(err, &ref) || ref.Reason != reason {
		t.Fatalf("expected a refusal %s, got: %v", reason, err)
	}
}

func succeed(t testing.TB, s *redis.Store, g onerun.Grant) {
	t.Helper()
	if err := s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded}); err != nil {
		t.Fatalf("finish: %v", err)
	}
}

func detail(t testing.TB, s *redis.Store, runID string) onerun.Detail {
	t.Helper()
	d, err := s.Detail(soon(t), onerun.DefaultNamespace, runID)
	if err != nil {
		t.Fatalf("read run %s: %v", runID, err)
	}
	return d
}

// fresh is a store with a prefix of its own on the shared server.
func fresh(t testing.TB) (s *redis.Store, prefix string) {
	t.Helper()
	prefix = newPrefix()
	return open(t, sharedServer(t).URL("prefix", prefix)), prefix
}

// timeout is a context that is over soon.
func timeout(t testing.TB, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

// waitUntil asks until the answer is yes. What is waited for is in the server, which nobody is
// told of.
func waitUntil(t testing.TB, what string, yes func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !yes(); {
		if time.Now().After(end) {
			t.Fatalf("%s: not yet", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func ptr(n int64) *int64 { return &n }
