package procfs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Judge tells whether the noted process still lives, with the evidence in words for people.
//
// Dead is proven by ESRCH from kill(2), by a zombie, or by a start time that was read and differs from the noted one
// (the number was handed out again). Alive needs the same start time. Everything else is Unknown: a process whose stat
// can't be read (EPERM from kill(2) proves that *some* process has the number, not that it is the noted one), and any
// running process when id.StartTicks is 0, since it may be the noted one as well as a later one. A zombie is proof even
// then: either it is the noted process, or the noted one is gone and its number in use.
//
// The identity must come from the same boot, pid namespace and time namespace; see [Host].
func Judge(id Identity) (Liveness, string) {
	if id.PID <= 0 { // kill(2) takes 0 and negative numbers for groups
		return Unknown, "no process id was noted"
	}
	if !exists(id.PID) {
		return Dead, fmt.Sprintf("process %d does not exist", id.PID)
	}
	s, err := ReadStat(id.PID)
	switch {
	case err != nil && !exists(id.PID): // it ended between the two looks
		return Dead, fmt.Sprintf("process %d does not exist", id.PID)
	case err != nil:
		return Unknown, fmt.Sprintf("process %d exists, but its start time can't be read: %v", id.PID, err)
	case id.StartTicks != 0 && s.StartTicks != id.StartTicks:
		return Dead, reused(id, s)
	case s.Gone():
		return Dead, fmt.Sprintf("process %d has ended and is a zombie", id.PID)
	case id.StartTicks == 0:
		return Unknown, fmt.Sprintf("process %d exists, but the noted start time is not known", id.PID)
	default:
		return Alive, fmt.Sprintf("process %d is running, with the noted start time", id.PID)
	}
}

func reused(id Identity, s Stat) string {
	return fmt.Sprintf("process %d started at tick %d, the noted one at %d: the number was reused", id.PID, s.StartTicks, id.StartTicks)
}

// GroupMembers returns the processes of group pgid that still run, zombies left out. complete is false when there may be
// more: a member whose state can't be read, a /proc that hides processes or belongs to another namespace. A caller that
// wants the group gone needs no live member and complete. The error says why nothing could be looked at (complete is
// then false); a pgid below 1 is EINVAL.
func GroupMembers(pgid int) (live []int, complete bool, err error) {
	if pgid < 1 {
		return nil, false, fmt.Errorf("process group %d: %w", pgid, unix.EINVAL)
	}
	if !groupExists(pgid) {
		return nil, true, nil
	}
	if err := checkMount(); err != nil {
		return nil, false, err
	}
	// kill(2) has found somebody, perhaps only zombies. One pass over /proc goes by rising numbers and can miss a member
	// whose parent ends before it is passed, while the child got a number already passed; so "nobody" is looked at twice.
	var zombies []int
	for range 2 {
		live, zombies, complete, err = scanGroup(pgid)
		if err != nil || len(live) > 0 {
			return live, complete, err
		}
	}
	return nil, complete && !(hidesProcesses() && hiddenMember(pgid, zombies)), nil
}

// groupExists is false only where the kernel says that no process, not even a zombie, is in the group.
func groupExists(pgid int) bool {
	if pgid == 1 {
		return true // kill(-1) would ask about every process there is
	}
	return unix.Kill(-pgid, 0) != unix.ESRCH
}

// scanGroup looks through /proc once.
func scanGroup(pgid int) (live, zombies []int, complete bool, err error) {
	complete = true
	err = processes(func(pid int) {
		// getpgid(2) needs no permission and no file: it spares the stat of all the others
		if group, err := unix.Getpgid(pid); err == unix.ESRCH || err == nil && group != pgid {
			return
		}
		s, err := readStat(pid)
		switch {
		case err != nil:
			complete = complete && !exists(pid)
		case s.PGRP != pgid:
		case s.Gone():
			zombies = append(zombies, pid)
		default:
			live = append(live, pid)
		}
	})
	return live, zombies, complete && err == nil, err
}

// hiddenMember reports whether the group has a member beside the known ones. It asks for every number there may be, which
// nothing can hide from, and takes up to half a second where there are four million: it is for a /proc that hides.
func hiddenMember(pgid int, known []int) bool {
	if !groupExists(pgid) {
		return false // reaped meanwhile
	}
	for pid := range highestPID() + 1 {
		if pid == 0 {
			continue // getpgid(0) is about ourselves
		}
		if group, err := unix.Getpgid(pid); err == nil && group == pgid && !slices.Contains(known, pid) {
			return true
		}
	}
	return false
}

// highestPID is the limit that is set (proc_sys_kernel(5)), or the highest that can be.
func highestPID() int {
	const most = 1 << 22
	var buf [32]byte
	b, err := readSmall("/proc/sys/kernel/pid_max", buf[:])
	if err != nil {
		return most
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n < 1 {
		return most
	}
	return n
}

// GroupGone tells whether the process group that leader once led is gone, with its running members and the evidence in
// words. A group outlives its leader; it is Dead when no process is in it, when only zombies are, or when its number
// belongs to a process that started at another time: the kernel hands a number out again only when no process, group
// or session uses it (alloc_pid and free_pid in kernel/pid.c, setpgid(2)).
//
// It is Alive with at least one running member. Those could in theory belong to a later group of the same number whose
// own leader has gone as well; nothing tells the two apart, and alive is the safe side.
func GroupGone(leader Identity) (Liveness, []int, string) {
	if leader.PID <= 0 {
		return Unknown, nil, "no process group was noted"
	}
	if !groupExists(leader.PID) {
		return Dead, nil, fmt.Sprintf("process group %d is empty", leader.PID)
	}
	if leader.StartTicks != 0 {
		if s, err := ReadStat(leader.PID); err == nil && s.StartTicks != leader.StartTicks {
			return Dead, nil, reused(leader, s)
		}
	}
	live, complete, err := GroupMembers(leader.PID)
	switch {
	case len(live) > 0:
		return Alive, live, fmt.Sprintf("process group %d has running members", leader.PID)
	case err != nil:
		return Unknown, nil, fmt.Sprintf("process group %d exists, but its members can't be looked at: %v", leader.PID, err)
	case !complete:
		return Unknown, nil, fmt.Sprintf("process group %d has members whose state can't be read", leader.PID)
	default:
		return Dead, nil, fmt.Sprintf("process group %d has no running member", leader.PID)
	}
}
