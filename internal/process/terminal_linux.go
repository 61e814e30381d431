package process

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun/internal/procfs"
)

// terminal is the controlling terminal of this process, if it has one; nil is none, and all methods take it.
//
// The job has a process group of its own, and a terminal has one foreground group: the one that gets its keys and may read
// from it. So what a shell does for its jobs has to be done once more here (credentials(7), termios(3), "Implementing a
// Shell" in the GNU C library's manual), and in such a way that the shell above sees what it would see without us.
// All methods but those for the start run on the goroutine that waits, which is locked to its thread.
type terminal struct {
	fd    int
	own   int  // the group of this process
	given bool // the job's group has the terminal
	wants bool // the job has had it, and gets it back when we do
}

func openTerminal() *terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil // as under cron
	}
	return &terminal{fd: fd, own: unix.Getpgrp()}
}

func (t *terminal) close() {
	if t != nil {
		_ = unix.Close(t.fd)
	}
}

// foreground reports whether the terminal is ours to give.
func (t *terminal) foreground() bool {
	group, err := unix.IoctlGetUint32(t.fd, unix.TIOCGPGRP)
	return err == nil && int(group) == t.own
}

// lends decides whether the job starts with the terminal. Where its output goes elsewhere, as in `onerun … | less`, a
// neighbour in the pipeline may be the one that needs it: the job then gets it when it asks, see suspend.
func (t *terminal) lends(files []uintptr) bool {
	if t == nil || !t.foreground() || !isTerminal(files[0]) || !isTerminal(files[1]) {
		return false
	}
	t.given, t.wants = true, true
	return true
}

func isTerminal(fd uintptr) bool {
	_, err := unix.IoctlGetTermios(int(fd), unix.TCGETS)
	return err == nil
}

// catchesStops reports whether SIGTSTP is to be forwarded: while the job does not have the terminal, Ctrl-Z comes to our
// group. Where it was ignored from the start it stays so; of this signal Go's runtime keeps the inherited handling
// until somebody listens, but signal.Ignored doesn't know about it.
func (t *terminal) catchesStops() bool {
	return t != nil && !ignores(unix.SIGTSTP)
}

func ignores(s syscall.Signal) bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(status), "\nSigIgn:\t")
	mask, _, _ := strings.Cut(rest, "\n")
	ignored, err := strconv.ParseUint(mask, 16, 64)
	return err == nil && ignored>>(s-1)&1 == 1
}

func (t *terminal) give(group int) {
	t.given, t.wants = true, true
	t.setForeground(group)
}

// takeBack makes our group the foreground group again, if it has lent that out.
func (t *terminal) takeBack() {
	if t != nil && t.given {
		t.given = false
		t.setForeground(t.own)
	}
}

// setForeground is tcsetpgrp(3). From a background group, which is what we are while the job has the terminal, that would
// stop us by SIGTTOU unless the thread blocks it. No job can inherit the mask: it is back before any fork.
func (t *terminal) setForeground(group int) {
	var block, before unix.Sigset_t
	block.Val[0] = 1 << (unix.SIGTTOU - 1) // the first word has at least 32 bits everywhere
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &block, &before); err != nil {
		return
	}
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) // a terminal that was hung up has nothing to set
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
}

// suspend is called when signal stop has stopped the job. Without us the shell would notice, take the terminal and
// show its prompt; so we stop as well, and continue the job when we are continued.
func (t *terminal) suspend(job int, stop syscall.Signal) {
	had := t.given
	t.takeBack()
	asked := stop == unix.SIGTTIN || stop == unix.SIGTTOU
	switch {
	case asked && !had && t.foreground():
		// it only wants to read from the terminal, or to set it, and we have it to give
	case orphaned(t.own):
		// Nobody could continue us, and without us the key would do nothing here: a terminal can't stop an orphaned group
		// (setpgid(2)). What anything else has stopped stays as it is.
		if stop != unix.SIGTSTP {
			return
		}
	default:
		if had {
			tellGroup(t.own, unix.SIGTSTP) // else the key came to all of them
		}
		// SIGTTIN, since Go's runtime never gives the default handling of SIGTSTP back, and not SIGSTOP, which would stop
		// us for ever if the shell ends in this moment. To this thread, which has stopped when the call returns; a signal to
		// the process might take effect on another thread only after we have already continued the job.
		_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGTTIN)
	}
	if (t.wants || asked) && t.foreground() {
		t.give(job)
	}
	_ = unix.Kill(-job, unix.SIGCONT)
}

// endOf puts the terminal in order after the job. A job that had the terminal and died of Ctrl-C or Ctrl-\ got a
// signal that the rest of our group, a script that called us or a neighbour in a pipeline, would have got as well.
func (t *terminal) endOf(status unix.WaitStatus, forwarded func(syscall.Signal) bool) {
	if t == nil || !t.given {
		return
	}
	t.takeBack()
	if s := status.Signal(); status.Signaled() && (s == unix.SIGINT || s == unix.SIGQUIT) && !forwarded(s) {
		tellGroup(t.own, s)
	}
}

// tellGroup signals the members of our own group except for this process.
func tellGroup(group int, s syscall.Signal) {
	members, _, _ := procfs.GroupMembers(group)
	for _, pid := range slices.DeleteFunc(members, func(pid int) bool { return pid == os.Getpid() }) {
		_ = unix.Kill(pid, s)
	}
}

// orphaned reports whether no process outside of our group, but in our session, is parent of ours: then there is no
// shell that watches it and could continue it. Between us and the shell there may be scripts, which are in our group.
func orphaned(group int) bool {
	session, err := unix.Getsid(0)
	if err != nil {
		return true
	}
	for pid := os.Getppid(); pid > 0; {
		g, err := unix.Getpgid(pid)
		if err != nil {
			return true
		}
		if g != group {
			s, err := unix.Getsid(pid)
			return err != nil || s != session
		}
		parent, err := procfs.ReadStat(pid)
		if err != nil {
			return true
		}
		pid = parent.PPID
	}
	return true // the parent is outside of our pid namespace: the terminal's owner can't be in our session
}
