package main

import (
	"syscall"
	"testing"
)

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
