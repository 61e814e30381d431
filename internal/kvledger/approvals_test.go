package kvledger_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/kvledger"
)

// decidedOften is a run of a key that was executed anew, by approval, as often as its words say.
func decidedOften(t *testing.T, l *kvledger.Ledger, reasons []string) (run onerun.Run) {
	t.Helper()
	for i := range len(reasons) + 1 {
		g := granted(t, l, claim("job", "p"))
		if err := l.Finish(t.Context(), g.Lease, onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit}); err != nil {
			t.Fatal(err)
		}
		if run = g.Run; i == len(reasons) {
			break
		}
		d, err := l.Detail(t.Context(), "ns", run.RunID)
		if err == nil {
			_, err = l.Approve(t.Context(), onerun.ApprovalRequest{
				Namespace: "ns", RunID: run.RunID, Expect: onerun.Expected(d.Run), Who: onerun.Who{By: "ana", Reason: reasons[i]},
			})
		}
		if err != nil {
			t.Fatalf("approval %d: %v", i, err)
		}
	}
	return run
}

func (s *space) below(path string) (keys []string) {
	for key := range s.keys {
		if strings.HasPrefix(key, path) {
			keys = append(keys, key)
		}
	}
	return keys
}

// approved checks that a run shows all its approvals, in their order.
func approved(t *testing.T, l *kvledger.Ledger, run onerun.Run, reasons []string) {
	t.Helper()
	d, err := l.Detail(t.Context(), "ns", run.RunID)
	if err != nil || len(d.Approvals) != len(reasons) {
		t.Fatalf("%d approvals, %v, want %d", len(d.Approvals), err, len(reasons))
	}
	for i, a := range d.Approvals {
		if a.Reason != reasons[i] || a.Attempt != i+1 || a.UsedBy != i+2 {
			t.Fatalf("approval %d: %+v", i, a)
		}
	}
}

// TestApprovalsByTheDozen: however often people decide about a run, with however many words, its record
// stays one that can be written.
func TestApprovalsByTheDozen(t *testing.T) {
	s := newSpace(t)
	l := open(s)
	var reasons []string
	for range 60 {
		reasons = append(reasons, strings.Repeat("🙂", 1000))
	}
	run := decidedOften(t, l, reasons)
	approved(t, l, run, reasons)
	if moved := s.below("approval/"); len(moved) != 60-8 {
		t.Errorf("%d approvals have keys of their own", len(moved))
	}
	d, err := l.Detail(t.Context(), "ns", run.RunID)
	if err == nil {
		_, err = l.Resolve(t.Context(), onerun.Resolution{
			Namespace: "ns", RunID: run.RunID, Expect: onerun.Expected(d.Run), As: onerun.Succeeded, Who: onerun.Who{By: "ana", Reason: "looked"},
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	if p, err := l.Prune(t.Context(), onerun.PruneRequest{Namespace: "ns", Oldest: true}); err != nil || p.Runs != 1 {
		t.Fatalf("prune: %+v, %v", p, err)
	}
	if left := s.below("approval/"); len(left) > 0 {
		t.Errorf("pruning left %v", left)
	}
}

// TestApprovalsOfBefore: a record in which an earlier program left all of them is read, and grows small
// by and by.
func TestApprovalsOfBefore(t *testing.T) {
	s := newSpace(t)
	l := open(s)
	var reasons []string
	for range 40 {
		reasons = append(reasons, "again")
	}
	run := decidedOften(t, l, reasons)
	d, err := l.Detail(t.Context(), "ns", run.RunID)
	if err != nil {
		t.Fatal(err)
	}
	s.forget("approval/")
	key := s.below("run/")[0]
	var record map[string]any
	e := s.keys[key]
	if err := json.Unmarshal(e.Value, &record); err != nil {
		t.Fatal(err)
	}
	delete(record, "Spent")
	delete(record, "Decided")
	record["Approvals"] = d.Approvals
	if e.Value, err = json.Marshal(record); err != nil {
		t.Fatal(err)
	}
	s.keys[key] = e
	l = open(s)
	approved(t, l, run, reasons)
	for i := range 2 {
		d, err := l.Detail(t.Context(), "ns", run.RunID)
		if err == nil {
			_, err = l.Approve(t.Context(), onerun.ApprovalRequest{Namespace: "ns", RunID: run.RunID, Expect: onerun.Expected(d.Run), Who: onerun.Who{By: "ana", Reason: "again"}})
		}
		if err != nil {
			t.Fatal(err)
		}
		reasons = append(reasons, "again")
		g := granted(t, l, claim("job", "p"))
		if err := l.Finish(t.Context(), g.Lease, onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit}); err != nil {
			t.Fatal(err)
		}
		if moved := s.below("approval/"); i == 1 && len(moved) != 42-8 {
			t.Errorf("%d approvals have keys of their own", len(moved))
		}
	}
	approved(t, l, run, reasons)
}
