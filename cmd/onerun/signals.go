package main

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// phase is how far the job has come, as far as signals are concerned.
type phase int

const (
	asking  phase = iota // nothing runs yet: a signal ends this process, as it would any other
	forking              // the job is being started: a signal is kept for it
	running              // package process passes signals on; while the end is recorded, they are held off
	resting              // the retry of what failed is waited for: a signal ends the wait, and then this process
)

// signals keeps TERM, INT, HUP and QUIT from ending this process once it has a job to
// look after. Listening takes the runtime longer than anything else before the job, so
// it begins beside the claim.
type signals struct {
	ready chan struct{}
	mu    sync.Mutex
	phase phase
	kept  []syscall.Signal
	late  bool           // one came when there was a job already
	wake  func()         // ends a wait for a retry
	cut   syscall.Signal // the one that did
}

func heedSignals() *signals {
	s := &signals{ready: make(chan struct{})}
	go s.listen()
	return s
}

func (s *signals) listen() {
	var heeded []os.Signal
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(sig) { // under nohup(1) it stays ignored, here and in the job
			heeded = append(heeded, sig)
		}
	}
	// A write to a pipe whose reader has gone is to be an error, as it is on any other
	// file, and not the death of the job's owner. (Ignoring it would be inherited.)
	heeded = append(heeded, syscall.SIGPIPE)
	c := make(chan os.Signal, 8)
	signal.Notify(c, heeded...)
	close(s.ready)
	for sig := range c {
		if sig, ok := sig.(syscall.Signal); ok && sig != syscall.SIGPIPE {
			s.take(sig)
		}
	}
}

func (s *signals) take(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.phase {
	case asking:
		_ = dieOf(sig)
	case forking:
		s.kept, s.late = append(s.kept, sig), true
	case running:
		s.late = true
	case resting:
		if s.cut != 0 { // whatever keeps it from ending
			_ = dieOf(sig)
		}
		s.cut = sig
		s.wake()
	}
}

// dieOf ends this process by a signal, as if nobody had listened. Its error is for one
// that takes a moment to arrive.
func dieOf(sig syscall.Signal) error {
	signal.Reset(sig)
	_ = syscall.Kill(os.Getpid(), sig)
	return &statusError{status: 128 + int(sig)}
}

// hold begins to keep signals for the job that is about to be started. It reports
// whether it may be: one that came during the wait for a retry ends that wait.
func (s *signals) hold() bool {
	<-s.ready
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase, s.kept = forking, nil
	return s.cut == 0
}

// idle lets signals end this process again: all is recorded.
func (s *signals) idle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase = asking
}

// started passes on what came while the job was being started. What came late in that
// time package process has passed on too; twice does no harm.
func (s *signals) started(group int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase = running
	for _, sig := range s.kept {
		_ = syscall.Kill(-group, sig)
	}
}

// rest is the beginning of a wait for a retry, which wake ends. What came while there was
// a job, or its end was recorded, ends it too, but with the job's own exit code: whoever
// sent it wants an end, and no further beginning.
func (s *signals) rest(wake func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase, s.wake = resting, wake
	if s.late {
		wake()
	}
}

// cutShort is the signal that ended a wait for a retry; 0 if none did.
func (s *signals) cutShort() syscall.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cut
}
