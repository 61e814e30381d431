package kvledger

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// The keys of the ledger. Names stand in them encoded (see segment), times as microseconds of a
// fixed width, so that the order of keys is the order of time.
//
//	meta                                  the format
//	lock/NS/LOCK                          a lock: its owner, and the last token for ever
//	life/NS/LOCK                          mortal: there as long as the owner's lease runs
//	held/NS/LOCK                          there as long as the lock has an owner
//	key/NS/JOB/PARTITION                  the run of a key
//	run/RUN                               a run with its last attempts, and its approvals
//	attempt/RUN/NUMBER                    an earlier attempt
//	approval/RUN/ID                       an earlier approval, which is spent
//	output/RUN/ATTEMPT/WRITE/CHUNK        what an attempt printed
//	time/NS/NEWEST/RUN                    the runs of a namespace, those that began last first
//	hist/NS/JOB/NEWEST/RUN                the runs of a job
//	failed/NS/NEWEST/RUN                  those that are FAILED
//	tomb/NS/NEWEST/RUN                    those of which a tombstone is left
//	done/NS/STARTED/RUN                   those that are SUCCEEDED, those that began first first
//	skip/NS/JOB/PARTITION/HOLDER/REASON   equal refusals
//	skips/NS/JOB/PARTITION                how many there are of a key; skips/NS/JOB/%/HOLDER
//	job/NS/JOB                            a job that is paused
//	item/NS/JOB/ITEM                      an item
//	note/NS/NAME                          a note
//	begun/NS/NEWEST/ITEM                  the items of a namespace, those begun last first
//	event/NS/run/RUN/ID                   the journal of a run
//	event/NS/job/JOB/ID                   the journal of a job, or of a lock's name
//	chain/NS                              the end of the chain of what people decided
const keyMeta = "meta"

const (
	// readable is the length up to which an encoded name stands in a key as it is.
	readable = 64
	// nothing stands for an empty name. No name is encoded so.
	nothing = "%"
)

// segment encodes a name. What could mean something else is written as %XX. A long name keeps its
// beginning, for people, and is told from others by its hash (B22): "~" stands in no other.
func segment(name string) string {
	if name == "" {
		return nothing
	}
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	s := b.String()
	if len(s) <= readable {
		return s
	}
	s = s[:24]
	if i := strings.LastIndexByte(s, '%'); i > len(s)-3 {
		s = s[:i]
	}
	return s + "~" + digest(name)
}

// digest tells texts of any length apart.
func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func path(segments ...string) string { return strings.Join(segments, "/") }

// under gives the range of all keys below a path.
func under(p string) (from, to string) { return p + "/", p + "0" } // "0" follows "/"

// after is where the keys after one begin.
func after(key string) string { return key + "\x00" }

// lastMicros is the last time that a key can hold, in microseconds: in the year 5138.
const lastMicros = 99_999_999_999_999_999

// oldest is a time as it stands in keys that begin with the oldest, newest in those that begin
// with the newest.
func oldest(t time.Time) string {
	return fmt.Sprintf("%017d", min(max(0, t.UnixMicro()), lastMicros))
}

func newest(t time.Time) string {
	return fmt.Sprintf("%017d", lastMicros-min(max(0, t.UnixMicro()), lastMicros))
}

func keyLock(ns string, l onerun.LockName) string {
	return path("lock", segment(ns), segment(string(l)))
}

func keyLife(ns string, l onerun.LockName) string {
	return path("life", segment(ns), segment(string(l)))
}

func keyHeld(ns string, l onerun.LockName) string {
	return path("held", segment(ns), segment(string(l)))
}
func keyJob(ns, job string) string { return path("job", segment(ns), segment(job)) }
func keyRun(runID string) string   { return path("run", segment(runID)) }
func keyChain(ns string) string    { return path("chain", segment(ns)) }

func keyOf(ns, job, partition string) string {
	return path("key", segment(ns), segment(job), segment(partition))
}

func keyAttempt(runID string, number int) string {
	return path("attempt", segment(runID), fmt.Sprintf("%010d", number))
}

func keyApproval(runID string, id int64) string {
	return path("approval", segment(runID), fmt.Sprintf("%017d", id))
}

func keyChunk(runID string, attempt int, write string, chunk int) string {
	return path("output", segment(runID), fmt.Sprintf("%010d", attempt), write, fmt.Sprintf("%04d", chunk))
}

func keyItem(ns, job, name string) string {
	return path("item", segment(ns), segment(job), segment(name))
}

func keyBegun(it onerun.Item) string {
	return path("begun", segment(it.Namespace), newest(it.StartedAt), digest(it.Job+"\x00"+it.Name))
}

func keySkip(k onerun.Skip, partition string) string {
	return path("skip", segment(k.Namespace), segment(k.Job), segment(partition), digest(k.Holder)[:32], string(k.Reason))
}

// keySkips is where the refusals of a key are counted, or those that name one holder of an unkeyed
// job.
func keySkips(ns, job, partition, holder string) string {
	p := path("skips", segment(ns), segment(job), segment(partition))
	if partition == "" {
		p = path(p, digest(holder)[:32])
	}
	return p
}

func keyEvent(ns, kind, of string, id int64) string {
	return path("event", segment(ns), kind, segment(of), fmt.Sprintf("%017d", id))
}

// listed are the keys by which a run is found in listings.
func listed(r onerun.Run) []string {
	ns, at, id := segment(r.Namespace), newest(r.StartedAt), segment(r.RunID)
	if !r.Pruned.IsZero() {
		return []string{path("tomb", ns, at, id)}
	}
	keys := []string{path("time", ns, at, id), inHistory(r)}
	switch r.Status {
	case onerun.Failed:
		keys = append(keys, path("failed", ns, at, id))
	case onerun.Succeeded:
		keys = append(keys, path("done", ns, oldest(r.StartedAt), id))
	}
	return keys
}

// inHistory is where a run stands among those of its job.
func inHistory(r onerun.Run) string {
	return path("hist", segment(r.Namespace), segment(r.Job), newest(r.StartedAt), segment(r.RunID))
}
