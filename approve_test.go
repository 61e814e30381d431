package onerun_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// TestApprovalSteps goes through the whole table: every step, with everything open that
// can be, for every state of the run.
func TestApprovalSteps(t *testing.T) {
	const allowed = "allowed"
	const ana, kim = "ana@h2 as root", "kim@h1"
	request := onerun.Approval{RunID: "r", Status: "FAILED", Attempt: 3, RequestedBy: "ana@h1", RequestReason: "late file"}
	approval := request
	approval.By, approval.Reason = "lee@h1", "agreed"
	changed := func(a onerun.Approval, change func(*onerun.Approval)) *onerun.Approval {
		change(&a)
		return &a
	}
	now := decidedAt
	open := map[string]*onerun.Approval{
		"nothing": nil, "request": &request, "approval": &approval,
		"approval, used":               changed(approval, func(a *onerun.Approval) { a.UsedAt = now }),
		"approval, expired":            changed(approval, func(a *onerun.Approval) { a.ExpiresAt = now }),
		"approval, of another status":  changed(approval, func(a *onerun.Approval) { a.Status = "SKIPPED" }),
		"approval, of another attempt": changed(approval, func(a *onerun.Approval) { a.Attempt = 2 }),
		"approval, of another run":     changed(approval, func(a *onerun.Approval) { a.RunID = "q" }),
		"approval, not yet expired":    changed(approval, func(a *onerun.Approval) { a.ExpiresAt = now.Add(time.Nanosecond) }),
		"request, expired":             changed(request, func(a *onerun.Approval) { a.ExpiresAt = now }),
		"request, of another status":   changed(request, func(a *onerun.Approval) { a.Status = "SKIPPED" }),
		"request, of another attempt":  changed(request, func(a *onerun.Approval) { a.Attempt = 2 }),
	}
	counts := map[string]string{"approval, not yet expired": "approval"} // else what is outdated counts as nothing
	for _, c := range []struct {
		open, step, by string
		one, two       string // words of the refusal, where one person decides, and where two do
	}{
		{"nothing", "", kim, allowed, "needs two people: onerun rerun j:p --request"},
		{"nothing", "request", kim, allowed, allowed},
		{"nothing", "approve", kim, "nobody has requested a rerun", "nobody has requested a rerun"},
		{"request", "", kim, allowed, "needs two people, and ana@h1 has requested it"},
		{"request", "", ana, allowed, "needs two people"},
		{"request", "request", kim, "requested already, by ana@h1: late file", "requested already"},
		{"request", "approve", kim, allowed, allowed},
		{"request", "approve", ana, "somebody else has to approve it", "somebody else has to approve it"},
		{"approval", "", kim, "approved rerun already, by lee@h1: agreed", "approved rerun already"},
		{"approval", "request", kim, "approved rerun already", "approved rerun already"},
		{"approval", "approve", kim, "approved rerun already", "approved rerun already"},
	} {
		for name, a := range open {
			what, _, outdated := strings.Cut(name, ", ")
			if outdated {
				what = counts[name]
				if what == "" {
					what = "nothing"
				}
			}
			if what != c.open {
				continue
			}
			for _, two := range []string{"nobody", "the owner", "the caller", "both"} {
				run := onerun.Run{RunID: "r", Job: "j", Partition: "p", Status: onerun.Failed, Attempt: 3}
				run.TwoPeople = two == "the owner" || two == "both"
				q := onerun.ApprovalRequest{Step: onerun.ApprovalStep(c.step), Who: onerun.Who{By: c.by}, TwoPeople: two == "the caller" || two == "both"}
				want := c.two
				if two == "nobody" {
					want = c.one
				}
				approveIs(t, onerun.ApproveAllowed(run, a, q, now), want, c.step+" by "+c.by+" with "+name+" open, two people said by "+two)
			}
		}
	}
	for _, step := range []onerun.ApprovalStep{onerun.ApproveAlone, onerun.ApproveRequest, onerun.ApproveSecond} {
		run := onerun.Run{RunID: "r", Job: "j", Status: onerun.Failed, Attempt: 1}
		approveIs(t, onerun.ApproveAllowed(run, nil, onerun.ApprovalRequest{Step: step}, now), "j has no key", "an unkeyed run")
		run.Partition, run.Status = "p", onerun.Running
		approveIs(t, onerun.ApproveAllowed(run, nil, onerun.ApprovalRequest{Step: step}, now), "j:p is RUNNING", "a run that is RUNNING")
	}
}

func approveIs(t *testing.T, err error, want, what string) {
	t.Helper()
	t.Run(what, func(t *testing.T) {
		t.Helper()
		checkAllowed(t, err, want == "allowed", want)
	})
}

func TestPerson(t *testing.T) {
	for by, want := range map[string]string{
		"ana": "ana", "ana@web1": "ana", "ana@web2": "ana", "ana@web1 as root": "ana", "ana as root": "ana",
		"ana@corp.example@web1": "ana@corp.example", "@web1": "@web1", "": "", "김 안나@서버": "김 안나",
		"ana@web1 as root as if": "ana",
	} {
		if got := onerun.Person(by); got != want {
			t.Errorf("person of %q: %q, not %q", by, got, want)
		}
	}
}
