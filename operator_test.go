package onerun_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

func TestResolveAllowed(t *testing.T) {
	const none, allowed = "", "allowed"
	for _, c := range []struct {
		found onerun.Status // "": no run
		as    onerun.Status
		over  string // alive, over, or any
		want  string // allowed, or words of the refusal
	}{
		{none, "SKIPPED", "any", allowed},
		{none, "FAILED", "any", "no such run"},
		{none, "SUCCEEDED", "any", "no such run"},
		{"RUNNING", "FAILED", "alive", "stop it first"},
		{"RUNNING", "SUCCEEDED", "alive", "stop it first"},
		{"RUNNING", "SKIPPED", "alive", "stop it first"},
		{"RUNNING", "FAILED", "over", allowed},
		{"RUNNING", "SUCCEEDED", "over", allowed},
		{"RUNNING", "SKIPPED", "over", allowed},
		{"FAILED", "FAILED", "any", "FAILED already"},
		{"FAILED", "SUCCEEDED", "any", allowed},
		{"FAILED", "SKIPPED", "any", allowed},
		{"SUCCEEDED", "FAILED", "any", "onerun rerun j:p"},
		{"SUCCEEDED", "SUCCEEDED", "any", "onerun rerun j:p"},
		{"SUCCEEDED", "SKIPPED", "any", "onerun rerun j:p"},
		{"SKIPPED", "FAILED", "any", "onerun rerun j:p"},
		{"SKIPPED", "SUCCEEDED", "any", "onerun rerun j:p"},
		{"SKIPPED", "SKIPPED", "any", "onerun rerun j:p"},
		{none, "RUNNING", "any", "can't resolve as RUNNING"},
		{"RUNNING", "RUNNING", "any", "can't resolve as RUNNING"},
		{"FAILED", "RUNNING", "any", "can't resolve as RUNNING"},
		{"SUCCEEDED", "RUNNING", "any", "can't resolve as RUNNING"},
		{"FAILED", "", "any", "can't resolve as"},
		{"FAILED", "failed", "any", "can't resolve as failed"},
	} {
		var run *onerun.Run
		if c.found != none {
			run = &onerun.Run{Job: "j", Partition: "p", Status: c.found, Evidence: "its lease runs"}
		}
		for _, over := range []bool{false, true} {
			if c.over != "any" && (c.over == "over") != over {
				continue
			}
			err := onerun.ResolveAllowed(run, c.as, over)
			checkAllowed(t, err, c.want == allowed, c.want)
			if err != nil && c.found == "RUNNING" && c.as != "RUNNING" && c.as != "" && !strings.Contains(err.Error(), "its lease runs") {
				t.Errorf("%q doesn't say how the owner is known to live", err)
			}
		}
	}
}

func TestApproveAllowed(t *testing.T) {
	now := decidedAt
	for _, c := range []struct {
		name   string
		change func(*onerun.Run, *onerun.Approval)
		none   bool // no approval is there
		want   string
	}{
		{"SUCCEEDED", func(*onerun.Run, *onerun.Approval) {}, true, ""},
		{"FAILED", func(r *onerun.Run, _ *onerun.Approval) { r.Status = onerun.Failed }, true, ""},
		{"SKIPPED", func(r *onerun.Run, _ *onerun.Approval) { r.Status, r.Attempt = onerun.Skipped, 0 }, true, ""},
		{"RUNNING", func(r *onerun.Run, _ *onerun.Approval) { r.Status = onerun.Running }, true, "j:p is RUNNING"},
		{"unkeyed", func(r *onerun.Run, _ *onerun.Approval) { r.Partition = "" }, true, "j has no key"},
		{"unkeyed and RUNNING", func(r *onerun.Run, _ *onerun.Approval) { r.Partition, r.Status = "", onerun.Running }, true, "j has no key"},
		{"open approval", func(*onerun.Run, *onerun.Approval) {}, false, "approved rerun already, by lee: bad input"},
		{"used", func(_ *onerun.Run, a *onerun.Approval) { a.UsedAt = now }, false, ""},
		{"expired", func(_ *onerun.Run, a *onerun.Approval) { a.ExpiresAt = now }, false, ""},
		{"not yet expired", func(_ *onerun.Run, a *onerun.Approval) { a.ExpiresAt = now.Add(1) }, false, "already"},
		{"of an earlier attempt", func(_ *onerun.Run, a *onerun.Approval) { a.Attempt = 1 }, false, ""},
		{"of an earlier state", func(_ *onerun.Run, a *onerun.Approval) { a.Status = onerun.Failed }, false, ""},
		{"of another run", func(_ *onerun.Run, a *onerun.Approval) { a.RunID = "q" }, false, ""},
	} {
		run := onerun.Run{RunID: "r", Job: "j", Partition: "p", Status: onerun.Succeeded, Attempt: 2}
		open := &onerun.Approval{RunID: "r", Status: onerun.Succeeded, Attempt: 2, By: "lee", Reason: "bad\ninput", ExpiresAt: now.Add(time.Hour)}
		c.change(&run, open)
		if c.none {
			open = nil
		}
		t.Run(c.name, func(t *testing.T) {
			checkAllowed(t, onerun.ApproveAllowed(run, open, onerun.ApprovalRequest{Who: onerun.Who{By: "kim"}}, now), c.want == "", c.want)
		})
	}
}

func checkAllowed(t *testing.T, err error, allowed bool, words string) {
	t.Helper()
	switch {
	case allowed && err != nil:
		t.Errorf("refused: %v; want it allowed", err)
	case !allowed && err == nil:
		t.Errorf("allowed; want it refused: %s", words)
	case !allowed:
		onlyKind(t, err, onerun.ErrState)
		checkLine(t, err.Error())
		if !errors.As(err, new(*onerun.StateError)) || !strings.Contains(err.Error(), words) {
			t.Errorf("refused with %q; want %q", err, words)
		}
	}
}
