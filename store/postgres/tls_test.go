package postgres_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/pgbed"
)

// authority signs certificates.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority makes one, and keeps its own certificate as a file of that name.
func newAuthority(t testing.TB, dir, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: dir}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = a.issue(name, a.cert)
	return a
}

// issue signs a certificate and keeps it as NAME.crt, and its key as NAME.key, which both
// belong to the servers' account.
func (a *authority) issue(name string, c *x509.Certificate) *ecdsa.PrivateKey {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(a.t, err, "make a key")
	signer := a.key
	if signer == nil { // its own
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, signer)
	must(a.t, err, "sign a certificate")
	text, err := x509.MarshalPKCS8PrivateKey(key)
	must(a.t, err, "write a key")
	for file, b := range map[string]*pem.Block{name + ".crt": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: text}} {
		path := filepath.Join(a.dir, file)
		must(a.t, os.WriteFile(path, pem.EncodeToMemory(b), 0o600), "keep a certificate")
		must(a.t, pgbed.Own(path), "give a certificate to the servers' account")
	}
	return key
}

// named is a certificate for a name, of a server or of a client.
func named(name string, validFor time.Duration) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(validFor),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

// secureServer is a server that demands TLS, with the directory of its certificates. The
// role certified proves itself by a certificate, every other by its password.
func secureServer(t *testing.T) (*pgbed.Server, string) {
	t.Helper()
	dir, err := bed.Dir()
	must(t, err, "make a directory")
	ca := newAuthority(t, dir, "ca")
	ca.issue("server", named("localhost", time.Hour))
	ca.issue("client", named("certified", time.Hour))
	ca.issue("namesake", named("another", time.Hour))
	newAuthority(t, dir, "stranger").issue("strange-client", named("certified", time.Hour))
	newAuthority(t, dir, "stranger2").issue("strange-server", named("localhost", time.Hour))
	ca.issue("expired", named("localhost", -time.Minute))
	ca.issue("expired-client", named("certified", -time.Minute))
	hba := filepath.Join(dir, "hba")
	must(t, os.WriteFile(hba, []byte("hostssl all certified 127.0.0.1/32 cert\nhostssl all all 127.0.0.1/32 scram-sha-256\n"), 0o644), "write pg_hba.conf")
	s, err := newServer("-c", "fsync=off", "-c", "ssl=on", "-c", "ssl_cert_file="+dir+"/server.crt", "-c", "ssl_key_file="+dir+"/server.key",
		"-c", "ssl_ca_file="+dir+"/ca.crt", "-c", "hba_file="+hba)
	must(t, err, "start a server")
	stopsAfter(t, s)
	return s, dir
}

// secureURL is a URL with parameters in place of sslmode=disable.
func secureURL(port int, host, role, password string, params ...string) string {
	q := url.Values{}
	for i := 0; i < len(params); i += 2 {
		q.Set(params[i], params[i+1])
	}
	user := url.User(role)
	if password != "" {
		user = url.UserPassword(role, password)
	}
	u := url.URL{Scheme: "postgres", User: user, Host: host + ":" + strconv.Itoa(port), Path: "/postgres", RawQuery: q.Encode()}
	return u.String()
}

