package cli

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// noise is a file of random bytes, in which there is everything.
func noise(t *testing.T, path string, n int) string {
	t.Helper()
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestOutputByteForByte: each stream comes out of onerun's own as the job wrote it, or not
// at all.
func TestOutputByteForByte(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	out, errs := noise(t, b.path("a"), 3<<20), noise(t, b.path("b"), 1<<20)
	for _, c := range []struct {
		flags  []string
		code   int
		passed bool
	}{
		{nil, 0, true},
		{nil, 3, true},
		{[]string{"--capture", "none"}, 0, true},
		{[]string{"--output", "on-failure"}, 0, false},
		{[]string{"--output", "on-failure"}, 3, true},
		{[]string{"--output", "on-failure", "--capture", "none"}, 3, true},
		{[]string{"--output", "never"}, 3, false},
		{[]string{"--output", "never", "--capture", "none"}, 3, false},
	} {
		args := append([]string{"run", "settle", "--log-file", b.path("log")}, c.flags...)
		r := b.run(append(args, "--", "sh", "-c", "cat a & cat b >&2; wait; exit "+strconv.Itoa(c.code))...).exits(t, c.code)
		if c.passed && (r.out != out || r.err != errs) || !c.passed && r.out+r.err != "" {
			t.Errorf("%v, exit status %d: %d and %d bytes came", c.flags, c.code, len(r.out), len(r.err))
		}
	}
}

// TestOutputBackground: what the job leaves in the background holds nobody up, whatever it
// has open.
func TestOutputBackground(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, mode := range []string{"always", "on-failure", "never"} {
		begin := time.Now()
		r := b.run("run", "settle", "--output", mode, "--", "sh", "-c", "sleep 60 & echo $! >pid; echo started").exits(t, 0)
		if took := time.Since(begin); took > 30*time.Second {
			t.Errorf("%s: it took %s", mode, took)
		}
		if want := map[string]string{"always": "started\n"}[mode]; r.out != want {
			t.Errorf("%s: it printed %q", mode, r.out)
		}
		if got := b.run("logs", "settle").exits(t, 0).out; got != "started\n" {
			t.Errorf("%s: kept is %q", mode, got)
		}
		if pid, err := strconv.Atoi(strings.TrimSpace(b.read("pid"))); err != nil || syscall.Kill(pid, syscall.SIGKILL) != nil {
			t.Errorf("%s: the background is gone: %v", mode, err)
		}
	}
}

// TestOutputSlowReader: the end is recorded, and the lock is free, when the job has ended,
// however slow a reader is; nothing is lost; and a signal ends the waiting.
func TestOutputSlowReader(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{0, syscall.SIGTERM} {
		b := newBed(t)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
			t.Fatal(err)
		}
		cmd := b.command("run", "settle", "--", "head", "-c", "60000", "/dev/zero")
		cmd.Stdout = w
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = w.Close()
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		if !eventually(func() bool {
			rows := b.list(t, "history", "settle")
			return len(rows) == 1 && rows[0]["status"] == "SUCCEEDED"
		}) {
			t.Fatal("the end is not recorded")
		}
		b.run("run", "settle", "-E", "75", "--", "true").exits(t, 0)
		want := 0
		if signal != 0 {
			if !eventually(func() bool { _ = cmd.Process.Signal(signal); return len(ended) == 1 }) {
				t.Fatal("it can't be ended")
			}
			want = 143
		} else if got, err := io.ReadAll(r); err != nil || len(got) != 60000 {
			t.Errorf("%d bytes came, %v", len(got), err)
		}
		if code := codeOf(<-ended); code != want {
			t.Errorf("exit status %d, want %d", code, want)
		}
		_ = r.Close()
	}
}

// TestOutputReaderGone: a job is none the worse for it that nobody reads.
func TestOutputReaderGone(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"always", "on-failure"} {
		for name, where := range map[string]string{
			"closed": ">&-", "full": ">/dev/full", "both full": ">/dev/full 2>&1", "read a little": "| head -c 5 >/dev/null", "not read": "| true",
		} {
			b := newBed(t)
			line := fmt.Sprintf("{ onerun run settle --log-file log --output %s -- sh -c 'trap \"exit 9\" PIPE; seq 300000 && touch through; exit 3'; echo $? >code; } 2>err %s", mode, where)
			if err := os.WriteFile(b.path("line"), []byte(line), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := b.command()
			cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "line"}
			_ = cmd.Run()
			if !eventually(func() bool { return b.read("code") != "" }) || b.read("code") != "3\n" || !exists(b.path("through")) {
				t.Errorf("%s, %s: exit status %q, got through: %v", mode, name, b.read("code"), exists(b.path("through")))
			}
		}
	}
}

