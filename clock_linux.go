package onerun

import (
	"syscall"
	"time"
	"unsafe"
)

// clockBoottime is CLOCK_BOOTTIME of clock_gettime(2): it goes on while the
// machine is suspended, as Go's own monotonic clock (CLOCK_MONOTONIC) does not.
const clockBoottime = 7

func boottime() time.Duration {
	var ts syscall.Timespec
	// It can't fail: the clock exists since Linux 2.6.39 and ts is ours.
	_, _, _ = syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}
