package procfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Host is the kernel and the namespaces in which a pid and its start ticks mean something. Two identities may be
// compared only where Boot, PIDNS and TimeNS are all known and equal; Name and Machine are for people and for hints,
// since containers share host names and clones share machine ids.
type Host struct {
	Name    string // the host name, uname(2)
	Machine string // machine-id(5), or "" where there is none (yet)
	Boot    string // random at each boot of the kernel, random(4)
	PIDNS   uint64 // inode of the pid namespace, namespaces(7); 0: not readable
	TimeNS  uint64 // inode of the time namespace; 0: not readable, or a kernel before 5.6, which has one only
}

// ThisHost returns what this process runs on. An error means that the boot id or the host name can't be read; the other
// fields are then filled nevertheless.
func ThisHost() (Host, error) {
	var h Host
	var failed error
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		failed = fmt.Errorf("host name: %w", err)
	}
	h.Name = unix.ByteSliceToString(uts.Nodename[:])

	var buf [128]byte
	const bootFile = "/proc/sys/kernel/random/boot_id"
	if b, err := readSmall(bootFile, buf[:]); err != nil {
		failed = fmt.Errorf("boot id: %w", err)
	} else if h.Boot = strings.TrimSpace(string(b)); h.Boot == "" {
		failed = fmt.Errorf("boot id: %s is empty", bootFile)
	}
	if b, err := readSmall("/etc/machine-id", buf[:]); err == nil {
		h.Machine = machineID(string(b))
	}
	h.PIDNS = namespace("pid")
	h.TimeNS = namespace("time")
	return h, failed
}

// machineID accepts what machine-id(5) defines, 32 hexadecimal digits; in particular not the word "uninitialized",
// which stands there during the first boot on every host alike.
func machineID(text string) string {
	id := strings.TrimSpace(text)
	if len(id) != 32 || strings.Trim(id, "0123456789abcdefABCDEF") != "" {
		return ""
	}
	return id
}

// namespace returns the inode number in the link /proc/self/ns/KIND, or 0.
func namespace(kind string) uint64 {
	var buf [64]byte
	n, err := unix.Readlink("/proc/self/ns/"+kind, buf[:])
	if err != nil {
		return 0
	}
	return parseNamespace(kind, string(buf[:n]))
}

// parseNamespace reads "pid:[4026531836]".
func parseNamespace(kind, link string) uint64 {
	number, ok := strings.CutPrefix(link, kind+":[")
	if !ok {
		return 0
	}
	number, ok = strings.CutSuffix(number, "]")
	if !ok {
		return 0
	}
	inode, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0
	}
	return inode
}

// hidesProcesses reports whether /proc may leave out processes for this reader (mount option hidepid=2 or 4, proc(5)).
// Whoever may trace everybody sees everybody. Where it can't be told, it may.
func hidesProcesses() bool {
	if canTrace() {
		return false
	}
	b, err := os.ReadFile("/proc/self/mountinfo")
	return err != nil || mountHides(string(b))
}

// mountHides looks for the options of the topmost mount on /proc in a mountinfo text (proc_pid_mountinfo(5)).
func mountHides(mountinfo string) bool {
	options, found := "", false
	for line := range strings.Lines(mountinfo) {
		// ID parent major:minor root MOUNTPOINT options [optional …] - TYPE source SUPEROPTIONS
		mount, filesystem, ok := strings.Cut(line, " - ")
		// Of white space, a name in it can have all but blanks, tabs and line feeds, which are escaped.
		f, g := strings.Split(mount, " "), strings.Split(strings.TrimSuffix(filesystem, "\n"), " ")
		if ok && len(f) >= 6 && f[4] == "/proc" && len(g) >= 3 && g[0] == "proc" {
			options, found = g[2], true // a later line lies above an earlier one
		}
	}
	for option := range strings.SplitSeq(options, ",") {
		// the kernel prints words for the numbers since Linux 5.8
		value, ok := strings.CutPrefix(option, "hidepid=")
		if ok && value != "0" && value != "off" && value != "1" && value != "noaccess" {
			return true
		}
	}
	return !found
}

// canTrace reports whether this process has CAP_SYS_PTRACE, which is what the kernel asks for under hidepid. In a user
// namespace of its own the capability covers that namespace and those below it, where all of a job's processes are.
func canTrace() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[unix.CAP_SYS_PTRACE/32].Effective&(1<<(unix.CAP_SYS_PTRACE%32)) != 0
}
