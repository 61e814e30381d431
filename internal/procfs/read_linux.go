package procfs

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// statSize is more than any stat line: 52 numbers of at most 20 digits and a name of at most 64 characters.
const statSize = 2048

// errForeign means that /proc was mounted for another pid namespace, as inside `unshare --pid --fork` without
// --mount-proc: every number in it names some other process than it names to kill(2).
var errForeign = errors.New("the /proc mounted here belongs to another pid namespace")

// ReadStat reads /proc/PID/stat. Any error means "not known" and proves nothing about the process; one that has ended
// gives ENOENT or ESRCH, one that is hidden gives ENOENT, EPERM or EACCES.
func ReadStat(pid int) (Stat, error) {
	if err := checkMount(); err != nil {
		return Stat{}, err
	}
	return readStat(pid)
}

// readStat is ReadStat for those who have checked the mount.
func readStat(pid int) (Stat, error) {
	var buf [statSize]byte
	b, err := readSmall("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	if err != nil {
		return Stat{}, err
	}
	s, err := ParseStat(b)
	if err == nil && s.PID != pid {
		err = fmt.Errorf("/proc/%d/stat names process %d", pid, s.PID)
	}
	return s, err
}

// Self returns the identity of this process.
func Self() (Identity, error) {
	pid := os.Getpid()
	s, err := ReadStat(pid)
	if err != nil {
		return Identity{PID: pid}, fmt.Errorf("own start time: %w", err)
	}
	return Identity{PID: pid, StartTicks: s.StartTicks}, nil
}

// checkMount tells whether the numbers in /proc are those that kill(2) understands: /proc/self is a link to the number
// that the reader has in the namespace /proc was mounted for.
func checkMount() error {
	var buf [32]byte
	n, err := unix.Readlink("/proc/self", buf[:])
	if err != nil {
		return &os.PathError{Op: "readlink", Path: "/proc/self", Err: err}
	}
	if pid, err := strconv.Atoi(string(buf[:n])); err != nil || pid != os.Getpid() {
		return errForeign
	}
	return nil
}

// readSmall reads a file of /proc or /sys into buf with the fewest system calls: os.File would ask the poller about it
// first. What doesn't fit is cut off.
func readSmall(path string, buf []byte) ([]byte, error) {
	fd, err := openRead(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	n := 0
	for n < len(buf) {
		m, err := readFD(fd, buf[n:])
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		}
		if m == 0 {
			break
		}
		n += m
		if buf[n-1] == '\n' { // all of these files are one line: spare the read that only says "end"
			break
		}
	}
	return buf[:n], nil
}

func openRead(path string) (int, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
		if err == nil {
			return fd, nil
		}
		if err != unix.EINTR {
			return -1, &os.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

func readFD(fd int, buf []byte) (int, error) {
	for {
		n, err := unix.Read(fd, buf)
		if err != unix.EINTR {
			return n, err
		}
	}
}

// exists asks the kernel itself, which no mount option hides anything from. A permission error is a "yes".
func exists(pid int) bool {
	return unix.Kill(pid, 0) != unix.ESRCH
}

// processes calls visit with the pid of every process that /proc lists.
func processes(visit func(pid int)) error {
	fd, err := openRead("/proc")
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	buf := make([]byte, 16<<10)
	var names []string
	for {
		n, err := unix.ReadDirent(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return &os.PathError{Op: "getdents", Path: "/proc", Err: err}
		}
		if n <= 0 {
			return nil
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names[:0])
		for _, name := range names {
			if name[0] < '1' || name[0] > '9' {
				continue
			}
			if pid, err := strconv.Atoi(name); err == nil {
				visit(pid)
			}
		}
	}
}
