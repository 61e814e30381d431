package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/onerun-dev/onerun"
)

// TestDurability: a claim and its end wait for the disk, whatever came before on the same
// connection; the journal is a write-ahead log.
func TestDurability(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), DatabaseName))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	look := func(when string) {
		t.Helper()
		err := s.write(t.Context(), "look", func(tx *tx) error {
			var level int
			var mode string
			if err := tx.row("PRAGMA synchronous").Scan(&level); err != nil {
				return err
			}
			if err := tx.row("PRAGMA journal_mode").Scan(&mode); err != nil {
				return err
			}
			if level != 2 || mode != "wal" { // FULL
				t.Errorf("%s: synchronous %d, journal %s", when, level, mode)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	look("at first")
	light := func(f func(*tx) error) error { return s.lightly(t.Context(), "light", f) }
	if err := light(func(*tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	look("after a skip")
	if err := light(func(*tx) error { return onerun.ErrState }); !errors.Is(err, onerun.ErrState) {
		t.Fatal(err)
	}
	look("after a skip that failed")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 { // never by chance
		if err := s.lightly(ctx, "light", func(*tx) error { return nil }); !errors.Is(err, onerun.ErrUnavailable) {
			t.Fatalf("done although the caller gave up: %v", err)
		}
	}
	look("after a skip that was given up")
	err = light(func(t *tx) error { return t.end(onerun.Run{}, onerun.Outcome{Status: onerun.Failed}, onerun.ByMachine) })
	if !errors.Is(err, errLazy) {
		t.Errorf("a run was closed without waiting for the disk: %v", err)
	}
}
