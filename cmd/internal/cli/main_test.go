package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bin is a directory with nothing but the program under test, as its users have it:
// without cgo and without the race detector, which would slow each of its many starts.
var bin string

// tmp is where the programs make their temporary directories, which nobody removes for a
// program that is killed.
var tmp string

func TestMain(m *testing.M) {
	if os.Args[0] == heederName {
		os.Exit(heed())
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "onerun-test-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		err = os.Chmod(dir, 0o755) // for the tests that are another account
	}
	tmp = filepath.Join(dir, "tmp")
	if err == nil {
		err = os.Mkdir(tmp, 0o700)
	}
	if err == nil {
		err = os.Chmod(tmp, 0o777|os.ModeSticky)
	}
	if err == nil {
		bin = dir
		err = provide(filepath.Join(dir, "onerun"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "ONERUN_") || name == "KUBERNETES_SERVICE_HOST" {
			_ = os.Unsetenv(name)
		}
	}
	return m.Run()
}

// provide puts the program at path: the one that make built, else its own build.
func provide(path string) error {
	if built := os.Getenv("ONERUN_TEST_BINARY"); built != "" {
		b, err := os.ReadFile(built)
		if err != nil {
			return fmt.Errorf("ONERUN_TEST_BINARY: %w", err)
		}
		return os.WriteFile(path, b, 0o755)
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", path, "../../onerun")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// program is the path of the program under test.
func program() string { return filepath.Join(bin, "onerun") }
