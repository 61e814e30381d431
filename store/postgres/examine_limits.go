package postgres

import (
	_ "embed" // queries
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

//go:embed sql/examine_connections.sql
var sqlExamineConnections string

// Limits that could end what the store asks. A claim waits for the row of a lock for up to
// lockTimeout, and then asks once more; a heartbeat takes a moment, but on a busy server a
// longer one.
const (
	tooShort = time.Second
	tight    = lockTimeout + time.Second

	// heartbeatEvery is when a session of a lease of the default length is used next.
	heartbeatEvery = onerun.DefaultTTL / 6
)

// timeouts looks at the server's limits of time.
func (x *examination) timeouts() {
	const check = "timeouts"
	if x.settings == nil {
		return
	}
	var told []string
	for _, name := range []string{"statement_timeout", "transaction_timeout"} {
		d := x.millisOf(name)
		switch {
		case d == 0:
			continue
		case d < tooShort:
			x.add(check, onerun.FindingDanger, fmt.Sprintf("%s is %s for this role: on a busy server it ends heartbeats, until the lease is lost and the job is stopped", name, d), x.change(name, "0"))
		case d < tight:
			x.add(check, onerun.FindingWarning, fmt.Sprintf("%s is %s for this role: a claim that waits for the row of a lock (for %s at most) is ended by it, and fails as unavailable where it should be refused",
				name, d, lockTimeout), x.change(name, "0"))
		}
		told = append(told, fmt.Sprintf("%s is %s", name, d))
	}
	if d := x.millisOf("idle_session_timeout"); d > 0 {
		if d <= heartbeatEvery {
			x.add(check, onerun.FindingWarning, fmt.Sprintf("idle_session_timeout is %s for this role: each heartbeat (every %s with the default lease) finds its session closed, and connects anew",
				d, heartbeatEvery), x.change("idle_session_timeout", "0"))
		}
		told = append(told, fmt.Sprintf("idle_session_timeout is %s", d))
	}
	for _, name := range []string{"lock_timeout", "idle_in_transaction_session_timeout"} {
		if d := x.millisOf(name); d > 0 {
			told = append(told, fmt.Sprintf("%s is %s, which each transaction sets for itself", name, d))
		}
	}
	if len(told) == 0 {
		told = append(told, "the server ends nothing that takes long")
	}
	x.fine(check, strings.Join(told, ", "))
}

// connections looks at how many more can be made.
func (x *examination) connections() {
	const check = "connections"
	const few = 10
	if x.settings == nil {
		return
	}
	var all, ofDatabase, databaseLimit, ofRole, roleLimit int64
	var super bool
	if !x.unless(x.row(sqlExamineConnections, nil, &all, &ofDatabase, &databaseLimit, &ofRole, &roleLimit, &super), check) {
		return
	}
	number := func(name string) int64 {
		n, err := strconv.ParseInt(x.settings[name].Value, 10, 64)
		if err != nil {
			return 0 // of a later version
		}
		return n
	}
	limit := number("max_connections")
	if !super {
		limit -= number("superuser_reserved_connections") + number("reserved_connections")
	}
	for _, c := range []struct {
		of          string
		used, limit int64
		unlimited   bool
	}{
		{"the server", all, limit, false},
		{"database " + x.database, ofDatabase, databaseLimit, super || databaseLimit < 0},
		{"role " + x.role, ofRole, roleLimit, super || roleLimit < 0},
	} {
		if !c.unlimited && c.limit-c.used < few {
			x.add(check, onerun.FindingWarning, fmt.Sprintf("%d of %d connections of %s are in use: each process that runs a job needs one, and a start without one fails as unavailable", c.used, c.limit, c.of),
				"allow more connections, or put a pooling proxy in front")
		}
	}
	x.fine(check, fmt.Sprintf("%d of %d connections of the server are in use", all, limit))
}
