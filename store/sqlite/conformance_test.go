package sqlite_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/sqlite"
	"github.com/onerun-dev/onerun/storetest"
)

// The tests start their own binary again: as clients of the conformance suite, and as
// the processes of child_test.go.
func TestMain(m *testing.M) {
	storetest.Child(func(ctx context.Context, url string, hook func(step string)) (onerun.Store, error) {
		return sqlite.Open(ctx, url, sqlite.WithHook(hook))
	})
	serveIfChild()
	code := m.Run()
	removeTwin()
	os.Exit(code)
}

// single are the topics that take most of the time of the race detector, and in which it
// finds nothing, since they are of one goroutine in each process. The twin tests them.
var single = []string{"crash", "names"}

// TestConformance gives each case of the suite a store of its own, so that they can
// run beside each other.
func TestConformance(t *testing.T) {
	t.Parallel()
	program, err := twin()
	if err != nil {
		t.Fatal(err)
	}
	harness := func(path string) storetest.Harness {
		return storetest.Harness{
			Open:    func(ctx context.Context) (onerun.Store, error) { return sqlite.Open(ctx, path) },
			Command: func() *exec.Cmd { return exec.Command(program) },
			URL:     path,
			Queued: func(_ context.Context, namespace string, lock onerun.LockName) (int, error) {
				return queued(filepath.Join(filepath.Dir(path), "locks"), namespace, lock)
			},
		}
	}
	if raceDetector {
		t.Run("topics of one goroutine", func(t *testing.T) {
			t.Parallel()
			out, err := exec.CommandContext(t.Context(), program, "-test.run=^TestConformance$/^("+strings.Join(single, "|")+")$", "-test.v").CombinedOutput()
			if err != nil || !strings.Contains(string(out), "PASS: TestConformance/"+single[0]) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	for i, c := range storetest.Cases(harness("")) {
		if topic, _, _ := strings.Cut(c.Name, "/"); raceDetector && slices.Contains(single, topic) {
			continue // see above
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			own := storetest.Cases(harness(filepath.Join(home(t), sqlite.DatabaseName)))[i]
			if err := own.Run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// home makes a directory for a store: in memory if the machine has a place for that,
// since most tests would wait for the disk most of the time.
func home(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "onerun-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove what the test made: %v", err)
		}
	})
	return dir
}
