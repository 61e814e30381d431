package kvledger_test

import (
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// TestSkipsOfTwoClocks: claimants reckon the server's clock each for itself. One whose reckoning is a little behind counts its refusal
// without turning the order of the first and the last around.
func TestSkipsOfTwoClocks(t *testing.T) {
	s := newSpace(t)
	l := open(s)
	c := claim("settle", "2026-09-15")
	granted(t, l, c)
	other := c
	other.Owner = onerun.NewID()
	isRefused(t, l, other, onerun.RefusedRunning)
	s.advance(-time.Millisecond)
	isRefused(t, l, other, onerun.RefusedRunning)
	skips, err := l.Skips(t.Context(), c.Namespace, c.Job, c.Partition)
	if err != nil || len(skips) != 1 || skips[0].Count != 2 || skips[0].LastAt.Before(skips[0].FirstAt) {
		t.Errorf("skips: %+v, %v", skips, err)
	}
}
