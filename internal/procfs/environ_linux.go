package procfs

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// environLimit bounds what is read of one process's environment, in bytes. execve(2) takes 6 MiB at most.
const environLimit = 8 << 20

// FindEnviron returns the processes that carry exactly name=value in their environment, this one left out. Only those
// that started at or after since (clock ticks since boot, see [Identity]) are looked at: a job can't be older than the
// wrapper that started it.
//
// complete matters where nobody is found. It is false when a process that might carry it could not be looked at: one with this process's real user id
// whose environment is unreadable, or one that is just being executed and has no environment yet. An unreadable process
// of another user doesn't count, or else no ordinary user could ever prove anything on a shared host. That is
// sound for the one question this answers, what is left of a job whose group was not yet noted: the group is noted
// microseconds after the fork, PDEATHSIG kills the direct child together with its wrapper, and to escape both a process
// would have to change its user, by a setuid program started within those microseconds. For the same reason processes
// that hidepid keeps out of /proc altogether don't count.
//
// The environment is the one the process was executed with, read from its memory: a program that overwrites that memory
// (setproctitle) or was executed with another environment isn't found (proc_pid_environ(5)). Zombies and
// kernel threads have none.
//
// The error says why nothing could be looked at; complete is then false.
func FindEnviron(name, value string, since uint64) (pids []int, complete bool, err error) {
	return FindEnvironOf(os.Getuid(), name, value, since)
}

// FindEnvironOf is FindEnviron for processes that another user started: complete is false when one with that real user
// id is unreadable. Root reads them all, but not in a container, which lacks CAP_SYS_PTRACE and its like (ptrace(2)).
func FindEnvironOf(uid int, name, value string, since uint64) (pids []int, complete bool, err error) {
	if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
		return nil, false, fmt.Errorf("environment variable %q: %w", name, unix.EINVAL)
	}
	if err := checkMount(); err != nil {
		return nil, false, err
	}
	look := environReader{entry: []byte(name + "=" + value), self: os.Getpid(), uid: uid, since: since}
	// "Nobody" is believed only after a second pass, for the reason given in GroupMembers. Any process that is just being
	// executed or is just ending makes a pass incomplete; that is over within the time of the next pass or two.
	for pass := range environPasses {
		pids, complete, err = look.pass()
		if err != nil || len(pids) > 0 || complete && pass > 0 {
			break
		}
	}
	return pids, complete, err
}

// environPasses is how often FindEnviron looks before it gives up on a complete view.
const environPasses = 4

// environReader is one search; its buffer serves all processes.
type environReader struct {
	entry     []byte
	self, uid int
	since     uint64
	buf       []byte
}

// pass looks at every process once.
func (r *environReader) pass() (pids []int, complete bool, err error) {
	var unknown []int
	look := func(pid int) {
		found, known := r.at(pid)
		switch {
		case found:
			pids = append(pids, pid)
		case !known:
			unknown = append(unknown, pid)
		}
	}
	err = processes(func(pid int) {
		if pid != r.self {
			look(pid)
		}
	})
	// On a busy machine some process is always just being executed; but each is only for a
	// moment, so those are looked at again, and not the whole list.
	for range environTries {
		if err != nil || len(unknown) == 0 || len(pids) > 0 {
			break
		}
		time.Sleep(environPause)
		again := unknown
		unknown = nil
		for _, pid := range again {
			look(pid)
		}
	}
	return pids, len(unknown) == 0 && err == nil, err
}

const (
	environTries = 40
	environPause = 500 * time.Microsecond
)

// at looks at one process; known is false when it might carry the entry and could not be read.
func (r *environReader) at(pid int) (found, known bool) {
	s, err := readStat(pid)
	if err != nil {
		return false, !exists(pid) || r.anothers(pid)
	}
	if s.kernel || s.StartTicks < r.since || s.Gone() {
		return false, true
	}
	env, err := r.read(pid)
	if err != nil {
		return false, !exists(pid) || r.anothers(pid)
	}
	if len(env) == 0 {
		return false, settled(pid)
	}
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(entry, r.entry) {
			return true, true
		}
	}
	return false, true
}

// read returns the whole environment, valid until the next call.
func (r *environReader) read(pid int) ([]byte, error) {
	path := "/proc/" + strconv.Itoa(pid) + "/environ"
	fd, err := openRead(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	r.buf = r.buf[:0]
	for {
		r.buf = slices.Grow(r.buf, 4096)
		n, err := readFD(fd, r.buf[len(r.buf):cap(r.buf)])
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		}
		if n <= 0 {
			return r.buf, nil
		}
		if r.buf = r.buf[:len(r.buf)+n]; len(r.buf) > environLimit {
			return nil, &os.PathError{Op: "read", Path: path, Err: unix.EFBIG}
		}
	}
}

// settled reports whether an environment that read as empty is known to be empty, as after `env -i`.
func settled(pid int) bool {
	var buf [statSize]byte
	b, err := readSmall("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	if err != nil {
		return !exists(pid)
	}
	return settledStat(b)
}

// settledStat: in the middle of execve(2) a process has its new memory already, but no environment in it. The kernel then
// tells 0 as its end address, and so it does of a process whose memory is gone, because it is about to end.
func settledStat(b []byte) bool {
	if s, err := ParseStat(b); err == nil && s.Gone() {
		return true
	}
	end, ok := statNumber(b, fieldEnvEnd)
	return ok && end != 0
}

// anothers reports whether the process is known to be another user's, by its real user id: setuid programs change the
// effective one alone (credentials(7)).
func (r *environReader) anothers(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		// hidepid=1 keeps every file of other users from being read, but the directory still shows its owner
		var st unix.Stat_t
		err := unix.Stat("/proc/"+strconv.Itoa(pid), &st)
		return err == nil && int(st.Uid) != r.uid
	}
	uid, ok := realUID(string(b))
	return ok && uid != r.uid
}

// realUID reads the first number of the line "Uid:" in a status text (proc_pid_status(5)).
func realUID(status string) (int, bool) {
	for line := range strings.Lines(status) {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
			f := strings.Fields(ids)
			if len(f) == 0 {
				return 0, false
			}
			uid, err := strconv.Atoi(f[0])
			return uid, err == nil
		}
	}
	return 0, false
}
