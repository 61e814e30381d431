package zookeeper

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/zkbed"
	"github.com/onerun-dev/onerun/storetest"
)

// bed is where the servers lie: in memory if the machine has a place for that. They are started when a test first
// needs them, and stopped when all tests are over, however they went.
var bed = zkbed.New("/dev/shm", "")

func TestMain(m *testing.M) {
	storetest.Child(func(ctx context.Context, url string, hook func(step string)) (onerun.Store, error) {
		return Open(ctx, url, WithHook(hook))
	})
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

// shared is the server that most tests use, each with a path of its own.
var shared = sync.OnceValues(func() (*zkbed.Server, error) { return bed.Server() })

func sharedServer(t testing.TB) *zkbed.Server {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// server is one of a test's own, which is stopped when the test is over, so that it costs the others nothing.
func server(t testing.TB, lines ...string) *zkbed.Server {
	t.Helper()
	s, err := bed.Server(lines...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(syscall.SIGKILL) })
	return s
}

// soon is a context for what takes a moment.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// freshURL is a URL on a server with a path that nobody has yet.
func freshURL(addr string) string { return "zookeeper://" + addr + "/t" + onerun.NewID()[:12] }

func open(t testing.TB, url string, opts ...Option) *Store {
	t.Helper()
	s, err := Open(soon(t), url, opts...)
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

// openSpace is a client of the keys alone.
func openSpace(t testing.TB, url string) *space {
	t.Helper()
	cfg, err := parse(url)
	if err != nil {
		t.Fatal(err)
	}
	s := newSpace(t.Context(), newConn(cfg))
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// silent takes what the driver would log.
type silent struct{}

func (silent) Printf(string, ...any) {}

// direct is a connection beside the store, as zkCli.sh has one.
func direct(t testing.TB, addr string) *zk.Conn {
	t.Helper()
	z, _, err := zk.Connect([]string{addr}, 10*time.Second, zk.WithLogger(silent{}), zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(z.Close)
	return z
}
