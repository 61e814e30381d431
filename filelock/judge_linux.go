package filelock

import (
	"fmt"
	"os"
	"sync"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/procfs"
)

// Verdict is what could be found out about the work of a note.
type Verdict struct {
	Liveness onerun.Liveness // Unknown is to be treated as alive; "": there was nothing to judge
	Evidence string          // one line for people: what was looked at and what it showed
	PIDs     []int           // Alive: the processes that were seen
	Void     bool            // Dead, and the job had never started: the attempt is void
}

// Judge says whether the work of a note is gone, without touching any lock. It looks
// at the wrapper, the guard if one is noted, and what state says there must be of the
// job: its process group, or while that was not noted yet whatever process carries
// the owner id in its environment.
//
// The note must come from this kernel: boot, host name, machine id, pid namespace
// and time namespace are all known and equal. From an earlier boot of this same host
// it is dead. From another host, another pid namespace or an unknown place it is
// Unknown, and no pid of it is ever looked up here. With another time namespace start
// times can't be compared; "no such process" is proof still.
//
// StateEnded is dead whatever is left in the background: its wrapper saw the job end,
// and the outcome in the note is to be delivered.
func Judge(n Note) Verdict { return judge(n, circumstances{}) }

// JudgeFree is Judge for somebody who holds the lock that the note was found in, or
// has seen it free: whoever wrote the note has let go of it. That proves one thing
// more. A wrapper that was PID 1 of its pid namespace took all that lived there
// with it (pid_namespaces(7)), so it needs no pid that would mean something here.
func JudgeFree(n Note) Verdict { return judge(n, circumstances{free: true}) }

// circumstances are what the judge knows beside the note.
type circumstances struct {
	free     bool // the lock that the owner held is known free
	network  bool // the directory may be another host's as well
	standing bool // the note stands in a file that its owner removes by itself: "ended" may be a moment before that
}

func judge(n Note, c circumstances) Verdict {
	if n.State == StateEnded && (!c.standing || n.Released) {
		return dead("its end was seen: " + string(n.Outcome.status()))
	}
	known, v := sameKernel(n, c)
	if v != nil {
		return *v
	}
	ticks := func(t uint64) uint64 {
		if !known {
			return 0 // not known, for this reader
		}
		return t
	}
	wrapper, evidence := procfs.Judge(procfs.Identity{PID: n.PID, StartTicks: ticks(n.StartTicks)})
	if wrapper != procfs.Dead {
		return verdict(wrapper, []int{n.PID}, "wrapper: "+evidence)
	}
	evidence = "wrapper: " + evidence
	if n.Guard != 0 {
		guard, e := procfs.Judge(procfs.Identity{PID: n.Guard, StartTicks: ticks(n.GuardStartTicks)})
		if evidence += "; guard: " + e; guard != procfs.Dead {
			return verdict(guard, []int{n.Guard}, evidence)
		}
	}
	switch n.State {
	case StateInProcess, StateEnded:
		return dead(evidence)
	case StateRunning:
		group, live, e := procfs.GroupGone(procfs.Identity{PID: n.Group, StartTicks: ticks(n.GroupStartTicks)})
		evidence += "; job: " + e + listed(live) + orphaned(live)
		if group == procfs.Dead && n.Owner != "" {
			// What has left the group is of the job as well. Not all environments can be read, so
			// that none is found is no more than the group's end was.
			if pids, _, _ := procfs.FindEnvironOf(n.UID, ownerVariable, n.Owner, ticks(n.StartTicks)); len(pids) > 0 {
				return verdict(procfs.Alive, pids, evidence+carried(pids))
			}
		}
		return verdict(group, live, evidence)
	case StateStarting: // the fork is noted before it is tried, so nothing was started
		v := dead(evidence + "; the job had not started")
		v.Void = true
		return v
	case StateForking:
		if me := os.Geteuid(); me != 0 && me != n.UID {
			return unknown(evidence + "; it was starting its job, whose processes another account can't recognise")
		}
		return forked(n, ticks(n.StartTicks), evidence)
	}
	return unknown(fmt.Sprintf("%s; the state %q of the note is not known to this version", evidence, cut(n.State, 20)))
}

// forked judges a note from between the fork and the note of the group: the job is
// whatever carries the owner id. If nothing does, it was not started, or has ended.
func forked(n Note, since uint64, evidence string) Verdict {
	if n.Owner == "" {
		return unknown(evidence + "; no owner id is noted to look for")
	}
	pids, complete, err := procfs.FindEnvironOf(n.UID, ownerVariable, n.Owner, since)
	switch {
	case len(pids) > 0:
		return verdict(procfs.Alive, pids, evidence+carried(pids))
	case err != nil:
		return unknown(evidence + "; the environments of processes can't be read: " + err.Error())
	case !complete:
		return unknown(evidence + "; some process's environment can't be read")
	}
	return dead(evidence + "; whether its job had begun is not known, but nothing of it runs")
}

func carried(pids []int) string {
	return "; its owner id is in the environment of running processes" + listed(pids) + orphaned(pids)
}

