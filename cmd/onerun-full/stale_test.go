package main_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/pgbed"
	"github.com/onerun-dev/onerun/store/postgres"
)

// TestStaleSessions: a suspect's connections to the store's server are shown beside it, as far
// as the server tells of them; and where it doesn't the suspect is still shown.
func TestStaleSessions(t *testing.T) {
	server := server(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	url := server.URL("postgres")
	h := newHost(t, url)
	s, err := postgres.Open(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	g, err := s.Claim(ctx, onerun.Claim{
		Namespace: onerun.DefaultNamespace, Job: "settle", Partition: "2026-09-15", Lock: onerun.JobLock("settle"), Owner: onerun.NewID(),
		RunID: onerun.NewRunID(time.Now()), Policy: onerun.Policy{TTL: onerun.MinTTL, OnCrash: onerun.CrashManual},
	})
	if err != nil {
		t.Fatal(err)
	}
	job, err := pgx.Connect(ctx, url+"&application_name=onerun/"+g.Lease.RunID)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = job.Close(ctx) }()
	if _, err := job.Exec(ctx, "BEGIN; UPDATE onerun_run SET labels = NULL WHERE 'password=hunter2' = ''", pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	stale := func(args ...string) (string, string) {
		r := h.run(append([]string{"stale", "--store", url}, args...)...).exits(t, 0)
		return r.out, r.err
	}
	for text := "no suspects\n"; text == "no suspects\n"; { // until the lease is over
		if text, _ = stale(); ctx.Err() != nil {
			t.Fatal("the run is no suspect after a minute")
		}
	}
	text, errs := stale()
	for _, want := range []string{"settle:2026-09-15  ", "its lease ran out", "\n\nSESSION OF", "idle in transaction", "Client/ClientRead", "password=***"} {
		if !strings.Contains(text, want) {
			t.Errorf("expected %q in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "hunter2") || errs != "" {
		t.Errorf("told:\n%s%s", text, errs)
	}
	text, _ = stale("--json", "settle")
	var views []struct {
		RunID    string `json:"run_id"`
		Sessions []struct {
			PID   int
			State *string
			Since *time.Time
			Wait  *string
			Query *string
		}
	}
	if err := json.Unmarshal([]byte(text), &views); err != nil || len(views) != 1 || views[0].RunID != g.Lease.RunID {
		t.Fatalf("%v: %s", err, text)
	}
	found := false
	for _, x := range views[0].Sessions {
		if x.PID != int(job.PgConn().PID()) {
			continue
		}
		found = true
		if *x.State != "idle in transaction" || time.Since(*x.Since) > time.Minute || *x.Wait != "Client/ClientRead" || !strings.HasPrefix(*x.Query, "BEGIN; UPDATE onerun_run") {
			t.Errorf("the job's session: %s", text)
		}
	}
	if !found {
		t.Errorf("session %d is not among those of the run: %s", job.PgConn().PID(), text)
	}

	// The server says no more than that they are there.
	if _, err := job.Exec(ctx, "ROLLBACK; REVOKE EXECUTE ON FUNCTION pg_stat_get_activity(integer) FROM PUBLIC; CREATE ROLE guest LOGIN PASSWORD '"+pgbed.Password+
		"'; GRANT SELECT ON ALL TABLES IN SCHEMA public TO guest", pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	url = pgbed.URLAs(server.Port, "guest", pgbed.Password, "postgres")
	text, errs = stale()
	if !strings.Contains(text, "its lease ran out") || strings.Contains(text, "SESSION OF") {
		t.Errorf("without a right to see the sessions:\n%s", text)
	}
	if !strings.Contains(errs, "the sessions of the suspects can't be told") || strings.Count(errs, "\n") != 1 {
		t.Errorf("what is said of that: %q", errs)
	}
}
