package etcd

import (
	"time"

	"golang.org/x/sys/unix"
)

// elapsed is CLOCK_BOOTTIME, which counts the time in suspend: a lease goes on meanwhile.
func elapsed() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // there since Linux 2.6.39
	return time.Duration(ts.Nano())
}
