package etcd_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/etcdbed"
	"github.com/onerun-dev/onerun/store/etcd"
	"github.com/onerun-dev/onerun/storetest"
)

// bed is where the servers lie: in memory if the machine has a place for that. They are
// started when a test first needs them, and stopped when all tests are over, however they
// went.
var bed = etcdbed.New("/dev/shm", "")

func TestMain(m *testing.M) {
	storetest.Child(func(ctx context.Context, url string, hook func(step string)) (onerun.Store, error) {
		return etcd.Open(ctx, url, etcd.WithHook(hook))
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

// newServer starts a server of a test's own. Its leases may be as short as onerun's shortest.
func newServer(t testing.TB, args ...string) *etcdbed.Server {
	t.Helper()
	s, err := start(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(syscall.SIGKILL) })
	return s
}

func start(args ...string) (*etcdbed.Server, error) {
	return bed.Server(append([]string{"--heartbeat-interval=50", "--election-timeout=500"}, args...)...)
}

// shared is the server that most tests use, each with a prefix of its own.
var shared = sync.OnceValues(func() (*etcdbed.Server, error) { return start() })

func sharedServer(t testing.TB) *etcdbed.Server {
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
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// open opens a store, which is closed after the test.
func open(t testing.TB, url string, opts ...etcd.Option) *etcd.Store {
	t.Helper()
	s, err := etcd.Open(soon(t), url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// direct is a client beside the store, as etcdctl would be one.
func direct(t testing.TB, s *etcdbed.Server) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + s.Endpoint()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func claimOf(job, partition string) onerun.Claim {
	return onerun.Claim{
		Namespace: "ns", Job: job, Partition: partition, Lock: onerun.JobLock(job), Owner: onerun.NewID(), RunID: onerun.NewRunID(time.Now()),
		Policy: onerun.Policy{TTL: time.Minute, OnCrash: onerun.CrashAuto},
	}
}

func granted(t testing.TB, s onerun.Store, c onerun.Claim) onerun.Grant {
	t.Helper()
	g, err := s.Claim(soon(t), c)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return g
}
