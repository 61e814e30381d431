package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/notify"
)

// TestTellerSendsAll: a message that is made at once is sent to every target all the same, however
// the goroutines that make and send it are scheduled.
func TestTellerSendsAll(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	const targets, messages = 4, 500
	l := &listeners{on: notify.Events{notify.Failure}}
	for range targets {
		target, err := notify.Parse(r.URL)
		if err != nil {
			t.Fatal(err)
		}
		l.targets = append(l.targets, target)
	}
	for range messages {
		x := newTeller(l, nil, onerun.Redact)
		x.report = func(o onerun.Observation) { t.Errorf("%s: %v", o.Detail, o.Err) }
		x.bound(patience)
		x.tell(notify.Failure, onerun.Run{}, patience, func(context.Context) *notify.Message { return &notify.Message{Event: notify.Failure} })
		x.finish(false, func(func()) {})
		for range targets {
			r.told(t, "failure")
		}
	}
	r.silent(t)
}

// TestMessagesKeepKeys: a key is no secret, whatever its job is called; what others wrote beside
// it is masked.
func TestMessagesKeepKeys(t *testing.T) {
	t.Parallel()
	x := newTeller(&listeners{}, nil, onerun.Redact)
	x.next = func(r onerun.Run, _ *onerun.Refusal) string { return "onerun rerun " + r.Key() + " --reason TEXT" }
	r := onerun.Run{Namespace: "default", Job: "reset-password", Partition: "2026-09-15", RunID: "r", Attempt: 1}
	r.Status, r.Reason, r.Error = onerun.Failed, onerun.ReasonExit, "reset-password:2026-09-15: password: CANARY"
	other := onerun.Holder{Name: "pass-secret:1", RunID: "q", Detail: "secret: CANARY"}
	refusal := onerun.Observation{Run: r, Refusal: &onerun.Refusal{Reason: onerun.RefusedLocked, Holder: other}}
	texts := []string{x.failure(ending{run: r}).Text, x.refusal(notify.Skip, refusal).Text, *x.refusal(notify.Skip, refusal).Holder, x.pingText(ending{run: r}), x.late(r).Text}
	for i, want := range [][]string{
		{"reset-password:2026-09-15 failed", "\nreset-password:2026-09-15: password: ***", "show reset-password:2026-09-15\n"},
		{"reset-password:2026-09-15 was skipped", "pass-secret:1, run q", "secret: ***", "rerun reset-password:2026-09-15 --reason"},
		{"pass-secret:1, run q", "secret: ***"},
		{"reset-password:2026-09-15: password: ***"},
		{"reset-password:2026-09-15 is late", "stop reset-password:2026-09-15 --reason"},
	} {
		for _, w := range want {
			if !strings.Contains(texts[i], w) || strings.Contains(texts[i], "CANARY") {
				t.Errorf("no %q in %q", w, texts[i])
			}
		}
	}
}
