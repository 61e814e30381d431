package sqlite_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/sqlite"
)

// TestExamineAccess: who can do what with the files; each case is set for real.
func TestExamineAccess(t *testing.T) {
	t.Parallel()
	chmod := func(mode os.FileMode, name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	lock := func(t *testing.T, dir string) string {
		files, err := filepath.Glob(filepath.Join(dir, "locks", "*.lock"))
		if err != nil || len(files) != 1 {
			t.Fatalf("lock files: %v %v", files, err)
		}
		return files[0]
	}
	danger, warning := onerun.FindingDanger, onerun.FindingWarning
	for _, c := range []struct {
		name, check string
		status      onerun.FindingStatus
		words       string
		spoil       func(t *testing.T, dir string)
	}{
		{"anybody can write in the directory", "permissions", danger, "0777", chmod(0o777, "")},
		{"anybody, but not remove", "permissions", danger, "1777", chmod(0o777|os.ModeSticky, "")},
		{"the group can", "permissions", danger, "its group can remove", chmod(0o770, "")},
		{"anybody can look", "permissions", warning, "others can look into it", chmod(0o755, "")},
		{"anybody can write the database", "permissions", danger, "every account can change it", chmod(0o602, "onerun.db")},
		{"the group can write the database", "permissions", danger, "its group can change it", chmod(0o660, "onerun.db")},
		{"anybody can read the database", "permissions", warning, "labels and errors may tell", chmod(0o644, "onerun.db")},
		{"the group can read the database", "permissions", warning, "mode 0640: others can read it", chmod(0o640, "onerun.db")},
		{"nobody can write the database", "permissions", danger, "its owner can't use it", chmod(0o400, "onerun.db")},
		{"anybody can write in locks/", "permissions", danger, "locks has mode 0777", chmod(0o777, "locks")},
		{"anybody can look into locks/", "permissions", warning, "locks has mode 0711", chmod(0o711, "locks")},
		{"anybody can read a lock file", "permissions", warning, ".lock has mode 0644", func(t *testing.T, dir string) { chmod(0o644, "")(t, lock(t, dir)) }},
		{"a lock file of another account", "owners", danger, "belongs to uid 4711", func(t *testing.T, dir string) {
			if err := os.Chown(lock(t, dir), 4711, -1); err != nil {
				t.Fatal(err)
			}
		}},
		{"a database of another account", "owners", danger, "onerun.db belongs to uid 4711", func(t *testing.T, dir string) {
			if err := os.Chown(filepath.Join(dir, "onerun.db"), 4711, -1); err != nil {
				t.Fatal(err)
			}
		}},
		{"a lock file that is a link", "lock-files", danger, "symbolic link", func(t *testing.T, dir string) {
			name := lock(t, dir)
			remove(t, name)
			if err := os.Symlink("/dev/null", name); err != nil {
				t.Fatal(err)
			}
		}},
		{"a lock file with two names", "lock-files", danger, "2 names", func(t *testing.T, dir string) {
			if err := os.Link(lock(t, dir), filepath.Join(home(t), "other")); err != nil {
				t.Fatal(err)
			}
		}},
		{"a file of somebody else's", "lock-files", warning, "notes.txt", func(t *testing.T, dir string) {
			rewrite(t, filepath.Join(dir, "locks", "notes.txt"), []byte("hello"))
			chmod(0o600, "locks/notes.txt")(t, dir)
		}},
		{"a repository", "surroundings", warning, ".git", func(t *testing.T, dir string) {
			if err := os.Mkdir(filepath.Join(dir, ".git"), 0o700); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := used(t)
			c.spoil(t, filepath.Dir(path))
			says(t, examined(t, path), c.check, c.status, c.words)
		})
	}
}

// TestExamineShared: what a group shares is right so, and not otherwise.
func TestExamineShared(t *testing.T) {
	t.Parallel()
	path := used(t)
	dir := filepath.Dir(path)
	for _, d := range []string{dir, filepath.Join(dir, "locks")} {
		if err := os.Chown(d, -1, 4711); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d, 0o770|os.ModeSetgid); err != nil {
			t.Fatal(err)
		}
	}
	var files []string
	for _, pattern := range []string{"onerun.db*", "locks/*", "locks/.held"} {
		more, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	for _, f := range files {
		if err := os.Chown(f, 4712, 4711); err != nil { // whoever made it
			t.Fatal(err)
		}
		if err := os.Chmod(f, 0o660); err != nil {
			t.Fatal(err)
		}
	}
	if bad := worse(examined(t, path)); len(bad) > 0 {
		t.Fatalf("found: %+v", bad)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	says(t, examined(t, path), "permissions", onerun.FindingDanger, "the other accounts of the group can't use it")
	if err := os.Chmod(path, 0o660); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, -1, 4713); err != nil {
		t.Fatal(err)
	}
	says(t, examined(t, path), "owners", onerun.FindingDanger, "belongs to group 4713")
}

// TestExamineOpenAbove: whoever can write above the store's directory can put another in
// its place.
func TestExamineOpenAbove(t *testing.T) {
	t.Parallel()
	above := home(t)
	dir := filepath.Join(above, "store")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	b := &bed{t: t, path: filepath.Join(dir, sqlite.DatabaseName), Store: open(t, dir)}
	b.lived(claimOf("settle", day), onerun.Succeeded)
	if err := os.Chmod(above, 0o777); err != nil {
		t.Fatal(err)
	}
	says(t, examined(t, b.path), "permissions", onerun.FindingDanger, "every account can write in "+above)
}

// TestExamineFileSystem: where the store is.
func TestExamineFileSystem(t *testing.T) {
	t.Parallel()
	path := used(t)
	const nfs, tmpfs, overlay = 0x6969, 0x01021994, 0x794c7630
	for magic, want := range map[int64]struct {
		status onerun.FindingStatus
		words  string
	}{
		nfs:     {onerun.FindingDanger, "network file system (NFS)"},
		tmpfs:   {onerun.FindingDanger, "lost at the next boot"},
		overlay: {onerun.FindingWarning, "overlayfs"},
	} {
		says(t, examined(t, path, sqlite.WithFSType(magic)), "file-system", want.status, want.words)
	}
	found, err := open(t, path, sqlite.Looking()).Examine(soon(t))
	if err != nil || !slices.ContainsFunc(found, func(f onerun.Finding) bool {
		return f.Check == "temporary-place" && f.Status == onerun.FindingDanger && strings.Contains(f.Evidence, "cleans by itself")
	}) {
		t.Errorf("a store in a temporary place: %+v %v", found, err)
	}
}
