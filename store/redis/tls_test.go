package redis_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/redisbed"
)

// certificates makes an authority in a directory, ca.crt, and what it signs: server, for
// 127.0.0.1 and the name redis.example, and client. other.crt is another authority.
func certificates(t *testing.T, dir string) {
	t.Helper()
	type pair struct {
		cert *x509.Certificate
		key  *ecdsa.PrivateKey
	}
	issue := func(name string, by *pair) *pair {
		c := &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		}
		if by == nil {
			c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
		} else {
			c.DNSNames, c.IPAddresses = []string{"redis.example"}, []net.IP{net.IPv4(127, 0, 0, 1)}
		}
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		p := &pair{c, key}
		if by == nil {
			by = p
		}
		der, err := x509.CreateCertificate(rand.Reader, c, by.cert, &key.PublicKey, by.key)
		if err != nil {
			t.Fatal(err)
		}
		text, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		for file, b := range map[string]*pem.Block{name + ".crt": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: text}} {
			if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(b), 0o644); err != nil { // the server has another account
				t.Fatal(err)
			}
		}
		return p
	}
	ca := issue("ca", nil)
	issue("server", ca)
	issue("client", ca)
	issue("other", nil)
}

// TestTLS: a server that speaks TLS alone, and asks for a certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir, err := bed.Dir()
	if err != nil {
		t.Fatal(err)
	}
	certificates(t, dir)
	in := func(file string) string { return filepath.Join(dir, file) }
	tlsPort, err := redisbed.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	newServer(t, "--tls-port", strconv.Itoa(tlsPort), "--tls-cert-file", in("server.crt"), "--tls-key-file", in("server.key"), "--tls-ca-cert-file", in("ca.crt"))
	url := func(params ...string) string {
		u := fmt.Sprintf("rediss://:%s@127.0.0.1:%d/0?prefix=%s", redisbed.Password, tlsPort, newPrefix())
		for i := 0; i < len(params); i += 2 {
			u += "&" + params[i] + "=" + params[i+1]
		}
		return u
	}
	s := open(t, url("ca_file", in("ca.crt"), "cert_file", in("client.crt"), "key_file", in("client.key"), "server_name", "redis.example"))
	succeed(t, s, granted(t, s, claimOf("settle", "p")))
	for name, c := range map[string]struct {
		url  string
		kind error
		do   string
	}{
		"an authority that isn't named": {url("cert_file", in("client.crt"), "key_file", in("client.key")), onerun.ErrConfig, "ca_file"},
		"another authority":             {url("ca_file", in("other.crt"), "cert_file", in("client.crt"), "key_file", in("client.key")), onerun.ErrConfig, "ca_file"},
		"another name":                  {url("ca_file", in("ca.crt"), "server_name", "other.example", "cert_file", in("client.crt"), "key_file", in("client.key")), onerun.ErrConfig, "server_name"},
		"no TLS in the URL":             {strings.Replace(url(), "rediss:", "redis:", 1), onerun.ErrConfig, "rediss://"},
		"no TLS on the server":          {strings.Replace(sharedServer(t).URL(), "redis:", "rediss:", 1), onerun.ErrConfig, "redis://"},
		"no certificate of the client":  {url("ca_file", in("ca.crt")), onerun.ErrPermission, "cert_file"},
	} {
		_, err := open(t, c.url).Claim(soon(t), claimOf("settle", "p"))
		var e *onerun.StoreError
		// A server that hangs up at once can take its own words back, which leaves the advice.
		kind := errors.Is(err, c.kind) || errors.Is(c.kind, onerun.ErrPermission) && errors.Is(err, onerun.ErrUnavailable)
		if !kind || !errors.As(err, &e) || !strings.Contains(e.Do, c.do) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
