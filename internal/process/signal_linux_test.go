package process

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// What to do about a signal is the job's decision, and so is its end.
func TestSignalsAreForwarded(t *testing.T) {
	for _, s := range []syscall.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT} {
		t.Run(s.String(), func(t *testing.T) {
			report := t.TempDir() + "/end"
			p := launch(t, wrapper(spec{Args: asHelper(t, "catcher", "GORACE=atexit_sleep_ms=0"), Report: report}))
			p.expect("ready")
			if err := p.cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			p.expect(s.String())
			if code := p.exitCode(); code != 9 {
				t.Errorf("exit code %d", code)
			}
			if b, err := os.ReadFile(report); err != nil || !strings.Contains(string(b), fmt.Sprintf(`"Cause":%d`, Exited)) {
				t.Errorf("reported %s, %v", b, err)
			}
		})
	}
}

func TestSignalsReachTheWholeGroup(t *testing.T) {
	text := `trap 'echo leader' TERM; (trap 'echo member; exit 7' TERM; echo ready; while :; do sleep 0.01; done) & c=143; while [ $c -gt 128 ]; do wait $!; c=$?; done; exit $c`
	p := launch(t, wrapper(spec{Args: []string{"sh", "-c", text}}))
	p.expect("ready")
	if err := p.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if lines := []string{p.line(), p.line()}; lines[0] == lines[1] {
		t.Errorf("got %q", lines)
	}
	if code := p.exitCode(); code != 7 {
		t.Errorf("exit code %d", code)
	}
}

// A signal that comes before there is a job waits for it.
func TestEarlySignal(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signals <- unix.SIGTERM
	r := runner{clock: bootTime, files: []uintptr{0, 1, 2}}
	end, err := r.supervise(context.Background(), script("exec sleep 100"), nil, signals)
	if end.Signal != unix.SIGTERM || end.Cause != Signaled || err != nil {
		t.Errorf("got %+v, %v", end, err)
	}
}

// ignoredBy prints the signals that a job ignores, as /proc has them.
const ignoredBy = `grep SigIgn /proc/self/status; echo ready; exec sleep 100`

// ignored reads that line. Signals 32 and 33 are the C library's own, and make(1) starts
// everything with them ignored.
func ignored(line string) (mask uint64, err error) {
	mask, err = strconv.ParseUint(strings.TrimPrefix(line, "SigIgn:\t"), 16, 64)
	return mask &^ (1<<31 | 1<<32), err
}

func TestIgnoredStaysIgnored(t *testing.T) {
	p := launch(t, underShell(t, `trap "" HUP INT`, wrapper(spec{Args: []string{"sh", "-c", ignoredBy}})))
	mask, err := ignored(p.line())
	if want := uint64(1<<(unix.SIGHUP-1) | 1<<(unix.SIGINT-1)); err != nil || mask != want {
		t.Errorf("the job ignores %#x, %v, want %#x", mask, err, want)
	}
	p.expect("ready")
	for _, s := range []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGTERM} { // nohup keeps it alive, until SIGTERM
		if err := p.cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	if code := p.exitCode(); code != 143 {
		t.Errorf("exit code %d", code)
	}
}

func TestNothingIsIgnoredForTheJob(t *testing.T) {
	p := launch(t, wrapper(spec{Args: []string{"sh", "-c", `grep -E 'Sig(Ign|Blk)' /proc/self/status`}}))
	p.expect("SigBlk:\t0000000000000000")
	if mask, err := ignored(p.line()); err != nil || mask != 0 {
		t.Errorf("the job ignores %#x, %v", mask, err)
	}
}

// B34: whoever ignores SIGCHLD has no zombies, and no exit status of its children.
func TestStatusThoughChildrenWereIgnored(t *testing.T) {
	p := launch(t, underShell(t, `trap "" CHLD`, wrapper(spec{Args: []string{"sh", "-c", "exit 7"}})))
	if code := p.exitCode(); code != 7 {
		t.Errorf("exit code %d", code)
	}
}

// The kernel itself ends the job's first process with the wrapper, before anybody else can.
func TestKilledWrapperTakesTheJob(t *testing.T) {
	p := launch(t, wrapper(spec{Args: []string{"sh", "-c", "echo ready; exec sleep 100"}}))
	p.expect("ready")
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.expectEOF() // the job held the pipe
}

// As first process of a container, with orphans that come to it, it still tells the job's own status.
func TestFirstProcessOfANamespace(t *testing.T) {
	requireRoot(t)
	text := `for i in 1 2 3 4 5 6 7 8 9; do sh -c '(exit 3) & exit 0' & done; wait; exit 6`
	cmd := wrapper(spec{Args: []string{"sh", "-c", text}})
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
	if code := launch(t, cmd).exitCode(); code != 6 {
		t.Errorf("exit code %d", code)
	}
}
