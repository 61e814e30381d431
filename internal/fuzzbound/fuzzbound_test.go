package fuzzbound

import (
	"testing"
	"time"
)

// said is a test that is asked whether it has failed.
type said struct {
	testing.TB
	failed bool
}

func (s *said) Helper()               {}
func (s *said) Errorf(string, ...any) { s.failed = true }

var kept []byte

// TestRun: what costs too much fails, and nothing else.
func TestRun(t *testing.T) {
	for what, c := range map[string]struct {
		do   func()
		fail bool
	}{
		"nothing": {func() {}, false},
		"memory": {func() {
			for range 64 {
				kept = make([]byte, 1<<20)
			}
		}, true},
		"a little memory": {func() { kept = make([]byte, 1<<20) }, false},
	} {
		s := &said{TB: t}
		if Run(s, 1, c.do); s.failed != c.fail {
			t.Errorf("%s: failed %t", what, s.failed)
		}
	}
}

// TestSpent: the time that is measured is that of the work.
func TestSpent(t *testing.T) {
	began := spent(t)
	for spent(t)-began < 20*time.Millisecond { // it never ends where time isn't seen
		kept = append(kept[:0], 1)
	}
}
