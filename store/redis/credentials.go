package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// readFiles reads what the URL names, so that what is missing is known at once.
func (c *config) readFiles() (err error) {
	if c.passwordFromFileAtStart, err = password(c.passwordFile); err != nil {
		return unusable("password file", c.passwordFile, err)
	}
	if c.sentinelPassword, err = password(c.sentinelPasswordFile); err != nil {
		return unusable("password file", c.sentinelPasswordFile, err)
	}
	_, err = c.tlsConfig("")
	return err
}

func unusable(what, path string, err error) error {
	kind := onerun.ErrConfig
	if errors.Is(err, os.ErrPermission) {
		kind = onerun.ErrPermission
	}
	var p *os.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return &onerun.StoreError{Kind: kind, What: what, Path: path, Err: err, Do: "look at the file that the store's URL names"}
}

// password is the first line of a file; "" for no file.
func password(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	line = strings.TrimSuffix(line, "\r")
	if line == "" {
		return "", errors.New("its first line is empty")
	}
	return line, nil
}

// credentials are what a new connection logs in with. A password file is read anew each time:
// it can be replaced while a program runs for weeks. One that can't be read any more, since the
// program has given up its rights, say, is as it was when the store was opened.
func (c *config) credentials(context.Context) (user, pass string, err error) {
	if c.passwordFile == "" {
		return c.user, c.password, nil
	}
	if now, err := password(c.passwordFile); err == nil {
		return c.user, now, nil
	}
	return c.user, c.passwordFromFileAtStart, nil
}

// masked takes the passwords out of a text.
func (c *config) masked(text string) string {
	_, now, _ := c.credentials(context.Background()) // only a file is read
	for _, p := range []string{now, c.password, c.passwordFromFileAtStart, c.sentinelPassword} {
		if p != "" {
			text = strings.ReplaceAll(text, p, "***")
		}
	}
	return onerun.Redact(text)
}

// dial connects to a server, or to a Sentinel, by TLS if the URL says so. The certificates are
// read anew each time, as the password is.
func (c *config) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.connectTimeout)
	defer cancel()
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15e9, Interval: 15e9, Count: 3}}
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil || !c.tls {
		return conn, err
	}
	host, _, err := net.SplitHostPort(addr)
	if err == nil {
		var t *tls.Config
		if t, err = c.tlsConfig(host); err == nil {
			secure := tls.Client(conn, t)
			if err = c.handshake(ctx, secure, addr); err == nil {
				return secure, nil
			}
		}
	}
	_ = conn.Close()
	return nil, err
}

// errPlain is why a connection by TLS can't be made: the server answers in plain text.
var errPlain = errors.New("the server doesn't speak TLS")

// handshake begins to speak TLS. A server that doesn't takes the beginning for a command that isn't whole yet, and may wait for the rest
// for ever: one that lets wait long is asked otherwise, unless it has spoken TLS before.
func (c *config) handshake(ctx context.Context, conn *tls.Conn, addr string) error {
	if c.secured.Load() {
		return conn.HandshakeContext(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slow := time.AfterFunc(time.Second, func() {
		if plain(ctx, addr) {
			cancel(errPlain)
		}
	})
	defer slow.Stop()
	err := conn.HandshakeContext(ctx)
	switch {
	case err == nil:
		c.secured.Store(true)
	case errors.Is(context.Cause(ctx), errPlain):
		err = errPlain
	}
	return err
}

// plain reports whether a server answers in plain text.
func plain(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	end, _ := ctx.Deadline()
	_ = conn.SetDeadline(end)
	first := []byte{0}
	_, err = conn.Write([]byte("PING\r\n"))
	if err == nil {
		_, err = conn.Read(first)
	}
	return err == nil && (first[0] == '+' || first[0] == '-') // an answer, or a refusal to give one
}

// speaksTLS reports whether one of the servers does. To one that does, what comes in plain text is the end of the connection.
func (c *config) speaksTLS() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	d := tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}} // nothing is said to it
	for _, addr := range c.hosts {
		if conn, err := d.DialContext(ctx, "tcp", addr); err == nil {
			_ = conn.Close()
			return true
		}
	}
	return false
}

// tlsConfig is what a connection to a host is made with; nil: none.
func (c *config) tlsConfig(host string) (*tls.Config, error) {
	if !c.tls {
		return nil, nil
	}
	t := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if c.serverName != "" {
		t.ServerName = c.serverName
	}
	if c.caFile != "" {
		pem, err := os.ReadFile(c.caFile)
		if err != nil {
			return nil, unusable("certificates", c.caFile, err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, unusable("certificates", c.caFile, errors.New("there is no certificate in it"))
		}
	}
	if c.certFile != "" {
		cert, err := tls.LoadX509KeyPair(c.certFile, c.key)
		if err != nil {
			return nil, unusable("certificate", c.certFile, err)
		}
		t.Certificates = []tls.Certificate{cert}
	}
	return t, nil
}

// untrusted says what to do about an error of a connection on which one side doesn't trust
// the other, and its kind; nil: it is another error.
func untrusted(err error) (do string, kind error) {
	var (
		bad     *tls.CertificateVerificationError
		name    x509.HostnameError
		unknown x509.UnknownAuthorityError
		invalid x509.CertificateInvalidError
		alert   *net.OpError
		record  tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &name):
		return "name the server in the store's URL as its certificate does, or say server_name=NAME", onerun.ErrConfig
	case errors.As(err, &unknown):
		return "name the authority that signed the server's certificate: ca_file=FILE in the store's URL", onerun.ErrConfig
	case errors.As(err, &bad), errors.As(err, &invalid):
		return "look at the server's certificate: is it expired, or made for something else?", onerun.ErrConfig
	case errors.As(err, &record), errors.Is(err, errPlain):
		return "this port doesn't speak TLS: is it redis:// instead of rediss://, or the wrong port?", onerun.ErrConfig
	case errors.As(err, &alert) && alert.Op == "remote error": // the words of crypto/tls for what the other side says
		return "check cert_file and key_file in the store's URL, and tls-ca-cert-file on the server", onerun.ErrPermission
	}
	return "", nil
}
