package postgres_test

import (
	"encoding/json"
	"testing"

	"github.com/onerun-dev/onerun"
)

// TestRemove: between the moment in which a run is chosen to be pruned and the one in which
// it is removed, somebody may have approved a rerun of it, or begun one. Then it stays.
func TestRemove(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	conn := direct(t, url)
	mustExec(t, conn, "SELECT set_config('search_path', $1, false)", schemaOf(url))
	ended := func(partition string, status onerun.Status) onerun.Run {
		g := granted(t, s, claimOf("settle", partition))
		if err := s.Finish(soon(t), g.Lease, onerun.Outcome{Status: status, Reason: onerun.ReasonExit}); err != nil {
			t.Fatal(err)
		}
		return detail(t, s, g.Lease.RunID).Run
	}
	over, approved, failed, rerun, inHand := ended("over", onerun.Succeeded), ended("approved", onerun.Succeeded),
		ended("failed", onerun.Failed), ended("rerun", onerun.Succeeded), ended("in-hand", onerun.Succeeded)
	for _, r := range []onerun.Run{approved, rerun} {
		_, err := s.Approve(soon(t), onerun.ApprovalRequest{
			Namespace: r.Namespace, RunID: r.RunID, Expect: onerun.Expected(r), Who: onerun.Who{By: "ann", Reason: "again"},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	granted(t, s, claimOf("settle", "rerun"))
	other := direct(t, url)
	mustExec(t, other, "BEGIN")
	mustExec(t, other, "SELECT 1 FROM "+schemaOf(url)+".onerun_run WHERE run_id = $1 FOR UPDATE", inHand.RunID)
	ids := []string{over.RunID, approved.RunID, failed.RunID, rerun.RunID, inHand.RunID, onerun.NewRunID(over.StartedAt)}
	for _, want := range []int{1, 0} {
		var text string
		if err := conn.QueryRow(soon(t), "SELECT onerun_remove($1, false)::text", ids).Scan(&text); err != nil {
			t.Fatal(err)
		}
		var removed struct{ Runs, Keys, Forgotten int }
		if err := json.Unmarshal([]byte(text), &removed); err != nil {
			t.Fatal(err)
		}
		if removed.Runs != want || removed.Keys != want || removed.Forgotten != 0 {
			t.Errorf("expected that %d runs go, got %s", want, text)
		}
	}
	mustExec(t, other, "ROLLBACK")
	for _, r := range []onerun.Run{over, approved, failed, rerun, inHand} {
		pruned := detail(t, s, r.RunID).Run.Pruned
		if pruned.IsZero() == (r.RunID == over.RunID) {
			t.Errorf("%s: pruned at %s", r.Key(), pruned)
		}
	}
}
