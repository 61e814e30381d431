package postgres_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
)

// hostile is what the server would refuse as a text: NUL, broken UTF-8, and what only looks
// like that.
const hostile = "a\x00b\xff\xfe \\u0000 \\\\u0000 \xed\xa0\x80 '; DROP TABLE onerun_run; --"

// TestHostileText: whatever stands in the labels, the errors and the output of a job, or in
// the words of a person: it never costs a claim, an end or a decision.
func TestHostileText(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	job := onerun.Job{
		Name: "settle", Partition: "2026-09-15", VersionLabel: hostile, WorkerLabel: hostile, Labels: map[string]string{"k" + hostile: hostile, "plain": "x"},
	}
	err := onerun.NewRunner(s).Do(soon(t), job, func(ctx context.Context, o *onerun.Owner) error {
		ref := refusal(t, s, claimOf("settle", "2026-09-16"), onerun.RefusedLocked) // whose holder has that label
		if strings.ContainsAny(ref.Error(), "\x00\n") {
			t.Errorf("the refusal: %q", ref.Error())
		}
		o.KeepOutput(onerun.Output{Text: hostile, Total: int64(len(hostile))})
		return errors.New(hostile)
	})
	var failure *onerun.Failure
	if !errors.As(err, &failure) {
		t.Fatalf("the job: %v", err)
	}
	ref := refusal(t, s, claimOf("settle", "2026-09-15"), onerun.RefusedFailed)
	run := detail(t, s, ref.Holder.RunID).Run
	if run.Status != onerun.Failed || run.Error != onerun.CutError(hostile) {
		t.Errorf("the end: %s %q", run.Status, run.Error)
	}
	kept := strings.ReplaceAll(string([]rune(hostile)), "\x00", "\uFFFD")
	want := map[string]string{"k" + kept: kept, "plain": "x"}
	if !maps.Equal(run.Labels, want) || run.VersionLabel != kept || run.Worker.Label != kept {
		t.Errorf("the labels: %q, %q, %q, expected %q", run.Labels, run.VersionLabel, run.Worker.Label, want)
	}
	out, err := s.Output(soon(t), onerun.DefaultNamespace, run.RunID, 1)
	if want := (onerun.Output{Text: hostile}).Cleaned().Text; err != nil || out.Text != want {
		t.Errorf("the output: %q, %v, expected %q", out.Text, err, want)
	}
	who := onerun.Who{By: hostile, Terminal: hostile, Reason: hostile}
	_, err = s.Approve(soon(t), onerun.ApprovalRequest{Namespace: run.Namespace, RunID: run.RunID, Expect: onerun.Expected(run), Who: who})
	must(t, err, "approve")
	must(t, s.Pause(soon(t), onerun.PauseRequest{Namespace: run.Namespace, Job: "other", Who: who}), "pause")
	isRefusal(t, onerun.NewRunner(s).Do(soon(t), onerun.Job{Name: "other"}, func(context.Context, *onerun.Owner) error { return nil }), onerun.RefusedPaused)
	succeed(t, s, granted(t, s, claimOf("settle", "2026-09-15")))
}
