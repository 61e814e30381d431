package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/process"
	"github.com/onerun-dev/onerun/internal/procfs"
)

const (
	codeRefused = 111             // what verify's starts end with when they are refused
	startTime   = 2 * time.Minute // for starts to end, on the busiest machine
	lookAgain   = 5 * time.Millisecond
)

// started is an onerun that verify started.
type started struct {
	cmd   *exec.Cmd
	args  []string
	label string
	said  string // the file with what it said on standard error
	ended chan struct{}
}

// gate is what commands read from until they are to end.
type gate struct{ read, write *os.File }

func newGate() (gate, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return gate{}, &onerun.StoreError{Kind: onerun.ErrIO, What: "make a pipe", Err: err}
	}
	return gate{r, w}, nil
}

// open lets those that read from it come to their end.
func (g gate) open() { _ = g.write.Close(); _ = g.read.Close() }

// commandOf is a start with what its command is to do, in a directory of its own.
func (v *verification) commandOf(place int, kind []string, mode, label string, g gate) (*started, error) {
	dir := filepath.Join(v.dir, fmt.Sprintf("start-%d", place))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, &onerun.StoreError{Kind: createKind(err), What: "make a directory for verify", Path: dir, Err: pathCause(err)}
	}
	v.count++
	s := &started{label: label, said: filepath.Join(v.dir, fmt.Sprintf("said-%d", v.count)), ended: make(chan struct{})}
	s.args = append(s.args, kind...)
	s.args = append(s.args, "--", v.self, "verify", "--probe", mode+":"+label, v.witness)
	s.cmd = exec.Command(v.program, s.args...)
	s.cmd.Dir, s.cmd.Stdin = dir, g.read
	set := map[string]string{"PWD": dir, "TMPDIR": v.dir} // of a wrapper that is killed with its guard, something would be left
	if v.config != nil {
		s.cmd.ExtraFiles, set["ONERUN_CONFIG"] = []*os.File{v.config}, fmt.Sprintf("/proc/self/fd/%d", configFD)
	}
	// The instant of some other start has nothing to say about this one.
	s.cmd.Env = process.Env(os.Environ(), set, "ONERUN_SCHEDULED_AT", configAs, served)
	// Ctrl-C is for verify to heed, and what verify is killed by ends them.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return s, nil
}

// launch starts it; with held it is stopped at once, until cont.
func (v *verification) launch(s *started, held bool) error {
	said, err := os.OpenFile(s.said, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return &onerun.StoreError{Kind: createKind(err), What: "make a file for verify", Path: s.said, Err: pathCause(err)}
	}
	defer func() { _ = said.Close() }()
	s.cmd.Stderr = said
	if err := s.cmd.Start(); err != nil {
		return &onerun.StoreError{Kind: onerun.ErrConfig, What: "start", Path: v.program, Err: pathCause(err)}
	}
	if held {
		s.signal(syscall.SIGSTOP)
	}
	v.running = append(v.running, s)
	go func() { _ = s.cmd.Wait(); close(s.ended) }()
	return nil
}

// signal reaches what a script around onerun has started as well; a command has a group of its own.
func (s *started) signal(sig syscall.Signal) { _ = syscall.Kill(-s.cmd.Process.Pid, sig) }

func (s *started) over() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// code is how it ended.
func (s *started) code() int {
	<-s.ended
	if ws, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.cmd.ProcessState.ExitCode()
}

// trouble is what keeps a start from being one: nil if it was executed or refused. A store that
// can't be reached, or a disk that is full, shows nothing, so it is no disproof.
func (s *started) trouble() error {
	code := s.code()
	if code == 0 || code == codeRefused {
		return nil
	}
	text, _ := os.ReadFile(s.said)
	line := strings.TrimPrefix(strings.TrimSpace(string(text)), "onerun: ")
	if i := strings.LastIndexByte(line, '\n'); i >= 0 {
		line = strings.TrimPrefix(line[i+1:], "onerun: ")
	}
	if line == "" {
		line = "it said nothing"
	}
	switch code {
	case exitUnavailable, exitUnrecorded:
		return &onerun.StoreError{Kind: onerun.ErrUnavailable, What: "a start of verify's", Err: errors.New(line)}
	case exitIO:
		return &onerun.StoreError{Kind: onerun.ErrIO, What: "a start of verify's", Err: errors.New(line)}
	}
	if strings.Contains(line, s.cmd.Dir) {
		line += "; a relative path means another place in every directory that a job is started in"
	}
	return disproved("a start ended with status %d, in directory %s: %s", code, s.cmd.Dir, line)
}

// until waits until something is so, or for as long as verify waits.
func (v *verification) until(ctx context.Context, bound time.Duration, what string, is func() (bool, error)) error {
	for end := time.Now().Add(bound); ; {
		done, err := is()
		switch {
		case err != nil || done:
			return err
		case time.Now().After(end):
			return disproved("waited in vain for %s: %s", bound, what)
		}
		if err := v.pause(ctx, lookAgain); err != nil {
			return err
		}
	}
}

func (v *verification) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// dismiss ends what still runs of verify's starts: first by letting their commands come to
// their end, so that nothing is left in the ledger but successes.
func (v *verification) dismiss() {
	for _, g := range v.gates {
		g.open()
	}
	v.gates = nil
	for _, s := range v.running {
		if !s.over() {
			s.signal(syscall.SIGCONT)
		}
	}
	late := make(chan struct{}) // for all of them, however many are stuck
	defer time.AfterFunc(10*time.Second, func() { close(late) }).Stop()
	for _, s := range v.running {
		select {
		case <-s.ended:
		case <-late:
			s.signal(syscall.SIGKILL)
			<-s.ended
		}
	}
	v.running = nil
}

// newGate is one that is opened at the end, whatever happens.
func (v *verification) newGate() (gate, error) {
	g, err := newGate()
	if err == nil {
		v.gates = append(v.gates, g)
	}
	return g, err
}

// wrapper is the onerun of a start, with its guard; zeros: there is no guard now. It is not what verify
// started, where that is a script, but in its group, in which a command isn't.
func (s *started) wrapper() (who procfs.Identity, guard int) {
	entries, _ := os.ReadDir("/proc") // what can't be seen is none
	for _, e := range entries {
		text, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		n, err := strconv.Atoi(e.Name())
		if err != nil || !strings.HasPrefix(string(text), guardName+"\x00") {
			continue
		}
		st, err := procfs.ReadStat(n)
		if err != nil || st.Gone() {
			continue
		}
		if parent, err := procfs.ReadStat(st.PPID); err == nil && parent.PGRP == s.cmd.Process.Pid {
			return procfs.Identity{PID: parent.PID, StartTicks: parent.StartTicks}, n
		}
	}
	return who, 0
}
