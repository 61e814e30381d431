package mysql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/go-sql-driver/mysql"

	"github.com/onerun-dev/onerun"
)

// passwordNow is the password as its file holds it now: it can be replaced while a program runs
// for weeks.
func (s *settings) passwordNow() (string, error) {
	if s.passwordFile == "" {
		return s.password, nil
	}
	text, err := os.ReadFile(s.passwordFile)
	if err != nil {
		kind := onerun.ErrConfig
		if errors.Is(err, fs.ErrPermission) {
			kind = onerun.ErrPermission
		}
		return "", &onerun.StoreError{Kind: kind, What: "read the password of the store", Path: s.passwordFile, Err: errors.Unwrap(err), Do: "look at password_file in the store's URL"}
	}
	password := strings.TrimRight(string(text), "\r\n")
	if first, _, _ := strings.Cut(password, "\n"); strings.TrimSuffix(first, "\r") == "" {
		return "", &onerun.StoreError{Kind: onerun.ErrConfig, What: "read the password of the store", Path: s.passwordFile, Err: errors.New("its first line is empty"), Do: "look at password_file in the store's URL"}
	}
	return password, nil
}

// tlsSettings are how a connection is encrypted.
type tlsSettings struct{ mode, ca, cert, key, name string }

func tlsOf(q url.Values, host string) (tlsSettings, error) {
	t := tlsSettings{mode: q.Get("tls"), ca: q.Get("tls_ca"), cert: q.Get("tls_cert"), key: q.Get("tls_key"), name: q.Get("tls_server_name")}
	if t.mode == "" {
		t.mode = tlsPrefer
		if t.ca != "" || t.name != "" {
			t.mode = tlsVerifyFull
		}
	}
	if t.name == "" {
		t.name = host
	}
	switch t.mode {
	case tlsDisable, tlsPrefer, tlsRequire, tlsVerifyCA, tlsVerifyFull:
	default:
		return t, fmt.Errorf("tls is one of %s, %s, %s, %s, %s", tlsDisable, tlsPrefer, tlsRequire, tlsVerifyCA, tlsVerifyFull)
	}
	if (t.cert == "") != (t.key == "") {
		return t, errors.New("tls_cert and tls_key belong together")
	}
	if t.mode == tlsVerifyFull && t.name == "" {
		return t, errors.New("tls=verify-full over a socket needs tls_server_name")
	}
	return t, nil
}

// config reads the certificates, as the files hold them now. Nil: nothing is encrypted.
func (t tlsSettings) config() (*tls.Config, error) {
	if t.mode == tlsDisable {
		return nil, nil
	}
	c := &tls.Config{MinVersion: minTLS, ServerName: t.name, InsecureSkipVerify: t.mode != tlsVerifyFull}
	if t.ca != "" {
		text, err := os.ReadFile(t.ca)
		if err != nil {
			return nil, badFile(t.ca, "tls_ca", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, badFile(t.ca, "tls_ca", errors.New("there is no certificate in it"))
		}
	}
	if t.cert != "" {
		pair, err := tls.LoadX509KeyPair(t.cert, t.key)
		if err != nil {
			return nil, badFile(t.cert, "tls_cert and tls_key", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if t.mode == tlsVerifyCA { // whatever name it is for
		c.VerifyConnection = func(s tls.ConnectionState) error {
			among := x509.NewCertPool()
			for _, cert := range s.PeerCertificates[1:] {
				among.AddCert(cert)
			}
			_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: c.RootCAs, Intermediates: among})
			if err != nil {
				err = &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: err}
			}
			return err
		}
	}
	return c, nil
}

func badFile(path, parameter string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return &onerun.StoreError{Kind: onerun.ErrConfig, What: "read", Path: path, Err: err, Do: "look at " + parameter + " in the store's URL"}
}

// connector makes connections.
type connector struct {
	*settings

	mu   sync.Mutex
	last *mysql.Config // the one that worked
}

// Connect implements driver.Connector. Password and certificates are read anew for each
// connection. What can't be read any more, since the program has given up its rights, say, stays
// as it was.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	cfg, err := c.config()
	if err != nil {
		c.mu.Lock()
		cfg = c.last
		c.mu.Unlock()
		if cfg == nil {
			return nil, err
		}
	}
	one, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	conn, err := one.Connect(ctx)
	if err != nil {
		return nil, &unconnected{err}
	}
	c.mu.Lock()
	c.last = cfg
	c.mu.Unlock()
	return conn, nil
}

// Driver implements driver.Connector.
func (c *connector) Driver() driver.Driver { return mysql.MySQLDriver{} }

// unconnected is why a connection could not be made: nothing was asked on it.
type unconnected struct{ error }

func (u *unconnected) Unwrap() error { return u.error }
