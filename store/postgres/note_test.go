package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/pgbed"
)

// TestNotesInOneTrip: a note is read and written in one round trip, by who loses too. An answer that
// is lost is said to be, and never that somebody else was faster.
func TestNotesInOneTrip(t *testing.T) {
	t.Parallel()
	_, url := fresh(t)
	target := strings.Split(strings.Split(url, "@")[1], "/")[0]
	p := newProxy(t, target)
	s := open(t, p.url(url, target))
	succeed(t, s, granted(t, s, claimOf("warm-up", ""))) // connects
	set := func(version int64, text string) (n onerun.Note, err error) {
		t.Helper()
		if trips := p.during(func() { n, err = s.SetNote(soon(t), "ns", "fire", version, text) }); trips != 1 {
			t.Errorf("to write at version %d took %d round trips", version, trips)
		}
		return n, err
	}
	n, err := set(0, "a")
	if err == nil {
		n, err = set(n.Version, "b")
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []int64{0, n.Version - 1, n.Version + 1} {
		if now, err := set(version, "late"); !errors.Is(err, onerun.ErrState) || now != n {
			t.Errorf("at version %d: %+v, %v", version, now, err)
		}
	}
	if trips := p.during(func() {
		if now, err := s.Note(soon(t), "ns", "fire"); err != nil || now != n {
			t.Errorf("%+v, %v", now, err)
		}
	}); trips != 1 {
		t.Errorf("to read took %d round trips", trips)
	}

	p.loseNext(1)
	if _, err := s.SetNote(soon(t), "ns", "fire", n.Version, "mine"); !errors.Is(err, onerun.ErrUnavailable) {
		t.Errorf("an answer that was lost: %v", err)
	}
	if now, err := s.SetNote(soon(t), "ns", "fire", n.Version, "mine"); !errors.Is(err, onerun.ErrState) || now.Text != "mine" || now.Version != n.Version+1 {
		t.Errorf("asked again: %+v, %v", now, err)
	}
}

// TestNotesWithoutDelete: a role may have all that notes need, and no more.
func TestNotesWithoutDelete(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	owner, url := fresh(t)
	if _, _, err := owner.Migrate(soon(t)); err != nil {
		t.Fatal(err)
	}
	schema := schemaOf(url)
	role := "noter_" + schema
	mustExec(t, direct(t, url), fmt.Sprintf(`CREATE ROLE %s LOGIN PASSWORD '%s'; GRANT USAGE ON SCHEMA %s TO %[1]s; GRANT SELECT ON ALL TABLES IN SCHEMA %[3]s TO %[1]s;
		GRANT SELECT, INSERT, UPDATE ON %[3]s.onerun_note TO %[1]s`, role, password, schema))
	s := open(t, pgbed.URLAs(server.Port, role, password, "postgres", "schema", schema))
	n, err := s.SetNote(soon(t), "ns", "fire", 0, "a")
	if err == nil {
		n, err = s.SetNote(soon(t), "ns", "fire", n.Version, "b")
	}
	if err != nil {
		t.Fatal(err)
	}
	if notes, err := s.Notes(soon(t), "ns", ""); err != nil || len(notes) != 1 || notes[0] != n {
		t.Errorf("%+v, %v", notes, err)
	}
}

// TestNoteLoserWaits: who comes while another's change isn't committed yet waits for it, and is told
// of it.
func TestNoteLoserWaits(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	was, err := s.SetNote(soon(t), "ns", "there", 0, "a")
	if err != nil {
		t.Fatal(err)
	}
	other := direct(t, url)
	mustExec(t, other, "SELECT set_config('search_path', $1, false)", schemaOf(url))
	for name, c := range map[string]struct {
		version int64
		change  string
	}{
		"new":   {0, "INSERT INTO onerun_note VALUES ('ns', 'new', 1, 'theirs', 'epoch')"},
		"there": {was.Version, "UPDATE onerun_note SET version = version + 1, text = 'theirs', changed_at = 'epoch' WHERE name = 'there'"},
	} {
		mustExec(t, other, "BEGIN")
		mustExec(t, other, c.change)
		var now onerun.Note
		told := make(chan error, 1)
		go func() {
			var err error
			now, err = s.SetNote(soon(t), "ns", name, c.version, "mine")
			told <- err
		}()
		waitFor(t, url, name+": the second waits",
			fmt.Sprintf("SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted AND %d = ANY (pg_blocking_pids(pid)))", other.PgConn().PID()))
		mustExec(t, other, "COMMIT")
		if err := <-told; !errors.Is(err, onerun.ErrState) || now != (onerun.Note{Name: name, Text: "theirs", Version: c.version + 1, At: time.Unix(0, 0).UTC()}) {
			t.Errorf("%s: %+v, %v", name, now, err)
		}
	}
}
