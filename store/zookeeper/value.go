package zookeeper

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/onerun-dev/onerun"
)

// What a node holds: one line for the store, then the value.
//
//	v ID          a value; ID is that of the commit which wrote it
//	m ID MILLIS   a mortal one: it goes when that time has passed since the node was written (its Stat.Mtime)
//	d ID          a key that was deleted, or that was looked for; the node is removed later, see sweep
//
// A "+" at the end of the line says that the node held another one before, which was deleted: such keys come and go.
//
// A node without data is only a directory.
const (
	kindValue   = 'v'
	kindMortal  = 'm'
	kindDeleted = 'd'
)

// commitID is a random name of a commit. A reply can be lost; by its name in the nodes that it wrote a commit is found
// again (the ZooKeeper recipes put such a GUID in the names of nodes).
type commitID string

func newCommitID() commitID { return commitID(onerun.NewID()[:16]) }

// content is what a node holds.
type content struct {
	kind  byte
	id    commitID
	ttl   time.Duration
	again bool // it was there before, and deleted
	value []byte
}

func (c content) bytes() []byte {
	head := make([]byte, 0, 40+len(c.value))
	head = append(head, c.kind, ' ')
	head = append(head, c.id...)
	if c.kind == kindMortal {
		head = append(head, ' ')
		head = strconv.AppendInt(head, ms(c.ttl), 10)
	}
	if c.again {
		head = append(head, " +"...)
	}
	return append(append(head, '\n'), c.value...)
}

// ms is a duration in milliseconds, rounded up: nothing goes too early.
func ms(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// contentOf reads what a node holds; kind 0: it is only a directory.
func contentOf(data []byte) (content, error) {
	if len(data) == 0 {
		return content{}, nil
	}
	line, value, ok := bytes.Cut(data, []byte("\n"))
	fields := bytes.Fields(line)
	if !ok || len(fields) < 2 || len(fields[0]) != 1 {
		return content{}, fmt.Errorf("the node holds %d bytes that this store didn't write", len(data))
	}
	c := content{kind: fields[0][0], id: commitID(fields[1]), value: value}
	if last := len(fields) - 1; last > 1 && string(fields[last]) == "+" {
		c.again, fields = true, fields[:last]
	}
	switch _, err := hex.DecodeString(string(c.id)); {
	case err != nil, c.kind != kindValue && c.kind != kindMortal && c.kind != kindDeleted:
		return content{}, fmt.Errorf("the node holds %d bytes that this store didn't write", len(data))
	case c.kind == kindMortal:
		n, err := strconv.ParseInt(string(bytes.Join(fields[2:], nil)), 10, 32) // of a day at most
		if err != nil || n <= 0 {
			return content{}, fmt.Errorf("the node of a mortal key says %q, where it is to say for how many milliseconds", line)
		}
		c.ttl = time.Duration(n) * time.Millisecond
	}
	return c, nil
}

// node is what was seen of a key's node.
type node struct {
	there   bool
	version int32 // Stat.Version, by which it is checked
	zxid    int64 // Stat.Mzxid, by which it is known: no two states have the same
	content
	written time.Time
	epoch   int32 // of the sweeps, before it was seen
	kids    int32
}

func nodeOf(data []byte, stat *zk.Stat, epoch int32) (node, error) {
	c, err := contentOf(data)
	return node{
		there: true, version: stat.Version, zxid: stat.Mzxid, content: c,
		written: time.UnixMilli(stat.Mtime), epoch: epoch, kids: stat.NumChildren,
	}, err
}

// over reports whether a mortal key's time has passed.
func (n node) over(now time.Time) bool {
	return n.kind == kindMortal && !now.Before(n.written.Add(n.ttl))
}

// visible is the version under which the ledger knows the key; 0: it is absent.
func (n node) visible(now time.Time) int64 {
	if !n.there || n.kind != kindValue && n.kind != kindMortal || n.over(now) {
		return 0
	}
	return n.zxid
}
