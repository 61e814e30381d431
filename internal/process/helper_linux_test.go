package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun/internal/procfs"
)

// Some tests need a wrapper that is a process of its own: the test binary runs again, as what helperEnv names.
const helperEnv = "PROCESS_TEST_HELPER"

// patience is how long a test waits for what must come; it is spent only by a test that fails.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	name := os.Getenv(helperEnv)
	if os.Args[0] == guardHelper { // a guard has hardly anything of the environment
		name = guardHelper
	}
	if name == "" {
		// what this test was itself started with is nothing to find in a job
		_ = unix.CloseRange(3, 1<<32-1, unix.CLOSE_RANGE_CLOEXEC)
		for _, s := range []syscall.Signal{unix.SIGHUP, unix.SIGINT} { // ignored under nohup(1), or after a shell's "&"
			if signal.Ignored(s) {
				signal.Notify(make(chan os.Signal, 1), s) // what is caught here, a child has by default
			}
		}
		os.Exit(m.Run())
	}
	code, err := helpers[name]()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// helpers are the parts this binary can play; what they return becomes the exit status.
var helpers = map[string]func() (int, error){
	"wrapper":        beWrapper,
	"catcher":        beCatcher,
	"zombie keeper":  keepZombie,
	"no room":        beWithoutRoom,
	"job shell":      beJobShell,
	"hidden wrapper": beHiddenWrapper,
	"blind wrapper":  beBlindWrapper,
	"owner":          beOwner,
	guardHelper:      beGuard,
}

// spec is what a wrapper helper is told; it is a [Command] as text.
type spec struct {
	Args           []string
	Timeout, Grace time.Duration
	Open           []string // files to have open meanwhile
	Report         string   // file for the End
}

const specEnv = "PROCESS_TEST_SPEC"

// beWrapper is a small onerun: it runs one job and ends with its code.
func beWrapper() (int, error) {
	var s spec
	if err := json.Unmarshal([]byte(os.Getenv(specEnv)), &s); err != nil {
		return 70, err
	}
	for _, name := range s.Open {
		f, err := os.Open(name)
		if err != nil {
			return 70, err
		}
		defer func() { _ = f.Close() }()
	}
	path, err := LookPath(s.Args[0], os.Getenv("PATH"))
	if err != nil {
		path = s.Args[0] // let the start fail
	}
	end, err := Run(context.Background(), Command{
		Path: path, Args: s.Args, Env: Env(os.Environ(), nil, helperEnv, specEnv), Timeout: s.Timeout, Grace: s.Grace,
	})
	var failed *StartError
	if errors.As(err, &failed) {
		return failed.Code, err
	}
	if s.Report != "" {
		b, _ := json.Marshal(end)
		if err := os.WriteFile(s.Report, b, 0o600); err != nil {
			return 70, err
		}
	}
	return end.ExitCode, err
}

// helper prepares this binary to run as the named helper. PDEATHSIG ends it with the test.
func helper(name string, env ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), append(env, helperEnv+"="+name, "GORACE=atexit_sleep_ms=0")...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func wrapper(s spec) *exec.Cmd { return helper("wrapper", s.env()) }

func (s spec) env() string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return specEnv + "=" + string(b)
}

// underShell has a shell prepare things before it becomes the helper.
func underShell(t *testing.T, prepare string, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", prepare + `; exec "$0"`, self}
	return cmd
}

// asHelper is a command line for a job that is this binary.
func asHelper(t *testing.T, name string, env ...string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return append(append([]string{"/usr/bin/env", helperEnv + "=" + name}, env...), self)
}

// process is a started helper with its output as lines.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout *os.File
	lines  *bufio.Reader
}

func launch(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	runtime.LockOSThread() // PDEATHSIG comes when the starting thread ends
	t.Cleanup(runtime.UnlockOSThread)
	r, w := pipe(t)
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	p := &process{t: t, cmd: cmd, stdout: r, lines: bufio.NewReader(r)}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return p
}

