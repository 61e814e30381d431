package scheduler

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onerun-dev/onerun"
)

// TestRetries: a retry that is due, and that nobody waits for, is started by one instance; a rerun that was approved, too.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.retries = 1
		j := b.job("hourly", "0 * * * *")
		b.failing("hourly", errors.New("no money"))
		b.starts("a", 1, j)
		b.starts("b", 1, j)
		pass(time.Hour + 30*time.Minute)
		key := "hourly:2000-01-01T01:00:00Z"
		if b.keys()[key] != 2 || b.count(Retried) != 1 || b.skips("hourly") > 0 {
			t.Fatalf("ran: %v; %d retries, %d skips", b.all(), b.count(Retried), b.skips("hourly"))
		}
		run := b.runs(onerun.Failed)[0]
		_, err := b.mem.Approve(t.Context(), onerun.ApprovalRequest{Namespace: "default", RunID: run.RunID, Expect: onerun.Expected(run), Who: onerun.Who{By: "kim", Reason: "there is money"}})
		if err != nil {
			t.Fatal(err)
		}
		b.failing("hourly", nil)
		if err := AskRerun(t.Context(), b.mem, "default", "hourly", run.Partition, time.Now()); err != nil {
			t.Fatal(err)
		}
		pass(20 * time.Second)
		if b.keys()[key] != 3 || b.count(Retried) != 2 || len(b.runs(onerun.Succeeded)) != 1 {
			t.Errorf("ran: %v; %d retries", b.all(), b.count(Retried))
		}
		pass(20 * time.Minute)
		if b.keys()[key] != 3 {
			t.Errorf("ran: %v", b.all())
		}
	})
}

// TestRetryOfADeadInstance: a retry that an instance has taken and never started another one takes, a minute later.
func TestRetryOfADeadInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.retries = 1
		j := b.job("hourly", "0 * * * *")
		b.failing("hourly", errors.New("no money"))
		dying := b.starts("a", 1, j)
		pass(time.Hour + 30*time.Second)
		dying.dies.Store(true)
		pass(time.Minute) // it takes the retry
		dying.quits()
		b.starts("b", 1, j)
		pass(2 * time.Minute)
		if n := len(b.all()); n != 2 || b.all()[1].by != "b" {
			t.Errorf("ran: %v", b.all())
		}
	})
}
