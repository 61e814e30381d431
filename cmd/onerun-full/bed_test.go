package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun/internal/pgbed"
)

// bin holds the programs as their users have them: side by side, without cgo and without
// the race detector.
var bin string

var servers = pgbed.New("/dev/shm", "")

func TestMain(m *testing.M) {
	if os.Getenv("ONERUN_OWNER") != "" && os.Getenv(workerURL) != "" {
		os.Exit(work())
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "onerun-full-test-")
		if err == nil {
			defer func() { _ = os.RemoveAll(dir) }()
			bin = dir
			err = errors.Join(provide("onerun"), provide("onerun-full"), provide("onerun-etcd"))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		for _, entry := range os.Environ() {
			if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "ONERUN_") {
				_ = os.Unsetenv(name)
			}
		}
		defer servers.Close()
		return m.Run()
	}())
}

// provide puts a program into bin: the one that make built, else its own build.
func provide(name string) error {
	path := filepath.Join(bin, name)
	if built := os.Getenv("ONERUN_TEST_BINARY"); built != "" {
		b, err := os.ReadFile(filepath.Join(filepath.Dir(built), name))
		if err != nil {
			return fmt.Errorf("ONERUN_TEST_BINARY: %w", err)
		}
		return os.WriteFile(path, b, 0o755)
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", path, "../"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

var shared = sync.OnceValues(func() (*pgbed.Server, error) {
	return servers.Server("-c", "max_connections=200", "-c", "shared_buffers=32MB", "-c", "fsync=off")
})

// server is one that no other test uses, for those that do it harm.
func server(t *testing.T) *pgbed.Server {
	t.Helper()
	s, err := servers.Server("-c", "shared_buffers=16MB")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(syscall.SIGINT) })
	return s
}

// host is a machine as far as onerun can tell one from another: its lock files, and its way
// to the store.
type host struct {
	t   *testing.T
	dir string
	env []string
}

// schema is a store of its own on the server that most tests share.
func schema(t *testing.T) string {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return s.URL("postgres", "schema", strings.ToLower(strings.NewReplacer("/", "_", " ", "_").Replace(t.Name())))
}

func newHost(t *testing.T, url string) *host {
	t.Helper()
	h := &host{t: t, dir: t.TempDir()}
	config := fmt.Sprintf("store: %q\ndefaults: {lock_dir: %q}\n", url, h.path("locks"))
	if err := os.WriteFile(h.path("onerun.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	h.env = []string{"PATH=" + bin + ":/usr/local/bin:/usr/bin:/bin", "HOME=/no-home", "TMPDIR=" + os.TempDir(), "ONERUN_CONFIG=" + h.path("onerun.yaml")}
	return h
}

func (h *host) path(name string) string { return filepath.Join(h.dir, name) }

func (h *host) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(bin, "onerun"), args...)
	cmd.Dir, cmd.Env = h.dir, h.env
	return cmd
}

// result is how a program ended and what it printed.
type result struct {
	code     int
	out, err string
}

func (h *host) run(args ...string) result {
	h.t.Helper()
	p := h.start(args...)
	return p.wait()
}

func (r result) exits(t *testing.T, code int) result {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit status %d, want %d; it printed %q and %.3000q", r.code, code, r.out, r.err)
	}
	return r
}

// process is an onerun that runs.
type process struct {
	h        *host
	cmd      *exec.Cmd
	out, err bytes.Buffer
	ended    chan struct{}
}

func (h *host) start(args ...string) *process {
	h.t.Helper()
	p := &process{h: h, cmd: h.command(args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	if err := p.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	h.t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

func (p *process) signal(s syscall.Signal) {
	p.h.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.h.t.Fatal(err)
	}
}

func (p *process) wait() result {
	p.h.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(2 * time.Minute):
		p.h.t.Fatalf("onerun %q doesn't end; it printed %q and %q", p.cmd.Args[1:], p.out.String(), p.err.String())
	}
	code := p.cmd.ProcessState.ExitCode()
	if s, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		code = 128 + int(s.Signal())
	}
	return result{code, p.out.String(), p.err.String()}
}

// sees waits until a file is there, and gives its text.
func (h *host) sees(name string) string {
	h.t.Helper()
	var text []byte
	h.until("the file "+name, func() bool {
		b, err := os.ReadFile(h.path(name))
		text = b
		return err == nil && len(b) > 0
	})
	return string(text)
}

// until waits for what comes without a word.
func (h *host) until(what string, is func() bool) {
	h.t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatalf("waited in vain for %s", what)
		}
	}
}

type row = map[string]any

// list is the answer of a listing.
func (h *host) list(args ...string) []row {
	h.t.Helper()
	var rows []row
	h.json(&rows, args...)
	return rows
}

func (h *host) json(into any, args ...string) {
	h.t.Helper()
	r := h.run(append(args, "--json")...).exits(h.t, 0)
	if err := json.Unmarshal([]byte(r.out), into); err != nil {
		h.t.Fatalf("onerun %q: %v in %q", args, err, r.out)
	}
}

// only is the one run of a job.
func (h *host) only(job string) row {
	h.t.Helper()
	rows := h.list("history", job)
	if len(rows) != 1 {
		h.t.Fatalf("history %s: %d runs: %v", job, len(rows), rows)
	}
	return rows[0]
}

func (h *host) is(job, status, reason string) {
	h.t.Helper()
	r := h.only(job)
	got, _ := r["reason"].(string)
	if r["status"] != status || got != reason {
		h.t.Errorf("%s is %v %v, want %s %s: %v", job, r["status"], r["reason"], status, reason, r)
	}
}
