package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// TestPruneLooksAgain: between being chosen and being removed a run can be executed once
// more, by an approval; what that recorded is new, and stays.
func TestPruneLooksAgain(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, err := Open(ctx, filepath.Join(t.TempDir(), DatabaseName), WithNetworkFS())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	c := onerun.Claim{Namespace: "default", Job: "settle", Partition: "p", Lock: onerun.JobLock("settle"), InProcess: true}
	live := func() onerun.Run {
		t.Helper()
		c.Owner, c.RunID = onerun.NewID(), onerun.NewRunID(time.Now())
		g, err := s.Claim(ctx, c)
		if err == nil {
			err = s.Finish(ctx, g.Lease, onerun.Outcome{Status: onerun.Succeeded})
		}
		if err != nil {
			t.Fatal(err)
		}
		g.Run.Status = onerun.Succeeded
		return g.Run
	}
	run := live()
	var found []sqlledger.Chosen
	err = s.read(ctx, "look", func(t *tx) (err error) {
		found, err = t.Prunable(onerun.PruneRequest{Namespace: "default", Oldest: true, Limit: 10}, &sqlledger.Cursor{})
		return err
	})
	if err != nil || len(found) != 1 || found[0].ID != run.RunID {
		t.Fatalf("chosen: %v %v", found, err)
	}
	who := onerun.Who{By: "ann", Reason: "again"}
	if _, err := s.Approve(ctx, onerun.ApprovalRequest{Namespace: "default", RunID: run.RunID, Expect: onerun.Expected(run), Who: who}); err != nil {
		t.Fatal(err)
	}
	live()
	var p onerun.Pruned
	if err := s.lightly(ctx, "prune", func(t *tx) error { return t.remove(found[0], false, &p) }); err != nil || p != (onerun.Pruned{}) {
		t.Errorf("removed what is newer than it was when it was chosen: %s %v", p, err)
	}
	if d, err := s.Detail(ctx, "default", run.RunID); err != nil || len(d.Attempts) != 2 || !d.Run.Pruned.IsZero() {
		t.Errorf("the run: %+v %v", d, err)
	}
}
