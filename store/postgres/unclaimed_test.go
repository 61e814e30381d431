package postgres_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// TestUnclaimedChains: many deliver at once to the same runs, with the rights of a role for
// jobs; each chain of events stays one, that of a run that was pruned too, and no lock is left
// that nobody ever had.
func TestUnclaimedChains(t *testing.T) {
	t.Parallel()
	p := newPatient(t, soundServer(t))
	s := open(t, p.url+"&pool_max_conns=8")
	done, pruned, failed := claimOf("done", "2026-09-15"), claimOf("gone", "2026-09-15"), claimOf("failed", "2026-09-15")
	pruned.Lock = onerun.KeyLock(pruned.Key()) // whose row goes with the run
	for _, c := range []onerun.Claim{done, pruned} {
		succeed(t, s, granted(t, s, c))
	}
	g := granted(t, s, failed)
	must(t, s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit}), "finish")
	_, err := s.Prune(soon(t), onerun.PruneRequest{Namespace: onerun.DefaultNamespace, Job: "gone", Partition: "2026-09-15", Who: onerun.Who{By: "ann", Reason: "old"}})
	must(t, err, "prune")
	running := granted(t, s, claimOf("running", "2026-09-15"))
	const n = 16
	for _, c := range []onerun.Claim{pruned, done, failed, claimOf("running", "2026-09-15"), claimOf("new", "2026-09-15")} {
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				_, err := s.DeliverUnclaimed(soon(t), again(c), time.Now(), onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit, ExitCode: new(i)})
				if err != nil {
					t.Errorf("%s: %v", c.Key(), err)
				}
			})
		}
		all.Wait()
	}
	succeed(t, s, running)
	for key, want := range map[string][2]int{"done": {1, n}, "gone": {1, n}, "failed": {n + 1, n}, "running": {1, n}, "new": {n, n}} {
		runs, err := s.Runs(soon(t), onerun.Query{Namespace: onerun.DefaultNamespace, Job: key, Partition: "2026-09-15"})
		must(t, err, "look")
		if d := detail(t, s, runs[0].RunID); d.Run.Attempt != want[0] || len(d.Events) != want[1] {
			t.Errorf("%s: expected attempt %d and %d events, got attempt %d and %d", key, want[0], want[1], d.Run.Attempt, len(d.Events))
		}
	}
	if bad := worse(examined(t, p.url)); len(bad) > 0 {
		t.Errorf("found: %+v", bad)
	}
	var rows int
	must(t, p.admin.QueryRow(soon(t), fmt.Sprintf("SELECT count(*) FROM %s.onerun_lock WHERE lock = 'key/gone:2026-09-15' OR token = 0", p.schema)).Scan(&rows), "count the locks")
	if rows > 0 {
		t.Errorf("%d rows of locks are left that nobody ever had", rows)
	}
}
