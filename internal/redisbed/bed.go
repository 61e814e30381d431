// Package redisbed runs real Redis servers and Sentinels for tests and for the benchmark: see
// internal/bed.
package redisbed

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/onerun-dev/onerun/internal/bed"
	"github.com/onerun-dev/onerun/internal/cutnet"
)

// Password is that of every server's default user.
const Password = "s3cr3t-0f-the-test"

var account = bed.Account{"redis", "nobody"}

// Bed is the place of some servers.
type Bed struct{ *bed.Bed }

// New makes a bed whose data lies below the first of some directories in which there is a
// place for it; "" stands for the one for temporary files.
func New(dirs ...string) *Bed { return &Bed{bed.New("redis", account, dirs...)} }

// Server is a server or a Sentinel.
type Server struct{ bed.Process }

// program is where a server's program lies.
func program(names ...string) (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is missing: make test-deps installs it", names[0])
}

// FreePort is a port of this machine that nobody listens at, and whose number a node of a
// cluster can add 10000 to.
func FreePort() (int, error) {
	for range 100 {
		port, err := bed.FreePort()
		if err != nil || port < 55000 {
			return port, err
		}
	}
	return 0, errors.New("no port below 55000 is free")
}

func (b *Bed) start(argv func(d *bed.Daemon) ([]string, error), up string) (*Server, error) {
	d, err := b.Daemon(bed.How{Argv: argv, Up: []string{up}, FreePort: FreePort, Orphaned: syscall.SIGKILL, Close: syscall.SIGKILL})
	if err != nil {
		return nil, err
	}
	return &Server{bed.Process{Daemon: d}}, d.Launch()
}

// Server starts a server with data of its own. args go to it as they are, as --NAME VALUE; but
// for these it keeps nothing on the disk.
func (b *Bed) Server(args ...string) (*Server, error) {
	return b.start(func(d *bed.Daemon) ([]string, error) {
		path, err := program("redis-server", "valkey-server")
		return append([]string{
			path, "--port", strconv.Itoa(d.Port), "--bind", "127.0.0.1", "--dir", d.Home, "--daemonize", "no", "--loglevel", "notice",
			"--save", "", "--requirepass", Password, "--masterauth", Password,
		}, args...), err
	}, "Ready to accept connections")
}

// Replica starts a server that follows another one.
func (b *Bed) Replica(of *Server, args ...string) (*Server, error) {
	return b.Server(append([]string{"--replicaof", "127.0.0.1 " + strconv.Itoa(of.Port)}, args...)...)
}

// Sentinel starts a Sentinel that watches a server, under the name main, and after a second of
// silence takes it for dead, by itself. It finds others that watch the same server.
func (b *Bed) Sentinel(of *Server) (*Server, error) {
	return b.start(func(d *bed.Daemon) ([]string, error) {
		path, err := program("redis-sentinel", "valkey-sentinel")
		if err != nil {
			return nil, err
		}
		conf := filepath.Join(d.Home, "sentinel.conf")
		lines := []string{
			"port " + strconv.Itoa(d.Port), "bind 127.0.0.1", "dir " + d.Home,
			fmt.Sprintf("sentinel monitor main 127.0.0.1 %d 1", of.Port),
			"sentinel auth-pass main " + Password, "sentinel down-after-milliseconds main 1000", "sentinel failover-timeout main 5000",
		}
		return []string{path, conf}, errors.Join(os.WriteFile(conf, []byte(strings.Join(lines, "\n")+"\n"), 0o600), account.Own(conf))
	}, "+monitor master main")
}

// URL is the URL of a store on a server, with parameters in pairs of name and value.
func (s *Server) URL(params ...string) string { return urlOf(s.Port, params...) }

func urlOf(port int, params ...string) string {
	return bed.URL("redis", url.UserPassword("", Password), port, "0", params...)
}

// Proxy is a network before a server that can be cut.
type Proxy struct{ *cutnet.Proxy }

// Proxy makes a proxy before the server.
func (s *Server) Proxy() (*Proxy, error) {
	p, err := s.Process.Proxy()
	return &Proxy{p}, err
}

// URL is the server's through the proxy.
func (p *Proxy) URL(params ...string) string { return urlOf(p.Port, params...) }
