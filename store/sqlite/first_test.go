package sqlite_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/sqlite"
)

// atOnce gives an order to many processes at the same time, and returns what they say.
func atOnce(t *testing.T, children []*child, o func(i int) order) []reply {
	t.Helper()
	replies := make([]reply, len(children))
	errs := make([]error, len(children))
	var begin, done sync.WaitGroup
	begin.Add(1)
	for i, c := range children {
		done.Go(func() {
			begin.Wait()
			replies[i], errs[i] = c.ask(o(i))
		})
	}
	begin.Done()
	done.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("process %d: %v", i, err)
		}
	}
	return replies
}

// ready starts processes that have nothing to do yet.
func ready(t *testing.T, n int, p plan) []*child {
	t.Helper()
	children := make([]*child, n)
	for i := range children {
		children[i] = newChild(t, p)
	}
	for _, r := range atOnce(t, children, func(int) order { return order{Do: "nothing"} }) {
		if r.Err != "" {
			t.Fatal(r.Err)
		}
	}
	return children
}

// TestFirstUseAtOnce: many processes meet a store that doesn't exist yet. All are
// answered, one wins, and there is one schema.
func TestFirstUseAtOnce(t *testing.T) {
	t.Parallel()
	const processes = 30
	path := filepath.Join(home(t), sqlite.DatabaseName)
	children := ready(t, processes, plan{Path: path})
	c := claimOf("settle", day)
	var winner onerun.Grant
	for i, r := range atOnce(t, children, func(int) order { return order{Do: "claim", Claim: again(c)} }) {
		switch {
		case r.Err != "":
			t.Errorf("process %d: %s", i, r.Err)
		case r.Grant != nil && winner.Lease.Owner != "":
			t.Errorf("process %d was granted the key, and so was another", i)
		case r.Grant != nil:
			winner = *r.Grant
		case r.Refusal.Reason != onerun.RefusedRunning && r.Refusal.Reason != onerun.RefusedLocked:
			t.Errorf("process %d: %v", i, r.Refusal)
		}
	}
	if winner.Lease.Attempt != 1 {
		t.Fatalf("nobody was granted the key: %+v", winner)
	}
	sound(t, path)
	b := &bed{t: t, path: path, Store: open(t, path)}
	if rs := b.runs("settle"); len(rs) != 1 || rs[0].RunID != winner.Lease.RunID || rs[0].Skips != processes-1 {
		t.Errorf("runs: %+v, not the winner's with %d skips", rs, processes-1)
	}
	if n := one[int](t, b.sql(), "SELECT count(*) FROM sqlite_schema WHERE name = 'onerun_run'"); n != 1 {
		t.Errorf("tables: %d", n)
	}
}

// TestOneOfManyApprovals is B40: twenty approve a rerun at the same instant, then twenty
// start it. One approval is taken, and one start executes it.
func TestOneOfManyApprovals(t *testing.T) {
	t.Parallel()
	const processes = 20
	b := newBed(t)
	c := claimOf("settle", day)
	run := b.lived(c, onerun.Succeeded)
	children := ready(t, processes, plan{Path: b.path})
	approved := 0
	for i, r := range atOnce(t, children, func(int) order { return order{Do: "approve", Approve: approval(run)} }) {
		switch {
		case r.Err == "":
			approved++
		case len(r.Kinds) != 1 || r.Kinds[0] != "state":
			t.Errorf("process %d: %v %s", i, r.Kinds, r.Err)
		}
	}
	granted := 0
	for i, r := range atOnce(t, children, func(int) order { return order{Do: "claim", Claim: again(c)} }) {
		switch {
		case r.Grant != nil:
			granted++
			if r.Grant.Lease.Attempt != 2 || r.Grant.Lease.RunID != run.RunID {
				t.Errorf("process %d: attempt %d of run %s", i, r.Grant.Lease.Attempt, r.Grant.Lease.RunID)
			}
		case r.Refusal == nil || r.Refusal.Reason != onerun.RefusedRunning && r.Refusal.Reason != onerun.RefusedLocked:
			t.Errorf("process %d: %v %s", i, r.Refusal, r.Err)
		}
	}
	if approved != 1 || granted != 1 {
		t.Errorf("of %d approvals %d were taken, and of as many starts %d granted", processes, approved, granted)
	}
	d := b.detail(run.RunID)
	if len(d.Approvals) != 1 || d.Approvals[0].UsedBy != 2 || len(d.Attempts) != 2 {
		t.Errorf("approvals: %+v; attempts: %d", d.Approvals, len(d.Attempts))
	}
	sound(t, b.path)
}
