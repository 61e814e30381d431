package pgbed

import (
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/onerun-dev/onerun/internal/bed"
	"github.com/onerun-dev/onerun/internal/cutnet"
)

// Server is a daemon of a bed. To stop it by SIGINT is what pg_ctl stop -m fast does, and by
// SIGQUIT what -m immediate does.
type Server struct{ *bed.Daemon }

// Server starts a PostgreSQL with a cluster of its own. args go to it as they are, settings
// as -c NAME=VALUE among them; but for these it is as its makers set it up.
func (b *Bed) Server(args ...string) (*Server, error) {
	model, err := b.init()
	if err != nil {
		return nil, err
	}
	return b.postgres(args, func(home string) error { return b.Run(home, nil, "cp", "-a", model, "data") })
}

// Standby starts a server that follows another one by streaming replication, under a name.
func (b *Bed) Standby(primary *Server, name string, args ...string) (*Server, error) {
	backup, err := program("pg_basebackup")
	if err != nil {
		return nil, err
	}
	return b.postgres(append(args, "-c", "cluster_name="+name), func(home string) error {
		return b.Run(home, []string{"PGPASSWORD=" + Password}, backup, "-D", "data", "-h", "127.0.0.1", "-p", strconv.Itoa(primary.Port), "-U", Superuser,
			"-R", "-c", "fast", "--no-sync")
	})
}

// postgres starts a PostgreSQL on data that are made for it.
func (b *Bed) postgres(args []string, fill func(home string) error) (*Server, error) {
	d, err := b.Daemon(bed.How{
		Argv: func(d *bed.Daemon) ([]string, error) {
			postgres, err := program("postgres")
			return append([]string{postgres, "-D", filepath.Join(d.Home, "data"), "-p", strconv.Itoa(d.Port), "-h", "127.0.0.1", "-k", d.Home}, args...), err
		},
		Up:       []string{"ready to accept"},
		Orphaned: syscall.SIGTERM,
		Close:    syscall.SIGINT,
	})
	if err != nil {
		return nil, err
	}
	if err := fill(d.Home); err != nil {
		return nil, err
	}
	return &Server{d}, d.Launch()
}

// URL is the server's, for a database, with parameters in pairs of name and value.
func (s *Server) URL(database string, params ...string) string {
	return URLAs(s.Port, Superuser, Password, database, params...)
}

// Proxy is a network before a server that can be cut.
type Proxy struct{ *cutnet.Proxy }

// Proxy makes a proxy before the server.
func (s *Server) Proxy() (*Proxy, error) {
	p, err := s.Daemon.Proxy()
	return &Proxy{p}, err
}

// URL is the server's through the proxy.
func (p *Proxy) URL(database string, params ...string) string {
	return URLAs(p.Port, Superuser, Password, database, params...)
}
