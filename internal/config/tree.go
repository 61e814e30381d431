package config

import (
	"github.com/goccy/go-yaml/ast"
)

type mapping = *ast.MappingNode

// entry is one key of a mapping with its value, which is never an anchor or an alias.
type entry struct {
	key   string
	at    spot     // of the key
	value ast.Node // nil when an alias leads nowhere, which is an error by then
}

// tree is a document with its aliases followed.
type tree struct {
	*findings
	at      places
	anchors map[string]ast.Node
	targets map[*ast.AliasNode]ast.Node
	flat    map[mapping][]entry
	values  int // counted against maxValues
}

// link walks over the whole document in its order, finds what each alias means and the keys that stand twice. It goes
// everywhere, also where nobody looks into the values: an anchor there counts below.
func (t *tree) link(root ast.Node) {
	t.anchors, t.targets = map[string]ast.Node{}, map[*ast.AliasNode]ast.Node{}
	t.walk(root)
}

func (t *tree) walk(n ast.Node) {
	switch n := n.(type) {
	case *ast.MappingNode:
		seen := map[string]spot{}
		for _, v := range n.Values {
			t.walk(v.Key)
			key, at, ok := t.key(v)
			if first, twice := seen[key]; ok && twice {
				t.add(at, "", "the key %s stands here and in line %d; keep one", quote(key), first.line)
			} else if ok {
				seen[key] = at
			}
			t.walk(v.Value)
		}
	case *ast.SequenceNode:
		for _, v := range n.Values {
			t.walk(v)
		}
	case *ast.AnchorNode:
		t.walk(n.Value)
		// After its value, so that no value can hold itself.
		t.anchors[n.Name.GetToken().Value] = n.Value
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		target, ok := t.anchors[name]
		if !ok {
			// What seems to be a name can be a secret that begins with an asterisk.
			t.add(t.at[n.Start], nearest(name, keys(t.anchors)), "no anchor of this name stands above; put a value that starts with * in quotes")
			return
		}
		t.targets[n] = target
	}
}

// key is the text of a key and its place. The merge key gives the text "<<", and so does the text itself in quotes, which
// means something else, but nothing that anybody wants.
func (t *tree) key(v *ast.MappingValueNode) (string, spot, bool) {
	var n ast.Node = v.Key
	if anchor, ok := n.(*ast.AnchorNode); ok {
		n = anchor.Value
	}
	at := t.place(v.Key)
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode, *ast.MergeKeyNode:
		return n.GetToken().Value, at, true
	}
	t.add(at, "", "a key has to be a word")
	return "", at, false
}

// place is where a node is written; the zero spot if the parser made it up.
func (t *tree) place(n ast.Node) spot {
	switch n := n.(type) {
	case *ast.MappingNode:
		// The token of one without braces is its first colon.
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return t.place(n.Values[0].Key)
		}
	case *ast.LiteralNode:
		return t.at[n.Start]
	}
	return t.at[n.GetToken()]
}

// follow gives what an anchor or alias stands for.
func (t *tree) follow(n ast.Node) ast.Node {
	for {
		switch v := n.(type) {
		case *ast.AnchorNode:
			n = v.Value
		case *ast.AliasNode:
			n = t.targets[v]
		default:
			return n
		}
		if n == nil {
			return nil
		}
	}
}

// spend counts values; false once there are too many. A few lines of aliases of aliases can stand for millions.
func (t *tree) spend(n int, at spot) bool {
	if t.values > maxValues {
		return false
	}
	if t.values += n; t.values > maxValues {
		t.add(at, "", "aliases and merge keys make more than %d values; write less of them", maxValues)
		return false
	}
	return true
}

// entries gives the keys of a mapping, each once, those that it merges included. As YAML's merge key has it
// (yaml.org/type/merge.html), a mapping's own keys go before those of a merged one, and an earlier merged mapping before a
// later one.
func (t *tree) entries(m mapping) []entry {
	if list, ok := t.flat[m]; ok {
		return list
	}
	var list []entry
	have := map[string]bool{}
	take := func(e entry) {
		if !have[e.key] {
			have[e.key] = true
			list = append(list, e)
		}
	}
	var merges []ast.Node
	for _, v := range m.Values {
		if v.Key.IsMergeKey() {
			merges = append(merges, v.Value)
		} else if key, at, ok := t.key(v); ok {
			take(entry{key, at, t.follow(v.Value)})
		}
	}
	for _, v := range merges {
		for _, from := range t.merged(v) {
			more := t.entries(from)
			if !t.spend(len(more), t.place(v)) {
				break
			}
			for _, e := range more {
				take(e)
			}
		}
	}
	t.flat[m] = list
	return list
}

// merged gives the mappings that the value of a merge key names: one, or a list of them.
func (t *tree) merged(value ast.Node) []mapping {
	nodes := []ast.Node{value}
	if list, ok := t.follow(value).(*ast.SequenceNode); ok {
		nodes = list.Values
	}
	var all []mapping
	for _, n := range nodes {
		switch to := t.follow(n).(type) {
		case *ast.MappingNode:
			all = append(all, to)
		case nil: // found by link
		default:
			t.add(t.place(n), "", "<< takes a mapping, as in <<: *NAME, or a list of mappings")
		}
	}
	return all
}
