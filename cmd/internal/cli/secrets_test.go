package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestSecretsNowhere: what is secret by its form stands nowhere, while the job runs and
// afterwards: in no file of the store, not in its journal, no log, no listing, and neither in
// the arguments nor in the environment of the guard. (What the job's own arguments are, the
// process list shows for as long as it runs, and the arguments of whoever runs it as well.)
func TestSecretsNowhere(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	const canary = "c4n4ry"
	b.env = append(b.env, "PGPASSWORD="+canary, "API_TOKEN="+canary, "DSN=postgres://ana:"+canary+"@db/x")
	if err := syscall.Mkfifo(b.path("gate"), 0o600); err != nil {
		t.Fatal(err)
	}
	job := `echo up
printf 'password=%s\nAuthorization: Bearer %s\n' $PGPASSWORD $PGPASSWORD >&2
echo "connect to $DSN: refused"
echo "{\"token\": \"$API_TOKEN\", \"user\": \"ana\"}"
read x <gate
exit 3`
	p := b.start("run", "settle", "--date", "2026-09-15", "--label", "db_password="+canary, "--label", "url=https://ana:"+canary+"@host/x",
		"--version-label", "token="+canary, "--worker-label", "password="+canary, "--log-level", "debug", "--log-file", b.path("log"), "--log-format", "json",
		"--", "sh", "-c", job, "job", "--password="+canary, "https://ana:"+canary+"@host/")
	p.says("up")
	guard := guardOf(t, p, 0)
	for _, file := range []string{"cmdline", "environ", "comm"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", guard, file))
		if err != nil || len(text) == 0 {
			t.Fatalf("the guard's %s: %q, %v", file, text, err)
		}
		if strings.Contains(string(text), canary) {
			t.Errorf("the guard's %s has it: %q", file, text)
		}
	}
	b.run("run", "settle", "--date", "2026-09-16", "--label", "password="+canary, "--log-level", "info", "--log-file", b.path("log"), "--", "true").exits(t, 0)
	b.nowhere(t, canary, "while it runs")
	if err := os.WriteFile(b.path("gate"), []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(); code != 3 {
		t.Fatalf("exit status %d", code)
	}
	if strings.Contains(p.err.String(), "event=") || !strings.Contains(p.err.String(), canary) {
		t.Errorf("the job's own output passes as it is: %q", p.err.String())
	}
	b.run("run", "broken", "--date", "2026-09-15", "--log-file", b.path("log"), "--", "/no/such?password="+canary).exits(t, 127)
	b.run("rerun", "broken:2026-09-15", "--reason", "see https://ana:"+canary+"@host/").exits(t, 0)
	b.run("lock", "L", "--version-label", "password="+canary, "--", "true").exits(t, 0)
	b.nowhere(t, canary, "afterwards")
	if kept := b.run("logs", "settle:2026-09-15").exits(t, 0).out; strings.Count(kept, "***") != 4 {
		t.Errorf("kept is %q", kept)
	}
}

// nowhere looks for a secret in all files of the store, in the log, and in every listing.
func (b *bed) nowhere(t *testing.T, secret, when string) {
	t.Helper()
	looked := map[string]bool{}
	err := filepath.WalkDir(b.path("store"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		looked[d.Name()] = true
		return b.hasNot(path, secret)
	})
	if err == nil {
		err = b.hasNot(b.path("log"), secret)
	}
	if err != nil {
		t.Errorf("%s: %v", when, err)
	}
	if !looked["onerun.db"] || !looked["onerun.db-wal"] && when == "while it runs" || len(looked) < 3 {
		t.Errorf("%s: these files were looked at: %v", when, looked)
	}
	for _, what := range []string{"status", "locks", "history", "stale", "show settle:2026-09-15", "show settle", "explain settle:2026-09-15", "explain settle", "logs settle:2026-09-15"} {
		for _, more := range [][]string{nil, {"--json"}} {
			r := b.run(append(strings.Fields(what), more...)...)
			if strings.Contains(r.out+r.err, secret) {
				t.Errorf("%s: %s %v says it: %s%s", when, what, more, r.out, r.err)
			}
		}
	}
}

func (b *bed) hasNot(path, secret string) error {
	text, err := os.ReadFile(path)
	if err == nil && strings.Contains(string(text), secret) {
		err = fmt.Errorf("%s has it", path)
	}
	return err
}
