package onerun

import "time"

// Clock is the seam by which time comes in, so that tests can move it.
type Clock interface {
	// Now is the wall clock, for records only; no lease is reckoned by it.
	Now() time.Time
	// Elapsed is a clock that never steps and that counts suspend: CLOCK_BOOTTIME
	// on Linux. Its zero is arbitrary.
	Elapsed() time.Duration
}

type systemClock struct{}

func (systemClock) Now() time.Time         { return time.Now() }
func (systemClock) Elapsed() time.Duration { return boottime() }
