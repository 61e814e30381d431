package postgres

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onerun-dev/onerun"
)

// renew gives a new connection the password and the certificates that the files hold now:
// they can be replaced while a program runs for weeks. What can't be read any more, since
// the program has given up its rights, say, stays as it was when the store was opened.
func renew(rawURL string, c *pgx.ConnConfig) {
	now, err := pgconn.ParseConfig(rawURL)
	if err != nil {
		return
	}
	if now.Password != "" {
		c.Password = now.Password
	}
	c.Host, c.Port, c.TLSConfig, c.Fallbacks = now.Host, now.Port, now.TLSConfig, now.Fallbacks
}

// passwordFile is the file that a password is looked for in; "": in none, since the URL or
// the environment says it. named is whether somebody chose it.
func passwordFile(rawURL string) (path string, named bool) {
	if passwordIn(rawURL) != "" || os.Getenv("PGPASSWORD") != "" {
		return "", false
	}
	_, query, _ := strings.Cut(rawURL, "?")
	if q, err := url.ParseQuery(query); err == nil {
		switch {
		case q.Get("password") != "":
			return "", false
		case q.Get("passfile") != "":
			return q.Get("passfile"), true
		}
	}
	if path := os.Getenv("PGPASSFILE"); path != "" {
		return path, true
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", false
	}
	return filepath.Join(home, ".pgpass"), false
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
	)
	switch {
	case errors.As(err, &name):
		return "name the server in the store's URL as its certificate does, or give it a certificate for that name", onerun.ErrConfig
	case errors.As(err, &unknown):
		return "name the authority that signed the server's certificate: sslrootcert=FILE in the store's URL", onerun.ErrConfig
	case errors.As(err, &bad), errors.As(err, &invalid):
		return "look at the server's certificate: is it expired, or made for something else?", onerun.ErrConfig
	case errors.As(err, &alert) && alert.Op == "remote error": // the words of crypto/tls for what the other side says
		return "check sslcert and sslkey in the store's URL, and ssl_ca_file on the server", onerun.ErrPermission
	case code(err) == "" && strings.Contains(err.Error(), "server refused TLS connection"): // the driver has no value for it; without sslmode it goes on in plain text, and the server may have answered that
		return "turn on ssl on the server; or, where nobody can listen, sslmode=disable in the store's URL", onerun.ErrConfig
	}
	return "", nil
}
