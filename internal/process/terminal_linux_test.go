package process

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun/internal/procfs"
)

// The keys, as a terminal sends them.
const (
	ctrlC         = "\x03"
	ctrlZ         = "\x1a"
	ctrlBackslash = "\x1c"
)

// desk is a terminal with a shell on it, in which wrappers are run.
type desk struct {
	t       *testing.T
	master  *os.File
	seen    strings.Builder // what the screen has shown
	shell   *exec.Cmd
	orders  *os.File
	reports *process // only its lines
}

// openPTY returns both ends of a new terminal.
func openPTY(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx") // non-blocking, so that reading it can have a deadline
	t.Cleanup(func() { _ = master.Close() })
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = slave.Close() })
	return master, slave
}

// onTerminal makes cmd the first process of a session on a new terminal.
func onTerminal(t *testing.T, cmd *exec.Cmd) *desk {
	t.Helper()
	master, slave := openPTY(t)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty, cmd.SysProcAttr.Ctty = true, true, 0
	reports, w := pipe(t)
	r, orders := pipe(t)
	cmd.ExtraFiles = []*os.File{r, w}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _, _ = slave.Close(), r.Close(), w.Close()
	d := &desk{t: t, master: master, shell: cmd, orders: orders}
	d.reports = &process{t: t, cmd: cmd, stdout: reports, lines: bufio.NewReader(reports)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the screen showed %q; group %d has the terminal; processes: %+v", d.seen.String(), d.foreground(), d.processes())
		}
		for _, s := range d.processes() {
			_ = unix.Kill(s.PID, unix.SIGKILL)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return d
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	return onTerminal(t, helper("job shell"))
}

func (d *desk) order(format string, args ...any) {
	d.t.Helper()
	if _, err := fmt.Fprintf(d.orders, format+"\n", args...); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) expectReport(want string) {
	d.t.Helper()
	d.reports.expect(want)
}

func (d *desk) press(keys string) {
	d.t.Helper()
	if _, err := d.master.WriteString(keys); err != nil {
		d.t.Fatal(err)
	}
}

// expectShown waits until the screen shows text after what was expected before.
func (d *desk) expectShown(text string) {
	d.t.Helper()
	_ = d.master.SetReadDeadline(time.Now().Add(patience))
	buf := make([]byte, 4096)
	for {
		if _, after, ok := strings.Cut(d.seen.String(), text); ok {
			d.seen.Reset()
			d.seen.WriteString(after)
			return
		}
		n, err := d.master.Read(buf)
		if err != nil {
			d.t.Fatalf("the screen shows %q, want %q: %v; exit code %d", d.seen.String(), text, err, d.reports.exitCode())
		}
		d.seen.Write(buf[:n])
	}
}

// beJobShell does what an interactive shell does for its jobs: it reads orders from descriptor 3 and
// reports to descriptor 4 how the wrapper's group changes, and who had the terminal at that moment.
func beJobShell() (int, error) {
	orders, reports := bufio.NewScanner(os.NewFile(3, "orders")), os.NewFile(4, "reports")
	runtime.LockOSThread() // for setForeground, and for PDEATHSIG
	unix.CloseOnExec(3)
	unix.CloseOnExec(4)
	tty := openTerminal()
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP) // no key ends a shell, and its jobs don't inherit that
	pid := 0
	report := func() error {
		var status unix.WaitStatus
		for {
			if _, err := unix.Wait4(pid, &status, unix.WUNTRACED, nil); err != unix.EINTR {
				break
			}
		}
		holder := "job"
		group, err := unix.IoctlGetUint32(tty.fd, unix.TIOCGPGRP)
		switch {
		case err != nil:
			holder = err.Error()
		case int(group) == pid:
			holder = "wrapper"
		case int(group) == tty.own:
			holder = "shell"
		}
		tty.setForeground(tty.own)
		switch {
		case status.Stopped():
			_, _ = fmt.Fprintln(reports, "stopped, terminal:", holder)
		case status.Signaled():
			_, _ = fmt.Fprintln(reports, "killed by", status.Signal())
		default:
			_, _ = fmt.Fprintf(reports, "exit %d, terminal: %s\n", status.ExitStatus(), holder)
		}
		return nil
	}
	for orders.Scan() {
		order, rest, _ := strings.Cut(orders.Text(), " ")
		switch order {
		case "run", "run&": // in the foreground, in the background
			var err error
			if pid, err = launchJob(rest, order == "run", tty); err != nil {
				return 1, err
			}
			if order == "run" {
				_ = report()
			} else {
				_, _ = fmt.Fprintln(reports, "started")
			}
		case "wait":
			_ = report()
		case "fg":
			tty.setForeground(pid)
			_ = unix.Kill(-pid, unix.SIGCONT)
			_ = report()
		case "bg":
			_ = unix.Kill(-pid, unix.SIGCONT)
			_, _ = fmt.Fprintln(reports, "continued")
		}
	}
	return 0, nil
}

