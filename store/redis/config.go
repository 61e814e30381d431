package redis

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	driver "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/onerun-dev/onerun"
)

const (
	defaultPrefix = "onerun"
	defaultPort   = "6379"
	sentinelPort  = "26379"

	// patience is how long an answer is waited for, where the caller has no limit of its own.
	patience = 30 * time.Second
)

// config is what a URL says.
type config struct {
	hosts    []string // with their ports
	db       int
	user     string
	password string
	sentinel string // the name that the Sentinels know the primary by; "": no Sentinels
	cluster  bool
	prefix   string

	passwordFile                       string
	sentinelUser, sentinelPasswordFile string

	tls                     bool
	caFile, certFile, key   string
	serverName              string
	poolSize                int
	connectTimeout          time.Duration
	sentinelPassword        string // as the file had it when the store was opened
	passwordFromFileAtStart string

	secured *atomic.Bool // a connection by TLS was made once
}

// parse reads a URL. It may hold several hosts, which net/url can't read.
func parse(rawURL string) (config, error) {
	c := config{prefix: defaultPrefix, connectTimeout: 10 * time.Second, secured: new(atomic.Bool)}
	bad := func(err error) (config, error) {
		if _, query, _ := strings.Cut(rawURL, "?"); strings.Contains(query, "@") { // else a part of it would be in the error
			err = errors.New("a ? in its password has to be written as %3F")
		}
		return config{}, &onerun.StoreError{
			Kind: onerun.ErrUsage, What: "read the URL of the store", Err: err,
			Do: "write it as redis://USER@HOST:PORT/DB?password_file=FILE, or with TLS as rediss://…",
		}
	}
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok || scheme != "redis" && scheme != "rediss" {
		return bad(errors.New("it begins neither with redis:// nor with rediss://"))
	}
	c.tls = scheme == "rediss"
	rest, query, _ := strings.Cut(rest, "?")
	at := strings.LastIndexByte(rest, '@') // a password may hold a slash, if its writer didn't know better
	if at >= 0 {
		user, password, _ := strings.Cut(rest[:at], ":")
		var err, err2 error
		c.user, err = url.PathUnescape(user)
		c.password, err2 = url.PathUnescape(password)
		if err != nil || err2 != nil {
			return bad(errors.New("user or password have a % that begins no character; write it as %25"))
		}
	}
	authority, path, _ := strings.Cut(rest[at+1:], "/")
	if path != "" {
		n, err := strconv.Atoi(path)
		if err != nil || n < 0 {
			return bad(errors.New("what follows the host isn't the number of a database")) // but of a password, perhaps
		}
		c.db = n
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return bad(errors.New("its parameters can't be read"))
	}
	if err := c.take(values); err != nil {
		return bad(err)
	}
	port := defaultPort
	if c.sentinel != "" {
		port = sentinelPort
	}
	for host := range strings.SplitSeq(authority, ",") {
		h, err := withPort(host, port)
		if err != nil {
			return bad(err)
		}
		c.hosts = append(c.hosts, h)
	}
	switch {
	case c.password != "" && c.passwordFile != "":
		return bad(errors.New("it has a password and a password_file; one is enough"))
	case c.cluster && (c.sentinel != "" || c.db != 0):
		return bad(errors.New("a cluster has no Sentinels, and one database only"))
	case len(c.hosts) > 1 && c.sentinel == "" && !c.cluster:
		return bad(errors.New("it has several hosts, and says neither sentinel=NAME nor cluster=true: separate servers are separate stores"))
	}
	return c, nil
}

// withPort completes a host.
func withPort(host, port string) (string, error) {
	if host == "" {
		return "", errors.New("a host is missing")
	}
	h, p, err := net.SplitHostPort(host)
	if err != nil { // without a port
		return net.JoinHostPort(strings.Trim(host, "[]"), port), nil
	}
	if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
		return "", errors.New("a port is a number from 1 to 65535") // it can be a password, whose host is missing
	}
	return net.JoinHostPort(h, p), nil
}

// take reads the parameters.
func (c *config) take(values url.Values) error {
	for name, all := range values {
		v := all[len(all)-1]
		var err error
		switch name {
		case "sentinel":
			c.sentinel = v
		case "sentinel_user":
			c.sentinelUser = v
		case "sentinel_password_file":
			c.sentinelPasswordFile = v
		case "password_file":
			c.passwordFile = v
		case "cluster":
			c.cluster, err = strconv.ParseBool(v)
		case "prefix":
			if v == "" || len(v) > 64 || strings.ContainsFunc(v, func(r rune) bool { return escaped(byte(r)) || r > 126 }) {
				err = errors.New("of 1 to 64 printable characters, none may be a space, a colon, a brace or a percent sign")
			}
			c.prefix = v
		case "ca_file":
			c.caFile = v
		case "cert_file":
			c.certFile = v
		case "key_file":
			c.key = v
		case "server_name":
			c.serverName = v
		case "pool_size":
			if c.poolSize, err = strconv.Atoi(v); err == nil && c.poolSize < 1 {
				err = errors.New("it is less than one")
			}
		case "connect_timeout":
			if c.connectTimeout, err = time.ParseDuration(v); err == nil && c.connectTimeout <= 0 {
				err = errors.New("it is no time")
			}
		default:
			err = errors.New("there is no such parameter")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if !c.tls && (c.caFile != "" || c.certFile != "" || c.key != "" || c.serverName != "") {
		return errors.New("it names certificates, which only rediss:// uses")
	}
	if (c.certFile == "") != (c.key == "") {
		return errors.New("cert_file and key_file belong together")
	}
	return nil
}

// place names the store for people, without secrets.
func (c config) place() string {
	scheme := "redis"
	if c.tls {
		scheme = "rediss"
	}
	p := fmt.Sprintf("%s://%s/%d", scheme, strings.Join(c.hosts, ","), c.db)
	if c.sentinel != "" {
		p += "?sentinel=" + url.QueryEscape(c.sentinel)
	}
	return p
}

// options are the driver's.
func (c *config) options() (*driver.UniversalOptions, error) {
	if err := c.readFiles(); err != nil {
		return nil, err
	}
	return &driver.UniversalOptions{
		Addrs: c.hosts, DB: c.db, MasterName: c.sentinel, IsClusterMode: c.cluster,
		Username: c.user, Password: c.password, CredentialsProviderContext: c.credentials,
		SentinelUsername: c.sentinelUser, SentinelPassword: c.sentinelPassword,
		Dialer: c.dial, DialTimeout: c.connectTimeout, DialerRetries: 1,
		ReadTimeout: patience, WriteTimeout: patience, ContextTimeoutEnabled: true,
		PoolSize: c.poolSize, PipelinePoolSize: -1,
		// Whether a request may be sent again is decided where its meaning is known.
		MaxRetries: -1,
		// What isn't needed costs a start its time.
		Protocol: 2, DisableIdentity: true, ClientName: "onerun",
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}, nil
}
