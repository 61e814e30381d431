// Package zookeeper is a store of many machines on ZooKeeper 3.5 or later: keys are nodes, and every change is one multi that
// names what it expects to find. The ledger itself is that of package kvledger; docs/stores/zookeeper.md says what it promises
// here.
//
// # Why no lease hangs on a session
//
// The usual recipes hold a lock by an ephemeral node, which goes with the session of the process that made it. That is
// another promise than a lease's. A session ends some seconds after a connection was cut, or at once when its
// process dies, while the work may go on: the wrapper of a job can be killed, and its guard needs a moment to end the
// job. Nobody may be granted the lock then before T has passed since the owner's last heartbeat. And servers bound a
// session's timeout (2 to 20 ticks, 4 to 40 seconds as they come), a lease lasts from 1 second to 24 hours.
//
// So a lease is a persistent node that holds how long it is good for, and a heartbeat writes it anew. It is over when that
// time has passed since the node's Stat.Mtime, which is the server's clock at the write; and the server's time now is known
// by the Stat of what this client wrote last (see clock), or by writing once more. No node is ever ephemeral, a lost session
// is replaced without a word, and losing the lease is what the heartbeat is told. Killing, freezing or restarting servers
// changes nothing in that.
//
// What the recipes teach is kept otherwise: each commit has a random name, which stands in every node that it writes. Where
// the connection is lost before the answer, what was written is looked at, and by that name it is known whether the commit
// was done, before it is said again (see commit.found).
//
// # An answer that comes late
//
// The driver knows no context. Each call of it is made aside, and when the context ends, nobody waits for it any more. Its answer
// is dropped, but what it asked for may still be done, as with any store when an answer is lost: so the caller is told that the
// store is unavailable, and asks again with the same owner or expectation. A commit that arrives late changes nothing that
// somebody has changed since, since it names the versions that it was decided on.
//
// # Versions
//
// A check can name Stat.Version alone, and a node that was deleted and made again begins at 0 again. How no commit takes the
// one for the other is told at sweepOdds. To the ledger a version is Stat.Mzxid, which no two states share.
package zookeeper
