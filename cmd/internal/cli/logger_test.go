package cli

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/onerun-dev/onerun"
)

// TestLoggerIsToldFromSeveralSides: the watch of the lock file and the owner tell at the
// same time, and each line is whole. (The race detector is the judge of the rest.)
func TestLoggerIsToldFromSeveralSides(t *testing.T) {
	var out bytes.Buffer
	ready := make(chan struct{})
	close(ready)
	l, err := newLogger(&env{common: common{LogLevel: "warn", LogFormat: "text"}, err: &out}, place{}, ready)
	if err != nil {
		t.Fatal(err)
	}
	const sides, lines = 4, 50 // together under what may wait for a reader
	var all sync.WaitGroup
	for side := range sides {
		all.Go(func() {
			for range lines {
				l.Observe(onerun.Observation{Event: onerun.EventLockDeleted, LockPath: fmt.Sprint(side), Err: onerun.ErrLost})
			}
		})
	}
	all.Wait()
	l.close()
	if got := strings.Count(out.String(), "event=lock_deleted"); got != sides*lines || strings.Count(out.String(), "\n") != got {
		t.Errorf("%d lines:\n%s", got, out.String())
	}
	if !l.said {
		t.Error("nothing is known to have been said")
	}
}
