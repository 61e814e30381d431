package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/pgbed"
	"github.com/onerun-dev/onerun/store/postgres"
	"github.com/onerun-dev/onerun/storetest"
)

// unmoved are the topics that a session's settings could move: times, isolation, and what
// is read back.
var unmoved = []string{"rows", "leases", "retries", "delivery", "kept", "reads", "transitions", "contention", "hosts", "line"}

// TestOddSettings: nothing that a role or a database sets by default for its sessions
// decides anything: neither zone nor date style, nor the isolation of transactions, nor a
// search path with a schema in it that has tables of the same names.
func TestOddSettings(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	admin := direct(t, server.URL("postgres"))
	decoy, url := fresh(t)
	_ = decoy
	mustExec(t, admin, fmt.Sprintf("CREATE ROLE odd LOGIN SUPERUSER PASSWORD '%s'", password))
	for _, set := range []string{
		"timezone = 'Europe/Amsterdam'", "datestyle = 'German, DMY'", "intervalstyle = 'sql_standard'", "default_transaction_isolation = 'serializable'",
		"extra_float_digits = -3", "bytea_output = 'escape'", "lc_messages = 'C'", "search_path = " + schemaOf(url) + ", public", "enable_indexscan = off",
		"lock_timeout = '1h'", "synchronous_commit = off", "check_function_bodies = off", "plpgsql.variable_conflict = 'use_variable'", "array_nulls = off",
	} {
		mustExec(t, admin, "ALTER ROLE odd SET "+set)
	}
	url = pgbed.URLAs(server.Port, "odd", password, "postgres", "schema", newSchema())
	for _, c := range storetest.Cases(harness(t, url, url)) {
		if topic, _, _ := strings.Cut(c.Name, "/"); !slices.Contains(unmoved, topic) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if err := c.Run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOtherIsolation: a claim is decided in READ COMMITTED even where a role begins its
// transactions otherwise: one that waited for the row of a lock goes on with what it is then,
// and isn't thrown back to ask again.
func TestOtherIsolation(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	s, url := fresh(t)
	succeed(t, s, granted(t, s, claimOf("sweep", ""))) // the lock's row is there
	role := "repeating_" + schemaOf(url)
	admin := direct(t, url)
	mustExec(t, admin, fmt.Sprintf("CREATE ROLE %s LOGIN SUPERUSER PASSWORD '%s'", role, password))
	mustExec(t, admin, "ALTER ROLE "+role+" SET default_transaction_isolation = 'repeatable read'")
	var tries atomic.Int64
	s = open(t, pgbed.URLAs(server.Port, role, password, "postgres", "schema", schemaOf(url)), postgres.WithHook(func(step string) {
		if step == "send the claim" {
			tries.Add(1)
		}
	}))
	mustExec(t, admin, "SELECT set_config('search_path', $1, false)", schemaOf(url))
	mustExec(t, admin, "BEGIN")
	mustExec(t, admin, "UPDATE onerun_lock SET token = token + 1 WHERE lock = $1", string(onerun.JobLock("sweep")))
	answered := make(chan error, 1)
	go func() {
		_, err := s.Claim(soon(t), claimOf("sweep", ""))
		answered <- err
	}()
	waitFor(t, url, "a claim that waits", "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND usename = '"+role+"')")
	mustExec(t, admin, "COMMIT")
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if n := tries.Load(); n != 1 {
		t.Errorf("the claim was sent %d times", n)
	}
}
