package cli

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestStoreByConfig: the file that another account's process names is read as far as it is
// one, and nothing else makes us wait.
func TestStoreByConfig(t *testing.T) {
	dir := t.TempDir()
	good, trap := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "trap")
	if err := os.WriteFile(good, []byte("store: sqlite:s/x.db\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(trap, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bad.yaml"), []byte("stor: x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		good: filepath.Join(dir, "s", "x.db"), "good.yaml": filepath.Join(dir, "s", "x.db"), trap: "", dir: "",
		"/dev/zero": "", filepath.Join(dir, "bad.yaml"): "", filepath.Join(dir, "none"): "",
	} {
		if got := storeByConfig(path, dir); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
