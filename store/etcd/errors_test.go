package etcd_test

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
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/etcdbed"
	"github.com/onerun-dev/onerun/store/etcd"
)

func TestURLs(t *testing.T) {
	t.Parallel()
	for url, name := range map[string]string{
		"etcd://h":                                              "etcd://h:2379/onerun",
		"etcd://h1:1,h2:2,[::1]:3/a/b/":                         "etcd://h1:1,h2:2,[::1]:3/a/b",
		"etcd://u:p%40w@h/x?tls=on":                             "etcd://h:2379/x",
		"etcd://u@h?passfile=/f&cacert=/c&cert=/a&key=/b":       "etcd://h:2379/onerun",
		"etcd://u@h/%EC%9D%BC?password=secret&server_name=etcd": "etcd://h:2379/일",
	} {
		s, err := etcd.Open(t.Context(), url)
		if err != nil || s.Name() != name {
			t.Errorf("%s: expected %s, got %v, %v", url, name, s, err)
		}
	}
	for _, url := range []string{
		"", "etcd:", "etcd://", "http://h", "etcd://h,", "etcd://u@h", "etcd://:p@h", "etcd://h?passfile=/f", "etcd://h?tls=maybe", "etcd://h?nothing=1",
		"etcd://u:p@h?passfile=/f", "etcd://h?cert=/a", "etcd://h?tls=off&cacert=/c", "etcd://h:abc", "etcd://h:0", "etcd://h:70000", "etcd://h/" + strings.Repeat("x", 201), "etcd://a b", "etcd://u:%zz@h",
	} {
		if _, err := etcd.Open(t.Context(), url); !errors.Is(err, onerun.ErrUsage) || strings.Contains(err.Error(), "zz") {
			t.Errorf("%q: expected that it can't be understood, got %v", url, err)
		}
	}
}

// fails asks the store, and expects an error of one kind, with words in it and without others.
func fails(t *testing.T, url string, kind error, words string) {
	t.Helper()
	s := open(t, url)
	_, err := s.Claim(within(t, 5*time.Second), claimOf("job", "p"))
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: expected %q with %q, got %v", url, kind, words, err)
	}
	for _, secret := range []string{"s3cr3t", "wr0ng"} {
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the password stands in %v", url, err)
		}
	}
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	began := time.Now()
	fails(t, "etcd://127.0.0.1:1/x", onerun.ErrUnavailable, "etcdctl endpoint status")
	s := open(t, sharedServer(t).URL("closed"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Runs(soon(t), onerun.Query{}); !errors.Is(err, onerun.ErrUnavailable) || !errors.Is(err, onerun.ErrClosed) {
		t.Errorf("a store that is closed: %v", err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("that took %s", took)
	}
}

// TestAccounts: who may, and who may not; a password that is replaced; no word of it in an error.
func TestAccounts(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	root := withAuth(t, server)
	file := filepath.Join(t.TempDir(), "password")
	write(t, file, "s3cr3t\n")
	url := func(user, rest string) string {
		return fmt.Sprintf("etcd://%s@%s/mine%s", user, server.Endpoint(), rest)
	}
	fails(t, server.URL("mine"), onerun.ErrPermission, "etcd wants to know who asks")
	fails(t, url("batch:wr0ng", ""), onerun.ErrPermission, "check the user")
	fails(t, url("reader:s3cr3t", ""), onerun.ErrPermission, "readwrite on the prefix")
	fails(t, fmt.Sprintf("etcd://batch:s3cr3t@%s/theirs", server.Endpoint()), onerun.ErrPermission, "readwrite on the prefix")
	fails(t, url("batch", "?passfile=/nowhere/password"), onerun.ErrConfig, "/nowhere/password")
	none := filepath.Join(t.TempDir(), "none")
	if err := os.WriteFile(none, []byte("\nsecond\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, url("batch", "?passfile="+none), onerun.ErrConfig, "first line is empty")
	granted(t, open(t, url("batch:s3cr3t", "")), claimOf("job", "p1"))
	s := open(t, url("batch", "?passfile="+file))
	g := granted(t, s, claimOf("other", "p2"))

	if _, err := root.UserChangePassword(soon(t), "batch", "an0ther"); err != nil {
		t.Fatal(err)
	}
	write(t, file, "an0ther")
	if _, err := s.Heartbeat(soon(t), g.Lease); err != nil {
		t.Errorf("heartbeat after the password was replaced: %v", err)
	}
}

// withAuth turns accounts on: batch may read and write mine/, reader may only read it.
func withAuth(t *testing.T, server *etcdbed.Server) *clientv3.Client {
	t.Helper()
	c, ctx := direct(t, server), soon(t)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, u := range []string{"root", "batch", "reader"} {
		must(c.UserAdd(ctx, u, "s3cr3t"))
		must(c.RoleAdd(ctx, u))
		must(c.UserGrantRole(ctx, u, u))
	}
	to := clientv3.GetPrefixRangeEnd("mine/")
	must(c.RoleGrantPermission(ctx, "batch", "mine/", to, clientv3.PermissionType(clientv3.PermReadWrite)))
	must(c.RoleGrantPermission(ctx, "reader", "mine/", to, clientv3.PermissionType(clientv3.PermRead)))
	must(c.AuthEnable(ctx))
	root, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + server.Endpoint()}, Username: "root", Password: "s3cr3t"})
	must(root, err)
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	dir, err := bed.Dir()
	if err != nil {
		t.Fatal(err)
	}
	ca, cert, key := certificate(t, dir)
	server := newServer(t, "--cert-file="+cert, "--key-file="+key)
	granted(t, open(t, server.URL("x", "cacert", ca, "server_name", "etcd.example")), claimOf("job", "p"))
	fails(t, server.URL("x", "cacert", ca), onerun.ErrConfig, "server_name")
	fails(t, server.URL("x", "cacert", ca, "server_name", "another.example"), onerun.ErrConfig, "etcd.example")
	fails(t, server.URL("x", "server_name", "etcd.example"), onerun.ErrConfig, "cacert=FILE")
	fails(t, server.URL("x", "tls", "on"), onerun.ErrConfig, "cacert=FILE")
	fails(t, server.URL("x"), onerun.ErrConfig, "speaks TLS")
	fails(t, server.URL("x", "cacert", "/nowhere/ca.pem"), onerun.ErrConfig, "/nowhere/ca.pem")
	fails(t, sharedServer(t).URL("x", "tls", "on"), onerun.ErrConfig, "doesn't speak TLS")
}

// certificate makes an authority, and a certificate of its for etcd.example.
func certificate(t testing.TB, dir string) (ca, cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "etcd.example"}, DNSNames: []string{"etcd.example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	for _, f := range []string{cert, key} {
		if err := etcdbed.Own(f); err != nil {
			t.Fatal(err)
		}
	}
	return cert, cert, key
}

