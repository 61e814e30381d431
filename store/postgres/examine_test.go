package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/pgbed"
)

// sound is a server with which nothing is wrong.
var sound = sync.OnceValues(func() (*pgbed.Server, error) { return newServer() })

func soundServer(t testing.TB) *pgbed.Server {
	t.Helper()
	s, err := sound()
	must(t, err, "start a server")
	return s
}

// patient is a store that is to be examined: of a role with the documented rights.
type patient struct {
	t            testing.TB
	server       *pgbed.Server
	schema, role string
	url          string
	admin        *pgx.Conn
}

// newPatient makes one that has some history.
func newPatient(t testing.TB, server *pgbed.Server) *patient {
	t.Helper()
	p := &patient{t: t, server: server, schema: newSchema(), admin: direct(t, server.URL("postgres"))}
	p.role = "batch_" + p.schema
	owner := open(t, server.URL("postgres", "schema", p.schema))
	_, _, err := owner.Migrate(soon(t))
	must(t, err, "migrate")
	p.exec(fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", p.role, password))
	p.exec(strings.NewReplacer("SCHEMA onerun", "SCHEMA "+p.schema, "onerun.", p.schema+".", "batch;", p.role+";").Replace(grants))
	p.url = pgbed.URLAs(server.Port, p.role, password, "postgres", "schema", p.schema)
	s := open(t, p.url)
	succeed(t, s, granted(t, s, claimOf("settle", "2026-09-15")))
	granted(t, s, claimOf("report", "2026-09-15"))
	for range 3 {
		q := onerun.PauseRequest{Namespace: onerun.DefaultNamespace, Job: "settle", Who: onerun.Who{By: "ann", Reason: "look"}}
		must(t, s.Pause(soon(t), q), "pause")
		must(t, s.Resume(soon(t), q), "resume")
	}
	return p
}

// exec does what an administrator would, with SCHEMA and ROLE for the patient's own.
func (p *patient) exec(query string) {
	p.t.Helper()
	mustExec(p.t, p.admin, strings.NewReplacer("{schema}", p.schema, "{role}", p.role).Replace(query))
}

// examined examines a store of a URL, and leaves out what is fine.
func examined(t testing.TB, url string) []onerun.Finding {
	t.Helper()
	found, err := open(t, url).Examine(soon(t))
	must(t, err, "examine")
	return found
}

func worse(found []onerun.Finding) []onerun.Finding {
	return slices.DeleteFunc(slices.Clone(found), func(f onerun.Finding) bool { return f.Status == onerun.FindingOK })
}

// says checks that there is one finding that isn't fine, and what it says.
func says(t testing.TB, what string, found []onerun.Finding, check string, status onerun.FindingStatus, words ...string) onerun.Finding {
	t.Helper()
	bad := worse(found)
	if len(bad) != 1 || bad[0].Check != check || bad[0].Status != status {
		t.Errorf("%s: expected one finding, %s %s, got %+v", what, check, status, bad)
		return onerun.Finding{}
	}
	for _, w := range words {
		if !strings.Contains(bad[0].Evidence+"; "+bad[0].Remedy, w) {
			t.Errorf("%s: expected %q in: %s; %s", what, w, bad[0].Evidence, bad[0].Remedy)
		}
	}
	if bad[0].Status == onerun.FindingDanger && bad[0].Remedy == "" {
		t.Errorf("%s: a danger without a remedy: %+v", what, bad[0])
	}
	return bad[0]
}

// everything is all that a database holds, and all that is in its tables.
func everything(t testing.TB, admin *pgx.Conn, schema string) string {
	t.Helper()
	var names []string
	must(t, admin.QueryRow(soon(t), `SELECT coalesce(array_agg(format('%I.%I', n.nspname, c.relname) ORDER BY 1), '{}') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relkind = 'r'`, schema).Scan(&names), "list the tables")
	all := strings.Join(names, " ")
	for _, name := range names {
		var text string
		must(t, admin.QueryRow(soon(t), "SELECT coalesce(string_agg(t::text, E'\\n' ORDER BY t::text), '') FROM "+name+" t").Scan(&text), "read "+name)
		all += "\n" + text
	}
	return all
}

// TestExamineHealthy: nothing is wrong with a store that has some history, and it is the same
// afterwards.
func TestExamineHealthy(t *testing.T) {
	t.Parallel()
	p := newPatient(t, soundServer(t))
	before := everything(t, p.admin, p.schema)
	found := examined(t, p.url)
	if bad := worse(found); len(bad) > 0 {
		t.Errorf("found: %+v", bad)
	}
	var checks []string
	for _, f := range found {
		if checks = append(checks, f.Check); f.Evidence == "" {
			t.Errorf("%s has no evidence", f.Check)
		}
	}
	for _, want := range []string{
		"connection", "encryption", "hosts", "proxy", "server-clock", "server", "primary", "durability", "session", "autovacuum", "standbys",
		"timeouts", "connections", "other-schemas", "schema", "tables", "privileges", "functions", "unique-indexes", "event-chain", "stale-runs",
	} {
		if i := slices.Index(checks, want); i < 0 {
			t.Errorf("%s was not looked at: %s", want, checks)
		} else {
			checks = slices.Delete(checks, i, i+1)
		}
	}
	if len(checks) > 0 {
		t.Errorf("looked at too: %s", checks)
	}
	if everything(t, p.admin, p.schema) != before {
		t.Error("the store was changed")
	}
}

// TestExamineFindsFaults breaks one thing after the other. Where the remedy is something to
// type, it is typed, and everything is fine again.
func TestExamineFindsFaults(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		do     string
		check  string
		status onerun.FindingStatus
		words  []string
		undo   string // where the remedy is no statement
	}{
		"a short statement_timeout":    {"ALTER ROLE {role} SET statement_timeout = '500ms'", "timeouts", onerun.FindingDanger, []string{"statement_timeout is 500ms", "RESET"}, ""},
		"a tight statement_timeout":    {"ALTER ROLE {role} SET statement_timeout = '3s'", "timeouts", onerun.FindingWarning, []string{"statement_timeout is 3s", "RESET"}, ""},
		"sessions that are closed":     {"ALTER ROLE {role} SET idle_session_timeout = '5s'", "timeouts", onerun.FindingWarning, []string{"idle_session_timeout is 5s"}, ""},
		"commits that don't wait":      {"ALTER ROLE {role} IN DATABASE postgres SET synchronous_commit = off", "durability", onerun.FindingWarning, []string{"synchronous_commit is off", "IN DATABASE"}, ""},
		"a role that may only read":    {"ALTER ROLE {role} SET default_transaction_read_only = on", "primary", onerun.FindingDanger, []string{"only read"}, ""},
		"few connections":              {"ALTER ROLE {role} CONNECTION LIMIT 7", "connections", onerun.FindingWarning, []string{"of 7 connections of role"}, "ALTER ROLE {role} CONNECTION LIMIT -1"},
		"a table that a crash empties": {"ALTER TABLE {schema}.onerun_skip SET UNLOGGED", "tables", onerun.FindingDanger, []string{"onerun_skip: unlogged"}, "ALTER TABLE {schema}.onerun_skip SET LOGGED"},
		"a superuser":                  {"ALTER ROLE {role} SUPERUSER CREATEROLE", "privileges", onerun.FindingWarning, []string{"SUPERUSER, CREATEROLE"}, "ALTER ROLE {role} NOSUPERUSER NOCREATEROLE"},
		"no right to write":            {"REVOKE UPDATE, INSERT ON {schema}.onerun_run, {schema}.onerun_lock FROM {role}", "privileges", onerun.FindingDanger, []string{"lacks INSERT, UPDATE on onerun_lock, onerun_run"}, ""},
		"no right to free a lock":      {"REVOKE DELETE ON {schema}.onerun_lock FROM {role}", "privileges", onerun.FindingDanger, []string{"lacks DELETE on onerun_lock"}, ""},
		"no right to prune":            {"REVOKE DELETE ON {schema}.onerun_run FROM {role}", "privileges", onerun.FindingWarning, []string{"lacks DELETE on onerun_run", "prune"}, ""},
		"no right to the schema":       {"REVOKE USAGE ON SCHEMA {schema} FROM {role}", "privileges", onerun.FindingDanger, []string{"permission denied for schema"}, "GRANT USAGE ON SCHEMA {schema} TO {role}"},
		"no right to call":             {"REVOKE EXECUTE ON FUNCTION {schema}.onerun_claim(jsonb) FROM PUBLIC", "privileges", onerun.FindingDanger, []string{"may not call onerun_claim"}, ""},
		"everybody may write":          {"GRANT INSERT ON {schema}.onerun_run TO PUBLIC", "privileges", onerun.FindingDanger, []string{"everybody", "onerun_run"}, ""},
		"everybody may make things":    {"GRANT CREATE ON SCHEMA {schema} TO PUBLIC", "privileges", onerun.FindingWarning, []string{"everybody"}, ""},
		"an index is gone":             {"DROP INDEX {schema}.onerun_run_running", "unique-indexes", onerun.FindingDanger, []string{"onerun_run_running is missing"}, ""},
		"an index is another":          {"DROP INDEX {schema}.onerun_attempt_running; CREATE UNIQUE INDEX onerun_attempt_running ON {schema}.onerun_attempt (run_id, attempt)", "unique-indexes", onerun.FindingDanger, []string{"another one"}, ""},
		"a function is another": {
			"CREATE OR REPLACE FUNCTION {schema}.onerun_heartbeat(p jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT p'", "functions", onerun.FindingDanger, []string{"onerun_heartbeat", "another"}, "-",
		},
		"a function is gone":         {"DROP FUNCTION {schema}.onerun_report(jsonb, text)", "functions", onerun.FindingDanger, []string{"onerun_report: missing"}, "-"},
		"a changed event":            {"UPDATE {schema}.onerun_event SET reason = 'another' WHERE id = (SELECT min(id) + 1 FROM {schema}.onerun_event)", "event-chain", onerun.FindingDanger, []string{"of chain operator (resumed) does not follow", "onerun_event"}, "-"},
		"an event in another's line": {"UPDATE {schema}.onerun_event SET chain = 'x' WHERE id = (SELECT min(id) FROM {schema}.onerun_event)", "event-chain", onerun.FindingDanger, []string{"not its own", "does not follow"}, "-"},
		"a run that is over":         {"UPDATE {schema}.onerun_lock SET expires_at = clock_timestamp() - interval '1 h' WHERE lock = 'job/report'", "stale-runs", onerun.FindingWarning, []string{"report:2026-09-15", "its lease ran out"}, "-"},
		"an older schema":            {"UPDATE {schema}.onerun_schema SET version = 0", "schema", onerun.FindingWarning, []string{"version 0", "onerun migrate"}, "-"},
		"a newer schema":             {"UPDATE {schema}.onerun_schema SET version = 99", "schema", onerun.FindingDanger, []string{"version 99", "newer onerun"}, "-"},
		"somebody else's table":      {"DELETE FROM {schema}.onerun_schema", "schema", onerun.FindingDanger, []string{"not onerun's"}, "-"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t, soundServer(t))
			p.exec(c.do)
			before := everything(t, p.admin, p.schema)
			f := says(t, what, examined(t, p.url), c.check, c.status, c.words...)
			if everything(t, p.admin, p.schema) != before {
				t.Error("the store was changed")
			}
			if f.Check == "stale-runs" && f.Job != "report" {
				t.Errorf("it is about job %q", f.Job)
			}
			undo := c.undo
			if undo == "" {
				_, undo, _ = strings.Cut(f.Remedy, ": ")
			}
			if undo == "-" {
				return
			}
			p.exec(undo)
			if bad := worse(examined(t, p.url)); len(bad) > 0 {
				t.Errorf("after %q: %+v", undo, bad)
			}
		})
	}
}

