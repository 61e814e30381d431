package mysql_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/mariadbbed"
	"github.com/onerun-dev/onerun/store/mysql"
)

// authority signs certificates.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "onerun-tls-") // where the server's account can read
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, dir: dir}
	a.cert, a.key = a.issue(name, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// file is where a certificate, or its key, is.
func (a *authority) file(name string) string { return filepath.Join(a.dir, name+".pem") }

func (a *authority) issue(name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{a.file(name): {Type: "CERTIFICATE", Bytes: der}, a.file(name + "-key"): {Type: "PRIVATE KEY", Bytes: text}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o644); err != nil {
			a.t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// TestTLS: what each way of encryption takes, and what it says of what it doesn't.
func TestTLS(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t, "ca"), newAuthority(t, "other")
	ca.issue("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	server := ownServer(t, "--innodb-flush-log-at-trx-commit=0", "--ssl-ca="+ca.file("ca"), "--ssl-cert="+ca.file("server"), "--ssl-key="+ca.file("server-key"))
	mustExec(t, direct(t, server.URL("mysql")), "CREATE DATABASE secure; CREATE USER safe IDENTIFIED BY 'safe' REQUIRE SSL; GRANT ALL ON secure.* TO safe")
	claim := func(params ...string) error {
		s, err := mysql.Open(soon(t), mariadbbed.URLAs(server.Port, "safe", "safe", "secure", params...))
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		_, err = s.Claim(soon(t), claimOf("settle", onerun.NewID()))
		return err
	}
	for what, params := range map[string][]string{
		"the default":   nil,
		"require":       {"tls", "require"},
		"verify-ca":     {"tls", "verify-ca", "tls_ca", ca.file("ca"), "tls_server_name", "elsewhere"},
		"verify-full":   {"tls_ca", ca.file("ca")},
		"another's, ok": {"tls", "require", "tls_ca", other.file("other")},
	} {
		if err := claim(append(params, "pool_max_conns", "1")...); err != nil && !isLocked(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	told(t, "disable", claim("tls", "disable"), onerun.ErrPermission, "Access denied")
	told(t, "verify-ca, another authority", claim("tls", "verify-ca", "tls_ca", other.file("other")), onerun.ErrConfig, "tls_ca=FILE")
	told(t, "verify-full, another authority", claim("tls", "verify-full", "tls_ca", other.file("other")), onerun.ErrConfig, "tls_ca=FILE")
	told(t, "verify-full, the machine's authorities", claim("tls", "verify-full"), onerun.ErrConfig, "tls_ca=FILE")
	told(t, "verify-full, another name", claim("tls_ca", ca.file("ca"), "tls_server_name", "elsewhere"), onerun.ErrConfig, "tls_server_name")
	told(t, "no such file", claim("tls_ca", "/nowhere/ca.pem"), onerun.ErrConfig, "/nowhere/ca.pem", "tls_ca")
}
