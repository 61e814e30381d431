// Package etcdbed runs real etcd servers for tests and for the benchmark: see internal/bed.
package etcdbed

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/onerun-dev/onerun/internal/bed"
	"github.com/onerun-dev/onerun/internal/cutnet"
)

var account = bed.Account{"etcd", "nobody"}

// Bed is the place of some servers.
type Bed struct{ *bed.Bed }

// New makes a bed whose data lies below the first of some directories in which there is a
// place for it; "" stands for the one for temporary files.
func New(dirs ...string) *Bed { return &Bed{bed.New("etcd", account, dirs...)} }

// Own gives a file or directory to the account that the servers run as.
func Own(path string) error { return account.Own(path) }

// Server is an etcd of a bed. Its port is the one for clients.
type Server struct{ bed.Process }

// Server starts an etcd with data of its own. args go to it as they are.
func (b *Bed) Server(args ...string) (*Server, error) {
	if _, err := exec.LookPath("etcd"); err != nil {
		return nil, errors.New("etcd is missing: make test-deps installs it")
	}
	var peer int
	d, err := b.Daemon(bed.How{
		Argv:     func(d *bed.Daemon) ([]string, error) { return argv(d, peer, args), nil },
		Up:       []string{"serving client traffic", "serving insecure client", "serving secure client"},
		Orphaned: syscall.SIGTERM,
		Close:    syscall.SIGTERM,
	})
	if err != nil {
		return nil, err
	}
	return &Server{bed.Process{Daemon: d}}, d.Launch(&peer)
}

func argv(d *bed.Daemon, peerPort int, more []string) []string {
	scheme := "http://"
	for _, a := range more {
		if strings.HasPrefix(a, "--cert-file") {
			scheme = "https://"
		}
	}
	client, peer := scheme+d.Addr(), "http://127.0.0.1:"+strconv.Itoa(peerPort)
	args := []string{
		"etcd", "--name", "bed", "--data-dir", filepath.Join(d.Home, "data"), "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "bed=" + peer, "--logger", "zap",
	}
	if strings.Contains(help(), "--unsafe-no-fsync") {
		args = append(args, "--unsafe-no-fsync")
	}
	return append(args, more...)
}

// help has the flags that the server knows.
var help = sync.OnceValue(func() string {
	out, _ := exec.Command("etcd", "--help").CombinedOutput() // without one it has none
	return string(out)
})

// Endpoint is where the server listens for clients.
func (s *Server) Endpoint() string { return s.Addr() }

// URL is that of a store on the server, with parameters in pairs of name and value.
func (s *Server) URL(prefix string, params ...string) string {
	return bed.URL("etcd", nil, s.Port, prefix, params...)
}

// Proxy is a network before a server that can be cut.
type Proxy struct{ *cutnet.Proxy }

// Proxy makes a proxy before the server.
func (s *Server) Proxy() (*Proxy, error) {
	p, err := s.Process.Proxy()
	return &Proxy{p}, err
}

// URL is the server's through the proxy.
func (p *Proxy) URL(prefix string, params ...string) string {
	return bed.URL("etcd", nil, p.Port, prefix, params...)
}
