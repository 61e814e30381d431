package cli

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// TestScript executes testdata/script, in which the program is used as by its users:
// each file is a page on one topic. The commands beside testscript's own are below.
// A script's store is $ONERUN_STORE, in a directory of its own.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		RequireUniqueNames: true,
		Deadline:           time.Now().Add(5 * time.Minute), // of all; a script that hangs says where
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", bin+":/usr/local/bin:/usr/bin:/bin")
			e.Setenv("ONERUN_STORE", "sqlite:"+filepath.Join(e.WorkDir, "store"))
			e.Values[jobsKey{}] = map[string]*background{}
			return os.Mkdir(filepath.Join(e.WorkDir, "store"), 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":  cmdExits,
			"fails":  cmdFails,
			"silent": cmdSilent,
			"start":  cmdStart,
			"signal": cmdSignal,
			"ends":   cmdEnds,
			"await":  cmdAwait,
			"waits":  cmdWaits,
			"queued": cmdQueued,
			"noted":  cmdNoted,
			"dies":   cmdDies,
			"json":   cmdJSON,
			"fields": cmdFields,
		},
	})
}

// exits CODE PROGRAM ARG... executes a program that must end with CODE.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG...")
	}
	if code := codeOf(ts.Exec(args[1], args[2:]...)); strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit status %d, want %s", code, args[0])
	}
}

// fails CODE PROGRAM ARG... is exits for an error: nothing on standard output, and
// exactly one line on standard error, which is onerun's.
func cmdFails(ts *testscript.TestScript, neg bool, args []string) {
	cmdExits(ts, neg, args)
	stdout, stderr := ts.ReadFile("stdout"), ts.ReadFile("stderr")
	if stdout != "" {
		ts.Fatalf("an error has nothing to say on standard output, which has: %s", stdout)
	}
	if !strings.HasPrefix(stderr, "onerun: ") || strings.Count(stderr, "\n") != 1 || !strings.HasSuffix(stderr, "\n") {
		ts.Fatalf("an error is one line of onerun's on standard error, not: %q", stderr)
	}
}

// silent CODE PROGRAM ARG... is exits for what must print nothing at all.
func cmdSilent(ts *testscript.TestScript, neg bool, args []string) {
	cmdExits(ts, neg, args)
	if stdout, stderr := ts.ReadFile("stdout"), ts.ReadFile("stderr"); stdout+stderr != "" {
		ts.Fatalf("it should be silent, and prints %q and %q", stdout, stderr)
	}
}

type jobsKey struct{}

// background is a program that a script started, with what it printed.
type background struct {
	cmd      *exec.Cmd
	out, err *os.File
	ended    chan error
	group    int // the job's process group, once it is noted
}

// start NAME PROGRAM ARG... starts a program in the background. Its output goes to
// files, so that nobody waits for what it leaves running.
func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME PROGRAM ARG...")
	}
	b := &background{cmd: exec.Command(args[1], args[2:]...), ended: make(chan error, 1)}
	if !strings.Contains(args[1], "/") {
		path, err := exec.LookPath(filepath.Join(bin, args[1]))
		if err != nil {
			path, err = exec.LookPath(args[1])
		}
		ts.Check(err)
		b.cmd = exec.Command(path, args[2:]...)
	}
	b.cmd.Dir = ts.MkAbs(".")
	b.cmd.Env = environment(ts)
	var err error
	b.out, err = os.Create(ts.MkAbs(".out-" + args[0]))
	ts.Check(err)
	b.err, err = os.Create(ts.MkAbs(".err-" + args[0]))
	ts.Check(err)
	b.cmd.Stdout, b.cmd.Stderr = b.out, b.err
	ts.Check(b.cmd.Start())
	go func() { b.ended <- b.cmd.Wait() }()
	jobs(ts)[args[0]] = b
	ts.Defer(func() { _ = b.cmd.Process.Kill() })
}

func jobs(ts *testscript.TestScript) map[string]*background {
	return ts.Value(jobsKey{}).(map[string]*background)
}

