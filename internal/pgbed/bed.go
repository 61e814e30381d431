// Package pgbed runs real PostgreSQL servers, and pgbouncer before them, for tests and for the
// benchmark: see internal/bed.
package pgbed

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"github.com/onerun-dev/onerun/internal/bed"
)

// The owner of every database, who may do all.
const (
	Superuser = "keeper"
	Password  = "s3cr3t-0f-the-test"
)

var account = bed.Account{"postgres", "nobody"}

// Bed is the place of some servers.
type Bed struct {
	*bed.Bed
	init func() (data string, err error) // the cluster of which every server gets a copy
}

// New makes a bed whose data lies below the first of some directories in which there is a
// place for it; "" stands for the one for temporary files.
func New(dirs ...string) *Bed {
	b := &Bed{Bed: bed.New("postgres", account, dirs...)}
	b.init = sync.OnceValues(b.initCluster)
	return b
}

// Own gives a file or directory to the account that the servers run as.
func Own(path string) error { return account.Own(path) }

// FreePort is a port of this machine that nobody listens at.
func FreePort() (int, error) { return bed.FreePort() }

// program is where a program of the newest server that the machine has lies.
func program(name string) (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s is missing: make test-deps installs PostgreSQL", name)
	}
	if err != nil {
		return "", err
	}
	return found[len(found)-1], nil
}

func (b *Bed) initCluster() (string, error) {
	initdb, err := program("initdb")
	if err != nil {
		return "", err
	}
	home, err := b.Dir()
	if err != nil {
		return "", err
	}
	secret, data := filepath.Join(home, "password"), filepath.Join(home, "data")
	if err := os.WriteFile(secret, []byte(Password), 0o644); err != nil {
		return "", err
	}
	return data, b.Run(home, nil, initdb, "-D", data, "-U", Superuser, "-A", "scram-sha-256", "--pwfile", secret,
		"--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
}

// URLAs is the URL of a database on this machine for a role, with parameters in pairs of
// name and value.
func URLAs(port int, role, password, database string, params ...string) string {
	return bed.URL("postgres", url.UserPassword(role, password), port, database, append([]string{"sslmode", "disable"}, params...)...)
}
