// Package sqlite is the embedded store: lock files and one SQLite database, for one
// machine, with nothing to install.
//
// # Protocol
//
// Exclusion is a lock file (package filelock) that wrapper and guard hold and the
// job never inherits; the database is the ledger. The lock comes first: a ledger
// that came first would leave RUNNING rows that can't be told from "about to lock".
// There is no lease and no TTL, because the kernel frees the lock when its holders
// die; what it can't tell, whether the job's processes died too, is judged from the
// note in the lock file.
//
// The steps of an owner, and what the next claim finds after a death before each:
//
//	step                      who     death before it leaves
//	take the lock file        owner   nothing
//	BEGIN IMMEDIATE           owner   a free lock and no row: nothing to settle
//	settle, decide            owner   as above: the transaction is rolled back
//	note `starting`           owner   as above
//	COMMIT the claim          owner   a note of a run that isn't RUNNING: ignored
//	note the start            owner   a RUNNING row and a note `starting`: the job never
//	                                  started, so the attempt is void and the key starts
//	                                  again
//	start the job             owner   a note `forking`: nobody can know whether the job
//	                                  ran, so it is FAILED owner_died, not void
//	note the group            owner   the same note; processes with the owner's id in
//	                                  their environment are `running` until they are gone
//	                                  (PDEATHSIG kills the first), then as above
//	wait for the job          owner   a note that names the job's process group: alive
//	                                  as long as the group has members, else FAILED
//	                                  owner_died (policy manual: stale)
//	note the outcome          owner   as above
//	COMMIT the outcome        owner   a RUNNING row and a note with the outcome: the
//	                                  next claim records it
//	clear the note            owner   a note of a run that isn't RUNNING: ignored
//	free the lock             owner   an empty note
//
// A claim that is refused changes nothing but the skip's row, and what it closed on
// the way. A commit that fails leaves either nothing or the RUNNING row of a living
// process, whose next try with the same owner id takes it up again.
package sqlite
