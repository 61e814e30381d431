package postgres

import (
	_ "embed" // queries
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onerun-dev/onerun"
)

//go:embed sql/examine_settings.sql
var sqlExamineSettings string

//go:embed sql/examine_standbys.sql
var sqlExamineStandbys string

// setting is one of the server's, as a session of the role has it.
type setting struct {
	Value  string `json:"value"`
	Source string `json:"source"`
}

// server looks at what decides whether the server keeps what it acknowledged.
func (x *examination) server() {
	var text string
	var standby bool
	err := x.row(sqlExamineSettings, nil, &text)
	if err == nil {
		err = json.Unmarshal([]byte(text), &x.settings)
	}
	if err == nil {
		err = x.row("SELECT pg_is_in_recovery()", nil, &standby)
	}
	if !x.unless(err, "server") {
		return
	}
	x.add("server", onerun.FindingOK, fmt.Sprintf("PostgreSQL %s; %d and later do", x.settings["server_version"].Value, oldest/10000), "")
	switch {
	case standby:
		x.add("primary", onerun.FindingDanger, "this server is a standby: it refuses every start", "name the primary, or all hosts with target_session_attrs=read-write")
	case x.is("default_transaction_read_only", "on"):
		x.add("primary", onerun.FindingDanger, "sessions of this role may only read: every start is refused", x.change("default_transaction_read_only", "off"))
	default:
		x.add("primary", onerun.FindingOK, "this server may be written to", "")
	}
	x.durability()
	x.add("session", onerun.FindingOK, fmt.Sprintf("default isolation %s, time zone %s; neither decides anything here: each transaction says its own, and times are instants",
		x.settings["default_transaction_isolation"].Value, x.settings["TimeZone"].Value), "")
	if x.is("autovacuum", "off") || x.is("track_counts", "off") {
		x.add("autovacuum", onerun.FindingWarning, "autovacuum doesn't run: every heartbeat leaves a dead row behind, and starts become slower and slower", "turn on autovacuum and track_counts in postgresql.conf")
		return
	}
	x.add("autovacuum", onerun.FindingOK, "it runs", "")
}

func (x *examination) is(name, value string) bool { return x.settings[name].Value == value }

func (x *examination) durability() {
	const check = "durability"
	if x.is("fsync", "off") {
		x.add(check, onerun.FindingDanger, "fsync is off: a crash of the server's machine can lose what was acknowledged, and the whole database", "turn on fsync in postgresql.conf")
	}
	if x.is("full_page_writes", "off") {
		x.add(check, onerun.FindingWarning, "full_page_writes is off: where the file system can write half a page, a crash of the server's machine can destroy the ledger",
			"turn on full_page_writes in postgresql.conf, unless the file system writes pages as a whole")
	}
	if x.is("synchronous_commit", "off") {
		x.add(check, onerun.FindingWarning, "synchronous_commit is off for this role: claims, heartbeats, ends and decisions turn it on for themselves; "+
			"but a transaction of your own that was fenced, or marked an item, can be lost in a crash after it was acknowledged", x.change("synchronous_commit", "on"))
	}
	x.fine(check, fmt.Sprintf("fsync and full_page_writes are on, synchronous_commit is %s: what was acknowledged outlasts a crash", x.settings["synchronous_commit"].Value))
}

// change says how to give a setting another value, where it was set.
func (x *examination) change(name, value string) string {
	role, database := quoted(x.role), quoted(x.database)
	switch x.settings[name].Source {
	case "user":
		return fmt.Sprintf("as an administrator: ALTER ROLE %s RESET %s", role, name)
	case "database":
		return fmt.Sprintf("as an administrator: ALTER DATABASE %s RESET %s", database, name)
	case "database user":
		return fmt.Sprintf("as an administrator: ALTER ROLE %s IN DATABASE %s RESET %s", role, database, name)
	case "client":
		return fmt.Sprintf("take %s out of the store's URL, or of PGOPTIONS", name)
	}
	return fmt.Sprintf("as an administrator: ALTER ROLE %s SET %s = %s", role, name, value)
}

// standby is a server that follows this one.
type standby struct{ name, sync string }

// standbys looks at what a failover would lose.
func (x *examination) standbys() {
	const check = "standbys"
	var following []standby
	hidden := 0
	err := x.s.connected(x.ctx, func(conn *pgx.Conn) error {
		t := &tx{ctx: x.ctx, conn: conn}
		following, hidden = nil, 0
		return t.each(func(scan func(...any) error) error {
			var s standby
			var state *string
			if err := scan(&s.name, &state, &s.sync); err != nil {
				return err
			}
			if state == nil {
				hidden++
				return nil
			}
			following = append(following, s)
			return nil
		}, sqlExamineStandbys)
	})
	if !x.unless(err, check) || x.settings == nil {
		return
	}
	names, commit := x.settings["synchronous_standby_names"].Value, x.settings["synchronous_commit"].Value
	if commit == "off" {
		commit = "on" // as the store's own transactions have it
	}
	const loses = "a failover can lose the last moments: a claim, and two jobs run at once until the first hears of it, or a SUCCEEDED, and its date runs again"
	const remedy = "make a standby synchronous: synchronous_standby_names in postgresql.conf; or after a failover look at what ran last before starts go on"
	waited := slices.DeleteFunc(slices.Clone(following), func(s standby) bool { return s.sync != "sync" && s.sync != "quorum" })
	switch {
	case hidden > 0:
		x.add(check, onerun.FindingUnknown, fmt.Sprintf("this server is followed by %d, and role %s may not see how (synchronous_standby_names is %q)", hidden, x.role, names),
			"as an administrator: GRANT pg_monitor TO "+quoted(x.role)+"; or look at pg_stat_replication yourself")
	case names != "" && commit == "local":
		x.add(check, onerun.FindingWarning, "synchronous_commit is local for this role, so no commit waits for a standby: "+loses, x.change("synchronous_commit", "on"))
	case names != "" && len(waited) == 0:
		x.add(check, onerun.FindingDanger, fmt.Sprintf("synchronous_standby_names is %q, and none of them is connected: every commit waits for one, so no start gets through", names),
			"bring the standby back; or, knowing what a failover loses then, empty synchronous_standby_names and reload")
	case len(waited) > 0:
		x.add(check, onerun.FindingOK, fmt.Sprintf("%s; synchronous_commit is %s: a failover to one that is waited for keeps what was acknowledged", list(following), commit), "")
	case len(following) > 0:
		x.add(check, onerun.FindingWarning, list(following)+": "+loses, remedy)
	default:
		x.add(check, onerun.FindingOK, "none is connected: this server's disk alone keeps the ledger, and a backup that is restored knows nothing of what ran since", "")
	}
}

// list names standbys for people.
func list(all []standby) string {
	var words []string
	for i, s := range all {
		if i == most {
			words = append(words, fmt.Sprintf("and %d more", len(all)-most))
			break
		}
		words = append(words, fmt.Sprintf("standby %s is %s", s.name, map[string]string{
			"sync": "synchronous", "quorum": "one of a synchronous quorum", "potential": "asynchronous, and next to become synchronous", "async": "asynchronous",
		}[s.sync]))
	}
	return strings.Join(words, ", ")
}

// millisOf is a setting in milliseconds; 0: there is none, or it doesn't limit.
func (x *examination) millisOf(name string) time.Duration {
	n, err := strconv.ParseInt(x.settings[name].Value, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Millisecond
}
