package hostlock_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
	"github.com/onerun-dev/onerun/internal/pgbed"
	"github.com/onerun-dev/onerun/store/hostlock"
	"github.com/onerun-dev/onerun/store/postgres"
	"github.com/onerun-dev/onerun/storetest"
)

var bed = pgbed.New("/dev/shm", "")

// shared is the server of all tests, each of which has a schema of its own.
var shared = sync.OnceValues(func() (*pgbed.Server, error) {
	return bed.Server("-c", "max_connections=400", "-c", "shared_buffers=32MB", "-c", "fsync=off", "-c", "deadlock_timeout=100ms")
})

func TestMain(m *testing.M) {
	storetest.Child(openPlace)
	unclaimedChild()
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

// A place is a store's URL and a lock directory: one for one host, or one in which every
// acquisition gets its own, as if it were on a host of its own.
const (
	oneHost   = " host "
	manyHosts = " hosts "
)

func openPlace(_ context.Context, place string, hook func(step string)) (onerun.Store, error) {
	if url, dir, one := strings.Cut(place, oneHost); one {
		s, err := openOn(url, dir, hook)
		return leaseless{s, s, s, s, s, s}, err
	}
	url, dir, _ := strings.Cut(place, manyHosts)
	return newHosts(url, dir, hook)
}

func openOn(url, dir string, hook func(step string)) (*hostlock.Store, error) {
	remote, err := openRemote(url, hook)
	if err != nil {
		return nil, err
	}
	return hostlock.Open(remote, dir, hostlock.Options{Hook: hook})
}

func openRemote(url string, hook func(step string)) (*postgres.Store, error) {
	return postgres.Open(context.Background(), url, postgres.WithHook(hook), postgres.WithWorker(filelock.ThisWorker))
}

var schemas struct {
	sync.Mutex
	n int
}

// placeOf makes a place on the shared server.
func placeOf(t *testing.T, hosts string) string {
	t.Helper()
	server, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	schemas.Lock()
	schemas.n++
	schema := fmt.Sprintf("s%d", schemas.n)
	schemas.Unlock()
	return server.URL("postgres", "schema", schema) + hosts + t.TempDir()
}

// soon is a context that ends when a test has hung.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}