// expect waits for one line of output.
func (p *process) expect(want string) {
	p.t.Helper()
	if got := p.line(); got != want {
		p.t.Fatalf("output %q, want %q", got, want)
	}
}

func (p *process) line() string {
	p.t.Helper()
	_ = p.stdout.SetReadDeadline(time.Now().Add(patience))
	line, err := p.lines.ReadString('\n')
	if err != nil {
		p.t.Fatalf("output %q: %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// expectEOF waits until nobody has the output open any more.
func (p *process) expectEOF() {
	p.t.Helper()
	_ = p.stdout.SetReadDeadline(time.Now().Add(patience))
	if rest, err := io.ReadAll(p.lines); err != nil || len(rest) > 0 {
		p.t.Fatalf("output %q: %v, want its end", rest, err)
	}
}

// exitCode waits for the end of the helper itself.
func (p *process) exitCode() int {
	p.t.Helper()
	err := p.cmd.Wait()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	return r, w
}

// script is a job for the shell. Its environment is the test's own.
func script(text string) Command {
	return Command{Path: "/bin/sh", Args: []string{"sh", "-c", text}, Env: os.Environ(), Grace: patience}
}

// running is a job that runs inside the test process, with its output as lines.
type running struct {
	*process
	group procfs.Identity
	done  chan struct{}
	end   End
	err   error
}

// begin runs a job and returns when it has started. What is left of its group goes with the test.
func begin(ctx context.Context, t *testing.T, r runner, c Command) *running {
	t.Helper()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	out, w := pipe(t)
	j := &running{process: &process{t: t, stdout: out, lines: bufio.NewReader(out)}, done: make(chan struct{})}
	if r.clock == nil {
		r.clock = bootTime
	}
	if r.files == nil {
		r.files = []uintptr{null.Fd(), w.Fd(), 2}
	}
	started := make(chan procfs.Identity, 1)
	note := c.Started
	c.Started = func(group procfs.Identity, until Deadlines) error {
		started <- group
		if note != nil {
			return note(group, until)
		}
		return nil
	}
	go func() {
		defer close(j.done)
		j.end, j.err = r.run(ctx, c)
		_, _ = null.Close(), w.Close()
	}()
	select {
	case j.group = <-started:
	case <-j.done: // perhaps with a job, of which something may be left
		select {
		case j.group = <-started:
		default:
			return j // not started
		}
	}
	t.Cleanup(func() { _ = unix.Kill(-j.group.PID, unix.SIGKILL); _, _ = j.wait() })
	return j
}

func (j *running) wait() (End, error) {
	j.t.Helper()
	select {
	case <-j.done:
	case <-time.After(patience):
		j.t.Fatal("the job doesn't end")
	}
	return j.end, j.err
}

// runJob runs a job to its end, and returns what it wrote until then.
func runJob(t *testing.T, c Command) (End, string, error) {
	t.Helper()
	out, err := os.CreateTemp(t.TempDir(), "output")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	end, err := begin(context.Background(), t, runner{files: []uintptr{out.Fd(), out.Fd(), 2}}, c).wait()
	b, readErr := os.ReadFile(out.Name())
	if readErr != nil {
		t.Fatal(readErr)
	}
	return end, string(b), err
}

func (j *running) expectGone() {
	j.t.Helper()
	if gone, live, why := procfs.GroupGone(j.group); gone != procfs.Dead {
		j.t.Errorf("the job's group: %v (%s) %v", gone, why, live)
	}
}

// eventually waits for what no event tells.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// requireRoot ends a test that an ordinary user's rights don't suffice for: it fails, since nothing is skipped in silence.
func requireRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test changes accounts or mounts: run it as root, for example: sudo make test")
	}
}

// beCatcher waits for one of the forwarded signals and tells which one it got.
func beCatcher() (int, error) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
	fmt.Println("ready")
	fmt.Println((<-signals).(syscall.Signal))
	return 9, nil
}
