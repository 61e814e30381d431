package procfs

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The tests that need a process of a special kind run this test binary again: helperEnv names what it should be.
const helperEnv = "PROCFS_TEST_HELPER"

func TestMain(m *testing.M) {
	name := os.Getenv(helperEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	act, ok := helpers[name]
	if !ok {
		fmt.Println("unknown helper", name)
		os.Exit(2)
	}
	if err := act(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// helpers are what a process started by [helper] does. An error is printed and makes the exit status 1.
var helpers = map[string]func() error{
	"wait":              waitForEOF,
	"renamed":           beRenamed,
	"headless":          beHeadless,
	"undumpable":        beUndumpable,
	"carries itself":    carriesItself,
	"reused number":     inOwnProc("", reusedNumber),
	"surviving member":  inOwnProc("", survivingMember),
	"hidden, hidepid=1": inOwnProc("hidepid=1", func() error { return nobodyOnRoot("judge the hidden") }),
	"hidden, hidepid=2": inOwnProc("hidepid=2", func() error { return nobodyOnRoot("judge the hidden") }),
	"judge the hidden":  judgeTheHidden,
	"foreign /proc":     foreignProc,
	"other user":        otherUser,
	"beside unreadable": findBesideUnreadable,
}

func init() {
	// a goroutine of main that is to end this process's first thread has to be on it from the start
	if os.Getenv(helperEnv) == "headless" {
		runtime.LockOSThread()
	}
}

// waitForEOF says that the process is ready and stays until its standard input is closed: when its starter ends.
func waitForEOF() error {
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// helper prepares this test binary to run as the named helper. The path works without the right to look into the
// directory that the binary lies in.
func helper(name string, env ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), append(env, helperEnv+"="+name, "GORACE=atexit_sleep_ms=0")...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// process is a child that runs until end is called.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Reader
}

// launch starts cmd and waits for the line in which it says that it is ready.
func launch(cmd *exec.Cmd) (*process, error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, stdin: stdin, lines: bufio.NewReader(stdout)}
	if line, err := p.lines.ReadString('\n'); err != nil {
		p.end()
		return nil, fmt.Errorf("helper said %q: %w", line, err)
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) identity() (Identity, error) {
	s, err := ReadStat(p.pid())
	return Identity{PID: s.PID, StartTicks: s.StartTicks}, err
}

// end closes the standard input, by which every helper ends, and reaps.
func (p *process) end() {
	_ = p.stdin.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	runtime.LockOSThread() // PDEATHSIG comes when the starting thread ends
	t.Cleanup(runtime.UnlockOSThread)
	p, err := launch(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.end)
	return p
}

func identify(t *testing.T, p *process) Identity {
	t.Helper()
	id, err := p.identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// run runs a helper to its end and reports what it complains of.
func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if out, err := cmd.Output(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// waitEnded blocks until a child has ended, and leaves it a zombie.
func waitEnded(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err
		}
	}
}

// nextTick waits until processes started from now on have another start time: a clock tick is 10 ms.
func nextTick() {
	deadline := time.Now().Add(30 * time.Millisecond)
	for time.Now().Before(deadline) {
		<-time.After(time.Until(deadline))
	}
}

// requireRoot ends a test that an ordinary user's rights don't suffice for: it fails, since nothing is skipped in silence.
func requireRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test changes accounts or mounts: run it as root, for example: sudo make test")
	}
}

// separate puts a helper in a pid and mount namespace of its own, as its first process.
func separate(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
	return cmd
}

// inOwnProc mounts a /proc for the namespace that the helper was put in, and goes on with act.
func inOwnProc(options string, act func() error) func() error {
	return func() error {
		if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("private mounts: %w", err)
		}
		if err := unix.Mount("proc", "/proc", "proc", 0, options); err != nil {
			return fmt.Errorf("mount /proc: %w", err)
		}
		return act()
	}
}

// nobodyOnRoot starts a process as root, leader of its own group, and runs another helper without any right to judge it.
func nobodyOnRoot(name string) error {
	cmd := helper("wait")
	cmd.SysProcAttr.Setpgid = true
	p, err := launch(cmd)
	if err != nil {
		return err
	}
	defer p.end()
	id, err := p.identity()
	if err != nil {
		return err
	}
	return asNobody(name, id)
}

// asNobody runs another helper without any right, and returns its complaint. It is told an identity.
func asNobody(name string, id Identity) error {
	cmd := helper(name, fmt.Sprintf("IDENTITY=%d %d", id.PID, id.StartTicks))
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// toldIdentity is the counterpart of asNobody.
func toldIdentity() (id Identity, err error) {
	_, err = fmt.Sscan(os.Getenv("IDENTITY"), &id.PID, &id.StartTicks)
	return id, err
}

// expect is one expectation inside a helper, where there is no testing.T.
func expect(what string, got, want Liveness, evidence, contains string) error {
	if got != want || !strings.Contains(evidence, contains) {
		return fmt.Errorf("%s: got %v (%s), want %v (… %s …)", what, got, evidence, want, contains)
	}
	return nil
}
