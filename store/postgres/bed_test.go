package postgres_test

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/pgbed"
	"github.com/onerun-dev/onerun/store/postgres"
	"github.com/onerun-dev/onerun/storetest"
)

// The owner of the test's databases.
const (
	superuser = pgbed.Superuser
	password  = pgbed.Password
)

// bed is where the servers lie: in memory if the machine has a place for that. They are
// started when a test first needs them, and stopped when all tests are over, however they
// went.
var bed = pgbed.New("/dev/shm", "")

func TestMain(m *testing.M) {
	storetest.Child(func(ctx context.Context, url string, hook func(step string)) (onerun.Store, error) {
		return postgres.Open(ctx, url, postgres.WithHook(hook))
	})
	migrateIfChild()
	waitIfChild()
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

// newServer starts a server with a cluster of its own.
func newServer(args ...string) (*pgbed.Server, error) {
	return bed.Server(append([]string{
		"-c", "max_connections=400", "-c", "shared_buffers=32MB", "-c", "log_checkpoints=off", "-c", "deadlock_timeout=100ms", "-c", "timezone=Asia/Kathmandu",
	}, args...)...)
}

// stopsAfter stops a server of a test's own when the test is over, so that it costs the others
// nothing.
func stopsAfter(t testing.TB, s *pgbed.Server) {
	t.Cleanup(func() { s.Stop(syscall.SIGINT) })
}

// shared is the server that most tests use, each with a schema of its own. It doesn't wait
// for the disk.
var shared = sync.OnceValues(func() (*pgbed.Server, error) { return newServer("-c", "fsync=off") })

func sharedServer(t testing.TB) *pgbed.Server {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// bouncer is a pgbouncer in transaction mode in front of the shared server.
var bouncer = sync.OnceValues(func() (*pgbed.Server, error) {
	s, err := shared()
	if err != nil {
		return nil, err
	}
	return bed.Bouncer(s)
})

// soon is a context for what takes a moment.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

var schemas struct {
	sync.Mutex
	n int
}

// newSchema is the name of a schema that nobody has yet.
func newSchema() string {
	schemas.Lock()
	defer schemas.Unlock()
	schemas.n++
	return fmt.Sprintf("s%d", schemas.n)
}

// open opens a store, which is closed after the test.
func open(t testing.TB, url string, opts ...postgres.Option) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(soon(t), url, opts...)
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

// direct is a connection beside the store, as psql would have one.
func direct(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(soon(t), withoutSchema(url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func mustExec(t testing.TB, conn *pgx.Conn, query string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(soon(t), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// withoutSchema is a URL for the driver, which doesn't know onerun's own parameters.
func withoutSchema(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		panic(err)
	}
	q := u.Query()
	q.Del("schema")
	q.Del("pool_max_conns")
	u.RawQuery = q.Encode()
	return u.String()
}
