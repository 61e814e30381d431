package process

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// realTime is where the C library's real-time signals begin: it keeps the first two of the kernel's for itself (signal(7)).
const realTime, lastSignal = 34, 64

// SignalName is the name of a signal, as kill(1) of bash has it, with SIG before it: that of a real-time one counts from the
// first of them. "" is the name of what is no signal.
func SignalName(s syscall.Signal) string {
	switch name := unix.SignalName(s); {
	case name != "" || s <= 0 || s > lastSignal:
		return name
	case s > realTime:
		return fmt.Sprintf("SIGRTMIN+%d", s-realTime)
	case s == realTime:
		return "SIGRTMIN"
	default:
		return fmt.Sprintf("SIG%d", s)
	}
}
