package postgres_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/pgbed"
	"github.com/onerun-dev/onerun/store/postgres"
)

// childURL makes this test binary a process that uses a store for the first time.
const childURL = "ONERUN_POSTGRES_FIRST_USE"

func migrateIfChild() {
	url, ok := os.LookupEnv(childURL)
	if !ok {
		return
	}
	s, err := postgres.Open(context.Background(), url)
	if err == nil {
		_, err = s.Claim(context.Background(), claimOf("job-"+onerun.NewID(), ""))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// TestFirstUse: eight processes use a store at once that isn't there yet.
func TestFirstUse(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		url := sharedServer(t).URL("postgres", "schema", newSchema())
		cmds := make([]*exec.Cmd, 8)
		outs := make([]strings.Builder, len(cmds))
		for i := range cmds {
			cmds[i] = exec.CommandContext(soon(t), exe)
			cmds[i].Env = append(os.Environ(), childURL+"="+url, "GORACE=atexit_sleep_ms=0")
			cmds[i].Stderr = &outs[i]
			if err := cmds[i].Start(); err != nil {
				t.Fatal(err)
			}
		}
		for i, cmd := range cmds {
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v: %s", err, outs[i].String())
			}
		}
		runs, err := open(t, url).Runs(soon(t), onerun.Query{Namespace: onerun.DefaultNamespace})
		if err != nil || len(runs) != len(cmds) {
			t.Errorf("expected a run of each of %d processes, got %d, %v", len(cmds), len(runs), err)
		}
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	s := open(t, sharedServer(t).URL("postgres", "schema", newSchema()))
	for _, want := range [][2]int{{0, postgres.Steps}, {postgres.Steps, postgres.Steps}} {
		from, to, err := s.Migrate(soon(t))
		if err != nil || from != want[0] || to != want[1] {
			t.Errorf("migrate: expected from %d to %d, got from %d to %d, %v", want[0], want[1], from, to, err)
		}
	}
}

// TestSchemaNames: whatever a schema is called, it is found again, and its functions find
// their tables.
func TestSchemaNames(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	names := []string{`a "quoted" one`, "with spaces", "it's; DROP TABLE x --", "일일정산", "Upper", "upper", `back\slash`, "$users", strings.Repeat("n", 63)}
	for i, name := range names {
		s := open(t, server.URL("postgres", "schema", name))
		c := claimOf("settle", fmt.Sprint("p", i))
		succeed(t, s, granted(t, s, c))
		s = open(t, server.URL("postgres", "schema", name))
		runs, err := s.Runs(soon(t), onerun.Query{Namespace: onerun.DefaultNamespace})
		if err != nil || len(runs) != 1 || runs[0].Partition != c.Partition {
			t.Errorf("schema %q: expected its one run, got %d, %v", name, len(runs), err)
		}
		var there bool
		conn := direct(t, server.URL("postgres"))
		if err := conn.QueryRow(soon(t), "SELECT to_regclass($1) IS NOT NULL", pgx.Identifier{name, "onerun_run"}.Sanitize()).Scan(&there); err != nil || !there {
			t.Errorf("schema %q: its tables are elsewhere (%v)", name, err)
		}
	}
}

// TestSearchPath: without a schema in the URL it is the first of the search path that may
// be written; but one that has a store comes first, so that two accounts don't have two.
func TestSearchPath(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	admin := direct(t, server.URL("postgres"))
	mustExec(t, admin, "CREATE DATABASE paths")
	inside := direct(t, server.URL("paths"))
	mustExec(t, inside, fmt.Sprintf(`CREATE ROLE walker LOGIN PASSWORD '%s'; REVOKE CREATE ON SCHEMA public FROM PUBLIC;
		CREATE SCHEMA closed; GRANT USAGE ON SCHEMA closed TO walker; CREATE SCHEMA first AUTHORIZATION walker; CREATE SCHEMA second AUTHORIZATION walker;
		ALTER ROLE walker SET search_path = closed, nowhere, second, first, public`, password))
	where := func() (schema string) {
		err := inside.QueryRow(soon(t), "SELECT string_agg(nspname, ' ') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE relname = 'onerun_run'").Scan(&schema)
		if err != nil {
			t.Fatal(err)
		}
		return schema
	}
	url := pgbed.URLAs(server.Port, "walker", password, "paths")
	succeed(t, open(t, url), granted(t, open(t, url), claimOf("settle", "2026-09-15")))
	if got := where(); got != "second" {
		t.Errorf("the store is in %q, expected the first schema that may be written", got)
	}
	mustExec(t, inside, "ALTER ROLE walker SET search_path = closed, first, second")
	refused(t, open(t, url), claimOf("settle", "2026-09-15"), onerun.RefusedSucceeded)
	runs, err := open(t, url).Runs(soon(t), onerun.Query{Namespace: onerun.DefaultNamespace})
	if err != nil || len(runs) != 1 || where() != "second" {
		t.Errorf("expected the one store, got %d runs, stores in %q, %v", len(runs), where(), err)
	}
}

// grants are those of docs/stores/postgres.md; TestGuide keeps them the same.
const grants = `GRANT USAGE ON SCHEMA onerun TO batch;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA onerun TO batch;
REVOKE INSERT, UPDATE, DELETE ON onerun.onerun_schema, onerun.onerun_look, onerun.batch_job_run FROM batch;
REVOKE UPDATE ON onerun.onerun_event FROM batch;
`

// TestLeastPrivileges: a role with the documented rights can do all but migrate.
func TestLeastPrivileges(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	schema := newSchema()
	if _, _, err := open(t, server.URL("postgres", "schema", schema)).Migrate(soon(t)); err != nil {
		t.Fatal(err)
	}
	role := "batch_" + schema
	admin := direct(t, server.URL("postgres"))
	mustExec(t, admin, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", role, password))
	mustExec(t, admin, strings.NewReplacer("SCHEMA onerun", "SCHEMA "+schema, "onerun.", schema+".", "batch;", role+";").Replace(grants))
	url := pgbed.URLAs(server.Port, role, password, "postgres", "schema", schema)
	s := open(t, url)
	who := onerun.Who{By: "ann", Reason: "because"}
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	c := claimOf("settle", "2026-09-15")
	c.Retries, c.RetryLost = 1, true
	g := granted(t, s, c)
	refused(t, s, again(c), onerun.RefusedRunning)
	_, err := s.Heartbeat(soon(t), g.Lease)
	must("heartbeat", err)
	n := int64(1)
	must("report", s.Report(soon(t), g.Lease, onerun.Progress{Processed: &n, Output: &onerun.Output{Text: "so far", Total: 6}}))
	it, err := s.BeginItem(soon(t), onerun.ItemClaim{Lease: g.Lease, Name: "order 1", Owner: onerun.NewID()})
	must("begin an item", err)
	must("end an item", s.EndItem(soon(t), onerun.ItemEnd{Namespace: it.Namespace, Job: it.Job, Name: it.Name, Owner: it.Owner, State: onerun.ItemFailed}))
	_, err = s.DecideItem(soon(t), onerun.ItemDecision{Namespace: it.Namespace, Job: it.Job, Name: it.Name, Expect: onerun.ItemFailed, Tries: 1, As: onerun.ItemDone, Who: who})
	must("decide about an item", err)
	must("stop", s.Stop(soon(t), onerun.StopRequest{Namespace: c.Namespace, RunID: g.Run.RunID, Expect: onerun.Expected(g.Run), Who: who}))
	g, err = s.ClaimKnowing(soon(t), again(c), dead(c.Owner))
	must("take over", err)
	must("finish", s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded, Output: &onerun.Output{Text: "all", Total: 3}}))
	_, err = s.Deliver(soon(t), onerun.Lease{Namespace: c.Namespace, RunID: g.Run.RunID, Attempt: 1, Owner: c.Owner}, onerun.Outcome{Status: onerun.Succeeded})
	must("deliver", err)
	run := detail(t, s, g.Run.RunID).Run
	_, err = s.Approve(soon(t), onerun.ApprovalRequest{Namespace: c.Namespace, RunID: run.RunID, Expect: onerun.Expected(run), Who: who})
	must("approve", err)
	succeed(t, s, granted(t, s, again(c)))
	_, err = s.Resolve(soon(t), onerun.Resolution{Namespace: c.Namespace, Job: "settle", Partition: "2026-09-16", As: onerun.Skipped, Who: who})
	must("resolve", err)
	must("pause", s.Pause(soon(t), onerun.PauseRequest{Namespace: c.Namespace, Job: "settle", Who: who}))
	must("resume", s.Resume(soon(t), onerun.PauseRequest{Namespace: c.Namespace, Job: "settle", Who: who}))
	p, err := s.Prune(soon(t), onerun.PruneRequest{Namespace: c.Namespace, Before: time.Now().Add(time.Hour), Who: who})
	if must("prune", err); p.Keys != 1 {
		t.Errorf("prune: %+v", p)
	}
	run = detail(t, s, run.RunID).Run
	_, err = s.Approve(soon(t), onerun.ApprovalRequest{Namespace: c.Namespace, RunID: run.RunID, Expect: onerun.Expected(run), Who: who})
	must("approve what was pruned", err)
	_, err = s.Size(soon(t))
	must("size", err)
	_, err = s.Locks(soon(t), c.Namespace)
	must("locks", err)
	_, err = direct(t, url).Exec(soon(t), "UPDATE "+schema+".onerun_event SET reason = 'another'")
	if err == nil {
		t.Error("the role may change the journal")
	}
	mustExec(t, admin, "UPDATE "+schema+".onerun_schema SET version = 0")
	_, _, err = open(t, url).Migrate(soon(t))
	told(t, "migrate", err, onerun.ErrPermission, "permission denied")
}

