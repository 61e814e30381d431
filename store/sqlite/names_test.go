package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/sqlite"
)

// TestNames: what a shell completes, from a ledger that is there, and nothing else.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	if _, err := sqlite.Names(t.Context(), dir, "default", "", true); !errors.Is(err, onerun.ErrCreate) {
		t.Errorf("a store that isn't there: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Fatalf("asking made something: %v, %v", entries, err)
	}
	s, err := sqlite.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	cancel := func(namespace, job, partition string) {
		t.Helper()
		if _, err := s.Resolve(t.Context(), onerun.Resolution{Namespace: namespace, Job: job, Partition: partition, As: onerun.Skipped, Who: onerun.Who{By: "me", Reason: "why"}}); err != nil {
			t.Fatal(err)
		}
	}
	var all []string
	for i := range 120 {
		partition := fmt.Sprintf("%03d", i)
		cancel("default", "many", partition)
		all = append(all, "many:"+partition)
	}
	cancel("default", "마감", "p")
	cancel("default", "mane", "p:q")
	cancel("other", "mirror", "p")
	if err := s.Pause(t.Context(), onerun.PauseRequest{Namespace: "default", Job: "mended", Who: onerun.Who{By: "me", Reason: "why"}}); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(all)
	for _, c := range []struct {
		start string
		keys  bool
		want  []string
	}{
		{"", false, []string{"mane", "many", "mended", "마감"}},
		{"man", true, []string{"mane", "many"}},
		{"many", false, []string{"many"}},
		{"many", true, append([]string{"many"}, all[:100]...)},
		{"many:01", true, all[100:110]},
		{"마", true, []string{"마감", "마감:p"}},
		{"mane:p:", true, []string{"mane:p:q"}},
		{"mended", true, []string{"mended"}},
		{"mi", true, nil},
		{"%", true, nil},
	} {
		got, err := sqlite.Names(t.Context(), filepath.Join(dir, sqlite.DatabaseName), "default", c.start, c.keys)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q, keys %v: %q, %v; want %q", c.start, c.keys, got, err, c.want)
		}
	}
}
