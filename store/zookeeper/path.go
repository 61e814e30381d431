package zookeeper

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// Where the keys of the ledger lie. A key is a path, a segment of it a node; but the names of a node's children have to
// fit into one answer (jute.maxbuffer, 1 MiB unless somebody raised it), so segments of which there may be very many are
// taken apart:
//
//	cut    times and run ids, which begin with the time: "01764540123456789" is 0176454, / 012, / 3456789,
//	       so that a node's children are of some seconds or hours. What follows a time is one node with its end,
//	       "!" for "/".
//	spread names, over 256 nodes by their hash: #3f / daily
//
// The children of a node are in the order of their keys again when each is taken for what its name says it stands for.

// shape is how a segment lies.
type shape int

const (
	whole  shape = iota
	cut          // in pieces
	joined       // in pieces, the last one together with the rest of the key
	spread       // by hash
)

// shapeOf says it for the kinds of key, by the number of a segment; what is of another kind is cut. It belongs to the format of the store.
func shapeOf(segments []string, i int) shape {
	if i == 0 {
		return whole
	}
	at := func(n int, s shape) shape {
		if i == n {
			return s
		}
		return whole
	}
	switch segments[0] {
	case "meta", "held", "job", "chain":
		return whole
	case "lock", "life", "note":
		return at(2, spread)
	case "key", "skip", "skips", "item":
		return at(3, spread)
	case "run", "attempt", "approval", "output":
		return at(1, cut)
	case "time", "failed", "tomb", "done", "begun":
		return at(2, joined)
	case "hist":
		return at(3, joined)
	case "event":
		if len(segments) > 2 && segments[2] == "run" {
			return at(3, cut)
		}
		return whole
	}
	return cut
}

// lookedFor reports whether each claim of a job looks for a key that is mostly not there: whether the job is paused.
func lookedFor(key string) bool { return strings.HasPrefix(key, "job/") }

// Marks in the names of nodes. None of them is in a key.
const (
	more   = "," // at the end: the segment goes on in the child
	shard  = "#" // at the beginning: a hash, which is no part of the key
	slash  = "!" // a slash
	dotted = "=" // before a dot that would be the first character
)

// nodesOf is the path of a key below the root of all keys.
func nodesOf(key string) []string {
	segments := strings.Split(key, "/")
	var nodes []string
	for i := range segments {
		nodes = append(nodes, nodesOfSegment(segments, i)...)
		if shapeOf(segments, i) == joined {
			last := len(nodes) - 1
			for _, rest := range segments[i+1:] {
				nodes[last] += slash + rest
			}
			break
		}
	}
	return nodes
}

// nodesOfSegment are the nodes of one segment of a key.
func nodesOfSegment(segments []string, i int) []string {
	s := segments[i]
	switch shapeOf(segments, i) {
	case spread:
		return []string{shardOf(s), safe(s)}
	case cut: // a run id: pieces of 50 days, 17 minutes and 4 seconds
		return inPieces(s, 4, 7, 10)
	case joined: // a time in microseconds: pieces of 2.8 hours, of which there are 32,000 in ten years, and of ten seconds
		return inPieces(s, 7, 10)
	}
	return []string{safe(s)}
}

// inPieces cuts a segment where it is said.
func inPieces(s string, cuts ...int) (nodes []string) {
	from := 0
	for _, to := range cuts {
		if len(s) <= to {
			break
		}
		nodes = append(nodes, s[from:to]+more)
		from = to
	}
	return append(nodes, safe(s[from:]))
}

// safe keeps a name from beginning with a dot, since "." and ".." are no names.
func safe(s string) string {
	if strings.HasPrefix(s, ".") {
		return dotted + s
	}
	return s
}

func shardOf(s string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s)) // it never fails
	return shard + strconv.FormatUint(uint64(h.Sum32()&0xff|0x100), 16)[1:]
}

// textOf is the part of a key that a node stands for; over is whether the key goes on in the same segment below it.
func textOf(node string) (text string, goesOn bool) {
	switch {
	case strings.HasPrefix(node, shard):
		return "", true
	case strings.HasSuffix(node, more):
		return strings.TrimSuffix(node, more), true
	}
	return strings.ReplaceAll(strings.TrimPrefix(node, dotted), slash, "/"), false
}
