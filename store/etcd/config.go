package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/onerun-dev/onerun"
)

const (
	defaultPort   = "2379"
	defaultPrefix = "onerun"
)

// config is what a URL says.
type config struct {
	endpoints []string // host:port
	prefix    string   // of all keys, without slashes at its ends
	user      string
	password  string
	passfile  string // where the password is; "": the URL says it, or there is none
	tls       bool
	cacert    string
	cert, key string
	server    string // as the server's certificate calls it; "": as the endpoint does
}

// parse reads etcd://USER@HOST:PORT,HOST:PORT/PREFIX?passfile=FILE&cacert=FILE&cert=FILE&key=FILE.
func parse(rawURL string) (config, error) {
	c, err := read(rawURL)
	if err != nil {
		_, rest, _ := strings.Cut(rawURL, "://")
		if i := strings.IndexAny(rest, "/?"); i >= 0 && strings.Contains(rest[i:], "@") { // else a part of it would be in the error
			err = errors.New("a / or ? in its password has to be written as %2F or %3F")
		}
		return config{}, &onerun.StoreError{
			Kind: onerun.ErrUsage, What: "read the URL of the store", Err: err,
			Do: "write it as etcd://USER@HOST:PORT,HOST:PORT/PREFIX?passfile=FILE, and with TLS &cacert=FILE or &tls=on",
		}
	}
	return c, nil
}

func read(rawURL string) (c config, err error) {
	base, query, _ := strings.Cut(rawURL, "?")
	scheme, rest, ok := strings.Cut(base, "://")
	if !ok || scheme != "etcd" {
		return c, errors.New("it doesn't begin with etcd://")
	}
	authority, prefix, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, password, has := strings.Cut(authority[:i], ":")
		if c.user, err = url.PathUnescape(user); err == nil {
			c.password, err = url.PathUnescape(password)
		}
		if err != nil || c.user == "" || has && c.password == "" {
			return c, errors.New("its user part can't be read") // without its words, which may hold the password
		}
		authority = authority[i+1:]
	}
	for host := range strings.SplitSeq(authority, ",") {
		e, err := endpoint(host)
		if err != nil {
			return c, err
		}
		c.endpoints = append(c.endpoints, e)
	}
	if c.prefix, err = url.PathUnescape(strings.Trim(prefix, "/")); err != nil {
		return c, fmt.Errorf("its prefix: %w", err)
	}
	if c.prefix == "" {
		c.prefix = defaultPrefix
	}
	if len(c.prefix) > 200 || strings.ContainsFunc(c.prefix, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return c, errors.New("a prefix has at most 200 bytes, and no control characters")
	}
	return c, c.parameters(query)
}

func (c *config) parameters(query string) error {
	q, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("its parameters can't be read")
	}
	secure := ""
	for name, values := range q {
		v := values[len(values)-1]
		switch name {
		case "password":
			c.password = v
		case "passfile":
			c.passfile = v
		case "tls":
			secure = v
		case "cacert":
			c.cacert = v
		case "cert":
			c.cert = v
		case "key":
			c.key = v
		case "server_name":
			c.server = v
		default:
			return fmt.Errorf("it has no parameter %q: there are passfile, password, tls, cacert, cert, key and server_name", name)
		}
	}
	files := c.cacert != "" || c.cert != "" || c.key != "" || c.server != ""
	switch secure {
	case "on":
		c.tls = true
	case "":
		c.tls = files
	case "off":
		if files {
			return errors.New("tls=off goes with no certificates")
		}
	default:
		return fmt.Errorf("tls is on or off, not %q", secure)
	}
	switch {
	case (c.cert == "") != (c.key == ""):
		return errors.New("cert and key go together")
	case c.password != "" && c.passfile != "":
		return errors.New("it has a password and a passfile: leave one out")
	case c.user == "" && (c.password != "" || c.passfile != ""):
		return errors.New("a password needs a user: etcd://USER@HOST")
	case c.user != "" && c.password == "" && c.passfile == "":
		return errors.New("a user needs a password: passfile=FILE")
	}
	return nil
}

func endpoint(host string) (string, error) {
	if host == "" {
		return "", errors.New("it names no host")
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.Trim(host, "[]"), defaultPort
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("the host %q has no port between 1 and 65535", host)
	}
	if name == "" || strings.ContainsAny(name, " \t/[]") {
		return "", fmt.Errorf("%q is no host", host)
	}
	return net.JoinHostPort(name, port), nil
}

// secret is the password as it is now: a file can be replaced while a program runs for weeks.
func (c config) secret() (string, error) {
	if c.passfile == "" {
		return c.password, nil
	}
	b, err := os.ReadFile(c.passfile)
	if first, _, _ := strings.Cut(string(b), "\n"); err == nil && strings.TrimRight(first, "\r") == "" {
		err = errors.New("its first line is empty")
	}
	if err != nil {
		return "", fileError("read the password file", c.passfile, err)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

func fileError(what, path string, err error) error {
	kind := onerun.ErrConfig
	if errors.Is(err, os.ErrPermission) {
		kind = onerun.ErrPermission
	}
	var file *os.PathError
	if errors.As(err, &file) {
		err = file.Err
	}
	return &onerun.StoreError{Kind: kind, What: what, Path: path, Err: err, Do: "look at what the store's URL names"}
}

// secure is how to speak TLS; nil: not at all.
func (c config) secure() (*tls.Config, error) {
	if !c.tls {
		return nil, nil
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.cacert != "" {
		pem, err := os.ReadFile(c.cacert)
		if err != nil {
			return nil, fileError("read the authority's certificate", c.cacert, err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fileError("read the authority's certificate", c.cacert, errors.New("there is none in it"))
		}
	}
	if c.server != "" {
		t.ServerName = c.server
		// gRPC has the name of the endpoint verified, whatever stands here; so this does.
		t.InsecureSkipVerify = true
		t.VerifyConnection = func(state tls.ConnectionState) error { return verify(state, t.RootCAs, c.server) }
	}
	if c.cert != "" {
		pair, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err != nil {
			return nil, fileError("read the certificate and its key", c.cert, err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// verify does what crypto/tls does by itself, with another name.
func verify(state tls.ConnectionState, roots *x509.CertPool, name string) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("x509: the server shows no certificate")
	}
	others := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		others.AddCert(c)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: others})
	return err
}

// place names the store for people: hosts and prefix, never the user or its password.
func (c config) place() string {
	return "etcd://" + strings.Join(c.endpoints, ",") + "/" + c.prefix
}
