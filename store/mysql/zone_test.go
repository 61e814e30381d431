package mysql_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/mariadbbed"
)

// TestClockAndZone (B24): a server whose sessions are in Amsterdam, in the hour of 2024 that its
// clocks leap over, and years from this host's clock. Leases go by the server's clock alone, and
// no zone matters.
func TestClockAndZone(t *testing.T) {
	t.Parallel()
	at := time.Date(2024, 3, 31, 2, 44, 0, 123_456_000, time.UTC)
	// What a session is told as it begins holds for accounts that may not do all.
	server := ownServer(t, "--innodb-flush-log-at-trx-commit=0",
		fmt.Sprintf("--init-connect=SET timestamp = %d.%06d, time_zone = 'Europe/Amsterdam'", at.Unix(), at.Nanosecond()/1000))
	zones, err := exec.Command("/usr/bin/mariadb-tzinfo-to-sql", "/usr/share/zoneinfo/Europe/Amsterdam", "Europe/Amsterdam").Output()
	if err != nil {
		t.Fatal(err)
	}
	db := direct(t, server.URL("mysql"))
	mustExec(t, db, string(zones))
	mustExec(t, db, "CREATE DATABASE amsterdam; CREATE USER plain IDENTIFIED BY 'plain'; GRANT ALL ON amsterdam.* TO plain")
	url := mariadbbed.URLAs(server.Port, "plain", "plain", "amsterdam")
	var zone, local string
	if err := direct(t, url).QueryRowContext(soon(t), "SELECT @@time_zone, NOW(6)").Scan(&zone, &local); err != nil || zone != "Europe/Amsterdam" || local != "2024-03-31 04:44:00.123456" {
		t.Fatalf("the server isn't what this test needs: %s, %s, %v", zone, local, err)
	}
	s := open(t, url)
	c := claimOf("settle", "2024-03-30")
	c.ScheduledAt = time.Date(2024, 3, 31, 0, 30, 0, 0, time.UTC) // 01:30 there, half an hour before the leap
	g := granted(t, s, c)
	if !g.At.Equal(at) || !g.Run.LeaseExpiresAt.Equal(at.Add(c.TTL)) {
		t.Errorf("granted at %s, until %s", g.At, g.Run.LeaseExpiresAt)
	}
	beat, err := s.Heartbeat(soon(t), g.Lease)
	if err != nil || !beat.Now.Equal(at) {
		t.Errorf("heartbeat: %s, %v", beat.Now, err)
	}
	var scheduled, started, expires int64
	query := "SELECT r.scheduled_at, r.started_at, l.expires_at FROM onerun_run r JOIN onerun_lock l ON l.run_id = r.run_id"
	if err := direct(t, url).QueryRowContext(soon(t), query).Scan(&scheduled, &started, &expires); err != nil {
		t.Fatal(err)
	}
	if scheduled != c.ScheduledAt.UnixMicro() || started != at.UnixMicro() || expires != at.Add(c.TTL).UnixMicro() {
		t.Errorf("kept: %d, %d, %d", scheduled, started, expires)
	}
	var shown string
	if err := direct(t, url).QueryRowContext(soon(t), "SELECT started_at FROM batch_job_run").Scan(&shown); err != nil || shown != "2024-03-31 02:44:00.123456" {
		t.Errorf("batch_job_run shows %s, %v", shown, err)
	}
	refused(t, s, again(c), onerun.RefusedRunning)
	succeed(t, s, g)
	if r := detail(t, s, g.Lease.RunID).Run; !r.FinishedAt.Equal(at) || !r.ScheduledAt.Equal(c.ScheduledAt) {
		t.Errorf("finished at %s, scheduled for %s", r.FinishedAt, r.ScheduledAt)
	}
}

// TestNames (B22): names that another store, or another column, would take for one another.
func TestNames(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	long := strings.Repeat("x", 250)
	for what, pair := range map[string][2]string{
		"case":                        {"settle", "Settle"},
		"a space at the end":          {"settle", "settle "},
		"an accent":                   {"resume", "résumé"},
		"two forms":                   {"é", "e\u0301"},
		"equal in 250 characters":     {long + "a", long + "b"},
		"ninety and ninety-one times": {strings.Repeat("日", 90), strings.Repeat("日", 91)},
		"two hundred":                 {strings.Repeat("n", 199) + "1", strings.Repeat("n", 199) + "2"},
		"a NUL's neighbour":           {"a", "a\x01"},
	} {
		for i, c := range []onerun.Claim{claimOf("", ""), claimOf("", "")} {
			c.Lock, c.RunID = onerun.LockName("name/"+what+pair[i]), ""
			g := granted(t, s, c)
			if g.Lease.Lock != c.Lock {
				t.Errorf("%s: %q became %q", what, c.Lock, g.Lease.Lock)
			}
			refused(t, s, again2(c), onerun.RefusedLocked)
		}
	}
	locks, err := s.Locks(soon(t), onerun.DefaultNamespace)
	if err != nil || len(locks) != 16 {
		t.Errorf("%d locks, %v", len(locks), err)
	}
}

// TestOutput: an end whose text the server doesn't take is recorded without it; what it takes is
// kept, whatever is in it.
func TestOutput(t *testing.T) {
	t.Parallel()
	server := ownServer(t, "--innodb-flush-log-at-trx-commit=0", "--max-allowed-packet=1M")
	s, _ := freshOn(t, server)
	for what, text := range map[string]string{
		"odd":  strings.Repeat("a\x00b\xff'\"\\;--?\n", 64<<10/12),
		"huge": strings.Repeat("0123456789abcde\n", 3<<20/16),
	} {
		g := granted(t, s, claimOf(what, "2026-09-15"))
		o := onerun.Outcome{Status: onerun.Succeeded, Error: text, Signal: "\xff\x00", Output: &onerun.Output{Text: text, Total: int64(len(text))}}
		if err := s.Finish(soon(t), g.Lease, o); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if r := detail(t, s, g.Lease.RunID).Run; r.Status != onerun.Succeeded {
			t.Errorf("%s: it is %s", what, r.Status)
		}
		kept, err := s.Output(soon(t), onerun.DefaultNamespace, g.Lease.RunID, 1)
		if what == "odd" && (err != nil || kept.Text != onerun.CleanOutput(text)) {
			t.Errorf("%s: %d bytes kept of %d, %v", what, len(kept.Text), len(text), err)
		}
	}
}
