// Package hostlock puts this host's lock files before a store of many machines.
//
// Such a store knows an owner by its lease alone, and after a crash it has to wait until that
// is over, not knowing what became of the work. The kernel of the owner's host knows. So
// every start takes its host's lock file first, and notes in it what is needed to prove its
// work over; whoever finds the file free and the work gone tells the store so, and takes
// over at once. The lock file is also the spool: an end stands in it before the store is
// told.
//
// The states of an acquisition, who moves them, and what a death of the process leaves:
//
//	locked     the flock is had, the note of the last owner read. Its end, if one is noted, is
//	           delivered; its work, if it is dead, is reported with the claim. Death: the
//	           flock is free again, and the note as it was.
//	asking     the own note stands in the file, without a token, and the claim is on its way.
//	           Death, or a lost reply: the claim was granted or not. The next start finds
//	           the file free and a note without a token: nothing was executed under it, so
//	           its owner is reported as dead and void, whatever lives of its process.
//	           What proved an earlier owner dead is carried on in the note until the store is
//	           known to have been told.
//	granted    the note has run, attempt and token. Death: nothing was started; void.
//	forking, running, ended
//	           as on one machine (see package filelock): judged by the group, the mark, the
//	           noted end.
//	delivered  the store has the end; the note is cleared, then the flock is freed. Death
//	           before: the end is delivered again, which changes nothing. An end that can't be
//	           delivered at once is spooled with its claim, should the store forget that.
//
// When the store can't be asked, a run may be executed without a claim (see Unclaimed):
//
//	locked     as above, but decided by what this host knows: work that lives, runs without a
//	           claim that wait here, and what only the store could decide refuse it.
//	spooled    a file of its own holds all that the store is to be told later, and room for the
//	           end (see package filelock); .held says that something waits. Death: nothing was
//	           started, void.
//	noted      the note says that it has no token on purpose. Death: void.
//	begun      the spool says that the job is about to be started. From here on a death is
//	           judged by the note, as of any owner, and written to the spool as its end before
//	           anybody writes over the note.
//	ended      the end stands in the spool, then in the note. The note is cleared when the lock
//	           is given back, whether the store has the run or not.
//	delivered  the store has the run, and the file goes. Death before: it is delivered again,
//	           which changes nothing.
//
// A flock that somebody holds is not waited for inside of a claim. Its holder may be between
// two of these steps, and about to be refused: a note that has no token, or an end, is
// looked at again for a while before the claim is refused for its sake.
package hostlock
