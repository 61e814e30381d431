package pgbed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/onerun-dev/onerun/internal/bed"
)

// Bouncer starts a pgbouncer in transaction mode before a server, with so few connections
// that its clients share them all the time; unless lines of its configuration say otherwise.
func (b *Bed) Bouncer(s *Server, lines ...string) (*Server, error) {
	const path = "/usr/sbin/pgbouncer"
	if _, err := os.Stat(path); err != nil {
		return nil, errors.New("pgbouncer is missing: make test-deps installs it")
	}
	d, err := b.Daemon(bed.How{
		Argv: func(d *bed.Daemon) ([]string, error) {
			conf, users := filepath.Join(d.Home, "ini"), filepath.Join(d.Home, "users")
			text := fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = plain
auth_file = %s
pool_mode = transaction
default_pool_size = 5
max_client_conn = 1000
log_connections = 0
log_disconnections = 0
%s
`, s.Port, d.Port, users, strings.Join(lines, "\n"))
			account := fmt.Sprintf("%q %q\n", Superuser, Password)
			return []string{path, conf}, errors.Join(os.WriteFile(conf, []byte(text), 0o644), os.WriteFile(users, []byte(account), 0o644))
		},
		Up:       []string{"process up"},
		Orphaned: syscall.SIGTERM,
		Close:    syscall.SIGTERM,
	})
	if err != nil {
		return nil, err
	}
	return &Server{d}, d.Launch()
}
