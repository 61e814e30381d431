package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun/internal/pgbed"
	"github.com/onerun-dev/onerun/store/postgres"
)

// asVersion1 makes a schema what version 1 had made: without what came later, and with the
// function that could not be replaced.
const asVersion1 = `DROP TABLE onerun_waiter, onerun_note CASCADE;
DROP INDEX onerun_run_status, onerun_run_job;
CREATE INDEX onerun_run_status ON onerun_run (status, namespace, started_at, run_id);
CREATE INDEX onerun_run_job ON onerun_run (namespace, job, status, started_at, run_id);
ALTER TABLE onerun_tombstone DROP CONSTRAINT onerun_tombstone_pkey, ADD PRIMARY KEY (namespace, key);
DROP FUNCTION onerun_settle(onerun_lock, jsonb, timestamptz);
CREATE FUNCTION onerun_settle(l onerun_lock, p_dead jsonb, p_now timestamptz, OUT freed boolean, OUT closed jsonb)
	LANGUAGE plpgsql VOLATILE AS 'BEGIN END';
CREATE OR REPLACE FUNCTION onerun_free(p_namespace text, p_lock text, p_owner text) RETURNS void LANGUAGE sql VOLATILE AS '';
CREATE OR REPLACE FUNCTION onerun_version() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 1';
UPDATE onerun_schema SET version = 1`

// TestUpgrade: a newer program brings the schema up while a job runs, and the role that the
// job has, with the rights that it was granted on the version before, records its end and
// waits for locks.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	owner, url := fresh(t)
	schema := schemaOf(url)
	running := granted(t, owner, claimOf("report", "")) // as an older program would have it
	admin := direct(t, url)
	mustExec(t, admin, "SELECT set_config('search_path', $1, false)", schema)
	for _, q := range strings.Split(asVersion1, ";\n") {
		mustExec(t, admin, q)
	}
	role := "old_" + schema
	mustExec(t, admin, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", role, password))
	mustExec(t, admin, strings.NewReplacer("SCHEMA onerun", "SCHEMA "+schema, "onerun.", schema+".", "batch;", role+";").Replace(grants))
	if from, to, err := owner.Migrate(soon(t)); err != nil || from != 1 || to != postgres.Steps {
		t.Fatalf("migrate: from %d to %d, %v", from, to, err)
	}
	s := open(t, pgbed.URLAs(server.Port, role, password, "postgres", "schema", schema))
	if _, err := s.Heartbeat(soon(t), running.Lease); err != nil {
		t.Errorf("a heartbeat after the migration: %v", err)
	}
	succeed(t, s, running)
	c := claimOf("settle", "2026-09-15")
	g := granted(t, s, c)
	next := claims(t, s, fifo(claimOf("settle", "2026-09-16")))
	stands(t, url, c.Lock, 1)
	succeed(t, s, g)
	succeed(t, s, next(t))
}
