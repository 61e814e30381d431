package procfs

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// initialPIDNS is the inode of the kernel's first pid namespace (PROC_PID_INIT_INO in the
// kernel's proc_ns.h), whose processes see all others.
const initialPIDNS = 0xeffffffc

// NamespaceGone reports whether a pid namespace of this kernel has no process any more. When
// its first process ends the kernel kills the others (pid_namespaces(7)), so a namespace that
// lives has a process whose /proc/PID/ns/pid names it. Only who is in the first namespace sees
// them all, and only who may read each of those links knows; anybody else is told false.
func NamespaceGone(inode uint64) bool {
	if inode == 0 || namespace("pid") != initialPIDNS || checkMount() != nil {
		return false
	}
	gone := true
	// Twice, for the reason given in GroupMembers.
	for range 2 {
		err := processes(func(pid int) {
			link, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/pid")
			switch {
			case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ESRCH): // it has ended
			case err != nil, link == "pid:["+strconv.FormatUint(inode, 10)+"]":
				gone = false
			}
		})
		if err != nil || !gone {
			return false
		}
	}
	return true
}
