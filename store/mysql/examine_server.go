package mysql

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/onerun-dev/onerun"
)

func (x *examination) server() {
	const check = "server"
	version := x.global("version")
	if oldest, ok := recent(version); !ok {
		x.add(check, onerun.FindingDanger, fmt.Sprintf("version %s; %s is the oldest that does", version, oldest), "use a newer server")
		return
	}
	x.add(check, onerun.FindingOK, version, "")
}

// primary looks whether this server may be written to, and by whom else.
func (x *examination) primary() {
	const check = "primary"
	if x.on("read_only") || x.on("super_read_only") {
		x.add(check, onerun.FindingDanger, "this server is read-only, a replica perhaps: it refuses every start, or takes claims that the primary knows nothing of", "name the primary in the store's URL")
	}
	if x.on("wsrep_on") {
		x.add(check, onerun.FindingDanger, "this server is a node of a Galera cluster, whose nodes don't wait for each other's row locks: starts that ask two nodes can both be granted",
			"let every onerun ask the same node: one host in the store's URL, or a proxy that writes to one")
	}
	x.fine(check, "this server may be written to")
	x.replicas()
}

// replicas looks at what a failover would lose.
func (x *examination) replicas() {
	const check = "replicas"
	semi := x.on("rpl_semi_sync_master_enabled") || x.on("rpl_semi_sync_source_enabled")
	var n int
	err := x.in(func(t *tx) error {
		return t.row("SELECT COUNT(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'").Scan(&n)
	})
	switch {
	case !x.unless(err, check):
	case semi && x.semiSync("clients") == "0":
		x.add(check, onerun.FindingWarning, "replication is semi-synchronous, and no replica takes part in it: commits wait for none, or only until a timeout, and a failover can lose the last moments",
			"turn on rpl_semi_sync_slave_enabled (rpl_semi_sync_replica_enabled) on the replicas, and restart their replication")
	case semi && strings.EqualFold(x.semiSync("status"), "OFF"):
		x.add(check, onerun.FindingWarning, "replication is semi-synchronous by its settings, and asynchronous at the moment, since no replica answered in time: a failover can lose the last moments",
			"look at the replicas")
	case semi:
		x.add(check, onerun.FindingOK, fmt.Sprintf("%d replicas are seen, and replication is semi-synchronous: a failover keeps what was acknowledged, unless the wait for a replica timed out", n), "")
	case n > 0:
		x.add(check, onerun.FindingWarning, fmt.Sprintf("%d replicas follow asynchronously: a failover can lose the last moments: a claim, and two jobs run at once until the first hears of it, or a SUCCEEDED, and its date runs again", n),
			"make replication semi-synchronous; or after a failover look at what ran last before starts go on")
	case x.on("log_bin"):
		x.add(check, onerun.FindingOK, "none is seen (an account without the right PROCESS sees none); a failover to one that follows asynchronously would lose the last moments", "")
	default:
		x.add(check, onerun.FindingOK, "there is no binary log, so nothing follows: this server's disk alone keeps the ledger", "")
	}
}

// durability looks at what decides whether the server keeps what it acknowledged.
func (x *examination) durability() {
	const check = "durability"
	flush := x.global("innodb_flush_log_at_trx_commit")
	switch flush {
	case "1", "3": // 3 is MariaDB's, and stricter
	default:
		x.add(check, onerun.FindingDanger, "innodb_flush_log_at_trx_commit is "+flush+": a crash can lose what was acknowledged: a claim, and two jobs run at once, or a SUCCEEDED, and its date runs again",
			"SET GLOBAL innodb_flush_log_at_trx_commit = 1, and in the server's configuration")
	}
	if sync := x.global("sync_binlog"); x.on("log_bin") && sync != "1" {
		x.add(check, onerun.FindingWarning, "sync_binlog is "+sync+": after a crash of the server's machine replicas, or a restored backup, can lack what this server has", "SET GLOBAL sync_binlog = 1, and in the server's configuration")
	}
	if v := x.global("innodb_doublewrite"); strings.EqualFold(v, "OFF") {
		x.add(check, onerun.FindingWarning, "innodb_doublewrite is OFF: where the file system can write half a page, a crash of the server's machine can destroy the ledger", "turn it on, unless the file system writes pages as a whole")
	}
	if x.on("log_bin") && strings.EqualFold(x.global("binlog_format"), "STATEMENT") {
		x.add(check, onerun.FindingDanger, "binlog_format is STATEMENT, with which InnoDB refuses every write in READ COMMITTED: every start fails", "SET GLOBAL binlog_format = 'ROW', and in the server's configuration")
	}
	x.fine(check, "innodb_flush_log_at_trx_commit is "+flush+": what was acknowledged outlasts a crash")
}