// TestExamineRenamed: a schema that was renamed is found, and its functions look for the
// tables in vain.
func TestExamineRenamed(t *testing.T) {
	t.Parallel()
	p := newPatient(t, soundServer(t))
	p.exec("ALTER SCHEMA {schema} RENAME TO renamed_{schema}")
	url := pgbed.URLAs(p.server.Port, p.role, password, "postgres", "schema", "renamed_"+p.schema)
	found := examined(t, url)
	i := slices.IndexFunc(found, func(f onerun.Finding) bool { return f.Check == "functions" && f.Status == onerun.FindingDanger })
	if i < 0 || !strings.Contains(found[i].Evidence, "renamed") {
		t.Errorf("expected the functions to be found wrong: %+v", worse(found))
	}
}

// TestExamineNoStore: where there is no store nothing is made, and what the first start would
// do is said.
func TestExamineNoStore(t *testing.T) {
	t.Parallel()
	server := soundServer(t)
	admin := direct(t, server.URL("postgres"))
	mustExec(t, admin, "CREATE DATABASE empty")
	mustExec(t, admin, fmt.Sprintf("CREATE ROLE newcomer LOGIN PASSWORD '%s'; GRANT CREATE ON DATABASE empty TO newcomer; CREATE ROLE guest LOGIN PASSWORD '%[1]s'", password))
	inside := direct(t, server.URL("empty"))
	newcomer := pgbed.URLAs(server.Port, "newcomer", password, "empty")
	says(t, "a schema that may be made", examined(t, newcomer+"&schema=mine"), "store", onerun.FindingUnknown, "no store yet", `"mine"`)
	says(t, "a schema that may not be made", examined(t, pgbed.URLAs(server.Port, "guest", password, "empty", "schema", "mine")), "store", onerun.FindingDanger, "no start gets through", "CREATE SCHEMA")
	says(t, "no schema that may be written", examined(t, newcomer), "store", onerun.FindingDanger, "no start gets through", "CREATE SCHEMA")
	mustExec(t, inside, "CREATE SCHEMA newcomer AUTHORIZATION newcomer")
	says(t, "a schema in the search path", examined(t, newcomer), "store", onerun.FindingUnknown, "no store yet", `"newcomer"`)
	var tables int
	must(t, inside.QueryRow(soon(t), "SELECT count(*) FROM pg_class WHERE relname LIKE 'onerun%'").Scan(&tables), "count the tables")
	if tables > 0 {
		t.Errorf("%d tables were made", tables)
	}

	elsewhere := open(t, server.URL("empty", "schema", "elsewhere"))
	_, _, err := elsewhere.Migrate(soon(t))
	must(t, err, "migrate")
	found := slices.DeleteFunc(examined(t, newcomer), func(f onerun.Finding) bool { return f.Check == "store" })
	says(t, "a store that isn't seen", found, "other-schemas", onerun.FindingDanger, "elsewhere", "?schema=NAME")
	_, _, err = open(t, newcomer).Migrate(soon(t))
	must(t, err, "migrate")
	says(t, "two stores and no name", examined(t, newcomer), "other-schemas", onerun.FindingWarning, "elsewhere", "?schema=NAME")
	if bad := worse(examined(t, newcomer+"&schema=newcomer")); len(bad) > 0 {
		t.Errorf("two stores and a name: %+v", bad)
	}
}