// TestMigratedByAnother: whoever brings a schema up, it stays its owner's, and who may claim may
// do the rest of it, also where a database's functions aren't everybody's.
func TestMigratedByAnother(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	admin := direct(t, server.URL("postgres"))
	mustExec(t, admin, "CREATE DATABASE hardened")
	inside := direct(t, server.URL("hardened"))
	mustExec(t, inside, fmt.Sprintf(`CREATE ROLE landlord LOGIN PASSWORD '%s'; CREATE ROLE tenant LOGIN PASSWORD '%[1]s';
		ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC; ALTER DEFAULT PRIVILEGES FOR ROLE landlord REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
		CREATE SCHEMA onerun AUTHORIZATION landlord`, password))
	as := func(role string) *postgres.Store {
		return open(t, pgbed.URLAs(server.Port, role, password, "hardened", "schema", "onerun"))
	}
	own, let := as("landlord"), as("tenant")
	if _, _, err := own.Migrate(soon(t)); err != nil {
		t.Fatal(err)
	}
	mustExec(t, inside, strings.ReplaceAll(grants, "batch;", "tenant;")+"; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA onerun TO tenant")
	before := granted(t, let, claimOf("settle", "2026-09-15"))
	// As it was before the last step.
	mustExec(t, inside, "DROP TABLE onerun.onerun_waiter, onerun.onerun_note CASCADE; DROP FUNCTION onerun.onerun_settle CASCADE; UPDATE onerun.onerun_schema SET version = 1")
	if from, _, err := open(t, server.URL("hardened", "schema", "onerun")).Migrate(soon(t)); err != nil || from != 1 {
		t.Fatalf("migrate from %d: %v", from, err)
	}
	succeed(t, let, before)
	for _, s := range []*postgres.Store{own, let} {
		succeed(t, s, granted(t, s, claimOf("settle", onerun.NewID())))
	}
}