// session looks at what a session of the store's has, whatever the server's defaults are.
func (x *examination) session() {
	const check = "session"
	mode := x.settings["SESSION sql_mode"]
	for _, want := range []string{"STRICT_ALL_TABLES", "ANSI_QUOTES"} {
		if !strings.Contains(mode, want) {
			x.add(check, onerun.FindingDanger, "a session's sql_mode is "+mode+", though it asked for "+want+": something between onerun and the server changes it", "look at the proxy, and at init_connect on the server")
		}
	}
	if zone := x.settings["SESSION time_zone"]; zone != "+00:00" {
		x.add(check, onerun.FindingWarning, "a session's time zone is "+zone+", though it asked for another: something between onerun and the server changes it; no decision goes by it", "look at the proxy, and at init_connect on the server")
	}
	isolation := x.global("transaction_isolation")
	if isolation == "" {
		isolation = x.global("tx_isolation")
	}
	x.fine(check, fmt.Sprintf("default isolation %s, time zone %s; neither decides anything here: each transaction says its own, and times are numbers", isolation, x.global("time_zone")))
}

// limits looks at what could keep a start from being asked, or an end from being recorded.
func (x *examination) limits() {
	const check = "connections"
	most, used := x.number("max_connections"), int64(0)
	err := x.in(func(t *tx) error {
		var name string
		return t.row("SHOW GLOBAL STATUS LIKE 'Threads_connected'").Scan(&name, &used)
	})
	if x.unless(err, check) {
		if used*10 > most*8 {
			x.add(check, onerun.FindingWarning, fmt.Sprintf("%d of %d connections are taken: a start that gets none is an error", used, most), "raise max_connections, or look who has them: SHOW PROCESSLIST")
		}
		x.fine(check, fmt.Sprintf("%d of %d are taken", used, most))
	}
	if wait := x.number("wait_timeout"); wait < 30 {
		x.add("timeouts", onerun.FindingWarning, fmt.Sprintf("wait_timeout is %d: a connection hardly outlasts the time between two heartbeats, and is made anew for each", wait), "raise wait_timeout to a minute or more")
	}
	if packet := x.number("max_allowed_packet"); packet < 2*onerun.MaxOutput {
		x.add("timeouts", onerun.FindingWarning, fmt.Sprintf("max_allowed_packet is %d: an end whose output is larger is recorded without it", packet), fmt.Sprintf("raise max_allowed_packet to %d or more", 2*onerun.MaxOutput))
	}
	x.fine("timeouts", "wait_timeout and max_allowed_packet leave room")
}

// semiSync is what a primary tells of semi-synchronous replication; "": nothing. MySQL has a newer word for it.
func (x *examination) semiSync(what string) (value string) {
	for _, role := range []string{"master", "source"} {
		err := x.in(func(t *tx) error {
			var name string
			return t.row("SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_"+role+"_"+what+"'").Scan(&name, &value)
		})
		if err == nil {
			return value
		}
	}
	return ""
}

// tables looks whether all tables are of the engine that keeps what it acknowledged.
func (x *examination) tables() {
	const check = "tables"
	var other []string
	err := x.in(func(t *tx) error {
		other = nil
		return t.each(func(scan func(...any) error) error {
			var name, engine string
			err := scan(&name, &engine)
			other = append(other, name+" is "+engine)
			return err
		}, "SELECT table_name, engine FROM information_schema.tables WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' AND table_name LIKE 'onerun\\_%' AND engine <> 'InnoDB'")
	})
	switch {
	case !x.unless(err, check):
	case len(other) > 0:
		x.add(check, onerun.FindingDanger, strings.Join(other, ", ")+": such a table knows no transactions, so that half of a claim can stand, and a crash can lose what was acknowledged",
			"ALTER TABLE … ENGINE=InnoDB ROW_FORMAT=DYNAMIC, for each")
	default:
		x.add(check, onerun.FindingOK, "all are InnoDB's", "")
	}
}

func (x *examination) number(name string) int64 {
	n, _ := strconv.ParseInt(x.global(name), 10, 64) // what is no number limits nothing that is known here
	return n
}