// TestExamineCareless: settings of a server that take promises back.
func TestExamineCareless(t *testing.T) {
	t.Parallel()
	server, err := newServer("-c", "fsync=off", "-c", "full_page_writes=off", "-c", "autovacuum=off", "-c", "max_connections=15", "-c", "superuser_reserved_connections=8")
	must(t, err, "start a server")
	stopsAfter(t, server)
	p := newPatient(t, server)
	found := worse(examined(t, p.url))
	for _, want := range []struct {
		check  string
		status onerun.FindingStatus
		words  string
	}{
		{"durability", onerun.FindingDanger, "fsync is off"},
		{"durability", onerun.FindingWarning, "full_page_writes is off"},
		{"autovacuum", onerun.FindingWarning, "autovacuum doesn't run"},
		{"connections", onerun.FindingWarning, "of 7 connections of the server"},
	} {
		i := slices.IndexFunc(found, func(f onerun.Finding) bool {
			return f.Check == want.check && f.Status == want.status && strings.Contains(f.Evidence, want.words)
		})
		if i < 0 {
			t.Errorf("%s %s is not found: %+v", want.check, want.words, found)
			continue
		}
		if found[i].Remedy == "" {
			t.Errorf("%s has no remedy", want.check)
		}
		found = slices.Delete(found, i, i+1)
	}
	if len(found) > 0 {
		t.Errorf("also found: %+v", found)
	}
}