// line is a command line for the job shell: a script in which $W runs the wrapper with the job.
type line struct {
	Script string // "" is the wrapper alone
	Job    string // for the shell
	Report string // file for the End
}

func launchJob(text string, foreground bool, tty *terminal) (int, error) {
	var l line
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	env := Env(os.Environ(), map[string]string{helperEnv: "wrapper", "W": self}, specEnv)
	env = append(env, spec{Args: []string{"sh", "-c", l.Job}, Report: l.Report, Grace: patience}.env())
	args := []string{self}
	if l.Script != "" {
		args = []string{"/bin/sh", "-c", l.Script}
	}
	sys := &syscall.SysProcAttr{Setpgid: true, Foreground: foreground, Ctty: tty.fd, Pdeathsig: syscall.SIGKILL}
	return syscall.ForkExec(args[0], args, &syscall.ProcAttr{Env: env, Files: []uintptr{0, 1, 2}, Sys: sys})
}

func (d *desk) run(l line) { d.t.Helper(); d.order("run %s", l.text()) }
func (d *desk) background(l line) {
	d.t.Helper()
	d.order("run& %s", l.text())
	d.expectReport("started")
}

func (l line) text() string {
	b, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestTerminalKeysEndTheJob(t *testing.T) {
	for keys, want := range map[string]string{
		ctrlC:         "exit 130, terminal: wrapper",
		ctrlBackslash: "exit 131, terminal: wrapper",
	} {
		d := newDesk(t)
		d.run(line{Job: "ulimit -c 0; echo read''y; exec sleep 100"})
		d.expectShown("ready")
		d.press(keys)
		d.expectReport(want)
	}
}

func TestJobReadsFromTheTerminal(t *testing.T) {
	d := newDesk(t)
	d.run(line{Job: `read x; echo "got=$x"; exit 7`})
	d.press("hello\n")
	d.expectShown("got=hello")
	d.expectReport("exit 7, terminal: wrapper")
}

func TestCtrlZThenForeground(t *testing.T) {
	d := newDesk(t)
	d.run(line{Job: `echo read''y; read x; echo "got=$x"; exec sleep 100`})
	d.expectShown("ready")
	for range 2 {
		d.press(ctrlZ)
		d.expectReport("stopped, terminal: wrapper")
		d.order("fg")
		eventually(t, "the job has the terminal again", d.jobHasTerminal)
	}
	d.press("again\n")
	d.expectShown("got=again")
	d.press(ctrlC)
	d.expectReport("exit 130, terminal: wrapper")
}

// foreground asks from the other side of the terminal who has it.
func (d *desk) foreground() int {
	var group uint32
	var err error
	raw, _ := d.master.SyscallConn()
	_ = raw.Control(func(fd uintptr) { group, err = unix.IoctlGetUint32(int(fd), unix.TIOCGPGRP) })
	if err != nil {
		d.t.Fatal(err)
	}
	return int(group)
}

// jobHasTerminal reports whether a grandchild of the shell has it, and runs: not the shell, nor the wrapper that it started.
func (d *desk) jobHasTerminal() bool {
	group := d.foreground()
	s, err := procfs.ReadStat(group)
	return err == nil && s.State != 'T' && group != d.shell.Process.Pid && s.PPID != d.shell.Process.Pid
}

// processes are those of the session but for the shell.
func (d *desk) processes() (all []procfs.Stat) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		d.t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == d.shell.Process.Pid {
			continue
		}
		if session, err := unix.Getsid(pid); err != nil || session != d.shell.Process.Pid {
			continue
		}
		if s, err := procfs.ReadStat(pid); err == nil {
			all = append(all, s)
		}
	}
	return all
}

func (d *desk) allStopped() bool {
	return !slices.ContainsFunc(d.processes(), func(s procfs.Stat) bool { return s.State != 'T' })
}

// shellHasNot reports whether the shell has given the terminal away.
func (d *desk) shellHasNot() bool { return d.foreground() != d.shell.Process.Pid }

