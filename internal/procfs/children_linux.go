package procfs

import "os"

// EndedChildren returns the children of this process that have ended and that nobody has waited for yet.
func EndedChildren() (pids []int, err error) {
	if err := checkMount(); err != nil {
		return nil, err
	}
	me := os.Getpid()
	err = processes(func(pid int) {
		if s, err := readStat(pid); err == nil && s.PPID == me && s.Gone() {
			pids = append(pids, pid)
		}
	})
	return pids, err
}
