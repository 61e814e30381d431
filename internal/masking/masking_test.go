package masking

import (
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
)

func TestKeep(t *testing.T) {
	t.Parallel()
	names := []string{"reset-password:2026-09-15", "reset-password", ""}
	for in, want := range map[string]string{
		"reset-password:2026-09-15 failed: password=CANARY":            "reset-password:2026-09-15 failed: password=***",
		"reset-password:2026-09-15x":                                   "reset-password:***",
		"key/reset-password:2026-09-15, reset-password:2026-09-15.":    "key/reset-password:2026-09-15, reset-password:2026-09-15.",
		"Authorization: Token reset-password:2026-09-15 CANARY\nagain": "Authorization: ***\nagain",
		"password=reset-password:2026-09-15":                           "password=***",
		"reset-password:2026-09-15 \x00 reset-password":                "reset-password:*** \x00 reset-password",
	} {
		if got := Keep(onerun.Redact, in, names...); got != want {
			t.Errorf("Keep(%q)\n got %q\nwant %q", in, got, want)
		}
	}
	card := func(s string) string { return strings.ReplaceAll(s, "card", onerun.Masked) }
	if got := Keep(card, "card-1 lost a card", "card-1"); got != "card-1 lost a ***" {
		t.Error(got)
	}
}
