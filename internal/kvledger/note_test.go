package kvledger_test

import (
	"errors"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/kvledger"
)

// TestNoteReplyLost: a commit whose answer is lost is said to be, and never that somebody else was
// faster.
func TestNoteReplyLost(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	l := kvledger.New(s, kvledger.Options{Name: "a space in memory"})
	n, err := l.SetNote(t.Context(), "ns", "fire", 0, "a")
	if err != nil {
		t.Fatal(err)
	}
	s.fault = func(int, kvledger.Txn) (conflict, lost bool) { return false, true }
	if _, err := l.SetNote(t.Context(), "ns", "fire", n.Version, "mine"); !errors.Is(err, onerun.ErrUnavailable) {
		t.Errorf("an answer that was lost: %v", err)
	}
	s.fault = nil
	if now, err := l.SetNote(t.Context(), "ns", "fire", n.Version, "mine"); !errors.Is(err, onerun.ErrState) || now.Text != "mine" || now.Version != n.Version+1 {
		t.Errorf("asked again: %+v, %v", now, err)
	}
}
