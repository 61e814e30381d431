package zookeeper

import (
	"time"

	"golang.org/x/sys/unix"
)

// elapsed is a clock that never steps and that counts suspend.
func (c *clock) elapsed() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return time.Since(c.begun)
	}
	return time.Duration(ts.Nano())
}
