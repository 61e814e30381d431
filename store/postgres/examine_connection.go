package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onerun-dev/onerun"
)

// passwordFile looks at who can read the password. The driver doesn't, as libpq does.
func (x *examination) passwordFile() {
	const check = "password-file"
	path := x.s.passfile
	if path == "" {
		return
	}
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && x.s.chosen:
		x.add(check, onerun.FindingWarning, path+" is named as the password file, and not there", "make it, with mode 0600, and a line HOST:PORT:DATABASE:USER:PASSWORD")
	case errors.Is(err, fs.ErrNotExist):
	case !x.unless(err, check):
	case st.Mode().Perm()&0o077 != 0:
		x.add(check, onerun.FindingWarning, fmt.Sprintf("%s has mode %04o: others can read the password", path, st.Mode().Perm()), "type: chmod 0600 "+path)
	default:
		x.add(check, onerun.FindingOK, path, "")
	}
}

// encryption says who could listen to a connection, or stand in it, that was made with a
// configuration.
func encryption(link net.Conn, c *tls.Config) onerun.Finding {
	const verified = "write ?sslmode=verify-full&sslrootcert=FILE in the store's URL"
	f := onerun.Finding{Check: "encryption", Status: onerun.FindingWarning}
	secure, encrypted := link.(*tls.Conn)
	if encrypted {
		f.Evidence = tls.VersionName(secure.ConnectionState().Version)
	}
	switch {
	case sameHost(link):
		f.Status, f.Evidence = onerun.FindingOK, "the server, or a proxy of it, is on this host"
	case !encrypted:
		f.Evidence = fmt.Sprintf("the way to %s is not encrypted: who is on it can read all that goes by, and answer in the server's place", link.RemoteAddr())
		f.Remedy = "turn on ssl on the server, and " + verified
	case c == nil || c.InsecureSkipVerify && c.VerifyPeerCertificate == nil:
		f.Evidence += ", but any certificate is taken, so another can answer in the server's place"
		f.Remedy = verified
	case c.InsecureSkipVerify:
		f.Status, f.Evidence = onerun.FindingOK, f.Evidence+", and a certificate of a known authority, whatever name is in it"
	default:
		f.Status, f.Evidence = onerun.FindingOK, f.Evidence+", and a certificate of a known authority for this name"
	}
	return f
}

// sameHost reports whether a connection doesn't leave this host.
func sameHost(c net.Conn) bool {
	remote, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return true // a socket in the file system
	}
	local, ok := c.LocalAddr().(*net.TCPAddr)
	return remote.IP.IsLoopback() || ok && remote.IP.Equal(local.IP)
}

// hosts looks at what happens after a failover.
func (x *examination) hosts() {
	const check = "hosts"
	c := x.s.pool.Config().ConnConfig
	names := map[string]bool{fmt.Sprintf("%s:%d", c.Host, c.Port): true}
	for _, f := range c.Fallbacks {
		names[fmt.Sprintf("%s:%d", f.Host, f.Port)] = true
	}
	switch {
	case len(names) > 1 && c.ValidateConnect == nil:
		x.add(check, onerun.FindingWarning, fmt.Sprintf("the store's URL names %d servers, and the first that answers is taken, a standby too, which refuses every start", len(names)),
			"add target_session_attrs=read-write to the store's URL")
	case len(names) > 1:
		x.add(check, onerun.FindingOK, fmt.Sprintf("the store's URL names %d servers; a failover is followed", len(names)), "")
	default:
		x.add(check, onerun.FindingOK, "the store's URL names one server", "")
	}
}

// proxy finds out whether a session is the store's own. A proxy gives its clients keys of
// its own to cancel by, which are those of no session, so that it shows although nobody else
// is there.
func (x *examination) proxy() {
	const check = "proxy"
	const meaning = "starts, heartbeats and ends do with that; " +
		"who waits for a lock asks again at intervals and isn't woken, and a session in pg_stat_activity bears the name of whom it served last"
	between, changes := false, false
	err := x.s.connected(x.ctx, func(conn *pgx.Conn) (err error) {
		var pid uint32
		if err := conn.QueryRow(x.ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			return &unbegun{err}
		}
		if between = pid != conn.PgConn().PID(); between {
			changes, err = x.pooled(conn)
		}
		return err
	})
	switch {
	case err != nil && errors.Is(x.s.explain("", err), onerun.ErrConfig):
		x.refused(check, err)
	case !x.unless(err, check):
	case changes:
		x.add(check, onerun.FindingOK, "a proxy stands between, and gives each transaction whichever session is free: "+meaning, "")
	case between:
		x.add(check, onerun.FindingOK, "a proxy stands between, which kept to one session while this was looked at: "+meaning, "")
	default:
		x.add(check, onerun.FindingOK, "no proxy stands between: each session is this program's own", "")
	}
}

// pooled reports whether a proxy changes the sessions under its clients: whether of two
// clients whose transactions overlap, one gets another session the next time. The proxy may
// give out first what came back last, or what came back first; and where it has one session
// only, the second client waits.
func (x *examination) pooled(a *pgx.Conn) (bool, error) {
	ctx, cancel := context.WithTimeout(x.ctx, patient)
	defer cancel()
	b, err := pgx.ConnectConfig(ctx, a.Config()) // beside the pool, which can be one connection large
	if err != nil {
		return false, err
	}
	defer func() { _ = b.Close(x.ctx) }()
	defer rollback(x.ctx, a)
	seen := map[*pgx.Conn]map[uint32]bool{a: {}, b: {}}
	for _, order := range [][2]*pgx.Conn{{a, b}, {a, b}, {b, a}} {
		for _, conn := range order {
			var pid uint32
			_, err := conn.Exec(ctx, beginRead)
			if err == nil {
				err = conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid)
			}
			if err != nil && conn == b && ctx.Err() != nil && x.ctx.Err() == nil {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			seen[conn][pid] = true
		}
		rollback(x.ctx, a)
		rollback(x.ctx, b)
	}
	return len(seen[a]) > 1 || len(seen[b]) > 1, nil
}

// patient is how long a client waits for a session of a proxy, in case it has one only.
const patient = 2 * time.Second

// slack is by how much the clocks may differ until it is said: logs of both are read side by
// side.
const slack = 2 * time.Second

// clock compares the clocks of the server and of this host. Nothing is decided by that.
func (x *examination) clock() {
	var us int64
	sent := time.Now()
	err := x.row("SELECT round(extract(epoch FROM clock_timestamp()) * 1000000)::bigint", nil, &us)
	if x.unless(err, checkClock) {
		x.findings = append(x.findings, clocks(fromMicros(&us), sent, time.Since(sent)))
	}
}

const checkClock = "server-clock"

// clocks compares the server's time with when it was asked, and how long that took.
func clocks(server, sent time.Time, took time.Duration) onerun.Finding {
	off := server.Sub(sent.Add(took / 2))
	way := "ahead of"
	if off < 0 {
		way = "behind"
	}
	f := onerun.Finding{Check: checkClock, Status: onerun.FindingOK}
	f.Evidence = fmt.Sprintf("the server's clock is %s %s this host's (to within %s); all leases go by the server's", off.Abs().Round(time.Millisecond), way, (took / 2).Round(time.Millisecond))
	if off.Abs()-took/2 > slack {
		f.Status, f.Remedy = onerun.FindingWarning, "have both clocks kept in step (systemd-timesyncd, chrony)"
		f.Evidence += ". Nothing is decided by the difference, but times in logs mislead, and dates are reckoned by this host"
	}
	return f
}
