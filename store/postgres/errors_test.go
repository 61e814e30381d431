package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/pgbed"
	"github.com/onerun-dev/onerun/store/postgres"
)

// told checks an error for people: its kind, one line, what to do, and no password.
func told(t testing.TB, what string, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: expected an error %q, got: %v", what, kind, err)
		return
	}
	text := err.Error()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s: expected %q in: %s", what, w, text)
		}
	}
	var e *onerun.StoreError
	if !errors.As(err, &e) || e.Do == "" {
		t.Errorf("%s: it doesn't say what to do: %s", what, text)
	}
	if strings.ContainsAny(text, "\n\r") {
		t.Errorf("%s: more than one line: %q", what, text)
	}
	if strings.Contains(text, password) || strings.Contains(text, "wr0ng") {
		t.Errorf("%s: the password is in it: %s", what, text)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	nobody, err := pgbed.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	admin := direct(t, server.URL("postgres"))
	mustExec(t, admin, "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
	mustExec(t, admin, fmt.Sprintf("CREATE ROLE reader LOGIN PASSWORD '%s' SUPERUSER; ALTER ROLE reader SET default_transaction_read_only = on", password))
	mustExec(t, admin, fmt.Sprintf("CREATE ROLE stranger LOGIN PASSWORD '%s'", password))
	newer, newerURL := fresh(t)
	_ = newer
	mustExec(t, admin, "UPDATE "+schemaOf(newerURL)+".onerun_schema SET version = 99")
	mustExec(t, admin, "CREATE OR REPLACE FUNCTION "+schemaOf(newerURL)+".onerun_version() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 99'")
	for what, c := range map[string]struct {
		url   string
		kind  error
		words []string
	}{
		"a wrong password":    {pgbed.URLAs(server.Port, superuser, "wr0ng", "postgres"), onerun.ErrPermission, []string{"password authentication failed", "pg_hba.conf"}},
		"a role that isn't":   {pgbed.URLAs(server.Port, "nobody-there", password, "postgres"), onerun.ErrPermission, nil},
		"no database":         {server.URL("nowhere"), onerun.ErrConfig, []string{"nowhere", "create the database"}},
		"no server":           {pgbed.URLAs(nobody, superuser, password, "postgres"), onerun.ErrUnavailable, []string{"refused", "is the server up"}},
		"no host":             {"postgres://u:" + password + "@no-such-host.invalid/db", onerun.ErrUnavailable, []string{"no-such-host.invalid"}},
		"no answer":           {pgbed.URLAs(silent.Addr().(*net.TCPAddr).Port, superuser, password, "postgres"), onerun.ErrUnavailable, []string{"in time"}},
		"a newer schema":      {newerURL, onerun.ErrConfig, []string{"version 99", "use the newer onerun"}},
		"an encoding":         {server.URL("latin"), onerun.ErrConfig, []string{"LATIN1", "UTF8"}},
		"a standby":           {pgbed.URLAs(server.Port, "reader", password, "postgres", "schema", newSchema()), onerun.ErrUnavailable, []string{"standby", "target_session_attrs"}},
		"no schema to write":  {pgbed.URLAs(server.Port, "stranger", password, "postgres"), onerun.ErrPermission, []string{"stranger", "CREATE SCHEMA onerun AUTHORIZATION"}},
		"a name that is kept": {server.URL("postgres", "schema", "pg_onerun"), onerun.ErrConfig, []string{"pg_onerun", "name another"}},
		"no right to a store": {pgbed.URLAs(server.Port, "stranger", password, "postgres", "schema", schemaOf(newerURL)), onerun.ErrPermission, []string{"permission denied", "grant"}},
		"no right to make it": {pgbed.URLAs(server.Port, "stranger", password, "postgres", "schema", "theirs"), onerun.ErrPermission, []string{"permission denied", "grant"}},
	} {
		s, err := postgres.Open(t.Context(), c.url)
		if err != nil {
			t.Errorf("%s: open: %v", what, err)
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if what == "no answer" {
			ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
		}
		_, err = s.Claim(ctx, claimOf("settle", "2026-09-15"))
		told(t, what+", a claim", err, c.kind, c.words...)
		if what == "no answer" {
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
		}
		_, err = s.Runs(ctx, onerun.Query{Namespace: onerun.DefaultNamespace})
		told(t, what+", a listing", err, c.kind, c.words...)
		cancel()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestURLs(t *testing.T) {
	t.Parallel()
	for what, url := range map[string]string{
		"another scheme":     "mysql://u:" + password + "@h/db",
		"no scheme":          "h/db",
		"a bad port":         "postgres://u:" + password + "@h:port/db",
		"a bad number":       "postgres://u:" + password + "@h/db?pool_max_conns=many",
		"a bad mode":         "postgres://u:" + password + "@h/db?sslmode=perhaps",
		"a broken escape":    "postgres://u:" + password + "%zz@h/db",
		"an empty schema":    "postgres://u:" + password + "@h/db?schema=",
		"a long schema":      "postgres://u:" + password + "@h/db?schema=" + strings.Repeat("x", 64),
		"a schema $user":     "postgres://u:" + password + "@h/db?schema=$user",
		"a broken schema":    "postgres://u:" + password + "@h/db?schema=%zz",
		"no certificate":     "postgres://u:" + password + "@h/db?sslmode=verify-full&sslrootcert=/nowhere",
		"a misspelt one":     "postgres://u:" + password + "@h/db?sslmod=disable",
		"a ? in it":          "postgres://u:1?" + password + "@h/db",
		"a ? and an & in it": "postgres://u:1?" + password + "&" + password + "=2@h/db",
		"one of libpq alone": "postgres://u:" + password + "@h/db?keepalives=1",
		"a missing service":  "postgres://u:" + password + "@h/db?service=nowhere&servicefile=/nowhere",
	} {
		_, err := postgres.Open(t.Context(), url)
		told(t, what, err, onerun.ErrUsage, "the URL of the store")
	}
	for _, url := range []string{
		"postgres:///db?host=/run/postgresql", "postgresql://h1:5432,h2:5433/db?target_session_attrs=read-write&schema=a%20b",
		"postgres://u@h/db?passfile=/nowhere&connect_timeout=3", "postgres://u:p%3Fw@h/db?pool_max_conns=2",
	} {
		s, err := postgres.Open(t.Context(), url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestClosed: a store that its own program has closed says that, and not that its server is down.
func TestClosed(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	c := claimOf("nightly", "")
	g := granted(t, s, c)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, claimed := s.Claim(soon(t), c)
	_, beat := s.Heartbeat(soon(t), g.Lease)
	for what, err := range map[string]error{"claim": claimed, "heartbeat": beat, "finish": s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded})} {
		if !errors.Is(err, onerun.ErrClosed) || !errors.Is(err, onerun.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