// TestOutputTerminal: on a terminal the job has the terminal, unless somebody asks for
// something else.
func TestOutputTerminal(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if err := os.WriteFile(b.path("c.yaml"), []byte("jobs: {filed: {capture: 1K}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		job   string
		flags []string
		want  string
	}{
		{"usual", nil, "yes\n"},
		{"none", []string{"--capture", "none"}, "yes\n"},
		{"asked", []string{"--capture", "64K"}, "no\n"},
		{"held", []string{"--output", "on-failure"}, "no\n"},
		{"filed", []string{"--config", b.path("c.yaml")}, "no\n"},
	} {
		master, slave := terminalPair(t)
		args := append([]string{"run", c.job}, c.flags...)
		cmd := b.command(append(args, "--", "sh", "-c", "if test -t 1 && test -t 2; then a=yes; else a=no; fi; echo $a; echo $a >seen")...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		_, _ = slave.Close(), master.Close()
		if got := b.read("seen"); got != c.want {
			t.Errorf("%s: is it a terminal? %q, want %q", c.job, got, c.want)
		}
		kept := ""
		if c.want == "no\n" {
			kept = c.want
		}
		if got := b.run("logs", c.job).exits(t, 0).out; got != kept {
			t.Errorf("%s: kept is %q, want %q", c.job, got, kept)
		}
	}
}

// terminalPair is a new terminal.
func terminalPair(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetUint32(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// TestOutputMemory: how much is printed makes no difference to the memory that is needed.
func TestOutputMemory(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, mode := range []string{"always", "on-failure", "never"} {
		cmd := b.command("run", "settle", "--output", mode, "--", "sh", "-c", "head -c 400M /dev/zero; grep VmHWM /proc/$PPID/status >peak")
		cmd.Stdout = nil // /dev/null
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(`\d+`).FindString(b.read("peak"))
		if kib, err := strconv.Atoi(m); err != nil || kib > 24<<10 {
			t.Errorf("%s: peak %q", mode, b.read("peak"))
		}
		if v := b.object(t, "logs", "settle"); v["bytes_total"] != float64(400<<20) || v["truncated"] != true {
			t.Errorf("%s: of %v bytes, truncated %v", mode, v["bytes_total"], v["truncated"])
		}
	}
}

// TestOutputHeldBack: what is held back lies in a file without a name, in the attempt's own
// directory.
func TestOutputHeldBack(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	r := b.run("run", "settle", "--output", "on-failure", "--log-file", b.path("log"), "--", "sh", "-c",
		"echo $ONERUN_TMPDIR; head -c 5M /dev/zero; head -c 2M /dev/zero >&2; ls -A $ONERUN_TMPDIR >names; ls -l /proc/$PPID/fd >open; exit 3").exits(t, 3)
	if len(r.out) < 5<<20 || len(r.err) != 2<<20 {
		t.Errorf("%d and %d bytes came", len(r.out), len(r.err))
	}
	dir, _, _ := strings.Cut(r.out, "\n")
	if b.read("names") != "" || !strings.Contains(b.read("open"), dir+"/onerun-output-") || !strings.Contains(b.read("open"), "(deleted)") {
		t.Errorf("in %s: %q, open:\n%s", dir, b.read("names"), b.read("open"))
	}
	if exists(dir) {
		t.Error("the directory is still there")
	}
}

// TestOutputSecretAtTheCut: no part of a secret is kept where the beginning is cut off.
func TestOutputSecretAtTheCut(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, end := range []string{" ", "\n"} {
		for after := 586; after < 616; after += 3 {
			tail := strings.Repeat("x", after)
			// The second one shrinks when it is masked, and brings the first one into what is kept.
			text := strings.Repeat("y", 3000) + end + "password=SECRETSECRETSECRET" + end + "token=" + strings.Repeat("z", 4500) + end + tail
			if err := os.WriteFile(b.path("text"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			b.run("run", "settle", "--capture", "1K", "--", "cat", "text").exits(t, 0)
			got := b.run("logs", "settle").exits(t, 0).out
			if regexp.MustCompile("[A-Zz]").MatchString(got) || !strings.HasSuffix(got, end+tail) || len(got) > 1024 {
				t.Fatalf("%d bytes after it: kept is %q", after, got)
			}
		}
	}
}

// TestOutputNotSpooled: an end that waits in the lock file has lost what was printed, and
// nothing else.
func TestOutputNotSpooled(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if err := syscall.Mkfifo(b.path("gate"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := b.start("run", "settle", "--partition", "p", "--finish-wait", "1s", "--log-file", b.path("log"), "--", "sh", "-c", "echo up; read x <gate")
	p.says("up")
	release := b.holdDatabase(t)
	if err := os.WriteFile(b.path("gate"), []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(); code != exitUnrecorded {
		t.Errorf("exit status %d", code)
	}
	release()
	b.run("flush").exits(t, 0)
	r := b.run("logs", "settle:p").exits(t, 0)
	if r.out != "" || !strings.Contains(r.err, "nothing is kept") || b.object(t, "show", "settle:p")["status"] != "SUCCEEDED" {
		t.Errorf("kept is %q; it says %q", r.out, r.err)
	}
}

// TestLogsOnTerminal: what a terminal would act on is shown escaped there.
func TestLogsOnTerminal(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.run("run", "settle", "--", "printf", `\033[31mred\tx\n말\r\000\377\n`).exits(t, 0)
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{nil, "\\x1b[31mred\tx\r\n말\\r\\x00\\xff\r\n"}, // \n is \r\n on a screen
		{[]string{"--raw"}, "\x1b[31mred\tx\r\n말\r\\x00\\xff\r\n"},
	} {
		master, slave := terminalPair(t)
		cmd := b.command(append([]string{"logs", "settle"}, c.flags...)...)
		cmd.Stdout = slave
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		_ = slave.Close()
		got, _ := io.ReadAll(master) // ends with EIO, when nobody has the terminal any more
		if strings.ReplaceAll(string(got), "        ", "\t") != c.want && string(got) != c.want {
			t.Errorf("%v: it shows %q", c.flags, got)
		}
		_ = master.Close()
	}
}

// TestOutputHostile: what has hung or broken others passes byte for byte, is kept as text that
// everything can read, and makes no difference to the end.
func TestOutputHostile(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	scripts, err := filepath.Glob("testdata/jobs/*.sh")
	if err != nil || len(scripts) != 9 {
		t.Fatalf("%v %v", scripts, err)
	}
	for _, script := range scripts {
		job := strings.TrimSuffix(filepath.Base(script), ".sh")
		path, err := filepath.Abs(script)
		if err != nil {
			t.Fatal(err)
		}
		plain := b.command()
		plain.Path, plain.Args = "/bin/sh", []string{"sh", path}
		want := outcome(plain).exits(t, 0)
		r := b.run("run", job, "--", "sh", path).exits(t, 0)
		if r.out != want.out || r.err != want.err {
			t.Errorf("%s: it printed %d and %d bytes, not %d and %d", job, len(r.out), len(r.err), len(want.out), len(want.err))
		}
		text := b.run("logs", job, "--json").exits(t, 0).out
		var v logsView
		if err := json.Unmarshal([]byte(text), &v); err != nil || !utf8.ValidString(text) {
			t.Fatalf("%s: %v, valid: %v", job, err, utf8.ValidString(text))
		}
		total := len(want.out) + len(want.err)
		if v.BytesTotal != int64(total) || v.Truncated != (total > 64<<10) || len(*v.Text) < min(total, 64<<10)-utf8.UTFMax {
			t.Errorf("%s: kept are %d bytes of %d, truncated %v", job, len(*v.Text), v.BytesTotal, v.Truncated)
		}
		if kept := b.run("logs", job).exits(t, 0).out; kept != *v.Text || !utf8.ValidString(kept) || strings.ContainsRune(kept, 0) {
			t.Errorf("%s: kept is no text: %.100q", job, kept)
		}
		run := b.list(t, "history", job)[0]
		if run["status"] != "SUCCEEDED" || run["error"] != nil {
			t.Errorf("%s: it is %v, %v", job, run["status"], run["error"])
		}
		b.run("run", job, "-c", "sh "+path+"; exit 3").exits(t, 3)
		if run := b.list(t, "history", job)[0]; run["status"] != "FAILED" || run["exit_code"] != 3.0 {
			t.Errorf("%s: when it fails it is %v, %v", job, run["status"], run["exit_code"])
		}
	}
}