// TestExamineUnreachable: a server that no start could use is a finding too.
func TestExamineUnreachable(t *testing.T) {
	t.Parallel()
	server := soundServer(t)
	nobody, err := pgbed.FreePort()
	must(t, err, "find a port")
	for what, c := range map[string]struct {
		url   string
		words []string
	}{
		"no server":        {pgbed.URLAs(nobody, superuser, password, "postgres"), []string{"refused", "is the server up"}},
		"a wrong password": {pgbed.URLAs(server.Port, superuser, "wr0ng", "postgres"), []string{"password authentication failed", "pg_hba.conf"}},
		"no database":      {server.URL("nowhere"), []string{"nowhere", "create the database"}},
		"no certificate":   {secureURL(server.Port, "localhost", superuser, password, "sslmode", "require"), []string{"refused TLS"}},
	} {
		found := examined(t, c.url)
		if says(t, what, found, "connection", onerun.FindingDanger, c.words...); len(found) != 1 {
			t.Errorf("%s: expected nothing else, got %+v", what, found)
		}
	}
	mustExec(t, direct(t, server.URL("postgres")), "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
	found := slices.DeleteFunc(examined(t, server.URL("latin")), func(f onerun.Finding) bool { return f.Check == "privileges" })
	says(t, "an encoding", found, "schema", onerun.FindingDanger, "LATIN1", "UTF8")
}

// TestExamineTime: what takes too long is unknown, and what comes after it is looked at.
func TestExamineTime(t *testing.T) {
	t.Parallel()
	p := newPatient(t, soundServer(t))
	p.exec("BEGIN; LOCK TABLE {schema}.onerun_event IN ACCESS EXCLUSIVE MODE")
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
	defer cancel()
	found, err := open(t, p.url).Examine(ctx)
	must(t, err, "examine")
	says(t, "a journal that can't be read in time", found, "event-chain", onerun.FindingUnknown, "takes longer", "--store-timeout")
	if found[len(found)-1].Check != "stale-runs" {
		t.Errorf("the last one is %+v", found[len(found)-1])
	}
	p.exec("ROLLBACK")
}
