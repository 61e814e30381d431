package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// TestLinkInItsPlace: whoever shares the directory may exchange the database for a link
// between the look at it and its opening. Nothing is made or written behind the link.
func TestLinkInItsPlace(t *testing.T) {
	t.Parallel()
	for _, behind := range []string{"nothing", "an empty file", "a database"} {
		dir := t.TempDir()
		target, link := filepath.Join(dir, "target"), filepath.Join(dir, "store", DatabaseName)
		if err := os.Mkdir(filepath.Dir(link), 0o700); err != nil {
			t.Fatal(err)
		}
		switch behind {
		case "an empty file":
			if err := os.WriteFile(target, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		case "a database":
			d, err := openDB(t.Context(), target, false)
			if err != nil {
				t.Fatal(err)
			}
			_ = d.close()
		}
		before, _ := os.ReadFile(target)
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		// As openDB goes on after it has looked.
		d, err := connect(context.Background(), link)
		if err == nil || behind != "nothing" && !errors.Is(err, onerun.ErrCreate) {
			t.Errorf("%s: opened with %v, error %v", behind, d, err)
		}
		after, err := os.ReadFile(target)
		if behind == "nothing" && !errors.Is(err, os.ErrNotExist) || string(after) != string(before) {
			t.Errorf("%s behind the link is changed: %v", behind, err)
		}
		for _, suffix := range []string{"-wal", "-shm"} {
			if _, err := os.Lstat(target + suffix); err == nil && behind != "a database" {
				t.Errorf("%s: %s was made", behind, suffix)
			}
		}
	}
}

// TestNothingBesideATombstone: a program that knows of no tombstones can't start a key that
// was pruned.
func TestNothingBesideATombstone(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, err := Open(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	err = s.write(ctx, "as version 1 would", func(t *tx) error {
		insert := `INSERT INTO onerun_run (run_id, namespace, job, partition, key, lock, status, attempt, started_at) VALUES (?1, 'default', 'j', 'p', 'j:p', 'job/j', 'SUCCEEDED', 1, 1)`
		if err := t.exec(insert, "a"); err != nil {
			return err
		}
		var p onerun.Pruned
		if err := t.remove(sqlledger.Chosen{ID: "a", Started: 1}, false, &p); err != nil || p.Keys != 1 {
			return errors.Join(errChanged, err)
		}
		if err := t.exec(insert, "b"); err == nil {
			return errors.New("a run was inserted beside the tombstone of its key")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
