package onerun

import "time"

// Clock is the seam by which time comes in, so that tests can move it.
type Clock interface {
	// Now is the wall clock, for records only; no lease is reckoned by it.
	Now() time.Time
	// Elapsed is a clock that never steps and that counts suspend. Its zero is
	// arbitrary. The system's own, on Linux, is what clock_gettime(2) says of
	// CLOCK_BOOTTIME, so any process in the same time namespace (time_namespaces(7))
	// can compare a moment of it with its own reading of that clock.
	Elapsed() time.Duration
}

type systemClock struct{}

func (systemClock) Now() time.Time         { return time.Now() }
func (systemClock) Elapsed() time.Duration { return boottime() }
