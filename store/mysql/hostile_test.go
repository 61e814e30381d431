package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/onerun-dev/onerun"
)

// hostile is what the server, or a query, could take for something else: NUL, broken UTF-8, and
// what only looks like that.
const hostile = "a\x00b\xff\xfe \\u0000 \\\\u0000 \xed\xa0\x80 \\'; DROP TABLE onerun_run; -- ? \\"

// TestHostileText: whatever stands in the labels, the errors and the output of a job, or in the
// words of a person: it never costs a claim, an end or a decision.
func TestHostileText(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	job := onerun.Job{
		Name: "settle", Partition: "2026-09-15", VersionLabel: hostile, WorkerLabel: hostile, Labels: map[string]string{"k" + hostile: hostile, "plain": "x"},
	}
	var id string
	err := onerun.NewRunner(s).Do(soon(t), job, func(_ context.Context, o *onerun.Owner) error {
		id = o.Run().RunID
		refused(t, s, claimOf("settle", "2026-09-16"), onerun.RefusedLocked) // whose holder has that label
		o.KeepOutput(onerun.Output{Text: hostile, Total: int64(len(hostile))})
		return errors.New(hostile)
	})
	var failure *onerun.Failure
	if !errors.As(err, &failure) {
		t.Fatalf("the job: %v", err)
	}
	refused(t, s, claimOf("settle", "2026-09-15"), onerun.RefusedFailed)
	run := detail(t, s, id).Run
	if run.Status != onerun.Failed || run.Error != onerun.CutError(hostile) || run.Labels["plain"] != "x" || len(run.Labels) != 2 {
		t.Errorf("the end: %s %q, labels %q", run.Status, run.Error, run.Labels)
	}
	if out, err := s.Output(soon(t), onerun.DefaultNamespace, id, 1); err != nil || out.Text != (onerun.Output{Text: hostile}).Cleaned().Text {
		t.Errorf("the output: %q, %v", out.Text, err)
	}
	who := onerun.Who{By: hostile, Terminal: hostile, Reason: hostile}
	if _, err := s.Approve(soon(t), onerun.ApprovalRequest{Namespace: run.Namespace, RunID: id, Expect: onerun.Expected(run), Who: who}); err != nil {
		t.Errorf("approve: %v", err)
	}
	if err := s.Pause(soon(t), onerun.PauseRequest{Namespace: run.Namespace, Job: "other", Who: who}); err != nil {
		t.Errorf("pause: %v", err)
	}
	refused(t, s, claimOf("other", ""), onerun.RefusedPaused)
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	if err := s.Stop(soon(t), onerun.StopRequest{Namespace: run.Namespace, RunID: id, Expect: onerun.Expected(g.Run), Who: who}); err != nil {
		t.Errorf("stop: %v", err)
	}
	if b, err := s.Heartbeat(soon(t), g.Lease); err != nil || b.Stop == "" {
		t.Errorf("heartbeat of one that is to stop: %+v, %v", b, err)
	}
	succeed(t, s, g)
	expectFinding(t, s, "event-chain", onerun.FindingOK, "")
}

// TestPayloadOfBytes: what stands for an item's content may be any bytes, such as a digest as it
// is. It is its own equal, and nobody else's, in a transaction of the caller's as outside.
func TestPayloadOfBytes(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	db := direct(t, url, "charset", "latin1")
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	for _, payload := range []string{hostile, "\xff", "\xfe", "a\x00", "text", "text "} {
		c := onerun.ItemClaim{Lease: g.Lease, Name: fmt.Sprintf("item %q", payload), Owner: onerun.NewID(), Payload: payload}
		if it, err := s.BeginItem(soon(t), c); err != nil || it.Payload != payload {
			t.Fatalf("%q: %q, %v", payload, it.Payload, err)
		}
		if err := s.EndItem(soon(t), onerun.ItemEnd{Namespace: g.Lease.Namespace, Job: "settle", Name: c.Name, Owner: c.Owner, State: onerun.ItemFailed}); err != nil {
			t.Fatal(err)
		}
		c.Owner, c.Payload = onerun.NewID(), "\xfd"
		var refusal *onerun.ItemRefusal
		if _, err := s.BeginItem(soon(t), c); !errors.As(err, &refusal) || refusal.Reason != onerun.RefusedConflict {
			t.Errorf("another instead of %q: %v", payload, err)
		}
		tx := begun(t, db, sql.LevelDefault)
		if first, err := s.Item(soon(t), tx, g.Lease, c.Name, payload); err != nil || !first {
			t.Errorf("%q in a transaction: %t, %v", payload, first, err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		c.Owner, c.Payload = onerun.NewID(), payload
		if it, err := s.BeginItem(soon(t), c); err != nil || it.Payload != payload || it.Tries != 2 {
			t.Errorf("%q again: %q, try %d, %v", payload, it.Payload, it.Tries, err)
		}
	}
}
