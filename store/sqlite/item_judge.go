package sqlite

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
	"github.com/onerun-dev/onerun/internal/procfs"
)

// Where processes carry whose work they are.
const (
	ownerVariable     = "ONERUN_OWNER"      // the owner id of a run's attempt
	ItemOwnerVariable = "ONERUN_ITEM_OWNER" // the owner id of an item's try
)

// look finds out what it can about the owner of a started item.
func (it *itemRow) look() {
	if it.State == onerun.ItemStarted {
		it.Liveness, it.Evidence = it.judge()
		it.Over = !it.running
	}
}

// judge says whether the owner of a started item is dead. A named process must be gone, with
// all that it started for the item; without one the attempt must have ended, and left nothing
// that still runs. From within another pid namespace nothing of that can be seen: unless that
// namespace is gone as a whole, the answer is that nobody knows.
func (it *itemRow) judge() (onerun.Liveness, string) {
	me, w := filelock.ThisWorker(""), it.Worker
	attempt := fmt.Sprintf("attempt %d of run %s has ended", it.Attempt, it.RunID)
	if it.running {
		attempt = fmt.Sprintf("attempt %d of run %s is RUNNING", it.Attempt, it.RunID)
	}
	switch {
	case w.Boot == "" || me.Boot == "":
		return onerun.Unknown, attempt + "; where it was begun is not known"
	case w.Boot != me.Boot:
		return onerun.Dead, "it was begun in an earlier boot"
	case w.PIDNS != me.PIDNS && procfs.NamespaceGone(w.PIDNS):
		return onerun.Dead, "the pid namespace in which it was begun is gone"
	case w.PIDNS != me.PIDNS || w.PIDNS == 0:
		return onerun.Unknown, attempt + "; it was begun in another pid namespace"
	}
	ticks := w.StartTicks
	if w.TimeNS != me.TimeNS {
		ticks = 0 // can't be compared
	}
	switch {
	case w.PID == 0 && it.running:
		return onerun.Alive, attempt
	case w.PID == 0:
		return it.left(ownerVariable, it.runOwner, ticks, attempt)
	}
	v, evidence := procfs.Judge(procfs.Identity{PID: w.PID, StartTicks: ticks})
	if v != procfs.Dead {
		return map[procfs.Liveness]onerun.Liveness{procfs.Alive: onerun.Alive, procfs.Unknown: onerun.Unknown}[v], evidence
	}
	return it.left(ItemOwnerVariable, it.Owner, ticks, evidence)
}

// left looks for processes that work on although whoever began the item is gone: those that
// carry its mark; and those of the job's process group that carry no mark of onerun's at all,
// since somebody has cleared their environment.
func (it *itemRow) left(variable, owner string, since uint64, evidence string) (onerun.Liveness, string) {
	pids, complete, err := procfs.FindEnviron(variable, owner, since)
	switch {
	case len(pids) > 0:
		return onerun.Alive, fmt.Sprintf("%s, but processes of it run: %v", evidence, pids)
	case err != nil:
		return onerun.Unknown, fmt.Sprintf("%s, but the environments of processes can't be read: %v", evidence, err)
	case !complete:
		return onerun.Unknown, evidence + ", but some process's environment can't be read"
	}
	if it.Group == 0 {
		return onerun.Dead, evidence
	}
	members, complete, err := procfs.GroupMembers(it.Group)
	if err != nil || !complete {
		return onerun.Unknown, evidence + ", but not all of its process group can be seen"
	}
	if pids = slices.DeleteFunc(members, func(pid int) bool { return startedBefore(pid, since) || marked(pid) }); len(pids) > 0 {
		return onerun.Unknown, fmt.Sprintf("%s, but of its process group run some that don't say what they are part of: %v", evidence, pids)
	}
	return onerun.Dead, evidence
}

func startedBefore(pid int, ticks uint64) bool {
	s, err := procfs.ReadStat(pid)
	return err == nil && s.StartTicks < ticks
}

// marked reports whether a process carries the mark of a job of onerun's: then it has been asked
// about already, or it is ours, of another item or of none.
func marked(pid int) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && (bytes.HasPrefix(env, []byte(ownerVariable+"=")) || strings.Contains(string(env), "\x00"+ownerVariable+"="))
}
