package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// heederName is argv[0] of this test's program as one that has nothing to pass a signal on to.
const heederName = "heeder"

// heed says when it heeds signals, and then does nothing else.
func heed() int {
	<-heedSignals().ready
	fmt.Println("ready")
	select {}
}

// TestSignalWhileNothingRuns: a signal ends onerun while it waits, as it would a program
// that hasn't heard of it, without a word: SIGQUIT too, and as PID 1, which no signal kills.
func TestSignalWhileNothingRuns(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, attr := range map[string]*syscall.SysProcAttr{
		"process":   {},
		"container": {Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWUSER},
	} {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
			cmd := &exec.Cmd{Path: self, Args: []string{heederName}, SysProcAttr: attr}
			var errs bytes.Buffer
			cmd.Stderr = &errs
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Fscanln(out, new(string)); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Process.Signal(sig)
			if code := codeOf(cmd.Wait()); code != 128+int(sig) || errs.Len() != 0 {
				t.Errorf("%s, %s: exit status %d, it says %.200q", name, sig, code, errs.String())
			}
		}
	}
}

// A signal that comes when the wait for a retry is just over, and the retry is claimed
// but not started, keeps it from being started.
func TestSignalBetweenClaimAndRetry(t *testing.T) {
	s := &signals{ready: make(chan struct{})}
	close(s.ready)
	if !s.hold() {
		t.Fatal("the first attempt may not be started")
	}
	s.started(0)
	woken := 0
	s.rest(func() { woken++ })
	s.take(syscall.SIGTERM)
	if woken != 1 || s.hold() || s.cutShort() != syscall.SIGTERM {
		t.Errorf("woken %d times, cut short by %v; the retry must not start", woken, s.cutShort())
	}
}

// One that comes while the end of an attempt is recorded ends the wait as it begins; the
// exit code stays the job's.
func TestSignalWhileTheEndIsRecorded(t *testing.T) {
	s := &signals{ready: make(chan struct{})}
	close(s.ready)
	s.hold()
	s.started(0)
	s.take(syscall.SIGINT)
	woken := 0
	s.rest(func() { woken++ })
	if woken != 1 || s.cutShort() != 0 {
		t.Errorf("woken %d times, cut short by %v", woken, s.cutShort())
	}
}

// TestSignalAfterTheJob: a signal that comes when the job has ended, and its end is not recorded
// yet, ends whatever is waited for afterwards; one that the job got doesn't.
func TestSignalAfterTheJob(t *testing.T) {
	t.Parallel()
	var ended syscall.Signal
	s := &signals{end: func(sig syscall.Signal) { ended = sig }}
	s.started(1 << 30) // nothing is kept for it
	s.take(syscall.SIGTERM)
	s.ended()
	s.idle()
	if ended != 0 {
		t.Fatal("the job's signal ends its owner")
	}
	s.ended()
	s.take(syscall.SIGTERM)
	if ended != 0 {
		t.Fatal("it ends before the end is recorded")
	}
	woken := false
	s.sending(func() { woken = true })
	if !woken || s.cutShort() != syscall.SIGTERM {
		t.Error("messages are waited for")
	}
	s.idle()
	if ended != syscall.SIGTERM {
		t.Error("a reader is waited for")
	}
}
