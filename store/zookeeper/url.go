package zookeeper

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/onerun-dev/onerun"
)

// What a URL leaves open.
const (
	defaultPort    = "2181"
	defaultChroot  = "/onerun"
	defaultSession = 6 * time.Second
	minSession     = 500 * time.Millisecond
	maxSession     = 10 * time.Minute
)

// config is what a URL says.
type config struct {
	servers  []string // HOST:PORT
	chroot   string
	user     string
	password string
	file     string        // the password's, or ""
	timeout  time.Duration // of the session
	acl      []zk.ACL      // nil: the creator's alone, or everybody's where nobody has logged in
}

// parse reads a URL: zookeeper://[USER[:PASSWORD]@]HOST:PORT,HOST:PORT/CHROOT?password_file=…&session_timeout=…&acl=…
func parse(rawURL string) (config, error) {
	c := config{chroot: defaultChroot, timeout: defaultSession}
	err := c.read(rawURL)
	if err == nil && c.file != "" {
		if c.password, err = readPassword(c.file); err != nil {
			return c, err
		}
	}
	if err == nil && c.user != "" && c.password == "" {
		err = errors.New("it names a user and no password")
	}
	if err != nil {
		if _, query, _ := strings.Cut(rawURL, "?"); strings.Contains(query, "@") { // else a part of it would be in the error
			err = errors.New("a ? in its password has to be written as %3F")
		}
		return c, &onerun.StoreError{
			Kind: onerun.ErrUsage, What: "read the URL of the store", Err: errors.New(c.mask(err.Error())),
			Do: "write it as zookeeper://HOST:PORT,HOST:PORT/CHROOT, with a user as zookeeper://USER@…?password_file=FILE",
		}
	}
	return c, nil
}

// read takes a URL apart by hand: one with several hosts is one that net/url can't read, and its errors would show the
// password.
func (c *config) read(rawURL string) error {
	rest, ok := strings.CutPrefix(rawURL, "zookeeper://")
	if !ok {
		return errors.New("it doesn't begin with zookeeper://")
	}
	rest, query, _ := strings.Cut(rest, "?")
	if strings.Contains(rest, "#") || strings.Contains(query, "#") {
		return errors.New("it has a #, which must be written %23")
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, password, _ := strings.Cut(rest[:at], ":")
		rest = rest[at+1:]
		var err error
		if c.password, err = url.PathUnescape(password); err != nil {
			return errors.New("the password has a % that is not followed by two hexadecimal digits")
		}
		if c.user, err = url.PathUnescape(user); err != nil {
			return errors.New("the user has a % that is not followed by two hexadecimal digits")
		}
		if c.user == "" || strings.Contains(c.user, ":") {
			return errors.New("a user has a name, in which there is no colon")
		}
	}
	hosts, path, _ := strings.Cut(rest, "/")
	for host := range strings.SplitSeq(hosts, ",") {
		server, err := serverOf(host)
		if err != nil {
			return err
		}
		c.servers = append(c.servers, server)
	}
	if path = strings.TrimSuffix(path, "/"); path != "" {
		plain, err := url.PathUnescape(path)
		if err != nil {
			return errors.New("the path has a % that is not followed by two hexadecimal digits")
		}
		if err := chrootAllowed(plain); err != nil {
			return err
		}
		c.chroot = "/" + plain
	}
	return c.parameters(query)
}

func (c *config) parameters(query string) error {
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		value, err := url.QueryUnescape(value)
		if err != nil {
			return fmt.Errorf("%s has a %% that is not followed by two hexadecimal digits", key)
		}
		switch key {
		case "password_file":
			if value == "" {
				return errors.New("password_file names no file")
			}
			c.file = value
		case "session_timeout":
			d, err := time.ParseDuration(value)
			if err != nil || d < minSession || d > maxSession {
				return fmt.Errorf("session_timeout is a duration between %s and %s, as 6s", minSession, maxSession)
			}
			c.timeout = d
		case "acl":
			if c.acl, err = parseACL(value); err != nil {
				return err
			}
		default:
			return fmt.Errorf("the parameter %q is unknown; there are password_file, session_timeout and acl", key)
		}
	}
	if c.file != "" && c.user == "" {
		return errors.New("it has a password_file and names no user")
	}
	return nil
}