// environment is what the script's own programs get.
func environment(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "WORK", "ONERUN_STORE", "ONERUN_TZ"} {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// signal NAME SIGNAL sends a signal to a program in the background. After SIGSTOP no thread of
// it runs any more.
func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: signal NAME SIGNAL")
	}
	sig := unix.SignalNum(args[1])
	if sig == 0 {
		ts.Fatalf("%s is no signal", args[1])
	}
	p := jobs(ts)[args[0]].cmd.Process
	ts.Check(p.Signal(sig))
	if sig == unix.SIGSTOP {
		ts.Check(unix.Waitid(unix.P_PID, p.Pid, nil, unix.WSTOPPED, nil))
	}
}

// ends NAME CODE waits for a program in the background, which must end with CODE; its
// output is then stdout and stderr.
func cmdEnds(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ends NAME CODE")
	}
	b := jobs(ts)[args[0]]
	var err error
	select {
	case err = <-b.ended:
	case <-time.After(patience):
		ts.Fatalf("%s has not ended after %s", args[0], patience)
	}
	for from, to := range map[*os.File]io.Writer{b.out: ts.Stdout(), b.err: ts.Stderr()} {
		text, err := os.ReadFile(from.Name())
		ts.Check(err)
		_, _ = to.Write(text)
		_ = from.Close()
	}
	if code := codeOf(err); strconv.Itoa(code) != args[1] {
		ts.Fatalf("exit status %d, want %s", code, args[1])
	}
}

// await FILE waits until a file exists.
func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE")
	}
	if !eventually(func() bool { return exists(ts.MkAbs(args[0])) }) {
		ts.Fatalf("%s is not there after %s", args[0], patience)
	}
}

// waits NAME waits until a program in the background waits for a lock: until the kernel
// lists it as one that does, in /proc/locks.
func cmdWaits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waits NAME")
	}
	pid := strconv.Itoa(jobs(ts)[args[0]].cmd.Process.Pid)
	if !eventually(func() bool {
		text, err := os.ReadFile("/proc/locks")
		ts.Check(err)
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 5 && f[1] == "->" && f[2] == "FLOCK" && (f[5] == pid || parentOf(f[5]) == pid) {
				return true
			}
		}
		return false
	}) {
		ts.Fatalf("%s doesn't wait for a lock after %s", args[0], patience)
	}
}

// queued LOCK N waits until N stand in the line for a lock.
func cmdQueued(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: queued LOCK N")
	}
	dir, err := filelock.Open(ts.MkAbs("store/locks"), filelock.Options{AllowNetwork: true, Looking: true})
	ts.Check(err)
	defer func() { _ = dir.Close() }()
	n := 0
	if !eventually(func() bool {
		n, err = dir.Queued(onerun.DefaultNamespace, onerun.LockName(args[0]))
		ts.Check(err)
		return strconv.Itoa(n) == args[1]
	}) {
		ts.Fatalf("%d stand in the line for %s after %s, want %s", n, args[0], patience, args[1])
	}
}

// parentOf is the parent of a process, "" when that is gone.
func parentOf(pid string) string {
	text, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(text), "\nPPid:")
	parent, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(parent)
}

// noted NAME waits until the lock file of an onerun in the background names its job's
// process group, and remembers that.
func cmdNoted(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: noted NAME")
	}
	b := jobs(ts)[args[0]]
	if !eventually(func() bool {
		b.group = notedGroup(ts.MkAbs("store/locks"), b.cmd.Process.Pid)
		return b.group != 0
	}) {
		ts.Fatalf("no lock file names the job of %s after %s", args[0], patience)
	}
}

// dies NAME kills an onerun in the background with SIGKILL, when its job is noted, and
// waits until the last process of that is gone too.
func cmdDies(ts *testscript.TestScript, neg bool, args []string) {
	cmdNoted(ts, neg, args)
	cmdSignal(ts, neg, []string{args[0], "SIGKILL"})
	cmdEnds(ts, neg, []string{args[0], "137"})
	if group := jobs(ts)[args[0]].group; !eventually(func() bool { return members(group) == 0 }) {
		ts.Fatalf("process group %d outlives %s", group, args[0])
	}
}

// patience is how long a test waits for what must come, on the busiest machine.
const patience = time.Minute

// eventually asks until the answer is yes, or patience is over.
func eventually(done func() bool) bool {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !done() {
		select {
		case <-tick.C:
		case <-end:
			return done()
		}
	}
	return true
}

// codeOf is the exit status of a program as a shell has it: 128+N for signal N.
func codeOf(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		return -1
	}
	if status := exit.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}
