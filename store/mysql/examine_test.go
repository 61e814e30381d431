package mysql_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/mariadbbed"
	"github.com/onerun-dev/onerun/store/mysql"
)

// found is how a check turned out, and what it said.
func found(t testing.TB, s *mysql.Store, check string) onerun.Finding {
	t.Helper()
	all, err := s.Examine(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.Check == check {
			return f
		}
	}
	t.Fatalf("%s wasn't looked at: %v", check, all)
	return onerun.Finding{}
}

func expectFinding(t testing.TB, s *mysql.Store, check string, status onerun.FindingStatus, words string) {
	t.Helper()
	if f := found(t, s, check); f.Status != status || !strings.Contains(f.Evidence, words) {
		t.Errorf("%s: expected %s with %q, got %s: %s", check, status, words, f.Status, f.Evidence)
	}
}

// TestExamine: each setting that decides whether the promises hold, right and wrong.
func TestExamine(t *testing.T) {
	t.Parallel()
	server := ownServer(t, "--log-bin", "--sync-binlog=1", "--binlog-format=ROW")
	s, url := freshOn(t, server)
	db := direct(t, url)
	succeed(t, s, granted(t, s, claimOf("settle", "2026-09-15")))
	who := onerun.Who{By: "ana@web1", Reason: "a test"}
	for _, job := range []string{"settle", "report"} {
		if err := s.Pause(soon(t), onerun.PauseRequest{Namespace: onerun.DefaultNamespace, Job: job, Who: who}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.Examine(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.Status != onerun.FindingOK {
			t.Errorf("a good server: %s is %s: %s", f.Check, f.Status, f.Evidence)
		}
	}
	for _, c := range []struct {
		wrong, right, check string
		status              onerun.FindingStatus
		words               string
	}{
		{"SET GLOBAL innodb_flush_log_at_trx_commit = 2", "SET GLOBAL innodb_flush_log_at_trx_commit = 1", "durability", onerun.FindingDanger, "innodb_flush_log_at_trx_commit is 2"},
		{"SET GLOBAL sync_binlog = 0", "SET GLOBAL sync_binlog = 1", "durability", onerun.FindingWarning, "sync_binlog is 0"},
		{"SET GLOBAL binlog_format = 'STATEMENT'", "SET GLOBAL binlog_format = 'ROW'", "durability", onerun.FindingDanger, "STATEMENT"},
		{"SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0", "primary", onerun.FindingDanger, "read-only"},
		{"SET GLOBAL wait_timeout = 5", "SET GLOBAL wait_timeout = 28800", "timeouts", onerun.FindingWarning, "wait_timeout is 5"},
		{"SET GLOBAL max_allowed_packet = 1048576", "SET GLOBAL max_allowed_packet = 16777216", "timeouts", onerun.FindingWarning, "max_allowed_packet is 1048576"},
		{"SET GLOBAL max_connections = 10", "SET GLOBAL max_connections = 600", "connections", onerun.FindingOK, "of 10"},
		{"UPDATE onerun_event SET reason = 'another' WHERE job = 'settle'", "UPDATE onerun_event SET reason = 'a test' WHERE job = 'settle'", "event-chain", onerun.FindingDanger, "settle"},
		{"ALTER TABLE onerun_skip ENGINE=Aria", "ALTER TABLE onerun_skip ENGINE=InnoDB ROW_FORMAT=DYNAMIC", "tables", onerun.FindingDanger, "onerun_skip is Aria"},
		{"SET GLOBAL rpl_semi_sync_master_enabled = 1", "SET GLOBAL rpl_semi_sync_master_enabled = 0", "replicas", onerun.FindingWarning, "no replica takes part"},
		{"UPDATE onerun_schema SET version = 7", "UPDATE onerun_schema SET version = 2", "schema", onerun.FindingDanger, "version 7"},
	} {
		mustExec(t, db, c.wrong)
		expectFinding(t, s, c.check, c.status, c.words)
		mustExec(t, db, c.right)
	}
	g := granted(t, s, claimOf("sweep", ""))
	mustExec(t, db, "UPDATE onerun_lock SET expires_at = 1 WHERE owner IS NOT NULL")
	expectFinding(t, s, "stale-runs", onerun.FindingWarning, "sweep")
	lease := g.Lease
	succeed(t, s, onerun.Grant{Lease: lease})

	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(secret), 0o640); err != nil {
		t.Fatal(err)
	}
	byFile := open(t, fmt.Sprintf("mysql://few@127.0.0.1:%d/d?password_file=%s", server.Port, file))
	expectFinding(t, byFile, "password-file", onerun.FindingWarning, "0640")
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	expectFinding(t, byFile, "password-file", onerun.FindingOK, file)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	expectFinding(t, byFile, "password-file", onerun.FindingDanger, "no such file")
	mustExec(t, db, fmt.Sprintf("CREATE USER few IDENTIFIED BY '%s'; GRANT SELECT ON %s.* TO few", secret, database(url)))
	few := open(t, mariadbbed.URLAs(server.Port, "few", secret, database(url)))
	expectFinding(t, few, "privileges", onerun.FindingDanger, "lacks INSERT, UPDATE, DELETE")
	expectFinding(t, open(t, mariadbbed.URLAs(server.Port, "few", "wrong", database(url))), "connection", onerun.FindingDanger, "Access denied")
}

// database is the one that a URL names.
func database(url string) string {
	_, rest, _ := strings.Cut(strings.TrimPrefix(url, "mysql://"), "/")
	name, _, _ := strings.Cut(rest, "?")
	return name
}
