package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeGo is a go command of which each log is one that was seen: by what it is asked to test.
const fakeGo = `#!/bin/sh
case "$*" in
*-list*) echo FuzzNone ;;
*-fuzz*) echo "fuzz: elapsed: 3s, execs: 100 (1/sec)"; echo "fuzz: elapsed: 6s, execs: 250 (1/sec), new interesting: 3"; echo PASS ;;
*./model*) printf '=== RUN   TestMutants\n    x_test.go:1:   7 states, stored\n--- PASS: TestMutants (0.01s)\n    --- PASS: TestMutants/a (0.00s)\nPASS\n' ;;
*./store/sqlite*) printf -- '--- FAIL: TestConformance (0.01s)\n    --- FAIL: TestConformance/x (0.00s)\nFAIL\n'; exit 1 ;;
*./store/postgres*) printf 'FAIL\tpkg [build failed]\nFAIL\n'; exit 1 ;;
*./store/mysql*) printf '=== RUN   TestConformance\n    --- PASS: TestConformance/a (0.00s)\npanic: test timed out after 20m0s\nFAIL\n'; exit 1 ;;
*./store/redis*) printf 'testing: warning: no tests to run\nPASS\nok\n' ;;
*) printf -- '--- PASS: TestX (0.00s)\n    --- PASS: TestX/a (0.00s)\nPASS\n' ;;
esac
`

// TestEvidencePage: what failed, wasn't built, took too long or wasn't there to be tried isn't ok on the page of evidence.
func TestEvidencePage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"go": fakeGo, "make": "#!/bin/sh\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	page := filepath.Join(dir, "page.md")
	cmd := exec.Command("sh", "evidence.sh")
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "EVIDENCE_PAGE="+page, "TMPDIR="+dir)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("it ended with %v, and said %s", err, out)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for row, want := range map[string]string{
		"The protocol as a model": "1 searches, 7 states | ok", "The suite on sqlite": "| 2 failed |", "The suite on postgres": "| not carried out |", "The suite on mysql": "| not carried out |",
		"The suite on redis": "| not carried out |", "The suite on etcd": "1 cases | ok |", "Three hosts on etcd": "| ok |", "Noise": "| ok | `make fuzz FUZZTIME=15s`",
	} {
		found := false
		for line := range strings.Lines(string(text)) {
			found = found || strings.HasPrefix(line, "| "+row) && strings.Contains(line, want)
		}
		if !found {
			t.Errorf("%s: %q isn't in\n%s", row, want, text)
		}
	}
}
