package postgres_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/pgbed"
	"github.com/onerun-dev/onerun/store/postgres"
)

// TestExamineProxy: a proxy is seen, whoever else uses it, and whether it changes sessions.
func TestExamineProxy(t *testing.T) {
	t.Parallel()
	const changes, keeps = "gives each transaction whichever session is free", "kept to one session"
	for _, c := range []struct {
		lines []string
		words string
	}{
		{nil, changes},
		{[]string{"server_round_robin = 1"}, changes},
		{[]string{"default_pool_size = 1"}, keeps}, // the second client waits in vain
		{[]string{"pool_mode = session"}, keeps},
	} {
		proxy, err := bed.Bouncer(soundServer(t), c.lines...)
		must(t, err, "start a proxy")
		found := examined(t, proxy.URL("postgres", "schema", newSchema()))
		i := slices.IndexFunc(found, func(f onerun.Finding) bool { return f.Check == "proxy" })
		if i < 0 || found[i].Status != onerun.FindingOK || !strings.Contains(found[i].Evidence, c.words) {
			t.Errorf("%+v: got %+v", c, found)
		}
	}
	proxy, err := bed.Bouncer(soundServer(t), "pool_mode = statement")
	must(t, err, "start a proxy")
	found := slices.DeleteFunc(examined(t, proxy.URL("postgres")), func(f onerun.Finding) bool { return f.Check != "proxy" })
	says(t, "a proxy that has no transactions", found, "proxy", onerun.FindingDanger, "statement")
}

// TestExamineHosts: of several servers the right one has to be taken after a failover.
func TestExamineHosts(t *testing.T) {
	t.Parallel()
	p := newPatient(t, soundServer(t))
	nobody, err := pgbed.FreePort()
	must(t, err, "find a port")
	url := strings.Replace(p.url, "/postgres?", fmt.Sprintf(",127.0.0.1:%d/postgres?", nobody), 1)
	says(t, "two servers", examined(t, url), "hosts", onerun.FindingWarning, "names 2 servers", "target_session_attrs=read-write")
	if bad := worse(examined(t, url+"&target_session_attrs=read-write")); len(bad) > 0 {
		t.Errorf("two servers, of which one can be written to: %+v", bad)
	}
}

// TestExaminePasswordFile: who can read the password.
func TestExaminePasswordFile(t *testing.T) {
	t.Parallel()
	p := newPatient(t, soundServer(t))
	file := filepath.Join(t.TempDir(), "passwords")
	url := secureURL(p.server.Port, "127.0.0.1", p.role, "", "sslmode", "disable", "schema", p.schema, "passfile", file)
	found := slices.DeleteFunc(examined(t, url), func(f onerun.Finding) bool { return f.Check == "connection" })
	says(t, "none", found, "password-file", onerun.FindingWarning, "not there", "0600")
	must(t, os.WriteFile(file, []byte("*:*:*:*:"+password+"\n"), 0o600), "write a password file")
	if bad := worse(examined(t, url)); len(bad) > 0 {
		t.Errorf("a private one: %+v", bad)
	}
	must(t, os.Chmod(file, 0o640), "open a password file")
	says(t, "one for others", examined(t, url), "password-file", onerun.FindingWarning, "0640", "chmod 0600")
}

// addressed is a connection between two addresses.
type addressed struct {
	net.Conn
	local, remote net.Addr
}

func (a addressed) LocalAddr() net.Addr  { return a.local }
func (a addressed) RemoteAddr() net.Addr { return a.remote }

// TestEncryption: who could listen on the way to another host.
func TestEncryption(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	newAuthority(t, dir, "ca")
	at := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 5432} }
	far := addressed{local: at("10.0.0.1"), remote: at("10.0.0.2")}
	for what, c := range map[string]struct {
		link    net.Conn
		sslmode string
		status  onerun.FindingStatus
		words   string
	}{
		"a socket file":      {addressed{local: &net.UnixAddr{}, remote: &net.UnixAddr{}}, "disable", onerun.FindingOK, "on this host"},
		"loopback":           {addressed{local: at("127.0.0.1"), remote: at("127.0.0.1")}, "disable", onerun.FindingOK, "on this host"},
		"this host by name":  {addressed{local: at("10.0.0.2"), remote: at("10.0.0.2")}, "disable", onerun.FindingOK, "on this host"},
		"plain text":         {far, "disable", onerun.FindingWarning, "not encrypted"},
		"any certificate":    {tls.Client(far, &tls.Config{}), "require", onerun.FindingWarning, "any certificate"},
		"preferred":          {tls.Client(far, &tls.Config{}), "prefer", onerun.FindingWarning, "any certificate"},
		"an authority":       {tls.Client(far, &tls.Config{}), "verify-ca", onerun.FindingOK, "whatever name"},
		"an authority's own": {tls.Client(far, &tls.Config{}), "verify-full", onerun.FindingOK, "for this name"},
	} {
		cfg, err := pgx.ParseConfig(secureURL(5432, "db.example", "u", "", "sslmode", c.sslmode, "sslrootcert", map[bool]string{true: filepath.Join(dir, "ca.crt")}[strings.HasPrefix(c.sslmode, "verify")]))
		must(t, err, what)
		f := postgres.Encryption(c.link, cfg.TLSConfig)
		if f.Status != c.status || !strings.Contains(f.Evidence, c.words) || (f.Remedy == "") != (c.status == onerun.FindingOK) {
			t.Errorf("%s: expected %s, %q, got %+v", what, c.status, c.words, f)
		}
	}
}

// TestClocks: a difference is said when it is more than what the question itself took.
func TestClocks(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 9, 15, 1, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		off, took time.Duration
		status    onerun.FindingStatus
		words     string
	}{
		{0, 0, onerun.FindingOK, "0s ahead of"},
		{-time.Second, 10 * time.Millisecond, onerun.FindingOK, "1.005s behind"},
		{3 * time.Minute, time.Second, onerun.FindingWarning, "2m59.5s ahead of"},
		{-3 * time.Minute, time.Second, onerun.FindingWarning, "3m0.5s behind"},
		{5 * time.Second, 9 * time.Second, onerun.FindingOK, "ahead of"}, // it may have been a slow answer
	} {
		f := postgres.Clocks(now.Add(c.off), now, c.took)
		if f.Status != c.status || !strings.Contains(f.Evidence, c.words) || (f.Remedy == "") != (c.status == onerun.FindingOK) {
			t.Errorf("off by %s after %s: expected %s, %q, got %+v", c.off, c.took, c.status, c.words, f)
		}
	}
}
