package cli

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/onerun-dev/onerun/filelock"
)

// phase is how far the job has come, as far as signals are concerned.
type phase int

const (
	asking    phase = iota // nothing runs yet: a signal ends this process, as it would any other
	forking                // the job is being started: a signal is kept for it
	running                // package process passes signals on
	recording              // the job has ended: a signal is held off until that is recorded
	resting                // the retry of what failed is waited for: a signal ends the wait, and then this process
)

// signals keeps TERM, INT, HUP and QUIT from ending this process once it has a job to
// look after. Listening takes the runtime longer than anything else before the job, so
// it begins beside the claim.
type signals struct {
	ready chan struct{}
	mu    sync.Mutex
	phase phase
	kept  []syscall.Signal
	after syscall.Signal // the last one that came when the job had ended
	late  bool           // one came when there was a job already
	wake  func()         // ends a wait for a retry
	cut   syscall.Signal // the one that did
	end   func(syscall.Signal)
}

func heedSignals() *signals {
	s := &signals{ready: make(chan struct{}), end: endBy}
	go s.listen()
	return s
}

// outliveSizeLimit makes a write beyond a limit on file sizes (ulimit -f) an error like any other,
// and not the end of this process. The job has signal and limit as they were: what is caught,
// exec(3) sets back. Without a limit the signal can't come, and listening takes time.
func outliveSizeLimit() {
	if _, limited := filelock.SizeLimit(); limited {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGXFSZ)
	}
}

// stopSignals are those by which somebody wants a command to end. HUP or INT that is ignored,
// under nohup(1) say, stays so, here and in what is started; of the others Go's runtime hides
// that.
func stopSignals() (heeded []os.Signal) {
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(sig) {
			heeded = append(heeded, sig)
		}
	}
	return heeded
}

func (s *signals) listen() {
	heeded := stopSignals()
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
		s.end(sig)
	case forking:
		s.kept, s.late = append(s.kept, sig), true
	case running:
		s.late = true
	case recording:
		s.late, s.after = true, sig
	case resting:
		if s.cut != 0 { // whatever keeps it from ending
			s.end(sig)
		}
		s.cut = sig
		s.wake()
	}
}

// dieOf ends this process by a signal, as if nobody had listened. Its error is for one
// that takes a moment to arrive, or that doesn't end it: SIGQUIT has Go print every
// goroutine, and no signal is the death of PID 1 of a container.
func dieOf(sig syscall.Signal) error {
	if sig != syscall.SIGQUIT && os.Getpid() != 1 {
		signal.Reset(sig)
		_ = syscall.Kill(os.Getpid(), sig)
	}
	return &statusError{status: 128 + int(sig)}
}

// endBy is dieOf for those who have nowhere to return to.
func endBy(sig syscall.Signal) {
	_ = dieOf(sig)
	if sig == syscall.SIGQUIT || os.Getpid() == 1 {
		os.Exit(128 + int(sig))
	}
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

// ended is the end of the job: what comes from here on can't be meant for it, and ends this
// process when the end is recorded.
func (s *signals) ended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase, s.after = recording, 0
}

// idle lets signals end this process again: all is recorded, and something else is waited for.
// One that came since the job's end does so at once.
func (s *signals) idle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase = asking
	if s.after != 0 {
		s.end(s.after)
	}
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

// sending is like rest, for messages that are still being sent when all is recorded: only a
// signal that came since the job's end ends that. One that came before has ended the job.
func (s *signals) sending(wake func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase, s.wake = resting, wake
	if s.after != 0 {
		s.cut = s.after
		wake()
	}
}

// cutShort is the signal that ended a wait for a retry; 0 if none did.
func (s *signals) cutShort() syscall.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cut
}
