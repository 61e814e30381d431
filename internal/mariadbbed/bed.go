// Package mariadbbed runs real MariaDB servers for tests and for the benchmark: see internal/bed.
package mariadbbed

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/onerun-dev/onerun/internal/bed"
	"github.com/onerun-dev/onerun/internal/cutnet"
)

// The account of every server that may do all.
const (
	Superuser = "keeper"
	Password  = "s3cr3t-0f-the-test"
)

// Where the programs of the server are.
const (
	daemon  = "/usr/sbin/mariadbd"
	install = "/usr/bin/mariadb-install-db"
)

// Bed is the place of some servers.
type Bed struct {
	*bed.Bed
	init func() (data string, err error) // the data of which every server gets a copy
}

// New makes a bed whose data lies below the first of some directories in which there is a
// place for it; "" stands for the one for temporary files.
func New(dirs ...string) *Bed {
	b := &Bed{Bed: bed.New("mariadb", bed.Account{"nobody"}, dirs...)}
	b.init = sync.OnceValues(b.initData)
	return b
}

// initData makes the data of a new server. Its superuser is made there too, by the file that a
// server executes as it starts: see Server.
func (b *Bed) initData() (string, error) {
	if _, err := os.Stat(daemon); err != nil {
		return "", errors.New("mariadbd is missing: make test-deps installs MariaDB")
	}
	home, err := b.Dir()
	if err != nil {
		return "", err
	}
	data := filepath.Join(home, "data")
	return data, b.Run(home, nil, install, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db",
		"--skip-log-bin", "--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M")
}

// Server is a MariaDB of a bed.
type Server struct{ bed.Process }

// Server starts a MariaDB with data of its own. args go to it as they are; but for these it is
// as its makers set it up, only small.
func (b *Bed) Server(args ...string) (*Server, error) {
	model, err := b.init()
	if err != nil {
		return nil, err
	}
	d, err := b.Daemon(bed.How{
		Argv: func(d *bed.Daemon) ([]string, error) {
			in := func(name string) string { return filepath.Join(d.Home, name) }
			return append([]string{
				daemon, "--no-defaults", "--datadir=" + in("data"), "--port=" + strconv.Itoa(d.Port), "--bind-address=127.0.0.1",
				"--socket=" + in("s"), "--pid-file=" + in("pid"), "--init-file=" + in("init.sql"), "--skip-name-resolve",
				"--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M", "--key-buffer-size=1M", "--aria-pagecache-buffer-size=1M",
			}, args...), nil
		},
		Up:       []string{"ready for connections"},
		Orphaned: syscall.SIGKILL,
		Close:    syscall.SIGKILL,
	})
	if err != nil {
		return nil, err
	}
	account := fmt.Sprintf("CREATE USER IF NOT EXISTS '%[1]s'@'%%' IDENTIFIED BY '%[2]s';\nGRANT ALL ON *.* TO '%[1]s'@'%%' WITH GRANT OPTION;\n", Superuser, Password)
	if err := errors.Join(b.Run(d.Home, nil, "cp", "-a", model, "data"), os.WriteFile(filepath.Join(d.Home, "init.sql"), []byte(account), 0o644)); err != nil {
		return nil, err
	}
	return &Server{bed.Process{Daemon: d}}, d.Launch()
}

// FreePort is a port of this machine that nobody listens at.
func FreePort() (int, error) { return bed.FreePort() }

// URLAs is the URL of a database on this machine for an account, with parameters in pairs of
// name and value.
func URLAs(port int, account, password, database string, params ...string) string {
	return bed.URL("mysql", url.UserPassword(account, password), port, database, params...)
}

// URL is the server's, for a database, with parameters in pairs of name and value.
func (s *Server) URL(database string, params ...string) string {
	return URLAs(s.Port, Superuser, Password, database, params...)
}

// Proxy is a network before a server that can be cut.
type Proxy struct{ *cutnet.Proxy }

// Proxy makes a proxy before the server.
func (s *Server) Proxy() (*Proxy, error) {
	p, err := s.Process.Proxy()
	return &Proxy{p}, err
}

// URL is the server's through the proxy.
func (p *Proxy) URL(database string, params ...string) string {
	return URLAs(p.Port, Superuser, Password, database, params...)
}