// TestFull: a database over its quota takes no claim, and that is an error of its own.
func TestFull(t *testing.T) {
	t.Parallel()
	server := newServer(t, "--quota-backend-bytes=2000000")
	beside := direct(t, server)
	s := open(t, server.URL("x"))
	g := granted(t, s, claimOf("job", "p"))
	var err error
	for range 100 {
		if _, err = beside.Put(soon(t), "filler", strings.Repeat("x", 100<<10)); err != nil {
			break
		}
	}
	if err == nil {
		t.Fatal("the database never was full")
	}
	if _, err := s.Claim(soon(t), claimOf("other", "p")); !errors.Is(err, onerun.ErrIO) || !strings.Contains(err.Error(), "compact") {
		t.Errorf("claim on a full database: %v", err)
	}
	if err := s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded}); !errors.Is(err, onerun.ErrIO) {
		t.Errorf("end on a full database: %v", err)
	}
	says(t, examined(t, s), "alarms", onerun.FindingDanger, "NOSPACE")
}

// TestEndWithTooMuchOutput: where a server takes no request as large as that, the end is recorded without what was printed.
func TestEndWithTooMuchOutput(t *testing.T) {
	t.Parallel()
	s := open(t, newServer(t, "--max-request-bytes=65536").URL("x"))
	g := granted(t, s, claimOf("job", "p"))
	out := onerun.Outcome{Status: onerun.Succeeded, Output: &onerun.Output{Text: strings.Repeat("0123456789abcde\n", 10_000)}}
	if err := s.Finish(soon(t), g.Lease, out); err != nil {
		t.Fatal(err)
	}
	refusedAs(t, s, claimOf("job", "p"), onerun.RefusedSucceeded)
}

// TestNewerLedger: what a newer version has written is left alone.
func TestNewerLedger(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	if _, err := direct(t, server).Put(soon(t), "newer/meta", `{"format":99}`); err != nil {
		t.Fatal(err)
	}
	fails(t, server.URL("newer"), onerun.ErrConfig, "newer onerun")
}
