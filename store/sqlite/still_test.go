package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestStill: a database of which SQLite was told that nobody writes is read with all that its
// journal holds; and nothing that was read while somebody did write counts.
func TestStill(t *testing.T) {
	t.Parallel()
	for name, journal := range map[string]bool{"immutable": false, "a journal alone": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, path := t.Context(), filepath.Join(t.TempDir(), DatabaseName)
			writer, err := openDB(ctx, path, false)
			if err != nil {
				t.Fatal(err)
			}
			insert := func(tx *tx) error { return tx.exec("CREATE TABLE still (x)") }
			if err := writer.write(ctx, "write", insert); err != nil {
				t.Fatal(err)
			}
			if journal {
				path = copyOf(t, path)
			} else if _, err := writer.conn.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
				t.Fatal(err)
			}
			if err := writer.close(); err != nil {
				t.Fatal(err)
			}
			if !journal {
				for _, suffix := range fileSuffixes[1:] {
					_ = os.Remove(path + suffix)
				}
			}
			how, still := stillness(path)
			if how == "" || still == nil {
				t.Fatalf("opened with %q", how)
			}
			d, err := lookBy(ctx, path, how, still)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = d.close() }()
			*still = stands(path) // root's SQLite gives the journal its owner anew, where it can
			count := func(tx *tx) error { return tx.row("SELECT count(*) FROM still").Scan(new(int)) }
			if err := d.read(ctx, "read", count); err != nil {
				t.Error(err)
			}
			err = d.read(ctx, "read", func(*tx) error { return os.Chtimes(path, time.Time{}, time.Unix(1, 0)) })
			if !errors.Is(err, errMoved) {
				t.Errorf("beside a writer: %v", err)
			}
			if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) > 2 {
				t.Errorf("reading made files: %v %v", entries, err)
			}
		})
	}
}

// copyOf is what a copy of a database in use has: the file and its journal.
func copyOf(t *testing.T, path string) string {
	t.Helper()
	dir := t.TempDir()
	for _, suffix := range fileSuffixes[:2] {
		b, err := os.ReadFile(path + suffix)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, DatabaseName+suffix), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, DatabaseName)
}
