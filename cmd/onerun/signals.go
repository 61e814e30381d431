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
)

// signals keeps TERM, INT, HUP and QUIT from ending this process once it has a job to
// look after. Listening takes the runtime longer than anything else before the job, so
// it begins beside the claim.
type signals struct {
	ready chan struct{}
	mu    sync.Mutex
	phase phase
	kept  []syscall.Signal
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
		signal.Reset(sig)
		_ = syscall.Kill(os.Getpid(), sig)
	case forking:
		s.kept = append(s.kept, sig)
	}
}

// hold begins to keep signals for the job that is about to be started.
func (s *signals) hold() {
	<-s.ready
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase = forking
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
