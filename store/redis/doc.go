// Package redis is a store on Redis 6 or later, or Valkey: claims of many machines, decided
// inside the server by scripts.
//
// A script runs in one piece, with the server's own clock, so that a claim, a heartbeat and an
// end are one round trip each. What only people do (resolve, approve, prune) and what comes
// late is read here, decided by the library's own rules, and written by a script which checks
// that all of what it was decided by is still so.
//
// Nothing expires by itself: a lease is a time that scripts compare, and so what a dead owner
// leaves behind is there to be judged. What the server has forgotten (DEL, FLUSHALL, a restart
// without persistence, a failover) is a lease lost, and is made again by no heartbeat and no
// end. docs/stores/redis.md says what can get lost when.
//
// # Keys
//
// Every key begins with PREFIX:{NAMESPACE}: and so with one hash tag for a namespace: in a
// cluster the whole ledger of a namespace lies on one node. A tag for each lock would spread
// them, but a claim is about a key and a lock at once, any key may be claimed under any lock,
// and the listings are about a whole namespace: what is decided in one step has to be in one
// place. Whoever needs more than one node's worth of claims has several namespaces.
//
// In a namespace, and in other names where they stand before another one, bytes that would end
// them or the hash tag are written as %XX; the last part of a key is as it is, whatever it
// holds. So no two names give one key, and no name is ever shortened.
//
//	dir            hash   v: version; seq: last number given; k:KEY: its run, or ! and its
//	                      tombstone; j:JOB: its pause, or nothing; l:LOCK: the run that holds it;
//	                      t:RUN: the key of a pruned run
//	run:ID         hash   a run, with its attempts and approvals; see record.go
//	lock:NAME      hash   owner, token, exp, …; the token outlives its owner
//	out:N:ID       hash   what attempt N printed
//	ev:ID          list   the machine's events of a run, a chain of hashes
//	ops            list   what people decided, one chain of hashes
//	ops:r:ID       list   the places in ops that are about a run
//	ops:j:JOB      list   … about a job as a whole
//	skip:k:KEY     hash   refusals of a key, counted
//	skip:j:JOB     hash   … of an unkeyed job
//	refused        zset   keys by when they were refused last
//	refused:j      set    unkeyed jobs that were refused
//	z:STATUS       zset   runs by when they began; RUNNING, SUCCEEDED, FAILED, SKIPPED
//	z:STATUS:JOB   zset   … of one job, but for those RUNNING
//	z:RETRY        zset   FAILED runs by when their retry is due
//	item:JOB:NAME  string an item
//	items, items:JOB, open, open:JOB
//	               zset   items by when they began; open: those that are not done
//	note:NAME      hash   version, text, at
//	notes          set    the names of notes
//	tombs          zset   keys of pruned runs by when these began
//	jobs, alone, paused
//	               set    jobs that ran; locks held without a run; jobs that are paused
//
// A script is given in KEYS what is known when it is called. What it derives lies under the
// same hash tag: the run that a key or a lock names, the lock that this run holds, and the
// lists in which it stands.
package redis
