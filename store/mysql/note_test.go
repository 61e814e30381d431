package mysql_test

import (
	"errors"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// TestNoteReplyLost: an answer that is lost is said to be, and never that somebody else was faster.
func TestNoteReplyLost(t *testing.T) {
	t.Parallel()
	cut, p, beside := behind(t)
	n, err := cut.SetNote(soon(t), "ns", "fire", 0, "a")
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []int64{0, n.Version} {
		name := map[bool]string{true: "new", false: "fire"}[version == 0]
		p.Pass(true, false)
		told := make(chan error, 1)
		go func() {
			_, err := cut.SetNote(soon(t), "ns", name, version, "mine")
			told <- err
		}()
		for now := (onerun.Note{}); now.Text != "mine"; { // until it is written
			if now, err = beside.Note(soon(t), "ns", name); err != nil {
				t.Fatal(err)
			}
		}
		p.Break()
		p.Pass(true, true)
		if err := <-told; !errors.Is(err, onerun.ErrUnavailable) {
			t.Errorf("an answer that was lost: %v", err)
		}
		if now, err := cut.SetNote(soon(t), "ns", name, version, "mine"); !errors.Is(err, onerun.ErrState) || now.Text != "mine" || now.Version != version+1 {
			t.Errorf("asked again: %+v, %v", now, err)
		}
	}
	p.Break() // the connections that there are: nothing is sent on one that is dead
	if _, err := cut.SetNote(soon(t), "ns", "next", 0, "a"); err != nil {
		t.Errorf("after the connections broke: %v", err)
	}
}

// TestNotesOfAnOlderSchema: the first note brings a schema up that was made before there were any,
// and one that a newer program has made is left alone.
func TestNotesOfAnOlderSchema(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	db := direct(t, url)
	mustExec(t, db, "DROP TABLE onerun_note; UPDATE onerun_schema SET version = 1")
	other := open(t, url)
	if _, err := other.SetNote(soon(t), "ns", "fire", 0, "a"); err != nil {
		t.Fatal(err)
	}
	succeed(t, s, g)
	mustExec(t, db, "UPDATE onerun_schema SET version = 99")
	if _, err := other.SetNote(soon(t), "ns", "other", 0, "a"); !errors.Is(err, onerun.ErrConfig) {
		t.Errorf("a note in a newer schema: %v", err)
	}
	if _, err := other.Note(soon(t), "ns", "fire"); !errors.Is(err, onerun.ErrConfig) {
		t.Errorf("to read a note in a newer schema: %v", err)
	}
	mustExec(t, db, "UPDATE onerun_schema SET version = 2")
	if notes, err := other.Notes(soon(t), "ns", ""); err != nil || len(notes) != 1 {
		t.Errorf("notes: %+v, %v", notes, err)
	}
}

// TestNoteLoserWaits: who comes while another's change isn't committed yet waits for it, and is told
// of it.
func TestNoteLoserWaits(t *testing.T) {
	t.Parallel()
	s, url := freshOn(t, ownServer(t)) // on which nobody else waits
	was, err := s.SetNote(soon(t), "ns", "there", 0, "a")
	if err != nil {
		t.Fatal(err)
	}
	db := direct(t, url)
	for name, c := range map[string]struct {
		version int64
		change  string
	}{
		"new":   {0, "INSERT INTO onerun_note (namespace, name, version, text, changed_at) VALUES ('ns', 'new', 1, 'theirs', 7000000)"},
		"there": {was.Version, "UPDATE onerun_note SET version = version + 1, text = 'theirs', changed_at = 7000000 WHERE name = 'there'"},
	} {
		other, err := db.BeginTx(soon(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Exec(c.change); err != nil {
			t.Fatal(err)
		}
		var now onerun.Note
		told := make(chan error, 1)
		go func() {
			var err error
			now, err = s.SetNote(soon(t), "ns", name, c.version, "mine")
			told <- err
		}()
		waitFor(t, url, name+": the second waits", "SELECT variable_value > 0 FROM information_schema.global_status WHERE variable_name = 'Innodb_row_lock_current_waits'")
		if err := other.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := <-told; !errors.Is(err, onerun.ErrState) || now != (onerun.Note{Name: name, Text: "theirs", Version: c.version + 1, At: time.Unix(7, 0).UTC()}) {
			t.Errorf("%s: %+v, %v", name, now, err)
		}
	}
}
