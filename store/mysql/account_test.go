package mysql_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/mariadbbed"
	"github.com/onerun-dev/onerun/store/mysql"
)

// told expects an error of a kind, on one line, that says some words and holds no password.
func told(t testing.TB, what string, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: expected %v, got: %v", what, kind, err)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q isn't said: %v", what, w, err)
		}
	}
	if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), mariadbbed.Password) {
		t.Errorf("%s: more than one line, or a password: %v", what, err)
	}
}

// secret is in every password of these tests.
const secret = "wr0ng"

// TestRotatedPassword: a password that is replaced while a store is in use. A new connection is
// refused until the file says the new one, and then works without the program being started anew.
func TestRotatedPassword(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	_, admin := fresh(t)
	db := direct(t, admin)
	database := strings.TrimPrefix(regexp.MustCompile(`/d\d+`).FindString(admin), "/")
	account := "rotating_" + database
	first, second := secret+"-first", secret+"-second"
	mustExec(t, db, fmt.Sprintf("CREATE USER %s IDENTIFIED BY '%s'; GRANT SELECT, INSERT, UPDATE, DELETE ON %s.* TO %[1]s", account, first, database))
	file := filepath.Join(t.TempDir(), "password")
	keep := func(password string) {
		if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keep(first)
	url := strings.Replace(mariadbbed.URLAs(server.Port, account, "", database, "password_file", file, "pool_max_conns", "1"), ":@", "@", 1)
	s := open(t, url)
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	mustExec(t, db, fmt.Sprintf("SET PASSWORD FOR %s = PASSWORD('%s')", account, second))
	if _, err := s.Heartbeat(soon(t), g.Lease); err != nil {
		t.Errorf("a connection that was there before: %v", err)
	}
	mustExec(t, db, "KILL USER "+account)
	_, err := s.Heartbeat(soon(t), g.Lease)
	told(t, "a new connection", err, onerun.ErrPermission, "Access denied", account, "password")
	keep(second)
	if _, err := s.Heartbeat(soon(t), g.Lease); err != nil {
		t.Errorf("a new connection when the file is right again: %v", err)
	}
	mustExec(t, db, "KILL USER "+account)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	succeed(t, s, g) // by the password that worked
	_, err = mysql.Open(soon(t), url)
	told(t, "a new program without the file", err, onerun.ErrConfig, file, "password_file")
}

// grants are what the guide says that an account needs, of a kind.
func grants(t testing.TB, kind, database, account string) []string {
	t.Helper()
	guide, err := os.ReadFile("../../docs/stores/mysql.md")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, line := range regexp.MustCompile(`(?m)^GRANT .*`).FindAllString(string(guide), -1) {
		if strings.Contains(line, "'"+kind+"'@") {
			line = strings.ReplaceAll(strings.ReplaceAll(line, "onerun.*", database+".*"), "'"+kind+"'@'%'", account)
			out = append(out, strings.TrimSuffix(line, ";"))
		}
	}
	if len(out) == 0 {
		t.Fatalf("the guide grants nothing to %s", kind)
	}
	return out
}

// TestLeastPrivileges: what the guide lists is enough: for the account that brings the schema up,
// and for the one that works with it; and no less is.
func TestLeastPrivileges(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	database := newDatabase(t, server)
	db := direct(t, server.URL(database))
	as := func(kind, account string) *mysql.Store {
		mustExec(t, db, fmt.Sprintf("CREATE USER %s IDENTIFIED BY '%s'", account, secret))
		for _, g := range grants(t, kind, database, account) {
			mustExec(t, db, g)
		}
		return open(t, mariadbbed.URLAs(server.Port, account, secret, database))
	}
	worker := as("onerun", "worker_"+database)
	_, err := worker.Claim(soon(t), claimOf("settle", "2026-09-15"))
	told(t, "the first start without a schema", err, onerun.ErrPermission, "CREATE", "docs/stores/mysql.md")
	if _, _, err := as("onerun_admin", "admin_"+database).Migrate(soon(t)); err != nil {
		t.Fatalf("migrate: %v", err)
	}

	g := granted(t, worker, claimOf("settle", "2026-09-15"))
	who := onerun.Who{By: "ana@web1", Reason: "a test"}
	tx, err := direct(t, server.URL(database)).BeginTx(soon(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if first, err := worker.Item(soon(t), tx, g.Lease, "one", ""); err != nil || !first {
		t.Errorf("item: %t, %v", first, err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	refused(t, worker, again(claimOf("settle", "2026-09-15")), onerun.RefusedRunning)
	if err := worker.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded, Output: &onerun.Output{Text: "done", Total: 4}}); err != nil {
		t.Errorf("finish: %v", err)
	}
	run := detail(t, worker, g.Lease.RunID).Run
	if _, err := worker.Approve(soon(t), onerun.ApprovalRequest{Namespace: run.Namespace, RunID: run.RunID, Expect: onerun.Expected(run), Who: who}); err != nil {
		t.Errorf("approve: %v", err)
	}
	succeed(t, worker, granted(t, worker, again(claimOf("settle", "2026-09-15"))))
	if err := worker.Pause(soon(t), onerun.PauseRequest{Namespace: run.Namespace, Job: "settle", Who: who}); err != nil {
		t.Errorf("pause: %v", err)
	}
	if _, err := worker.Prune(soon(t), onerun.PruneRequest{Namespace: run.Namespace, Oldest: true, Limit: 10, Who: who}); err != nil {
		t.Errorf("prune: %v", err)
	}
	if _, err := worker.Size(soon(t)); err != nil {
		t.Errorf("size: %v", err)
	}
	mustExec(t, db, fmt.Sprintf("REVOKE INSERT ON %s.* FROM worker_%[1]s; KILL USER worker_%[1]s", database))
	_, err = worker.Claim(soon(t), claimOf("other", ""))
	told(t, "a claim without INSERT", err, onerun.ErrPermission, "INSERT", "docs/stores/mysql.md")
}

// TestErrors: what is wrong with the server or the URL is told on one line, in its kind, and no
// password is in it.
func TestErrors(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	port, err := mariadbbed.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		url   string
		kind  error
		words string
	}{
		"nobody listens":   {mariadbbed.URLAs(port, "keeper", secret, "x"), onerun.ErrUnavailable, "refused"},
		"no such database": {server.URL("nowhere"), onerun.ErrConfig, "nowhere"},
		"a wrong password": {mariadbbed.URLAs(server.Port, "keeper", secret, "mysql"), onerun.ErrPermission, "Access denied"},
		"no TLS there":     {server.URL("mysql", "tls", "require"), onerun.ErrConfig, "tls=disable"},
	} {
		s := open(t, c.url)
		_, err := s.Claim(soon(t), claimOf("settle", ""))
		told(t, what, err, c.kind, c.words)
		_, err = s.Heartbeat(soon(t), onerun.Lease{Namespace: "x", Lock: "job/x", Owner: "x"})
		told(t, what+", heartbeat", err, c.kind, c.words)
	}
	for what, url := range map[string]string{
		"no scheme":           "keeper:wr0ng@h/db",
		"no host":             "mysql://keeper:wr0ng@/db",
		"a driver's form":     "mysql://keeper:wr0ng@tcp(h)/db",
		"no database":         "mysql://keeper:wr0ng@h",
		"no user":             "mysql://h/db",
		"a slash in it":       "mysql://keeper:wr0ng/2@h/db",
		"an unknown one":      "mysql://keeper:wr0ng@h/db?sslmode=require",
		"a ? in it":           "mysql://keeper:1?wr0ng@h/db",
		"two passwords":       "mysql://keeper:wr0ng@h/db?password_file=/x",
		"a host and a socket": "mysql://keeper:wr0ng@h/db?socket=/x",
		"too large a port":    "mysql://keeper:wr0ng@h:99999/db",
		"port 0":              "mysql://keeper:wr0ng@h:0/db",
		"two hosts":           "mysql://keeper:wr0ng@h1:1,h2:2/db",
		"no such TLS":         "mysql://keeper:wr0ng@h/db?tls=yes",
		"half a certificate":  "mysql://keeper:wr0ng@h/db?tls_cert=/x",
		"a size of none":      "mysql://keeper:wr0ng@h/db?pool_max_conns=0",
	} {
		_, err := mysql.Open(soon(t), url)
		told(t, what, err, onerun.ErrUsage, "mysql://USER@HOST:PORT/DATABASE")
	}
	if name := open(t, "mysql://keeper:wr0ng@h/db").Name(); name != "mysql://h:3306/db" {
		t.Errorf("its name: %s", name)
	}
}

// TestEmptyPasswordFile: a file that holds no password is a mistake of the configuration, and not a
// password that is refused.
func TestEmptyPasswordFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "password")
	for _, text := range []string{"", "\n", "\r\nsecond\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := mysql.Open(soon(t), "mysql://keeper@127.0.0.1:1/db?password_file="+path)
		if err == nil {
			_, err = s.Claim(soon(t), claimOf("settle", ""))
			_ = s.Close()
		}
		told(t, "a file of "+strconv.Quote(text), err, onerun.ErrConfig, path, "first line is empty")
	}
}
