package filelock

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/onerun-dev/onerun"
)

// The names in a lock directory. X stands for what FileName gives.
const (
	lockSuffix  = ".lock"   // X.lock: the flocked file
	exclSuffix  = ".excl"   // X.excl: the file of mode create
	stopSuffix  = ".stop"   // X.stop: a request to the owner, see RequestStop
	queueSuffix = ".queue"  // X.queue: the line for the lock, see Place
	spoolInfix  = ".spool-" // X.spool-OWNER: a run of OWNER that was executed without a claim, see Spool
	markInfix   = ".take-"  // F.take-OWNER: the right to replace or remove what OWNER left at F
	newInfix    = ".new-"   // F.new-RANDOM: a private file on its way to F
	heldName    = ".held"   // the byte ranges of all locks of the directory
)

const (
	hashDigits = 32 // hexadecimal digits of the hash in a file name: 128 bits
	prefixMax  = 40 // bytes of the readable part, without the kind
)

// FileName returns the name of a lock's files, without directory and suffix: the
// kind, what is readable of the name, and 128 bits of a SHA-256 over namespace and
// lock, in hexadecimal. It has at most 80 bytes of [A-Za-z0-9._-]. The hash alone
// tells names apart, so names that differ in case only, or in a character far
// beyond any limit of a file system, have different files on every file system.
//
// Names that CleanName accepts are brought to its form first. Of a key only the job
// is readable: a partition stands nowhere in the directory.
func FileName(namespace string, lock onerun.LockName) string {
	if ns, l, err := canonical(namespace, lock); err == nil {
		namespace, lock = ns, l
	}
	return fileName(namespace, lock)
}

func fileName(namespace string, lock onerun.LockName) string {
	// each part is preceded by its length, so no two pairs give the same text
	text := make([]byte, 0, 256)
	for _, part := range []string{"onerun lock file 1", namespace, string(lock)} {
		text = strconv.AppendInt(text, int64(len(part)), 10)
		text = append(text, ':')
		text = append(text, part...)
	}
	sum := sha256.Sum256(text)
	kind, name := lock.Kind(), shownName(lock)
	return readable(kind, 4) + "-" + readable(name, prefixMax) + "-" + hex.EncodeToString(sum[:hashDigits/2])
}

// shownName is the part of a lock's name that may be seen: a key without its
// partition.
func shownName(lock onerun.LockName) string {
	name := lock.Name()
	if lock.Kind() == "key" {
		name, _, _ = strings.Cut(name, ":")
	}
	return name
}

// readable keeps the plain ASCII of s and puts "_" for each other character.
func readable(s string, limit int) string {
	var b strings.Builder
	for _, r := range s {
		if b.Len() == limit {
			break
		}
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-') {
			b.WriteByte(byte(r))
		} else {
			b.WriteByte('_')
		}
	}
	return b.String()
}

// canonical checks a namespace and a lock and returns them as they are compared.
func canonical(namespace string, lock onerun.LockName) (string, onerun.LockName, error) {
	ns, err := onerun.CleanName("namespace", namespace)
	if err != nil {
		return "", "", err
	}
	switch lock.Kind() {
	case "job", "name":
		what := "job"
		if lock.Kind() == "name" {
			what = "lock"
		}
		name, err := onerun.CleanName(what, lock.Name())
		return ns, onerun.LockName(lock.Kind() + "/" + name), err
	case "key":
		job, partition, err := onerun.SplitKey(lock.Name())
		if err == nil && partition == "" {
			err = &onerun.NameError{What: "partition", Name: partition, Why: "is empty; a key lock needs one"}
		}
		return ns, onerun.KeyLock(onerun.MakeKey(job, partition)), err
	}
	return "", "", &onerun.NameError{What: "lock", Name: string(lock), Why: `is not "job/…", "key/…" or "name/…"`}
}

// isOwner reports whether s can be an owner id: hexadecimal, so that it may stand in
// a file name. What was read from a file is checked before it is used.
func isOwner(s string) bool {
	return len(s) >= 8 && len(s) <= 32 && strings.Trim(s, "0123456789abcdef") == ""
}

// offsets says which two bytes of .held a lock takes.
//
// The first is the lock: it is worked out from the name of its file alone, so that it is
// the same for all who share the directory, under whatever path and mount.
//
// The second is a trace: its upper bits name the directory, so that /proc/locks, which
// lists ranges and inodes but no paths, tells where a lock belongs whose .held was deleted.
func (d *Dir) offsets(base string) (lock, trace int64, err error) {
	if len(base) < hashDigits {
		return 0, 0, fmt.Errorf("%q is not the name of a lock file", base)
	}
	v, err := strconv.ParseUint(base[len(base)-hashDigits:][:rangeBits/4], 16, 64)
	return int64(v), int64(d.tag<<traceBits | v>>(rangeBits-traceBits)), err
}

const (
	rangeBits = 48 // of a lock's offset: the name
	traceBits = 32 // of a trace's: the name
	tagBits   = 31 // of a trace's: the directory; together 63, the greatest off_t
)

// tagOf names a directory by its parent's device and inode and its own name, in tagBits
// bits; not by its own inode: deleted and made again, it is the same directory to whoever
// still holds a lock in it. Its upper bit is set, so that a trace lies beyond all locks. It has
// so many bits that of many directories in use at once no two are taken for one.
func tagOf(dev, ino uint64, name string) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%d:%s", dev, ino, name))
	return 1<<(tagBits-1) | uint64(binary.BigEndian.Uint32(sum[:4]))>>(33-tagBits)
}
