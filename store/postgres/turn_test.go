package postgres_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onerun-dev/onerun"
)

// TestTurnForetells: whatever state a key is in, and whoever has the lock or stands in line,
// it is a claim's turn when it would be granted, or refused for good.
func TestTurnForetells(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	conn := direct(t, url)
	mustExec(t, conn, "SELECT set_config('search_path', $1, false)", schemaOf(url))
	who := onerun.Who{By: "ann", Reason: "because"}
	ended := func(c onerun.Claim, status onerun.Status) string {
		g := granted(t, s, c)
		o := onerun.Outcome{Status: status}
		if status == onerun.Failed {
			o.Reason = onerun.ReasonExit
		}
		if err := s.Finish(soon(t), g.Lease, o); err != nil {
			t.Fatal(err)
		}
		return g.Run.RunID
	}
	approve := func(id string, until time.Time) {
		run := detail(t, s, id).Run
		_, err := s.Approve(soon(t), onerun.ApprovalRequest{Namespace: run.Namespace, RunID: id, Expect: onerun.Expected(run), Who: who, ExpiresAt: until})
		if err != nil {
			t.Fatal(err)
		}
	}
	retrying := func(c onerun.Claim, wait time.Duration) onerun.Claim {
		c.Retries, c.BackoffMin, c.BackoffMax = 5, wait, wait
		return c
	}
	elsewhere := func(c onerun.Claim) onerun.Claim { return under(c, onerun.KeyLock(c.Key())) }
	over := func(g onerun.Grant) {
		mustExec(t, conn, "UPDATE onerun_lock SET expires_at = clock_timestamp() WHERE lock = $1", string(g.Lease.Lock))
	}
	states := map[string]func(c onerun.Claim){
		"new":                   func(onerun.Claim) {},
		"succeeded":             func(c onerun.Claim) { ended(elsewhere(c), onerun.Succeeded) },
		"skipped":               func(c onerun.Claim) { ended(elsewhere(c), onerun.Skipped) },
		"failed":                func(c onerun.Claim) { ended(elsewhere(c), onerun.Failed) },
		"due":                   func(c onerun.Claim) { ended(elsewhere(retrying(c, 0)), onerun.Failed) },
		"not due":               func(c onerun.Claim) { ended(elsewhere(retrying(c, time.Hour)), onerun.Failed) },
		"approved":              func(c onerun.Claim) { approve(ended(elsewhere(c), onerun.Succeeded), time.Time{}) },
		"approved, not due":     func(c onerun.Claim) { approve(ended(elsewhere(retrying(c, time.Hour)), onerun.Failed), time.Time{}) },
		"approved until before": func(c onerun.Claim) { approve(ended(elsewhere(c), onerun.Failed), time.Now().Add(-time.Hour)) },
		"approved until later":  func(c onerun.Claim) { approve(ended(elsewhere(c), onerun.Failed), time.Now().Add(time.Hour)) },
		"paused": func(c onerun.Claim) {
			if err := s.Pause(soon(t), onerun.PauseRequest{Namespace: c.Namespace, Job: c.Job, Who: who}); err != nil {
				t.Fatal(err)
			}
		},
		"running elsewhere": func(c onerun.Claim) { granted(t, s, elsewhere(c)) },
		"running elsewhere, and paused": func(c onerun.Claim) {
			granted(t, s, elsewhere(c))
			if err := s.Pause(soon(t), onerun.PauseRequest{Namespace: c.Namespace, Job: c.Job, Who: who}); err != nil {
				t.Fatal(err)
			}
		},
		"dead elsewhere": func(c onerun.Claim) { over(granted(t, s, elsewhere(c))) },
		"stale elsewhere": func(c onerun.Claim) {
			c.OnCrash = onerun.CrashManual
			over(granted(t, s, elsewhere(c)))
		},
		"pruned": func(c onerun.Claim) {
			ended(elsewhere(c), onerun.Succeeded)
			if _, err := s.Prune(soon(t), onerun.PruneRequest{Namespace: c.Namespace, Job: c.Job, Partition: c.Partition, Who: who}); err != nil {
				t.Fatal(err)
			}
		},
	}
	locks := map[string]func(c onerun.Claim){
		"free": func(onerun.Claim) {},
		"held": func(c onerun.Claim) { granted(t, s, under(claimOf("holder", onerun.NewID()), c.Lock)) },
		"of the dead": func(c onerun.Claim) {
			over(granted(t, s, under(claimOf("holder", onerun.NewID()), c.Lock)))
		},
		"of the dead, stale": func(c onerun.Claim) {
			holder := under(claimOf("holder", onerun.NewID()), c.Lock)
			holder.OnCrash = onerun.CrashManual
			over(granted(t, s, holder))
		},
		"waited for in line": func(c onerun.Claim) {
			if err := s.AwaitTurn(soon(t), fifo(under(claimOf("first", ""), c.Lock))); err != nil {
				t.Fatal(err)
			}
		},
		"waited for": func(c onerun.Claim) { // by one that asks for no order, and was told to wait before
			g := granted(t, s, under(claimOf("holder", onerun.NewID()), c.Lock))
			if got := asked(t, conn, under(claimOf("other", ""), c.Lock)); got != "wait" {
				t.Fatalf("a claim of a lock that is held: %s", got)
			}
			succeed(t, s, g)
		},
	}
	turns := 0
	for state, make := range states {
		for lock, take := range locks {
			for _, order := range []onerun.Order{onerun.OrderAny, onerun.OrderFIFO} {
				c := claimOf("job-"+onerun.NewID()[:8], "p")
				what := fmt.Sprintf("%s, lock %s, order %q", state, lock, order)
				c.Lock = onerun.NamedLock("lock-" + c.Job)
				make(c)
				take(c)
				c = again(c)
				c.Order = order
				ref, err := s.Explain(soon(t), c)
				if err != nil {
					t.Fatal(err)
				}
				if state == "new" && lock == "waited for" && ref != nil {
					t.Errorf("%s: who asks for no order stands in nobody's way: %v", what, ref)
				}
				waits := ref != nil && (ref.Reason == onerun.RefusedRunning || ref.Reason == onerun.RefusedLocked)
				if got := asked(t, conn, c); waits != (got == "wait") {
					t.Errorf("%s: it is told to %s, and would be answered %v", what, got, ref)
				}
				g, err := s.Claim(soon(t), c)
				var refused *onerun.Refusal
				if errors.As(err, &refused) {
					err = nil
				}
				if err != nil || (refused == nil) != (ref == nil) || refused != nil && (refused.Reason != ref.Reason || refused.Holder.ID() != ref.Holder.ID()) {
					t.Errorf("%s: foretold %v, answered %v, %v", what, ref, refused, err)
				}
				if refused != nil {
					continue
				}
				turns++
				if got := asked(t, conn, c); got != "turn" { // a lost reply: it is to claim again
					t.Errorf("%s: the owner itself is told to %s", what, got)
				}
				if back, err := s.Claim(soon(t), c); err != nil || !back.Adopted || back.Lease != g.Lease {
					t.Errorf("%s: claimed again: %+v, %v", what, back.Lease, err)
				}
			}
		}
	}
	if turns < 20 {
		t.Errorf("%d claims of all were granted", turns)
	}
}

// asked is what a claim is told to do that asks whether it is its turn.
func asked(t testing.TB, conn *pgx.Conn, c onerun.Claim) (result string) {
	t.Helper()
	if err := conn.QueryRow(soon(t), "SELECT onerun_await($1::jsonb)->>'result'", awaiting(c)).Scan(&result); err != nil {
		t.Fatal(err)
	}
	return result
}

// TestPlaceIsKept: a place in line outlasts the server's crash, whatever the session's default
// is; that it is still wanted doesn't wait for the disk.
func TestPlaceIsKept(t *testing.T) {
	t.Parallel()
	_, url := fresh(t)
	conn := direct(t, url)
	mustExec(t, conn, "SELECT set_config('search_path', $1, false), set_config('synchronous_commit', 'off', false)", schemaOf(url))
	c := fifo(claimOf("settle", ""))
	for try, want := range []string{"on", "off"} {
		mustExec(t, conn, "BEGIN")
		asked(t, conn, c)
		var got string
		if err := conn.QueryRow(soon(t), "SHOW synchronous_commit").Scan(&got); err != nil || got != want {
			t.Errorf("question %d: synchronous_commit is %s, expected %s (%v)", try+1, got, want, err)
		}
		mustExec(t, conn, "COMMIT")
	}
}
