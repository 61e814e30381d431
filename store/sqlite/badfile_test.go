package sqlite_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/sqlite"
)

// used makes a store with some history, closed, and returns its path.
func used(t *testing.T) string {
	t.Helper()
	path := filepath.Join(home(t), sqlite.DatabaseName)
	s, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{t: t, path: path, Store: s}
	for _, partition := range []string{day, "2026-09-16"} {
		b.lived(claimOf("settle", partition), onerun.Succeeded)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestBadDatabase: a file that is no database of this program's is refused as what it
// is, and stays what it was; nobody is told "skipped", and no lock is left behind.
func TestBadDatabase(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, kind string
		spoil      func(t *testing.T, path string)
	}{
		{"garbage", "io", func(t *testing.T, path string) { rewrite(t, path, bytes.Repeat([]byte("no database. "), 1000)) }},
		{"a line of text", "io", func(t *testing.T, path string) { rewrite(t, path, []byte("hello\n")) }},
		{"truncated within its header", "io", func(t *testing.T, path string) { rewrite(t, path, read(t, path)[:50]) }},
		{"truncated by half", "io", func(t *testing.T, path string) { b := read(t, path); rewrite(t, path, b[:len(b)/2]) }},
		{"a page zeroed", "io", func(t *testing.T, path string) {
			d := rawSQL(t, path)
			page := one[int](t, d, "SELECT rootpage FROM sqlite_schema WHERE name = 'onerun_run_key'")
			size := one[int](t, d, "PRAGMA page_size")
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			b := read(t, path)
			clear(b[(page-1)*size : page*size])
			rewrite(t, path, b)
		}},
		{"all pages zeroed", "io", func(t *testing.T, path string) { rewrite(t, path, make([]byte, len(read(t, path)))) }},
		{"a newer schema", "config", func(t *testing.T, path string) {
			d := rawSQL(t, path)
			version := one[int](t, d, "PRAGMA user_version")
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			pragma(t, path, "user_version", version+1)
		}},
		{"an older schema than any", "config", func(t *testing.T, path string) { pragma(t, path, "user_version", 0) }},
		{"somebody else's", "config", func(t *testing.T, path string) {
			remove(t, path)
			d := rawSQL(t, path)
			mustExec(t, d, "CREATE TABLE customer (id INTEGER PRIMARY KEY); INSERT INTO customer VALUES (1), (2)")
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}},
		{"somebody else's, empty but marked", "config", func(t *testing.T, path string) {
			remove(t, path)
			pragma(t, path, "application_id", 42)
		}},
		{"somebody else's, empty but versioned", "config", func(t *testing.T, path string) {
			remove(t, path)
			pragma(t, path, "user_version", 1)
		}},
		{"a table missing", "internal", func(t *testing.T, path string) {
			d := rawSQL(t, path)
			mustExec(t, d, "DROP TABLE onerun_lock")
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := used(t)
			whole := read(t, path)
			c.spoil(t, path)
			before := read(t, path)

			s := open(t, path)
			claim := claimOf("settle", day)
			for range 2 {
				_, err := s.Claim(soon(t), again(claim))
				is(t, err, c.kind, "claim")
			}
			if c.name != "a table missing" && c.name != "a page zeroed" { // what this question has no need of
				_, err := s.Runs(soon(t), onerun.Query{Namespace: "default", Job: "settle"})
				is(t, err, c.kind, "list runs")
				err = s.Pause(soon(t), onerun.PauseRequest{Namespace: "default", Job: "settle", Who: onerun.Who{By: "ann", Reason: "wait"}})
				is(t, err, c.kind, "pause")
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if !bytes.Equal(read(t, path), before) {
				t.Error("the file was changed")
			}

			// Put right again, everything is as it was: the lock is free.
			rewrite(t, path, whole)
			b := &bed{t: t, path: path, Store: open(t, path)}
			b.refused(again(claim), onerun.RefusedSucceeded)
			b.finish(b.granted(claimOf("settle", "2026-09-17")), onerun.Succeeded)
			sound(t, path)
		})
	}
}

// TestEmptyDatabase: an empty file is what a first use that was cut short leaves.
func TestEmptyDatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(home(t), "jobs.db")
	rewrite(t, path, nil)
	b := &bed{t: t, path: path, Store: open(t, path)}
	b.lived(claimOf("settle", day), onerun.Succeeded)
	sound(t, path)
}

// TestOddPath: what a URL or a shell would take for syntax is a name like any other.
func TestOddPath(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(home(t), "일일 정산 %41?mode=memory#x;'\"")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "a %2f?b#c&d.db")
	b := &bed{t: t, path: path, Store: open(t, path)}
	b.lived(claimOf("settle", day), onerun.Succeeded)
	if len(read(t, path)) == 0 {
		t.Error("the database is somewhere else")
	}
	b.reopen().refused(claimOf("settle", day), onerun.RefusedSucceeded)
}

func pragma(t *testing.T, path, name string, value int) {
	t.Helper()
	d := rawSQL(t, path)
	mustExec(t, d, "PRAGMA "+name+" = "+strconv.Itoa(value))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// read and rewrite are for files that no connection of this process has open: closing
// any descriptor of a file lets go of all the locks that SQLite has on it (fcntl(2)).
func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func rewrite(t *testing.T, path string, b []byte) {
	t.Helper()
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.RemoveAll(path + suffix); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"-wal", "-shm"} { // what was beside it isn't the next one's
		if err := os.RemoveAll(path + suffix); err != nil {
			t.Fatal(err)
		}
	}
}
