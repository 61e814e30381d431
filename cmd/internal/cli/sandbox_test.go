package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSandbox executes testdata/sandbox: shell scripts for what needs mounts and other
// accounts. Each runs as root of a mount namespace of its own, which takes all its mounts
// along when it ends; for an ordinary account it is a user namespace too.
func TestSandbox(t *testing.T) {
	scripts, err := filepath.Glob("testdata/sandbox/*_test.sh")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), "_test.sh"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(script)
			if err != nil {
				t.Fatal(err)
			}
			cmd := sandboxed(t, "/bin/sh", ". $SANDBOX/tools.sh\nset -eu\n"+string(text))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// sandboxed is a shell's script as root of a mount namespace of its own, in a directory of
// its own, DIR. SANDBOX is where the scripts are, SCHEMA where the store's are. more are
// flags of unshare(1).
func sandboxed(t *testing.T, shell, script string, more ...string) *exec.Cmd {
	t.Helper()
	sandbox, err := filepath.Abs("testdata/sandbox")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} { // other accounts come in, too
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"--mount", "--propagation", "private"}
	if os.Geteuid() != 0 {
		args = append(args, "--user", "--map-root-user")
	}
	cmd := exec.Command("unshare", slices.Concat(args, more, []string{shell, "-c", script})...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + bin + ":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/no-home", "TMPDIR=" + tmp,
		"DIR=" + dir, "SANDBOX=" + sandbox, "SCHEMA=" + filepath.Join(sandbox, "../../../../../store/sqlite/sql"),
	}
	return cmd
}
