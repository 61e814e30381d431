//go:build race

package sqlite_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// raceDetector tells whether these tests are built with it.
const raceDetector = true

// twin is the program that is started as another process: this one, built without the
// race detector. SQLite, being Go here, is ten times slower with it, and there is no
// race between processes that it could see. The flags are those of the Makefile, so
// that what the build of the program compiled is used again.
var twin = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "onerun-twin-")
	if err != nil {
		return "", err
	}
	twinDir = dir
	if err := os.Chmod(dir, 0o755); err != nil { // some children are other accounts
		return "", err
	}
	path := filepath.Join(dir, "twin.test")
	cmd := exec.Command("go", "test", "-c", "-race=false", "-trimpath", "-buildvcs=false", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build this test without the race detector: %w: %s", err, out)
	}
	return path, nil
})

var twinDir string

func removeTwin() {
	if twinDir != "" {
		_ = os.RemoveAll(twinDir)
	}
}
