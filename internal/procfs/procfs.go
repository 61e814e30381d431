// Package procfs asks the kernel about processes: who this process is, whether another one is still the one that was
// noted, which processes are left of a group, and which carry a given environment variable.
//
// It only looks. Everything it says rests on one rule: death has to be shown. "No such process" from kill(2), a zombie, or
// a start time that was read and differs is proof; a file under /proc that can't be read, or isn't there, is not, because
// hidepid mounts, security modules and foreign /proc mounts hide processes that are well alive. What can't be shown is
// [Unknown], and the caller must treat it as alive.
//
// Sources: proc(5), proc_pid_stat(5), kill(2), credentials(7), pid_namespaces(7), time_namespaces(7).
package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// Identity names one process for as long as this boot of this kernel lasts. A pid alone does not: numbers are reused.
type Identity struct {
	PID int // in the pid namespace of the one who noted it
	// StartTicks is when the process started, in clock ticks (1/100 s) since boot as the noter's time namespace counts
	// them: field 22 of /proc/PID/stat. 0 is "not known".
	StartTicks uint64
}

// Liveness is what can be shown about a process or a group.
type Liveness int

// The answers.
const (
	Unknown Liveness = iota // nothing is shown; treat it as alive
	Alive                   // the very process is there, or the group has a member that runs
	Dead                    // proven
)

func (l Liveness) String() string {
	switch l {
	case Alive:
		return "alive"
	case Dead:
		return "dead"
	default:
		return "unknown"
	}
}

// Stat is the part of /proc/PID/stat that decides questions of life and death (proc_pid_stat(5)).
type Stat struct {
	PID        int
	State      byte   // R, S, D, T, t, I, Z, X, …
	PPID       int    // 0: the parent is outside this pid namespace
	PGRP       int    // -1: the process is just being removed
	Session    int    // -1 likewise
	Threads    int    // 0: the process is just being removed
	StartTicks uint64 // see [Identity]
	kernel     bool   // a thread of the kernel itself: it has no memory and no environment
}

// Gone reports whether no instruction of the process can be executed any more. A zombie whose other threads still run
// is not gone: the state letter is that of its first thread alone, which may end before the others (pthread_exit(3)
// in main).
func (s Stat) Gone() bool {
	switch s.State {
	case 'X', 'x':
		return true
	case 'Z':
		return s.Threads <= 1
	}
	return false
}

// Numbers of the fields in /proc/PID/stat, as proc_pid_stat(5) counts them.
const (
	fieldState   = 3
	fieldPPID    = 4
	fieldPGRP    = 5
	fieldSession = 6
	fieldFlags   = 9
	fieldThreads = 20
	fieldStart   = 22
	fieldEnvEnd  = 51
)

// flagKernel is PF_KTHREAD of linux/sched.h.
const flagKernel = 0x00200000

var errStat = errors.New("not the text of a /proc/PID/stat")

// ParseStat reads the text of a /proc/PID/stat. The second field is the program's name in parentheses, and the program
// chooses it: it may hold spaces, parentheses and line feeds, so the fields after it are counted from the last ')'.
func ParseStat(b []byte) (Stat, error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 2 || end < open || b[open-1] != ' ' {
		return Stat{}, fmt.Errorf("%w: no name in parentheses", errStat)
	}
	var s Stat
	var err error
	if s.PID, err = strconv.Atoi(string(b[:open-1])); err != nil || s.PID <= 0 {
		return Stat{}, fmt.Errorf("%w: field 1 is no process id", errStat)
	}
	rest := b[end+1:]
	for n := fieldState; n <= fieldStart; n++ {
		var f []byte
		f, rest = nextField(rest)
		if err := s.set(n, f); err != nil {
			return Stat{}, fmt.Errorf("%w: field %d", errStat, n)
		}
	}
	return s, nil
}

// set takes the field with number n; those that nobody asks for are passed over.
func (s *Stat) set(n int, f []byte) (err error) {
	switch n {
	case fieldState:
		if len(f) != 1 {
			return errStat
		}
		s.State = f[0]
	case fieldPPID:
		s.PPID, err = strconv.Atoi(string(f))
	case fieldPGRP:
		s.PGRP, err = strconv.Atoi(string(f))
	case fieldSession:
		s.Session, err = strconv.Atoi(string(f))
	case fieldFlags:
		var flags uint64
		flags, err = strconv.ParseUint(string(f), 10, 64)
		s.kernel = flags&flagKernel != 0
	case fieldThreads:
		s.Threads, err = strconv.Atoi(string(f))
	case fieldStart:
		s.StartTicks, err = strconv.ParseUint(string(f), 10, 64)
	}
	return err
}

// nextField cuts the first field off b. Each one has a space before it, the last one a line feed after it.
func nextField(b []byte) (field, rest []byte) {
	if len(b) == 0 || b[0] != ' ' {
		return nil, nil
	}
	end := 1
	for end < len(b) && b[end] != ' ' && b[end] != '\n' {
		end++
	}
	return b[1:end], b[end:]
}

// statNumber returns one number of a stat text by its field number (above 3), and false where the kernel doesn't tell it.
func statNumber(b []byte, field int) (uint64, bool) {
	rest := b[bytes.LastIndexByte(b, ')')+1:]
	var f []byte
	for n := fieldState; n <= field; n++ {
		f, rest = nextField(rest)
	}
	v, err := strconv.ParseUint(string(f), 10, 64)
	return v, err == nil
}
