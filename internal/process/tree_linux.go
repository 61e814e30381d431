package process

import (
	"os"
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

// Members finds what still runs of the tree. complete is false when something may have
// been overlooked.
func (t Tree) Members() (pids []int, complete bool) {
	group, known, err := procfs.GroupMembers(t.Group.PID)
	complete = known && err == nil
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

// Kill ends everything, however long that takes: it returns when nothing is left, and
// looks again until then, since what is being killed may just have forked.
func (t Tree) Kill() {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		_ = unix.Kill(-t.Group.PID, unix.SIGKILL) // quickest, and nobody's if there is none
		left, complete := t.Members()
		for _, pid := range left {
			_ = unix.Kill(pid, unix.SIGKILL) // gone meanwhile, or not ours to kill
		}
		if len(left) == 0 && (complete || unix.Kill(-t.Group.PID, 0) == unix.ESRCH) {
			return
		}
		<-time.After(pause)
	}
}
