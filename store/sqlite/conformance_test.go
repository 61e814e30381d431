package sqlite_test

import (
	"context"
	"os"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/sqlite"
	"github.com/onerun-dev/onerun/storetest"
)

func TestMain(m *testing.M) {
	storetest.Child(func(ctx context.Context, path string, hook func(string)) (onerun.Store, error) {
		return sqlite.Open(ctx, path, sqlite.WithHook(hook))
	})
	os.Exit(m.Run())
}

// TestConformance: the suite that every store passes, with real processes that contend
// and that are killed at every step.
func TestConformance(t *testing.T) {
	dir := t.TempDir()
	storetest.Run(t, storetest.Harness{
		Open:    func(ctx context.Context) (onerun.Store, error) { return sqlite.Open(ctx, dir) },
		Command: storetest.Self, URL: dir,
	})
}
