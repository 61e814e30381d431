package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/pgbed"
)

// TestSessions: what the server knows of a run's connections, its owner's and its job's.
func TestSessions(t *testing.T) {
	t.Parallel()
	p := newPatient(t, sharedServer(t))
	s := open(t, p.url)
	g := granted(t, s, claimOf("load", "2026-09-15"))
	other := granted(t, s, claimOf("other", ""))
	name := func(g onerun.Grant) string { return "&application_name=onerun/" + g.Lease.RunID }
	jobs := pgbed.URLAs(p.server.Port, p.role, password, "postgres")

	mustExec(t, direct(t, jobs+name(other)), "SELECT 'of another run'")
	idle := direct(t, jobs+name(g))
	mustExec(t, idle, "SELECT 'done', '"+strings.Repeat("ö", 300)+"'")
	holds := direct(t, jobs+name(g))
	mustExec(t, holds, "BEGIN")
	mustExec(t, holds, "SELECT pg_advisory_xact_lock(4711)")
	waits := direct(t, jobs+name(g))
	ended := make(chan error, 1)
	go func() {
		_, err := waits.Exec(soon(t), "SELECT\n\tpg_advisory_xact_lock(4711)  -- postgres://u:p@h/db ALTER ROLE x PASSWORD 'hunter2' or PASSWORD e'it''s \\'hunter2'", pgx.QueryExecModeSimpleProtocol)
		ended <- err
	}()
	waitFor(t, p.url, "a session that waits", "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE application_name = 'onerun/"+g.Lease.RunID+"' AND wait_event_type = 'Lock')")

	found, err := s.Sessions(soon(t), g.Run)
	must(t, err, "list the sessions")
	of := func(c *pgx.Conn) onerun.Session {
		t.Helper()
		i := slices.IndexFunc(found, func(x onerun.Session) bool { return x.PID == int(c.PgConn().PID()) })
		if i < 0 {
			t.Fatalf("session %d is not among %+v", c.PgConn().PID(), found)
		}
		if d := time.Since(found[i].Since); d < -time.Minute || d > time.Minute {
			t.Errorf("it is so since %s", found[i].Since)
		}
		return found[i]
	}
	if x := of(idle); x.State != "idle" || !strings.HasPrefix(x.Query, "SELECT 'done', 'öö") || !strings.HasSuffix(x.Query, "…") || len([]rune(x.Query)) > 201 {
		t.Errorf("an idle session: %+v", x)
	}
	if x := of(holds); x.State != "idle in transaction" || x.Wait != "Client/ClientRead" {
		t.Errorf("a session in a transaction: %+v", x)
	}
	if x := of(waits); x.State != "active" || x.Wait != "Lock/advisory" || x.Query != "SELECT pg_advisory_xact_lock(4711) -- postgres://***@h/db ALTER ROLE x PASSWORD *** or PASSWORD ***" {
		t.Errorf("a session that waits: %+v", x)
	}
	if n := len(found); n < 3 || n > 4 { // the owner's own may be the one that asks
		t.Errorf("expected the job's three, and perhaps the owner's, got %+v", found)
	}

	// Another role sees that they are there.
	stranger := "stranger_" + p.schema
	p.exec(fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", stranger, password))
	found, err = open(t, pgbed.URLAs(p.server.Port, stranger, password, "postgres")).Sessions(soon(t), g.Run)
	must(t, err, "list the sessions as another role")
	if len(found) < 3 {
		t.Errorf("expected the sessions, got %+v", found)
	}
	for _, x := range found {
		if x.PID == 0 || x.State != "" || x.Query != "" || x.Wait != "" || !x.Since.IsZero() {
			t.Errorf("as another role: expected a process id alone, got %+v", x)
		}
	}
	mustExec(t, holds, "COMMIT")
	must(t, <-ended, "the session that waited")

	if none, err := s.Sessions(soon(t), onerun.Run{RunID: onerun.NewRunID(time.Now())}); err != nil || len(none) > 0 {
		t.Errorf("sessions of a run that has none: %+v, %v", none, err)
	}
	if none, err := s.Sessions(soon(t), onerun.Run{}); err != nil || len(none) > 0 {
		t.Errorf("sessions of no run: %+v, %v", none, err)
	}
}
