package onerun_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
)

// bootTime is what a process that isn't this one reads from CLOCK_BOOTTIME.
func bootTime(t *testing.T) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// The moments that WithRenewal tells are readings of CLOCK_BOOTTIME as they are, with nothing added.
func TestElapsedIsBootTime(t *testing.T) {
	var sent time.Duration
	before := bootTime(t)
	r := onerun.NewRunner(memory.New(), onerun.WithRenewal(func(_ onerun.Lease, at time.Duration) { sent = at }))
	if err := r.Do(t.Context(), nightly, works(0)); err != nil {
		t.Fatal(err)
	}
	if after := bootTime(t); sent < before || sent > after {
		t.Errorf("sent at %s, which isn't between %s and %s", sent, before, after)
	}
}
