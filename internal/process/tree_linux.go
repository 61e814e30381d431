package process

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun/internal/procfs"
)

// Tree is all that a job has started: its process group, what carries its mark in the
// environment, whatever group or session it went to, and what stands below those.
type Tree struct {
	Group procfs.Identity // the leader
	Mark  [2]string       // name and value of an environment variable that only this job has
	Since uint64          // when the wrapper started: nothing of the job is older
}

// replaced reports whether the number of the group is somebody else's by now: the process of that number has started at
// another time. Nothing of the job's group is left then, since the kernel gives a number to nobody while a process or a
// group has it.
func (t Tree) replaced() bool {
	s, err := procfs.ReadStat(t.Group.PID)
	return err == nil && t.Group.StartTicks != 0 && s.StartTicks != t.Group.StartTicks
}

func (t Tree) signalGroup(s syscall.Signal) {
	if !t.replaced() {
		_ = unix.Kill(-t.Group.PID, s)
	}
}

// Members finds what still runs of the tree. complete is false when something may have
// been overlooked.
func (t Tree) Members() (pids []int, complete bool) {
	var group []int
	complete = true
	if !t.replaced() {
		live, known, err := procfs.GroupMembers(t.Group.PID)
		group, complete = live, known && err == nil
	}
	marked, known, err := procfs.FindEnviron(t.Mark[0], t.Mark[1], t.Since)
	complete = complete && known && err == nil
	roots := map[int]bool{}
	for _, pid := range append(group, marked...) {
		roots[pid] = true
	}
	if len(roots) == 0 {
		return nil, complete
	}
	all, err := procfs.Descendants(roots)
	if err != nil {
		all = roots
	}
	delete(all, os.Getpid())
	for pid := range all {
		pids = append(pids, pid)
	}
	return pids, complete
}

// askEscaped sends SIGTERM to what has left the group, and SIGCONT, without which a stopped process takes no notice.
func (t Tree) askEscaped() {
	escaped, _ := t.Members()
	for _, pid := range escaped {
		if group, err := unix.Getpgid(pid); err == nil && group != t.Group.PID {
			_ = unix.Kill(pid, unix.SIGTERM)
			_ = unix.Kill(pid, unix.SIGCONT)
		}
	}
}

// find is Members, by what a process can be known by later.
func (t Tree) find() (found []procfs.Identity) {
	pids, _ := t.Members()
	for _, pid := range pids {
		if s, err := procfs.ReadStat(pid); err == nil {
			found = append(found, procfs.Identity{PID: pid, StartTicks: s.StartTicks})
		}
	}
	return found
}

// Kill ends everything, however long that takes: it returns when nothing is left, and
// looks again until then, since what is being killed may just have forked. What was found before is killed first, without
// any looking: that takes time, and the processes below one that is killed lose their place in the tree.
func (t Tree) Kill(found ...procfs.Identity) {
	t.signalGroup(unix.SIGKILL)
	for _, who := range found {
		if s, err := procfs.ReadStat(who.PID); err == nil && s.StartTicks == who.StartTicks {
			_ = unix.Kill(who.PID, unix.SIGKILL)
		}
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		t.signalGroup(unix.SIGKILL) // quickest, and nobody's if there is none
		left, complete := t.Members()
		for _, pid := range left {
			_ = unix.Kill(pid, unix.SIGKILL) // gone meanwhile, or not ours to kill
		}
		if len(left) == 0 && (complete || t.replaced() || unix.Kill(-t.Group.PID, 0) == unix.ESRCH) {
			return
		}
		<-time.After(pause)
	}
}
