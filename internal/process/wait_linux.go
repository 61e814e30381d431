package process

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cldStopped is si_code of a child that was stopped (sigaction(2)).
const cldStopped = 5

// waitEvent blocks until the child has ended, and leaves it a zombie; or, with stops, until a signal has stopped it, and
// returns that signal.
func waitEvent(pid int, stops bool) (stop syscall.Signal, err error) {
	options := unix.WEXITED | unix.WNOWAIT
	if stops {
		options |= unix.WSTOPPED
	}
	for {
		var event unix.Siginfo
		switch err := unix.Waitid(unix.P_PID, pid, &event, options, nil); {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, err
		case event.Code != cldStopped:
			return 0, nil
		}
		// WNOWAIT has left this event too: take it. It may be out of date by now, if somebody continued or killed the child.
		var taken unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &taken, unix.WSTOPPED|unix.WNOHANG, nil)
		if err == nil && taken.Code == cldStopped {
			return childStatus(&taken), nil
		}
	}
}

// hasEnded reports whether the child is a zombie now.
func hasEnded(pid int) bool {
	var event unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &event, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	return err == nil && event.Signo != 0 // "nothing yet" leaves it zero, waitid(2)
}

// childStatus reads si_status: it follows si_pid and si_uid, which follow the three numbers that all signals have, at the
// alignment of a pointer.
func childStatus(info *unix.Siginfo) syscall.Signal {
	const word = unsafe.Sizeof(uintptr(0))
	const start = (3*4 + word - 1) / word * word
	return syscall.Signal(*(*int32)(unsafe.Add(unsafe.Pointer(info), start+8)))
}
