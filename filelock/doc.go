// Package filelock is the lock of one host: files in a directory, the kernel's locks on
// them, and notes in them from which a dead owner's work can be proven dead.
//
// # What there is
//
// A lock X (see [FileName]) has up to two files in the lock directory. X.lock is flocked.
// X.excl is the plain lock file of mode create, for file systems without flock and for
// other programs that look at it. One file, .held, serves all locks of the directory.
// Each file names its owner with a [Note]: one line of JSON.
//
// Three layers exclude, and a [Lock] has all that there are:
//
//  1. flock(2) on X.lock. After it is had, name and inode are compared (fstat(2), stat(2)):
//     the file may have been deleted, and made again, between open and flock.
//  2. one byte of .held, by an open file description lock (fcntl(2), F_OFD_SETLK). It bars
//     a second owner when X.lock was deleted under the first one; and others can ask who
//     has it (F_OFD_GETLK) without taking anything. A deleted .held is still listed in
//     /proc/locks, which is read until .held is known to have no deleted forerunner.
//  3. mode create: X.excl, made whole by link(2). Mode flock refuses while one stands.
//
// Layers 1 and 2 belong to open file descriptions: they last as long as any process has
// a duplicate of the descriptors, which are O_CLOEXEC, so that is this process and a guard
// that was given them on purpose ([Lock.Descriptors], [Dir.Inherit]), never the job. They
// are freed in the order 3, 2, 1, so that whoever gets 1 finds 2 free, unless a file was
// deleted under its holder.
//
// X.lock of a job or a name is never unlinked. That of a key is, by its holder. Both is
// safe because of the comparison in 1.
//
// # Waiting in line
//
// Who of those that wait in flock(2) gets the lock is the kernel's choice. A [Place] is for
// those who want it first come, first served ([Dir.Queue]): X.queue is an empty file, in which
// each of them has a byte locked, as in .held. It orders, and excludes nobody: whoever is first
// takes the layers as everybody does, and gives its place back when it has them. As X.lock,
// X.queue of a job or a name is never unlinked; that of a key is, by the last one in line.
//
// # Notes
//
// A note is written in place, by one write of less than a block, whose room is taken with
// the first one. It isn't synced: after a loss of power, the other boot id is the proof of
// death; X.excl is synced before it gets its name, since it must be readable then. Only
// [Lock.Sync] makes an outcome durable.
//
// # Runs without a claim
//
// A run that is executed although its store can't be asked has a file of its own beside the
// note, X.spool-OWNER ([Lock.Spool]): all that its store is to be told, and a blank block for its end. It
// is whole and on the disk before the job starts, under a private name first, and stays
// until the run is delivered, whoever uses the lock meanwhile. Unlike a note it holds the key
// and the labels. Its end is written in place by whoever holds the lock, and for ever.
//
// # Taking over X.excl
//
// X.excl is a link of a private file that its owner has written and synced before, so it is
// never seen half made. Its owner D may be replaced by nobody but a process T that has
// proven D's work dead, in these steps:
//
//  1. write and sync a private file, link(2) it to X.excl. EEXIST: read X.excl, D
//  2. D is proven dead, or the lock is held; unreadable: held, for ever
//  3. link the private file to the mark X.excl.take-D. EEXIST: the mark is a file that
//     names its maker; if that one is dead, take over the mark by these same steps, its
//     own mark being X.excl.take-D.take-T; else the lock is held
//  4. read X.excl again: it must still name D, or remove the mark and start again
//  5. rename(2) the private file over X.excl (or unlink X.excl: mode flock, [Dir.Unlock]);
//     remove the mark
//
// One rule makes this safe: a file that names D is replaced or removed by nobody but the
// process that has made, or taken over, the mark for D; D itself, when it releases, included.
// So what 4 has read is what 5 replaces. And D is dead: no file ever names it again, so a
// mark for D that comes late finds in 4 that it is late, whenever it comes. Without 4,
// several win: one that judged D early sets its mark after the first has long removed its
// own.
//
// # Who may do what when a process dies between two steps
//
// "Free" means that the next [Dir.Acquire] gets the lock without anybody's help; what it
// learns of the dead owner is in Lock.Previous and Lock.Verdict.
//
//	died after                          what is left              the next one
//	----------------------------------  ------------------------  ------------------------------------
//	mode flock
//	X.lock or .held made                an empty file             free
//	flock, or range, taken              nothing: kernel freed it  free
//	note "starting"                     the note                  free; dead and void: nothing was started
//	note "forking", the fork            the note; the job?        free; alive while a process carries the
//	                                                              owner id, then dead: it may have run
//	note "running"                      the note; the job         free; alive while the group has a running
//	                                                              member, then dead
//	  (a guard shares the lock)         the lock itself           held, until the guard is done
//	note "in_process"                   the note                  free; dead
//	note "ended"                        the outcome               free; dead, and the outcome to deliver
//	note cleared                        an empty line             free
//	private spool file made             the private file          free; removed by a later sweep
//	X.spool-OWNER named                 the file                  free; it never began
//	X.spool-OWNER, and the note         both                      free; judged by the note, as any
//	range freed, X.lock of key unlinked nothing                   free
//	a place in line taken               an empty X.queue          free: the kernel gave the place back
//	killed: one of range, flock gone    the other, for a moment   tries again for 100 ms
//	mode create, besides
//	private file made, or written       the private file          free; removed by a later sweep
//	X.excl linked                       X.excl                    free once its owner is proven dead
//	the mark linked                     X.excl of D, the mark     free: the mark is taken over
//	  likewise with marks of marks, up to 4 deaths in a row; then held until Unlock
//	X.excl renamed or unlinked          the mark                  free: the mark is about a file that is gone
//	note in X.lock, not in X.excl       an older note in X.excl   free; X.lock's is the one that counts
//	release: marked                     X.excl of D, mark of D    free: taken over like any
//	release: X.excl unlinked            its mark                  free
//	mode flock, with X.excl of D, dead
//	D's note copied to X.lock           both                      free; D is the previous owner
//	X.excl unlinked                     X.lock names D            free; D is the previous owner
//	Unlock
//	anywhere                            as of a takeover          as of a takeover
//
// Where nothing can be proven (another host, another pid namespace that still exists), X.lock
// is free all the same, with the verdict unknown; X.excl is held until Unlock.
//
// # What it can't do
//
// Without flock, and in mode create on a directory that other hosts share, X.excl is all there
// is: deleting it frees the lock, and an owner that took over and died before its first note
// leaves of its dead predecessor only an outcome, if there was one. A directory whose files are deleted
// faster than a start takes lets nobody in. Locks of flock on a network file system hold on
// one host only, or on none: [Open] refuses those.
//
// Sources: flock(2), fcntl(2) (open file description locks), open(2) (O_EXCL and NFS), link(2),
// rename(2), statfs(2), proc_locks(5), pid_namespaces(7), time_namespaces(7).
package filelock
