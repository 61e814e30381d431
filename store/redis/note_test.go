package redis_test

import (
	"errors"
	"testing"

	"github.com/onerun-dev/onerun"
)

// TestNoteForgotten: a note that the server has forgotten is one that was never written, and no
// version that it had is ever had again.
func TestNoteForgotten(t *testing.T) {
	t.Parallel()
	s, prefix := fresh(t)
	n, err := s.SetNote(soon(t), "ns", "fire", 0, "a")
	if err != nil {
		t.Fatal(err)
	}
	db := direct(t, sharedServer(t))
	if gone, err := db.Del(soon(t), prefix+":{ns}:note:fire").Result(); err != nil || gone != 1 {
		t.Fatalf("%d keys deleted, %v", gone, err)
	}
	if now, err := s.SetNote(soon(t), "ns", "fire", n.Version, "b"); !errors.Is(err, onerun.ErrState) || now != (onerun.Note{Name: "fire"}) {
		t.Errorf("a change of what is gone: %+v, %v", now, err)
	}
	if notes, err := s.Notes(soon(t), "ns", ""); err != nil || len(notes) != 0 {
		t.Errorf("notes: %+v, %v", notes, err)
	}
	again, err := s.SetNote(soon(t), "ns", "fire", 0, "c")
	if err != nil || again.Version <= n.Version {
		t.Errorf("version %d after %d, %v", again.Version, n.Version, err)
	}
	if notes, err := s.Notes(soon(t), "ns", ""); err != nil || len(notes) != 1 || notes[0] != again {
		t.Errorf("notes: %+v, %v", notes, err)
	}
}

// TestNoteReplyLost: an answer that is lost is said to be, and never that somebody else was faster.
func TestNoteReplyLost(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	proxy, err := server.Proxy()
	if err != nil {
		t.Fatal(err)
	}
	s, beside := open(t, proxy.URL()), open(t, server.URL())
	n, err := s.SetNote(soon(t), "ns", "fire", 0, "a")
	if err != nil {
		t.Fatal(err)
	}
	proxy.Pass(true, false)
	told := make(chan error, 1)
	go func() {
		_, err := s.SetNote(soon(t), "ns", "fire", n.Version, "mine")
		told <- err
	}()
	waitUntil(t, "the note is written", func() bool {
		now, err := beside.Note(soon(t), "ns", "fire")
		return err == nil && now.Text == "mine"
	})
	proxy.Break()
	proxy.Pass(true, true)
	if err := <-told; !errors.Is(err, onerun.ErrUnavailable) {
		t.Errorf("an answer that was lost: %v", err)
	}
	if now, err := s.SetNote(soon(t), "ns", "fire", n.Version, "mine"); !errors.Is(err, onerun.ErrState) || now.Text != "mine" || now.Version <= n.Version {
		t.Errorf("asked again: %+v, %v", now, err)
	}
}
