package cli

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// withFull is a directory with onerun and onerun-full, as make builds them, and the path of the first.
func withFull(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Link(program(), filepath.Join(dir, "onerun")); err != nil {
		t.Fatal(err)
	}
	full := filepath.Join(dir, "onerun-full")
	if built := os.Getenv("ONERUN_TEST_BINARY"); built != "" {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(built), "onerun-full"))
		if err == nil {
			err = os.WriteFile(full, text, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, "onerun")
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", full, "../../onerun-full")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return filepath.Join(dir, "onerun")
}

// TestNotifyChat: onerun-full beside onerun tells a chat service; without it, a start says so at once, and the job
// runs all the same.
func TestNotifyChat(t *testing.T) {
	t.Parallel()
	b, r := newBed(t), newReceiver(t, nil)
	url := strings.Replace(r.URL, "http://", "generic://", 1) + "/x?disabletls=yes"
	run := func(onerun string) result {
		cmd := b.command("run", "settle", "--partition", "p", "--retries", "9", "--backoff", "0s", "--retry-later", "--notify", url, "--", "sh", "-c", "echo out; exit 3")
		cmd.Path = onerun
		return outcome(cmd).exits(t, 3)
	}
	link := b.path("link")
	if err := os.Symlink(withFull(t), link); err != nil {
		t.Fatal(err)
	}
	res := run(link)
	l := r.next(t)
	if body := string(l.body); l.path != "/x" || !strings.HasPrefix(body, "settle:p failed on ") || !strings.HasSuffix(body, "\n\nout\n") || strings.Contains(res.err, "notify") {
		t.Errorf("told at %s: %q; it says %s", l.path, body, res.err)
	}
	res = run(program())
	if first, _, _ := strings.Cut(res.err, "\n"); !strings.HasPrefix(first, "onerun: nothing is sent to generic://, ") || !strings.Contains(first, "onerun-full") || strings.Contains(res.err, "notify_failed") {
		t.Errorf("it says %s", res.err)
	}
	r.silent(t)

	// doctor says so beforehand.
	if err := os.WriteFile(b.path("conf"), []byte("defaults: {notify: [\""+url+"\"]}\njobs: {other: {notify: [\"@missing\"]}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for onerun, want := range map[string]bool{link: false, program(): true} {
		cmd := b.command("doctor", "--config", "conf", "--json")
		cmd.Path = onerun
		said := outcome(cmd).out
		if !strings.Contains(said, "job other: ") || strings.Contains(said, "nothing is sent to generic://") != want {
			t.Errorf("doctor of %s says %s", onerun, said)
		}
	}
}

// TestNotifySecrets: an address stands nowhere but in the file that it was read from: neither while a message is sent, in
// a list of processes, nor afterwards, in what was printed, logged or kept.
func TestNotifySecrets(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	r := newReceiver(t, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Location", q.URL.String())
		if q.URL.Path == "/hang/c4n4ry" {
			hangs(w, q)
		}
		w.WriteHeader(http.StatusFound)
	})
	host := strings.TrimPrefix(r.URL, "http://")
	if err := os.Mkdir(b.path("secret"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"urls": "http://ana:c4n4ry@" + host + "/c4n4ry?key=c4n4ry#secret=c4n4ry\ngeneric://" + host + "/c4n4ry?disabletls=yes\ngeneric://" + host + "/hang/c4n4ry?disabletls=yes\n" +
			"slack://c4n4ry-c4n4ry\nopsgenie://127.0.0.1:1/c4n4ry\n",
		"ping": "http://" + host + "/c4n4ry?key=c4n4ry",
	} {
		if err := os.WriteFile(b.path("secret/"+name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := b.command("run", "settle", "--partition", "p", "--notify", "@secret/urls", "--ping", "@secret/ping", "--log-level", "debug", "--", "sh", "-c", "echo up; read x; exit 3")
	cmd.Path = withFull(t)
	p := launch(t, cmd)
	p.says("up")
	guardOf(t, p, 0)
	looked := 0
	look := func() {
		names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, name := range names {
			words, _ := os.ReadFile(name) // gone meanwhile
			vars, _ := os.ReadFile(filepath.Dir(name) + "/environ")
			if strings.Contains(string(words), "onerun") && !strings.Contains(string(words), ".test") {
				looked++
				if strings.Contains(string(words)+string(vars), "c4n4ry") {
					t.Errorf("a process shows it: %q", words)
				}
			}
		}
	}
	look()
	_ = p.in.Close()
	for hung := false; !hung; {
		hung = r.next(t).path == "/hang/c4n4ry"
	}
	look() // onerun, and onerun-full
	if looked < 4 {
		t.Errorf("%d processes were looked at", looked)
	}
	if code := p.wait(); code != 3 {
		t.Errorf("exit status %d", code)
	}
	if text := p.err.String(); strings.Contains(text, "c4n4ry") || strings.Count(text, "event=notify_failed") < 5 {
		t.Errorf("it says %s", text)
	}
	err := filepath.WalkDir(b.path("store"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(text), "c4n4ry") {
			err = fmt.Errorf("it stands in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	// Nor in what the settings of a job are.
	if err := os.WriteFile(b.path("conf"), []byte("defaults: {notify: [\"https://h/c4n4ry\", \"slack://c4n4ry@x\", \"command:c4n4ry\"], ping: \"https://h/c4n4ry\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	res := b.run("explain", "settle", "--settings", "--config", "conf").exits(t, 0)
	if strings.Contains(res.out, "c4n4ry") || !strings.Contains(res.out, "https://h slack:// command:") {
		t.Errorf("the settings are %s", res.out)
	}
}

// TestBackfillKeepsSecrets: the starts of a backfill read the configuration file themselves, so that its addresses
// don't stand in their arguments.
func TestBackfillKeepsSecrets(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if err := os.WriteFile(b.path("conf"), []byte("defaults: {notify: [\"https://127.0.0.1:1/c4n4ry\"]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.run("backfill", "settle", "--from", "2026-09-15", "--to", "2026-09-15", "--config", "conf", "--", "sh", "-c", `tr '\0' ' ' </proc/$PPID/cmdline >seen`).exits(t, 0)
	if seen := b.read("seen"); !strings.Contains(seen, " run ") || strings.Contains(seen, "c4n4ry") {
		t.Errorf("a start's arguments are %q", seen)
	}
}
