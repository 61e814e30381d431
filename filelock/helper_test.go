package filelock

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/procfs"
)

// The tests start their own binary again, as processes that hold locks, take part in
// rounds or are killed. What such a process does is one of helpers, by name.
const (
	helperEnv = "FILELOCK_TEST_HELPER"
	configEnv = "FILELOCK_TEST_CONFIG"
)

// config is what a helper is told.
type config struct {
	Dir     string
	Mode    onerun.LockMode
	NoFlock bool
	NoRange bool
	Owner   string
	Lock    onerun.LockName
	KillAt  int // 0: never
	Count   int
	File    string
}

func (c config) open() (*Dir, error) {
	return Open(c.Dir, Options{NoFlock: c.NoFlock, noRange: c.NoRange, AllowNetwork: true, Hook: c.hook()})
}

// hook kills this process at a certain step, as kill -9 would.
func (c config) hook() func(string) {
	n := 0
	return func(step string) {
		if n++; n == c.KillAt {
			fmt.Println("step", step)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}

func (c config) request() Request {
	r := Request{Namespace: "default", Lock: c.Lock, Mode: c.Mode, Owner: c.Owner}
	if r.Lock == "" {
		r.Lock = onerun.JobLock("j")
	}
	if r.Owner == "" {
		r.Owner = onerun.NewID()
	}
	return r
}

var helpers map[string]func(config) error

func TestMain(m *testing.M) {
	helpers = map[string]func(config) error{
		"hold": helperHold, "play": helperPlay, "cycle": helperCycle, "hammer": helperHammer,
		"queue": helperQueue, "guard": helperGuard, "wrapper": helperWrapper,
	}
	for name, f := range sandboxes {
		helpers["sandbox "+name] = f
	}
	name := os.Getenv(helperEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	var c config
	err := json.Unmarshal([]byte(os.Getenv(configEnv)), &c)
	if err == nil {
		err = helpers[name](c)
	}
	if err != nil {
		fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", " "))
		os.Exit(1)
	}
	os.Exit(0)
}

// process is a helper that was started.
type process struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start starts a helper; change may alter how.
func start(t testing.TB, name string, c config, change ...func(*exec.Cmd)) *process {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command("/proc/self/exe", "-test.run=^$")}
	p.cmd.Env = append(os.Environ(), helperEnv+"="+name, configEnv+"="+string(text), "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = os.Stderr
	for _, f := range change {
		f(p.cmd)
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start helper %s: %v", name, err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

// line reads one line of the helper's output, "" at its end.
func (p *process) line() string {
	s, err := p.out.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
		p.t.Fatalf("helper's output: %v", err)
	}
	return strings.TrimSuffix(s, "\n")
}

// expect reads a line that must begin with a word, and returns the rest.
func (p *process) expect(word string) string {
	p.t.Helper()
	s := p.line()
	rest, ok := strings.CutPrefix(s, word)
	if !ok {
		p.t.Fatalf("helper said %q, not %q", s, word)
	}
	return strings.TrimSpace(rest)
}

func (p *process) tell(s string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, s); err != nil {
		p.t.Fatalf("helper: %v", err)
	}
}

// kill ends the helper with SIGKILL and waits until nothing is left of it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// readCommand reads what the parent tells; "" when it is gone.
func readCommand() string {
	s, _ := stdin.ReadString('\n')
	return strings.TrimSuffix(s, "\n")
}

var stdin = bufio.NewReader(os.Stdin)

// helperHold takes a lock, notes itself and holds until it is told otherwise.
func helperHold(c config) error {
	d, err := c.open()
	if err != nil {
		return err
	}
	l, held, err := d.Acquire(context.Background(), c.request())
	if err != nil {
		return err
	}
	if held != nil {
		fmt.Println("held", held.Evidence)
		return nil
	}
	if err := l.Write(Note{RunID: "run", Attempt: 1, State: StateInProcess}); err != nil {
		return err
	}
	fmt.Println("got", l.note.PID)
	for {
		switch cmd := readCommand(); cmd {
		case "":
			return nil
		case "deleted":
			fmt.Println("deleted", l.Deleted())
		case "spawn": // a child that a job would be
			child := exec.Command("sleep", "1000")
			child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := child.Start(); err != nil {
				return err
			}
			fmt.Println("child", child.Process.Pid)
		case "release":
			err := errors.Join(l.Clear(), l.Release())
			fmt.Println("released", err)
		}
	}
}

// tempDir is a lock directory on the disk; sub directories of t.TempDir would do but for
// the other accounts that some tests need.
func lockDir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "locks")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func mustOpen(t testing.TB, path string, o Options) *Dir {
	t.Helper()
	o.AllowNetwork = true // wherever the tests' temporary directory may be
	d, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// request is a request for the job lock "j".
func request(mode onerun.LockMode) Request {
	return Request{Namespace: "default", Lock: onerun.JobLock("j"), Mode: mode, Owner: onerun.NewID()}
}

func base() string { return FileName("default", onerun.JobLock("j")) }

// mustAcquire takes a lock that must be free.
func mustAcquire(t testing.TB, d *Dir, r Request) *Lock {
	t.Helper()
	l, held, err := d.Acquire(context.Background(), r)
	if err != nil || held != nil {
		t.Fatalf("Acquire: held %+v, error %v; want the lock", held, err)
	}
	t.Cleanup(func() { _ = l.Release() })
	return l
}

// mustHeld asks for a lock that must be refused.
func mustHeld(t testing.TB, d *Dir, r Request) *Held {
	t.Helper()
	l, held, err := d.Acquire(context.Background(), r)
	if l != nil {
		_ = l.Release()
	}
	if held == nil {
		t.Fatalf("Acquire: lock %v, error %v; want held", l != nil, err)
	}
	return held
}

func mustRelease(t testing.TB, l *Lock) {
	t.Helper()
	if err := errors.Join(l.Clear(), l.Release()); err != nil {
		t.Fatalf("Release: %v", err)
	}
}

// corpse is the identity of a process that ran on this kernel and is gone.
func corpse(t testing.TB) (pid int, ticks uint64) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s, err := procfs.ReadStat(cmd.Process.Pid)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, s.StartTicks
}

// deadNote is what an owner that was killed while its job ran has left; the job is gone.
func deadNote(t testing.TB) Note {
	pid, ticks := corpse(t)
	n := Note{
		Kind: "job", Name: "j", Namespace: "default", Owner: onerun.NewID(), RunID: "dead-run", Attempt: 1,
		StartedAt: time.Now(), State: StateRunning, Group: pid, GroupStartTicks: ticks,
	}
	n.setWorker(thisWorker())
	n.PID, n.StartTicks = pid, ticks
	return n
}

// plant writes a note where an owner would have left it.
func plant(t testing.TB, dir, suffix string, n Note) {
	t.Helper()
	text, err := n.encode()
	if err != nil {
		t.Fatal(err)
	}
	plantBytes(t, dir, suffix, text)
}

func plantBytes(t testing.TB, dir, suffix string, text []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, base()+suffix), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// leftovers are the files that no healthy lock directory has when nobody is at work.
func leftovers(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		if name := e.Name(); name != heldName && !strings.HasSuffix(name, lockSuffix) {
			found = append(found, name)
		}
	}
	return found
}

// modes are the three ways of exclusion.
var modes = []struct {
	name    string
	mode    onerun.LockMode
	noFlock bool
}{
	{"flock", onerun.LockFlock, false},
	{"create", onerun.LockCreate, false},
	{"create without flock", onerun.LockCreate, true},
}

func kindOf(err error) string {
	for _, k := range []error{onerun.ErrUsage, onerun.ErrCreate, onerun.ErrIO, onerun.ErrPermission, onerun.ErrInternal, onerun.ErrLost, onerun.ErrNotFound, onerun.ErrState} {
		if errors.Is(err, k) {
			return k.Error()
		}
	}
	return fmt.Sprint(err)
}

func wantKind(t testing.TB, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("error %v (%s), want %v", err, kindOf(err), kind)
		return
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error has more than one line: %q", err)
	}
}

func atoi(t testing.TB, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