// serverOf is one host with its port.
func serverOf(host string) (string, error) {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.Trim(host, "[]"), defaultPort
		if strings.Contains(name, ":") && !strings.HasPrefix(host, "[") {
			return "", fmt.Errorf("the host %q is neither HOST:PORT nor [ADDRESS]:PORT", host)
		}
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("the host %q has no port between 1 and 65535", host)
	}
	if name == "" {
		return "", errors.New("it names no host, or an empty one")
	}
	return net.JoinHostPort(name, port), nil
}

// chrootAllowed checks a path by ZooKeeper's own rules ("The ZooKeeper Data Model" in its programmer's guide).
func chrootAllowed(path string) error {
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." {
			return errors.New("a part of the path is empty, or it is one of . and .., which are no names")
		}
		for _, r := range part {
			if r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0 && r <= 0xffff {
				return fmt.Errorf("the path holds %+q, which ZooKeeper doesn't allow", r)
			}
		}
	}
	if first, _, _ := strings.Cut(path, "/"); first == "zookeeper" {
		return errors.New("ZooKeeper keeps /zookeeper for itself")
	}
	return nil
}

// permissions are the letters of zkCli.sh.
var permissions = map[rune]int32{'c': zk.PermCreate, 'd': zk.PermDelete, 'r': zk.PermRead, 'w': zk.PermWrite, 'a': zk.PermAdmin}

// parseACL reads who may do what, as setAcl of zkCli.sh takes it: SCHEME:ID:cdrwa,…
func parseACL(list string) ([]zk.ACL, error) {
	var acl []zk.ACL
	for one := range strings.SplitSeq(list, ",") {
		scheme, rest, ok := strings.Cut(one, ":")
		i := strings.LastIndexByte(rest, ':')
		if !ok || i < 0 || scheme == "" {
			return nil, errors.New("acl is a list of SCHEME:ID:PERMISSIONS, as zkCli.sh takes it: auth::cdrwa,ip:10.0.0.0/8:r")
		}
		entry := zk.ACL{Scheme: scheme, ID: rest[:i]}
		for _, letter := range rest[i+1:] {
			p, ok := permissions[letter]
			if !ok {
				return nil, fmt.Errorf("acl has a permission %q; there are c d r w a", letter)
			}
			entry.Perms |= p
		}
		acl = append(acl, entry)
	}
	return acl, nil
}

// readPassword gives the first line of a file.
//
// Errors: ErrConfig; ErrPermission for a file that this account may not read.
func readPassword(path string) (string, error) {
	b, err := os.ReadFile(path)
	line, _, _ := strings.Cut(string(b), "\n")
	if line = strings.TrimSuffix(line, "\r"); err == nil && line == "" {
		err = errors.New("its first line, which is to be the password, is empty")
	}
	if err == nil {
		return line, nil
	}
	kind := onerun.ErrConfig
	if errors.Is(err, os.ErrPermission) {
		kind = onerun.ErrPermission
	}
	var file *os.PathError
	if errors.As(err, &file) {
		err = file.Err
	}
	return "", &onerun.StoreError{Kind: kind, What: "password file", Path: path, Err: err, Do: "look at the file that the store's URL names"}
}

// place names the store for people.
func (c config) place() string { return "zookeeper://" + strings.Join(c.servers, ",") + c.chroot }

// mask takes the password out of a text.
func (c config) mask(text string) string {
	if c.password != "" {
		text = strings.ReplaceAll(text, c.password, "***")
		text = strings.ReplaceAll(text, url.PathEscape(c.password), "***")
	}
	return onerun.Redact(text)
}
