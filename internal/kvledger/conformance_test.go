package kvledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/kvledger"
	"github.com/onerun-dev/onerun/storetest"
)

func harness(s *space) storetest.Harness {
	return storetest.Harness{
		Open: func(context.Context) (onerun.Store, error) {
			return kvledger.New(s, kvledger.Options{Name: "a space in memory"}), nil
		},
		Leases: true, Hosts: true, InProcess: true,
		Advance: func(d time.Duration) { s.advance(d) },
	}
}

// TestConformance is the whole suite, on a store that has a clock of its own.
func TestConformance(t *testing.T) {
	storetest.Run(t, harness(newSpace(t)))
}

// TestConformanceWhenOthersAreFaster: every third commit finds that somebody else was there.
func TestConformanceWhenOthersAreFaster(t *testing.T) {
	s := newSpace(t)
	s.fault = func(n int, _ kvledger.Txn) (conflict, lost bool) { return n%3 == 0, false }
	storetest.Run(t, harness(s))
}
