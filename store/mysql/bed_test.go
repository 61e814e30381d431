package mysql_test

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"net/url"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/mariadbbed"
	"github.com/onerun-dev/onerun/store/mysql"
	"github.com/onerun-dev/onerun/storetest"
)

// bed is where the servers lie: in memory if the machine has a place for that. They are
// started when a test first needs them, and stopped when all tests are over, however they
// went.
var bed = mariadbbed.New("/dev/shm", "")

func TestMain(m *testing.M) {
	storetest.Child(func(ctx context.Context, url string, hook func(step string)) (onerun.Store, error) {
		return mysql.Open(ctx, url, mysql.WithHook(hook))
	})
	migrateIfChild()
	freezeIfChild()
	flag.Parse()
	// The cases wait for leases to run out most of the time, so many can do that at once.
	if err := flag.Set("test.parallel", "12"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := func() int {
		defer bed.Close()
		return m.Run()
	}()
	os.Exit(code)
}

// newServer starts a server with data of its own. Its zone has an hour that is there twice, and its
// isolation is another one than the store's.
func newServer(args ...string) (*mariadbbed.Server, error) {
	return bed.Server(append([]string{
		"--max-connections=600", "--default-time-zone=+05:45", "--transaction-isolation=SERIALIZABLE", "--sql-mode=", "--character-set-server=latin1",
	}, args...)...)
}

// stopsAfter stops a server of a test's own when the test is over, so that it costs the others
// nothing.
func stopsAfter(t testing.TB, s *mariadbbed.Server) {
	t.Cleanup(func() { s.Stop(syscall.SIGKILL) })
}

// ownServer is a server of a test's own.
func ownServer(t testing.TB, args ...string) *mariadbbed.Server {
	t.Helper()
	s, err := newServer(args...)
	if err != nil {
		t.Fatal(err)
	}
	stopsAfter(t, s)
	return s
}

// shared is the server that most tests use, each with a database of its own. It doesn't wait
// for the disk.
var shared = sync.OnceValues(func() (*mariadbbed.Server, error) {
	return newServer("--innodb-flush-log-at-trx-commit=0", "--skip-log-bin")
})

func sharedServer(t testing.TB) *mariadbbed.Server {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// soon is a context for what takes a moment.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

var databases struct {
	sync.Mutex
	n int
}

// newDatabase makes a database on a server.
func newDatabase(t testing.TB, s *mariadbbed.Server) string {
	t.Helper()
	databases.Lock()
	databases.n++
	name := fmt.Sprintf("d%d", databases.n)
	databases.Unlock()
	mustExec(t, direct(t, s.URL("mysql")), "CREATE DATABASE "+name)
	return name
}

// open opens a store, which is closed after the test.
func open(t testing.TB, url string, opts ...mysql.Option) *mysql.Store {
	t.Helper()
	s, err := mysql.Open(soon(t), url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// fresh is a store in a database of its own on the shared server, and its URL.
func fresh(t testing.TB, params ...string) (*mysql.Store, string) {
	t.Helper()
	return freshOn(t, sharedServer(t), params...)
}

func freshOn(t testing.TB, server *mariadbbed.Server, params ...string) (*mysql.Store, string) {
	t.Helper()
	url := server.URL(newDatabase(t, server), params...)
	s := open(t, url)
	if _, _, err := s.Migrate(soon(t)); err != nil {
		t.Fatal(err)
	}
	return s, url
}

// dsn is a store's URL as the driver takes it.
func dsn(raw string, params ...string) string {
	u, err := url.Parse(raw)
	if err != nil {
		panic(err)
	}
	c := driver.NewConfig()
	c.User, c.Net, c.Addr, c.DBName, c.MultiStatements = u.User.Username(), "tcp", u.Host, u.Path[1:], true
	c.Passwd, _ = u.User.Password()
	c.Params = map[string]string{}
	for i := 0; i < len(params); i += 2 {
		c.Params[params[i]] = params[i+1]
	}
	return c.FormatDSN()
}

// direct are connections beside the store, as the mysql client would have one.
func direct(t testing.TB, raw string, params ...string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn(raw, params...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func mustExec(t testing.TB, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(soon(t), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}
