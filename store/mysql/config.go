package mysql

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/onerun-dev/onerun"
)

// poolSize is how many connections a store opens at most, unless pool_max_conns in the URL
// says otherwise. A process that runs one job needs one.
const poolSize = 4

// settings are what a URL says.
type settings struct {
	user, password, passwordFile string
	network, addr, database      string
	tls                          tlsSettings
	conns                        int
	timeout                      time.Duration // of connecting
}

// parameters are those that a URL may have.
var parameters = []string{
	"password_file", "socket", "pool_max_conns", "connect_timeout", "tls", "tls_ca", "tls_cert", "tls_key", "tls_server_name",
}

// parse reads a URL. Its errors never hold the URL, in which there can be a password.
func parse(rawURL string) (*settings, error) {
	s, err := parsed(rawURL)
	if err != nil {
		return nil, &onerun.StoreError{
			Kind: onerun.ErrUsage, What: "read the URL of the store", Err: err,
			Do: "write it as mysql://USER@HOST:PORT/DATABASE?password_file=FILE",
		}
	}
	return s, nil
}

func parsed(rawURL string) (*settings, error) {
	if !strings.HasPrefix(rawURL, "mysql://") {
		return nil, errors.New("it doesn't begin with mysql://")
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.New("a character in it has to be escaped: %2F for / and %40 for @ in a password, say")
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("a parameter in it has to be escaped")
	}
	for name, values := range q {
		switch {
		case strings.Contains(name, "@"):
			return nil, errors.New("a ? in its password has to be written as %3F")
		case !slices.Contains(parameters, name):
			return nil, fmt.Errorf("parameter %q is unknown; there are: %s", name, strings.Join(parameters, ", "))
		case len(values) > 1:
			return nil, fmt.Errorf("parameter %q is there twice", name)
		}
	}
	s := &settings{user: u.User.Username(), network: "tcp", database: strings.TrimPrefix(u.Path, "/"), conns: poolSize, timeout: 10 * time.Second}
	s.password, _ = u.User.Password()
	s.passwordFile = q.Get("password_file")
	switch {
	case s.user == "":
		return nil, errors.New("it names no user")
	case s.database == "" || strings.ContainsAny(s.database, "/\x00"):
		return nil, errors.New("it names no database, or not one alone")
	case u.Fragment != "":
		return nil, errors.New("a # in it has to be written as %23")
	case s.password != "" && s.passwordFile != "":
		return nil, errors.New("it has a password and names a password_file")
	}
	if err := s.place(u, q.Get("socket")); err != nil {
		return nil, err
	}
	if v := q.Get("pool_max_conns"); v != "" {
		if s.conns, err = strconv.Atoi(v); err != nil || s.conns < 1 || s.conns > 10000 {
			return nil, errors.New("pool_max_conns is a number from 1 to 10000")
		}
	}
	if v := q.Get("connect_timeout"); v != "" {
		if s.timeout, err = time.ParseDuration(v); err != nil || s.timeout <= 0 {
			return nil, errors.New("connect_timeout is a duration, such as 10s")
		}
	}
	s.tls, err = tlsOf(q, u.Hostname())
	return s, err
}

// place is where the server is.
func (s *settings) place(u *url.URL, socket string) error {
	switch {
	case strings.ContainsAny(u.Host, "()"):
		return errors.New("its host is in the form of a driver")
	case socket != "" && u.Host != "":
		return errors.New("it names a host and a socket")
	case socket != "":
		s.network, s.addr = "unix", socket
		return nil
	case strings.Contains(u.Host, ","):
		return errors.New("it names several hosts: name one, the primary")
	case u.Hostname() == "":
		return errors.New("it names no host: mysql://USER@HOST/DATABASE, or mysql://USER@/DATABASE?socket=PATH")
	}
	port := u.Port()
	if port == "" {
		port = "3306"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return errors.New("a port is a number from 1 to 65535")
	}
	s.addr = net.JoinHostPort(u.Hostname(), port)
	return nil
}

// String names the database for people: host, port and name, never the password.
func (s *settings) String() string { return "mysql://" + s.addr + "/" + s.database }

// session are the settings of every session: those on which the queries rely, whatever the
// server's own are. ANSI_QUOTES is for the columns that have a name of SQL's; in strict mode a
// value that doesn't fit is an error, and never another value. The language is that in which an
// error names the index that it is about.
var session = map[string]string{
	"sql_mode":                 "'ANSI_QUOTES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
	"time_zone":                "'+00:00'",
	"autocommit":               "1",
	"innodb_lock_wait_timeout": strconv.Itoa(int(lockTimeout / time.Second)),
	"lc_messages":              "'en_US'",
	"completion_type":          "'NO_CHAIN'", // with CHAIN the next transaction would begin by itself, in the isolation of this one
	"unique_checks":            "1",
	"sql_safe_updates":         "0",
	"sql_big_selects":          "1",
	"sql_select_limit":         "18446744073709551615", // none
}

// config is the driver's, for a connection that is made now.
func (s *settings) config() (*mysql.Config, error) {
	password, err := s.passwordNow()
	if err != nil {
		return nil, err
	}
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr, c.DBName = s.user, password, s.network, s.addr, s.database
	c.Params, c.Collation, c.Timeout = session, "utf8mb4_bin", s.timeout
	c.MultiStatements, c.InterpolateParams, c.ClientFoundRows = true, true, true
	c.ConnectionAttributes = "program_name:onerun"
	c.Logger = silent{}
	if c.TLS, err = s.tls.config(); err != nil {
		return nil, err
	}
	c.AllowFallbackToPlaintext = s.tls.mode == tlsPrefer
	return c, nil
}

// silent is the driver's log: what it would say there is in its errors, too.
type silent struct{}

func (silent) Print(...any) {}

// The ways of encryption, by the parameter tls.
const (
	tlsDisable    = "disable"
	tlsPrefer     = "prefer"      // if the server can; nothing is verified
	tlsRequire    = "require"     // nothing is verified
	tlsVerifyCA   = "verify-ca"   // the server has a certificate of an authority that is trusted
	tlsVerifyFull = "verify-full" // … for its own name
)

// minTLS is what both servers have spoken for long.
const minTLS = tls.VersionTLS12
