package postgres_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/onerun-dev/onerun"
)

// rotating is a role whose password changes, with a password file.
type rotating struct {
	t    testing.TB
	role string
	file string
}

func newRotating(t testing.TB, file string) *rotating {
	t.Helper()
	r := &rotating{t: t, role: "role_" + newSchema(), file: file}
	mustExec(t, direct(t, sharedServer(t).URL("postgres")), fmt.Sprintf("CREATE ROLE %s LOGIN; GRANT CREATE ON DATABASE postgres TO %[1]s", r.role))
	return r
}

// server gives the role a password, keep writes one into the file.
func (r *rotating) server(password string) {
	r.t.Helper()
	mustExec(r.t, direct(r.t, sharedServer(r.t).URL("postgres")), fmt.Sprintf("ALTER ROLE %s PASSWORD '%s'", r.role, password))
}

func (r *rotating) keep(password string) {
	r.t.Helper()
	line := fmt.Sprintf("# the store's\n127.0.0.1:%d:*:%s:%s\n", sharedServer(r.t).Port, r.role, password)
	must(r.t, os.WriteFile(r.file, []byte(line), 0o600), "write a password file")
}

// disconnect ends the role's sessions, so that the next question needs a new one.
func (r *rotating) disconnect() {
	r.t.Helper()
	mustExec(r.t, direct(r.t, sharedServer(r.t).URL("postgres")), "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = $1", r.role)
}

// TestPasswordFile: a password that is replaced while a store is in use. The connections
// that are there go on; a new one is refused until the file says the new password, and then
// works without the program being started anew.
func TestPasswordFile(t *testing.T) {
	t.Parallel()
	r := newRotating(t, filepath.Join(t.TempDir(), "passwords"))
	url := secureURL(sharedServer(t).Port, "127.0.0.1", r.role, "", "sslmode", "disable", "passfile", r.file, "schema", newSchema())
	s := open(t, url)
	_, err := s.Claim(soon(t), claimOf("settle", "2026-09-15"))
	told(t, "without a password", err, onerun.ErrPermission, "password", r.role)

	const first, second = "wr0ng-later", "wr0ng-before" // as told looks for them
	r.server(first)
	r.keep(first)
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	r.server(second)
	if _, err := s.Heartbeat(soon(t), g.Lease); err != nil {
		t.Errorf("a connection that was there before: %v", err)
	}
	r.disconnect()
	_, err = s.Heartbeat(soon(t), g.Lease)
	told(t, "a new connection", err, onerun.ErrPermission, "password authentication failed", r.role, "password file")
	_, err = open(t, url).Claim(soon(t), claimOf("settle", "2026-09-16"))
	told(t, "a new program", err, onerun.ErrPermission, "password authentication failed", r.role)
	r.keep(second)
	if _, err := s.Heartbeat(soon(t), g.Lease); err != nil {
		t.Errorf("a new connection when the file is right again: %v", err)
	}
	later := open(t, url)
	must(t, os.Remove(r.file), "remove the password file")
	r.disconnect()
	succeed(t, later, g) // with what it read when it was opened
}

// TestHomePasswordFile is the same of the file in the account's home, which is read when
// nothing names another.
func TestHomePasswordFile(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("PGPASSFILE", "")
	must(t, os.Unsetenv("PGPASSFILE"), "forget another password file")
	r := newRotating(t, filepath.Join(home, ".pgpass"))
	r.server("first")
	r.keep("first")
	s := open(t, secureURL(sharedServer(t).Port, "127.0.0.1", r.role, "", "sslmode", "disable", "schema", newSchema()))
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	r.server("second")
	r.disconnect()
	_, err := s.Heartbeat(soon(t), g.Lease)
	told(t, "an old password", err, onerun.ErrPermission, "password authentication failed")
	r.keep("second")
	succeed(t, s, g)
}
