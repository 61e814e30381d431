package procfs

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Fields of /proc/PID/stat that the kernel tells only those who may trace the process
// (ptrace(2), PTRACE_MODE_READ_FSCREDS). Others are told 1 and 0.
const (
	fieldStartCode = 26
	fieldExit      = 52
)

// MayKnowExit reports whether this process would be told how another one ended, which
// shows only while that one runs: afterwards "may not know" and "status 0" look the same.
func MayKnowExit(who Identity) bool {
	b, s, ok := statOf(who)
	if !ok || s.Gone() {
		return false
	}
	code, ok := statNumber(b, fieldStartCode)
	return ok && code > 1
}

// ExitStatus reads how a process has ended that its parent has not waited for yet, in the
// form of waitpid(2). ok is false while it runs, when it is gone, and when its account
// isn't this one any more. It is to be believed only if MayKnowExit was true before.
func ExitStatus(who Identity) (status unix.WaitStatus, ok bool) {
	b, s, ok := statOf(who)
	if !ok || !s.Gone() || !sameAccount(who.PID) {
		return 0, false
	}
	v, ok := statNumber(b, fieldExit)
	return unix.WaitStatus(v), ok
}

// statOf reads the stat of one process, if it is still that one.
func statOf(who Identity) ([]byte, Stat, bool) {
	if checkMount() != nil || who.StartTicks == 0 {
		return nil, Stat{}, false
	}
	buf := make([]byte, statSize)
	b, err := readSmall("/proc/"+strconv.Itoa(who.PID)+"/stat", buf)
	if err != nil {
		return nil, Stat{}, false
	}
	s, err := ParseStat(b)
	return b, s, err == nil && s.StartTicks == who.StartTicks
}

// sameAccount reports whether all user and group ids of a process are this one's.
func sameAccount(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false
	}
	want := map[string]string{"Uid:": strconv.Itoa(os.Geteuid()), "Gid:": strconv.Itoa(os.Getegid())}
	seen := 0
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 5 || want[f[0]] == "" {
			continue
		}
		for _, id := range f[1:] {
			if id != want[f[0]] {
				return false
			}
		}
		seen++
	}
	return seen == len(want)
}

// Descendants gives the processes below some others, those included, as the parents stand
// at this moment: an orphan has lost its place.
func Descendants(roots map[int]bool) (map[int]bool, error) {
	if err := checkMount(); err != nil {
		return nil, err
	}
	children := map[int][]int{}
	err := processes(func(pid int) {
		if s, err := readStat(pid); err == nil && !s.Gone() {
			children[s.PPID] = append(children[s.PPID], pid)
		}
	})
	all := map[int]bool{}
	var add func(pid int)
	add = func(pid int) {
		if !all[pid] {
			all[pid] = true
			for _, c := range children[pid] {
				add(c)
			}
		}
	}
	for pid := range roots {
		add(pid)
	}
	return all, err
}
