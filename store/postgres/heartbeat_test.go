package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// TestHeartbeatFails: a heartbeat that fails in the server, for whatever reason, is sent again
// while the lease lasts, and the job isn't told of it.
func TestHeartbeatFails(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	schema := schemaOf(url)
	rogue := direct(t, url)
	job := onerun.Job{Name: "settle", Partition: "2026-09-15", Policy: onerun.Policy{TTL: 12 * time.Second}}
	err := onerun.NewRunner(s).Do(soon(t), job, func(ctx context.Context, o *onerun.Owner) error {
		var was time.Time
		must(t, rogue.QueryRow(ctx, "SELECT expires_at FROM "+schema+".onerun_lock WHERE lock = 'job/settle'").Scan(&was), "look at the lease")
		mustExec(t, rogue, "BEGIN")
		mustExec(t, rogue, "SELECT 1 FROM "+schema+".onerun_lock WHERE lock = 'job/settle' FOR UPDATE")
		waits := fmt.Sprintf("FROM pg_stat_activity WHERE query LIKE '%%onerun_heartbeat%%' AND %d = ANY (pg_blocking_pids(pid))", rogue.PgConn().PID())
		waitFor(t, url, "a heartbeat that waits", "SELECT EXISTS (SELECT 1 "+waits+")")
		mustExec(t, direct(t, url), "SELECT pg_cancel_backend(pid) "+waits)
		mustExec(t, rogue, "COMMIT")
		waitFor(t, url, "the next one", "SELECT expires_at > '"+was.Format(time.RFC3339Nano)+"' FROM "+schema+".onerun_lock WHERE lock = 'job/settle'")
		return ctx.Err()
	})
	must(t, err, "the job")
	refused(t, s, claimOf("settle", "2026-09-15"), onerun.RefusedSucceeded)
}