// orphaned says what to do about processes of a job whose wrapper and guard are both gone: they keep the lock, and nobody is left
// who would end them.
func orphaned(pids []int) string {
	if len(pids) == 0 {
		return ""
	}
	return "; nobody is left to end them: wait, or kill them"
}

// ownerVariable is in the environment of every process of a job.
const ownerVariable = "ONERUN_OWNER"

// sameKernel returns a verdict when the pids of the note mean nothing here, else
// whether its start times can be compared.
func sameKernel(n Note, c circumstances) (known bool, v *Verdict) {
	me := thisWorker()
	say := func(v Verdict) (bool, *Verdict) { return false, &v }
	sameHost := n.Host != "" && n.Host == me.Host && n.Machine == me.Machine
	switch {
	case n.Boot == "" || me.Boot == "":
		return say(unknown("the boot id is not known"))
	case n.Boot != me.Boot:
		switch {
		case !sameHost:
			return say(unknown("it was noted on another host: " + hostOf(n)))
		case n.Machine == "":
			return say(unknown("it was noted in another boot, and no machine id says that it was this machine's"))
		case c.network:
			return say(unknown("it was noted in another boot, on a network file system: another machine may have the same name and id"))
		}
		return say(dead("it was noted in an earlier boot of this host"))
	case n.PIDNS == 0 || me.PIDNS == 0:
		return say(unknown("the pid namespace is not known"))
	case n.PIDNS != me.PIDNS && n.PID == 1 && c.free:
		// The same boot id: it is this kernel that says the lock is free, whatever the container's host name was.
		return say(dead("its wrapper was PID 1 of its pid namespace and holds the lock no more, so all of the namespace is gone"))
	case n.PIDNS != me.PIDNS && procfs.NamespaceGone(n.PIDNS):
		return say(dead("its pid namespace is gone, and with it every process that lived there"))
	case n.PIDNS != me.PIDNS:
		return say(unknown("it was noted in another pid namespace of this kernel, on " + hostOf(n)))
	case !sameHost:
		return say(unknown("it was noted on another host: " + hostOf(n)))
	}
	return n.TimeNS != 0 && n.TimeNS == me.TimeNS, nil
}

func hostOf(n Note) string {
	if n.Host == "" {
		return "(name not noted)"
	}
	return cut(n.Host, 64)
}

// maker judges the process that made a private file or a mark. It alone acts on it,
// so the work of the note doesn't matter.
func (d *Dir) maker(n Note) Verdict {
	n.State = StateInProcess
	return judge(n, circumstances{network: d.network != ""})
}

// work judges a note found in a lock file of this directory.
func (d *Dir) work(n Note, free, standing bool) Verdict {
	return judge(n, circumstances{free: free, standing: standing, network: d.network != ""})
}

func dead(evidence string) Verdict { return Verdict{Liveness: onerun.Dead, Evidence: evidence} }

func unknown(evidence string) Verdict { return Verdict{Liveness: onerun.Unknown, Evidence: evidence} }

func verdict(l procfs.Liveness, pids []int, evidence string) Verdict {
	switch l {
	case procfs.Dead:
		return dead(evidence)
	case procfs.Alive:
		return Verdict{Liveness: onerun.Alive, Evidence: evidence, PIDs: pids}
	}
	return unknown(evidence)
}

// leftBehind names what a lock is still held for when the job's first process has ended, as
// seen by somebody who may not take the lock; "" when there is nothing to say.
func leftBehind(n Note) string {
	if n.State != StateRunning {
		return ""
	}
	known, v := sameKernel(n, circumstances{})
	if v != nil {
		return ""
	}
	group := procfs.Identity{PID: n.Group}
	if known {
		group.StartTicks = n.GroupStartTicks
	}
	if first, _ := procfs.Judge(group); first != procfs.Dead {
		return ""
	}
	_, left, _ := procfs.GroupGone(group)
	if len(left) == 0 {
		return ""
	}
	return "; its job's first process has ended, and of its group still run" + listed(left)
}

// listed names the first few of some processes.
func listed(pids []int) string {
	const most = 8
	switch {
	case len(pids) == 0:
		return ""
	case len(pids) > most:
		return fmt.Sprintf(" %v and %d more", pids[:most], len(pids)-most)
	}
	return fmt.Sprintf(" %v", pids)
}

// status is safe on a note that was made by hand.
func (o *Outcome) status() onerun.Status {
	if o == nil {
		return "(no outcome noted)"
	}
	return o.Status
}

// ThisWorker returns the identity of this process, with a label. What could not be
// read is zero, and proves nothing. The kernel is asked once in a process's life: none
// of it can change (setns(2) and unshare(2) move a process's later children only).
func ThisWorker(label string) onerun.Worker {
	w := thisWorker()
	w.Label = label
	return w
}

var thisWorker = sync.OnceValue(func() onerun.Worker {
	// an error leaves the fields empty that it is about
	host, _ := procfs.ThisHost()
	self, _ := procfs.Self()
	return onerun.Worker{
		Host: host.Name, Machine: host.Machine, Boot: host.Boot, PIDNS: host.PIDNS, TimeNS: host.TimeNS,
		PID: self.PID, StartTicks: self.StartTicks,
	}
})
