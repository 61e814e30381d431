package process

import (
	"bufio"
	"encoding/json"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun/internal/procfs"
)

// The guard is a second process beside the job, of which it knows the group, the mark and
// the deadlines. It shares the job's lock, and it outlives the wrapper.
//
//	state       who moves on                  what happens
//	watching    the wrapper says "end"        the guard goes, and does nothing
//	            the wrapper is gone (its end  the job had ended by itself: that end is
//	            of the pipe is closed)        recorded. Else everything of the job is killed
//	            the wrapper says "stop"       an end from now on is not the job's own
//	            the wrapper renews the lease  its deadline moves on, while the job is being
//	                                          stopped too
//	            a deadline passes             SIGTERM, unless the wrapper has begun with that
//	                                          ("stop"), and SIGKILL to everything after the
//	                                          grace: the wrapper should have done it
//	killing     nothing is left               a wrapper that may have seen the end gets time
//	                                          to record it, unless it is frozen
//	            the wrapper is frozen or hung the end is noted, then the wrapper is killed, then
//	                                          the ledger is told
//
// There are two deadlines: the job's own time, which stands still, and the lease's, which counts from
// the newest heartbeat that the guard was told of. The one that passes first acts, and is the reason; what it has
// begun the other one may have to end. A job whose first process had ended by itself before has nothing to
// lose by either: what it has left behind is left alone, and what is waited for is that its end is recorded.
//
// The lease's deadline is about safety, so its slack comes out of the margin m of the lease (lease.go of package onerun
// has the arithmetic, with T for its TTL and g for its grace), and does not depend on what the wrapper does:
//
//	sent+T-m-g        the wrapper says "stop", and asks the job to end; the guard begins to look for
//	                  what it may have to kill
//	      +m/4        if it hasn't said so: the guard asks
//	sent+T-m          the wrapper kills
//	      +m/4        the guard kills what is left, whoever has said what
//	sent+T            nothing of the job runs; somebody else may have its lock from here on
//
// When one of the two dies or is frozen between two lines of that:
//
//	the wrapper                            it is frozen (or hung)         it dies
//	before its heartbeat has an answer,    the guard acts by the newest   the guard kills at once
//	or has told of it                      heartbeat it was told of, too
//	                                       early rather than too late
//	before "stop"                          the guard asks, then kills     likewise
//	between "stop" and its SIGTERM         the job is killed, not asked   likewise
//	between its SIGTERM and its SIGKILL    the guard kills                likewise
//	after the job's end, before "end"      the end that the guard has     likewise
//	                                       seen is recorded, or the one
//	                                       that the wrapper has noted
//
//	the guard                              it is frozen                   it dies
//	at any time before it kills            the wrapper does all that it   likewise, and another guard
//	                                       can without; when the guard    is started, which begins with
//	                                       goes on, it takes in all that  the newest heartbeat
//	                                       was said before it acts
//	after it has killed                    a wrapper that is alive records the end; for a frozen one the
//	                                       next claim does, as owner_died or lease_expired
//
// What is not covered: the wrapper is frozen before there is a guard, which is in the job's first 50 ms, or
// while its guard is frozen or being replaced; both die at once (what lives on of the job is found by the next claim, by
// the noted group and the mark); the guard is frozen between its last look at the time and its signal, and ends, when it goes on,
// a job whose lease was renewed meanwhile, which is safe.

// GuardOrder is what a guard has to know. It comes through the pipe, so that no process
// list shows it.
type GuardOrder struct {
	Tree    Tree
	Wrapper procfs.Identity
	Deadlines
	Lease  GuardLease      // as it is when the guard is started
	Hold   bool            // the job lasts until its group is gone, whatever its first process does
	Record time.Duration   // how long the wrapper may take to record the end
	More   json.RawMessage // what whoever runs the guard needs to record the end
}

// Deadlines are when the job's own time is over, by the clock since boot; 0: it has no end.
type Deadlines struct {
	TermAt, KillAt time.Duration
}

// guardSlack is how long after the end of the job's time the guard believes that the wrapper will act.
const guardSlack = 500 * time.Millisecond

// guardPatience is how much longer than to record the end the guard believes, after the deadline, in a wrapper that may have
// seen it: on a busy machine that one may be slow, and killing it would lose the exit status that whoever started it is to get.
const guardPatience = 5 * time.Second

// stopLine is what the wrapper says before it begins to stop the job.
const stopLine = "stop\n"

// endLine is what the wrapper says when the job's end is recorded.
const endLine = "end\n"

// GuardEnd is why a guard's watch was over.
type GuardEnd int

// The reasons.
const (
	GuardReleased GuardEnd = iota + 1 // the wrapper has done everything
	GuardSawEnd                       // the wrapper is gone, frozen or hung, and the job had ended by itself before
	GuardKilled                       // the wrapper was gone, and everything of the job was killed
	GuardTimedOut                     // the job's time was over, and nothing of it is left
	GuardLost                         // the lease was over, and nothing of the job is left
)

// ReadGuardOrder reads what the wrapper sent. The rest of the pipe is for Watch.
func ReadGuardOrder(pipe *bufio.Reader) (GuardOrder, error) {
	var o GuardOrder
	line, err := pipe.ReadBytes('\n')
	if err != nil {
		return o, err
	}
	return o, json.Unmarshal(line, &o)
}

// Watched is what a guard has seen.
type Watched struct {
	End    GuardEnd
	Status unix.WaitStatus // of GuardSawEnd: how the job's first process ended
	At     time.Time       // when the job ended
}