// TestTLS: a server whose certificate is right is trusted, and another is an error of the
// configuration, of which nobody can think that the server is only out of reach.
func TestTLS(t *testing.T) {
	t.Parallel()
	server, dir := secureServer(t)
	ca := filepath.Join(dir, "ca.crt")
	verified := secureURL(server.Port, "localhost", superuser, password, "sslmode", "verify-full", "sslrootcert", ca, "schema", "onerun")
	admin := direct(t, verified)
	mustExec(t, admin, "CREATE ROLE certified LOGIN SUPERUSER")
	succeed(t, open(t, verified), granted(t, open(t, verified), claimOf("settle", "2026-09-15")))

	certified := func(cert string) []string {
		return []string{"sslmode", "verify-full", "sslrootcert", ca, "sslcert", filepath.Join(dir, cert+".crt"), "sslkey", filepath.Join(dir, cert+".key"), "schema", "onerun"}
	}
	for what, c := range map[string]struct {
		url   string
		kind  error // nil: it works
		words []string
	}{
		"the name isn't looked at":    {secureURL(server.Port, "127.0.0.1", superuser, password, "sslmode", "verify-ca", "sslrootcert", ca, "schema", "onerun"), nil, nil},
		"nothing is looked at":        {secureURL(server.Port, "127.0.0.1", superuser, password, "sslmode", "require", "schema", "onerun"), nil, nil},
		"another name":                {secureURL(server.Port, "127.0.0.1", superuser, password, "sslmode", "verify-full", "sslrootcert", ca), onerun.ErrConfig, []string{"127.0.0.1", "name the server"}},
		"another authority":           {secureURL(server.Port, "localhost", superuser, password, "sslmode", "verify-full", "sslrootcert", dir+"/stranger.crt"), onerun.ErrConfig, []string{"unknown authority", "sslrootcert"}},
		"another authority, any name": {secureURL(server.Port, "localhost", superuser, password, "sslmode", "verify-ca", "sslrootcert", dir+"/stranger.crt"), onerun.ErrConfig, []string{"unknown authority", "sslrootcert"}},
		"without TLS":                 {secureURL(server.Port, "localhost", superuser, password, "sslmode", "disable"), onerun.ErrPermission, []string{"no encryption", "pg_hba.conf"}},
		"a server without TLS":        {secureURL(sharedServer(t).Port, "localhost", superuser, password, "sslmode", "require"), onerun.ErrConfig, []string{"refused TLS", "turn on ssl"}},
		"no TLS, a wrong password":    {secureURL(sharedServer(t).Port, "127.0.0.1", superuser, "wr0ng"), onerun.ErrPermission, []string{"28P01", "check the user and its password"}},
		"no TLS, no such role":        {secureURL(sharedServer(t).Port, "127.0.0.1", "nobody", password), onerun.ErrPermission, []string{"check the user and its password"}},
		"no TLS, no such database":    {strings.Replace(secureURL(sharedServer(t).Port, "127.0.0.1", superuser, password), "/postgres", "/nowhere", 1), onerun.ErrConfig, []string{"create the database"}},
		"no TLS, no such setting":     {secureURL(sharedServer(t).Port, "127.0.0.1", superuser, password, "options", "-c nothing=1"), onerun.ErrConfig, []string{"look at the parameters"}},
		"a client's certificate":      {secureURL(server.Port, "localhost", "certified", "", certified("client")...), nil, nil},
		"no client's certificate":     {secureURL(server.Port, "localhost", "certified", "", "sslmode", "verify-full", "sslrootcert", ca), onerun.ErrPermission, []string{"client certificate", "pg_hba.conf"}},
		"another client's":            {secureURL(server.Port, "localhost", "certified", "", certified("namesake")...), onerun.ErrPermission, []string{"certified"}},
		"a client of a stranger":      {secureURL(server.Port, "localhost", "certified", "", certified("strange-client")...), onerun.ErrPermission, []string{"client certificate", "pg_hba.conf"}},
		"an expired client's":         {secureURL(server.Port, "localhost", "certified", "", certified("expired-client")...), onerun.ErrPermission, []string{"expired certificate", "ssl_ca_file"}},
	} {
		s := open(t, c.url)
		_, err := s.Claim(soon(t), claimOf("settle", "2026-09-15"))
		// With TLS 1.3 a client speaks before the server has judged its certificate; what the server says of that is lost when
		// it has closed the connection by then.
		for tries := 0; c.kind != nil && errors.Is(err, onerun.ErrUnavailable) && tries < 50; tries++ {
			_, err = s.Claim(soon(t), claimOf("settle", "2026-09-15"))
		}
		if c.kind != nil {
			told(t, what, err, c.kind, c.words...)
			continue
		}
		var ref *onerun.Refusal
		if !errors.As(err, &ref) || ref.Reason != onerun.RefusedSucceeded {
			t.Errorf("%s: expected the answer of the one store, got: %v", what, err)
		}
	}
	var plain int
	must(t, admin.QueryRow(soon(t), "SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE a.client_addr IS NOT NULL AND NOT s.ssl").Scan(&plain), "look at the sessions")
	if plain > 0 {
		t.Errorf("%d sessions are not encrypted", plain)
	}
}

// TestCertificatesReplaced: what is in the files counts for every new connection, on both
// sides, and no program is started anew for that.
func TestCertificatesReplaced(t *testing.T) {
	t.Parallel()
	server, dir := secureServer(t)
	admin := direct(t, secureURL(server.Port, "localhost", superuser, password, "sslmode", "require"))
	mustExec(t, admin, "CREATE ROLE certified LOGIN SUPERUSER")
	replace := func(file, by string) {
		for _, ext := range []string{".crt", ".key"} {
			b, err := os.ReadFile(filepath.Join(dir, by+ext))
			must(t, err, "read a certificate")
			path := filepath.Join(dir, file+ext)
			must(t, os.WriteFile(path, b, 0o600), "replace a certificate")
			must(t, pgbed.Own(path), "give a certificate to the servers' account")
		}
	}
	replace("mine", "namesake")
	replace("right", "server")
	mine := secureURL(server.Port, "localhost", "certified", "", "sslmode", "verify-full", "sslrootcert", dir+"/ca.crt",
		"sslcert", dir+"/mine.crt", "sslkey", dir+"/mine.key", "schema", "onerun")
	s := open(t, mine)
	_, err := s.Claim(soon(t), claimOf("settle", "2026-09-15"))
	told(t, "with another's certificate", err, onerun.ErrPermission, "certified")
	replace("mine", "client")
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	for _, c := range []struct{ cert, words string }{{"strange-server", "unknown authority"}, {"expired", "expired"}} {
		for _, x := range []struct{ cert, words string }{c, {"right", ""}} {
			replace("server", x.cert)
			mustExec(t, admin, "SELECT pg_reload_conf()")
			err := connectsUntil(t, mine, x.words)
			if x.words != "" {
				told(t, x.cert, err, onerun.ErrConfig, x.words)
			}
			if _, err := s.Heartbeat(soon(t), g.Lease); err != nil {
				t.Errorf("%s: a connection that is there: %v", x.cert, err)
			}
		}
	}
	succeed(t, s, g)
}

// connectsUntil makes new connections until one fails with these words, or works if there
// are none: nobody is told when a server has read its files again.
func connectsUntil(t testing.TB, url, words string) error {
	t.Helper()
	for ctx := soon(t); ; {
		_, err := open(t, url).Locks(ctx, onerun.DefaultNamespace)
		if words == "" && err == nil || words != "" && err != nil && strings.Contains(err.Error(), words) {
			return err
		}
		select {
		case <-ctx.Done():
			t.Fatalf("expected %q, and still: %v", words, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
