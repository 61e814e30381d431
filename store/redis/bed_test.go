package redis_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/redisbed"
	"github.com/onerun-dev/onerun/store/redis"
	"github.com/onerun-dev/onerun/storetest"
)

// bed is where the servers lie: in memory if the machine has a place for that. They are
// started when a test first needs them, and stopped when all tests are over, however they
// went.
var bed = redisbed.New("/dev/shm", "")

func TestMain(m *testing.M) {
	storetest.Child(func(ctx context.Context, url string, hook func(step string)) (onerun.Store, error) {
		return redis.Open(ctx, url, redis.WithHook(hook))
	})
	flag.Parse()
	// The cases wait for leases to run out most of the time, so many can do that at once.
	if err := flag.Set("test.parallel", "16"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := func() int {
		defer bed.Close()
		return m.Run()
	}()
	os.Exit(code)
}

// shared is the server that most tests use, each with a prefix of its own.
var shared = sync.OnceValues(func() (*redisbed.Server, error) { return bed.Server() })

func sharedServer(t testing.TB) *redisbed.Server {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newServer starts a server of a test's own, which is stopped after it.
func newServer(t testing.TB, args ...string) *redisbed.Server {
	t.Helper()
	s, err := bed.Server(args...)
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

var prefixes atomic.Int64

// newPrefix is one that nobody has yet.
func newPrefix() string { return fmt.Sprintf("p%d", prefixes.Add(1)) }

// open opens a store, which is closed after the test.
func open(t testing.TB, url string, opts ...redis.Option) *redis.Store {
	t.Helper()
	s, err := redis.Open(soon(t), url, append(opts, redis.WithoutDriverLog())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// direct is a connection beside the store, as redis-cli would have one.
func direct(t testing.TB, s *redisbed.Server) *driver.Client {
	t.Helper()
	c := driver.NewClient(&driver.Options{Addr: fmt.Sprintf("127.0.0.1:%d", s.Port), Password: redisbed.Password, Protocol: 2})
	t.Cleanup(func() { _ = c.Close() })
	return c
}
