package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// bed is a store of its own, and the program on it.
type bed struct {
	t   testing.TB
	dir string   // of the job's: the working directory
	env []string // beside PATH and HOME: an account's least
}

func newBed(t testing.TB) *bed {
	t.Helper()
	b := &bed{t: t, dir: t.TempDir()}
	if err := os.Mkdir(b.path("store"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.env = []string{"ONERUN_STORE=sqlite:" + b.path("store")}
	return b
}

func (b *bed) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bed) command(args ...string) *exec.Cmd {
	cmd := exec.Command(program(), args...)
	cmd.Dir = b.dir
	cmd.Env = append([]string{"PATH=" + bin + ":/usr/local/bin:/usr/bin:/bin", "HOME=/no-home", "TMPDIR=" + tmp}, b.env...)
	return cmd
}

// result is how a program ended and what it printed.
type result struct {
	code     int
	out, err string
}

// run executes onerun.
func (b *bed) run(args ...string) result { return outcome(b.command(args...)) }

func outcome(cmd *exec.Cmd) result {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	code := codeOf(cmd.Run())
	return result{code, out.String(), errs.String()}
}

func (r result) exits(t testing.TB, code int) result {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit status %d, want %d; it printed %q and %.2000q", r.code, code, r.out, r.err)
	}
	return r
}

func (r result) silent(t testing.TB) result {
	t.Helper()
	if r.out+r.err != "" {
		t.Errorf("it printed %q and %.2000q", r.out, r.err)
	}
	return r
}

// oneLine says that an error is one line of onerun's, and nothing else is said.
func (r result) oneLine(t testing.TB) result {
	t.Helper()
	if r.out != "" || !strings.HasPrefix(r.err, "onerun: ") || strings.Index(r.err, "\n") != len(r.err)-1 {
		t.Errorf("it printed %q and %.2000q, want one line of onerun's on standard error", r.out, r.err)
	}
	return r
}

// list is a listing with --json.
func (b *bed) list(t testing.TB, args ...string) (rows []map[string]any) {
	t.Helper()
	r := b.run(append(args, "--json")...).exits(t, 0)
	if err := json.Unmarshal([]byte(r.out), &rows); err != nil {
		t.Fatalf("%q: %v in %s", args, err, r.out)
	}
	return rows
}

// object is a command's one JSON object.
func (b *bed) object(t testing.TB, args ...string) (o map[string]any) {
	t.Helper()
	r := b.run(append(args, "--json")...).exits(t, 0)
	if err := json.Unmarshal([]byte(r.out), &o); err != nil {
		t.Fatalf("%q: %v in %s", args, err, r.out)
	}
	return o
}

// proc is onerun in the background. Its standard output is read line by line, its
// standard input is a pipe: a job tells that it is there by the one, and is told to end
// by the other.
type proc struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	read  *os.File // the pipe that out reads
	err   bytes.Buffer
	ended chan error
}

// start starts onerun.
func (b *bed) start(args ...string) *proc { return launch(b.t, b.command(args...)) }

func launch(t testing.TB, cmd *exec.Cmd) *proc {
	t.Helper()
	p := &proc{t: t, cmd: cmd, ended: make(chan error, 1)}
	var err error
	if p.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe() // not cmd's own: Wait is not to wait for it
	if err != nil {
		t.Fatal(err)
	}
	p.read, p.out, cmd.Stdout = read, bufio.NewReader(read), write
	cmd.Stderr = &p.err
	cmd.WaitDelay = patience
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	go func() { p.ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = read.Close() })
	return p
}

// says waits for a line of the job's.
func (p *proc) says(want string) {
	p.t.Helper()
	got := make(chan string, 1)
	go func() {
		line, _ := p.out.ReadString('\n')
		got <- strings.TrimSuffix(line, "\n")
	}()
	select {
	case line := <-got:
		if line != want {
			p.t.Fatalf("it said %q, want %q; on standard error %q", line, want, p.err.String())
		}
	case <-time.After(patience):
		p.t.Fatalf("it has said nothing after %s", patience)
	}
}

// goesOn gives a job that reads a line the line.
func (p *proc) goesOn() {
	p.t.Helper()
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		p.t.Fatal(err)
	}
}

// wait waits for the end and gives the exit status.
func (p *proc) wait() int {
	p.t.Helper()
	select {
	case err := <-p.ended:
		return codeOf(err)
	case <-time.After(patience):
		p.t.Fatalf("process %d has not ended after %s", p.cmd.Process.Pid, patience)
		return -1
	}
}

// kill is kill -9, to the end.
func (p *proc) kill() {
	p.t.Helper()
	_ = p.cmd.Process.Kill() // it may have ended by itself
	p.wait()
}

// die is kill -9 of an onerun on the bed's store once its job is noted, to the end of the
// last process of that.
func (p *proc) die() {
	p.t.Helper()
	group := 0
	if !eventually(func() bool {
		group = notedGroup(filepath.Join(p.cmd.Dir, "store", "locks"), p.cmd.Process.Pid)
		return group != 0
	}) {
		p.t.Fatalf("no lock file names the job of %d", p.cmd.Process.Pid)
	}
	p.kill()
	if !eventually(func() bool { return members(group) == 0 }) {
		p.t.Fatalf("process group %d outlives its wrapper", group)
	}
}
