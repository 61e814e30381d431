package cli

import (
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
)

// TestForeseenOnce: what the store and this host both know of a dead owner is said once.
func TestForeseenOnce(t *testing.T) {
	t.Parallel()
	const evidence = "its lease ran out at 2026-09-15T01:00:00Z"
	for _, holder := range []string{"settle by w1", "settle by w1: " + evidence} {
		next := "look"
		x := explanation{Holder: &holder, Next: &next}
		x.foreseen(&env{}, onerun.Run{Job: "settle", Evidence: evidence}, onerun.RefusedFailed)
		if strings.Count(*x.Holder, evidence) != 1 {
			t.Errorf("holder: %s", *x.Holder)
		}
	}
}