func TestCtrlZThenBackground(t *testing.T) {
	d := newDesk(t)
	d.run(line{Job: `echo read''y; while read x; do echo "got=$x"; done; exit 3`})
	d.expectShown("ready")
	d.press(ctrlZ)
	d.expectReport("stopped, terminal: wrapper")
	d.order("bg")
	d.expectReport("continued")
	// the job wants to read on, which it may not in the background: the shell sees what it would see of the job itself
	d.order("wait")
	d.expectReport("stopped, terminal: shell")
	d.order("fg")
	d.press("more\n")
	d.expectShown("got=more")
	d.press("\x04") // end of input
	d.expectReport("exit 3, terminal: wrapper")
}

func TestBackgroundJobLeavesTheTerminalAlone(t *testing.T) {
	d := newDesk(t)
	d.background(line{Job: `echo read''y; exit 5`})
	d.expectShown("ready")
	d.order("wait")
	d.expectReport("exit 5, terminal: shell")
}

// In a pipeline the neighbour may be the one that reads the keys.
func TestPipelineGetsTheTerminalOnDemand(t *testing.T) {
	d := newDesk(t)
	d.run(line{Script: `"$W" | (read x </dev/tty; echo "neighbour=$x"; cat)`, Job: `read y; echo "job=$y"`})
	// the job has asked as well, by now or later: the lines go to whoever reads first
	d.press("one\n")
	d.expectShown("=one")
	d.press("two\n")
	d.expectShown("=two")
	d.expectReport("exit 0, terminal: wrapper")
}

func TestPipelineKeys(t *testing.T) {
	d := newDesk(t)
	d.run(line{Script: `"$W" | cat; echo "script=$?"`, Job: `echo read''y; exec sleep 100`})
	d.expectShown("ready")
	d.press(ctrlZ) // comes to the group of the wrapper, and from there to the job
	d.expectReport("stopped, terminal: wrapper")
	eventually(t, "all of it is stopped", d.allStopped)
	d.order("fg")
	eventually(t, "the wrapper's group has the terminal again", d.shellHasNot)
	d.press(ctrlC)
	d.expectReport("killed by interrupt") // the script, as without the wrapper
}

// Ctrl-C ends a script too, although it comes to the job's group alone.
func TestCtrlCReachesTheScript(t *testing.T) {
	d := newDesk(t)
	d.run(line{Script: `trap 'echo interrupted; exit 9' INT; "$W"; echo "code=$?"`, Job: `echo read''y; exec sleep 100`})
	d.expectShown("ready")
	d.press(ctrlC)
	d.expectShown("interrupted")
	d.expectReport("exit 9, terminal: wrapper")
}

// A job that was not started must not keep the terminal.
func TestFailedStartGivesTheTerminalBack(t *testing.T) {
	d := newDesk(t)
	d.run(line{Script: `PATH=/no/where exec "$W"`})
	d.expectReport("exit 127, terminal: wrapper")
}

func TestTSTPIgnoredStaysIgnored(t *testing.T) {
	d := newDesk(t)
	d.run(line{Script: `trap "" TSTP; "$W"; exit $?`, Job: `echo read''y; read x; echo "got=$x"; exit 6`})
	d.expectShown("ready")
	d.press(ctrlZ)
	d.press("on\n")
	d.expectShown("got=on")
	d.expectReport("exit 6, terminal: wrapper")
}

// As first process of its session (`docker run -it`) there is nobody to continue it: Ctrl-Z must do nothing, as without.
func TestCtrlZWithoutAShell(t *testing.T) {
	report := t.TempDir() + "/end"
	d := onTerminal(t, wrapper(spec{Args: []string{"sh", "-c", `echo read''y; read x; echo "got=$x"; read y; exit 4`}, Report: report}))
	d.expectShown("ready")
	d.press(ctrlZ)
	d.press("on\n")
	d.expectShown("got=on")
	d.press("\n") // only now: the end of a session's first process throws away what the screen has not shown yet
	if code := d.reports.exitCode(); code != 4 {
		t.Errorf("exit code %d", code)
	}
}

// A timeout ends a job that waits for the terminal as well as any other.
func TestTimeoutOnATerminal(t *testing.T) {
	report := t.TempDir() + "/end"
	d := onTerminal(t, wrapper(spec{Args: []string{"sh", "-c", `read x`}, Timeout: 100 * time.Millisecond, Grace: patience, Report: report}))
	if code := d.reports.exitCode(); code != 143 {
		t.Errorf("exit code %d", code)
	}
	if b, err := os.ReadFile(report); err != nil || !strings.Contains(string(b), fmt.Sprintf(`"Cause":%d`, TimedOut)) {
		t.Errorf("reported %s, %v", b, err)
	}
}
