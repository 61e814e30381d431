package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/onerun-dev/onerun/internal/kvledger"
)

// Range implements kvledger.Space: a walk through the nodes in the order of the keys that they stand for.
func (s *space) Range(ctx context.Context, from, to string, limit int) ([]kvledger.Entry, error) {
	entries, err := s.rangeOf(ctx, from, to, limit)
	return entries, s.explain("list the store", err)
}

func (s *space) rangeOf(ctx context.Context, from, to string, limit int) ([]kvledger.Entry, error) {
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	w := &walk{s: s, c: s.asking(), ctx: ctx, from: from, to: to, epoch: s.epoch}
	s.mu.Unlock()
	if err := s.synced(ctx, w.c); err != nil {
		return nil, err
	}
	dir, text := s.start(from, to)
	return w.dir(dir, text, limit)
}

// start gives the lowest directory that holds all of a range, and the key that it stands for.
func (s *space) start(from, to string) (dir, text string) {
	common := 0
	for common < min(len(from), len(to)) && from[common] == to[common] {
		common++
	}
	if n := len(from); strings.HasSuffix(from, "/") && to == from[:n-1]+"0" { // all that is below a key
		common = n
	}
	text = from[:strings.LastIndexByte(from[:common], '/')+1]
	nodes := []string{s.at("keys")}
	segments := strings.Split(strings.TrimSuffix(text, "/"), "/")
	text = ""
	for i, seg := range segments {
		if seg == "" || shapeOf(segments, i) == joined {
			break
		}
		nodes = append(nodes, nodesOfSegment(segments, i)...)
		text += seg + "/"
	}
	return strings.Join(nodes, "/"), text
}

// walk is a Range on its way.
type walk struct {
	s        *space
	c        *conn
	ctx      context.Context
	from, to string
	epoch    int32
}

// item is a part of a directory: an entry, or what is below a node.
type item struct {
	name  string // of the node
	text  string // the key, or what all keys below begin with
	below bool
	sure  bool // that there is something below is known without a look at the node
}

// How many nodes are looked at, and directories walked through, at once.
const (
	lookAhead = 64
	walkAhead = 4
)

// dir gives the entries below a directory, at most limit.
func (w *walk) dir(dir, text string, limit int) ([]kvledger.Entry, error) {
	items, err := w.items(dir, text)
	if err != nil || len(items) == 0 {
		return nil, err
	}
	var (
		entries []kvledger.Entry
		nodes   = map[string]node{}
	)
	for i := 0; i < len(items) && len(entries) < limit; {
		if items[i].sure {
			n := min(walkAhead, limit)
			end := i
			for end < len(items) && end-i < n && items[end].sure {
				end++
			}
			parts, errs := make([][]kvledger.Entry, end-i), make([]error, end-i)
			each(end-i, func(j int) {
				it := items[i+j]
				parts[j], errs[j] = w.dir(it.name, it.text, limit-len(entries))
			})
			if err := first(errs); err != nil {
				return nil, err
			}
			for _, p := range parts {
				entries = append(entries, p...)
			}
			i = end
			continue
		}
		it := items[i]
		if err := w.ahead(items[i:], nodes, limit-len(entries)); err != nil {
			return nil, err
		}
		switch n := nodes[it.name]; {
		case it.below && n.kids > 0:
			part, err := w.dir(it.name, it.text, limit-len(entries))
			if err != nil {
				return nil, err
			}
			entries = append(entries, part...)
		case !it.below:
			now, _, _ := w.s.clock.now()
			if e := n.entry(it.text, now); e.Version != 0 {
				entries = append(entries, e)
			}
		}
		i++
	}
	return entries[:min(len(entries), limit)], nil
}

// items are the parts of a directory that can lie in the range, in its order.
func (w *walk) items(dir, text string) ([]item, error) {
	names, err := w.children(dir)
	if err != nil {
		return nil, err
	}
	var items []item
	var shards []string
	for _, name := range names {
		if strings.HasPrefix(name, shard) {
			shards = append(shards, dir+"/"+name)
			continue
		}
		items = w.add(items, dir, name, text)
	}
	below, errs := make([][]string, len(shards)), make([]error, len(shards))
	each(len(shards), func(i int) { below[i], errs[i] = w.children(shards[i]) })
	if err := first(errs); err != nil {
		return nil, err
	}
	for i, names := range below {
		for _, name := range names {
			items = w.add(items, shards[i], name, text)
		}
	}
	slices.SortFunc(items, func(a, b item) int {
		switch order := cmp.Compare(a.text, b.text); { // a key comes before those that go on from it
		case order == 0 && a.below && !b.below:
			return 1
		case order == 0 && b.below && !a.below:
			return -1
		default:
			return order
		}
	})
	return items, nil
}

func (w *walk) add(items []item, dir, name, prefix string) []item {
	part, goesOn := textOf(name)
	it := item{name: dir + "/" + name, text: prefix + part}
	if goesOn {
		it.below, it.sure = true, true
		if w.holds(it.text) {
			items = append(items, it)
		}
		return items
	}
	if w.from <= it.text && it.text < w.to {
		items = append(items, it)
	}
	it.below, it.text = true, it.text+"/"
	if w.holds(it.text) {
		items = append(items, it)
	}
	return items
}

// holds reports whether a key that begins with a text can lie in the range.
func (w *walk) holds(text string) bool {
	last := len(text) - 1
	return text < w.to && w.from < text[:last]+string(rune(text[last]+1))
}

func (w *walk) children(dir string) ([]string, error) {
	names, err := look(w.ctx, w.c, func(z *zk.Conn) ([]string, error) {
		names, _, err := z.Children(dir)
		return names, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return names, err
}

// ahead looks at the node of the first of some items, if nobody has, and at those of the next ones in the same round trip.
func (w *walk) ahead(items []item, nodes map[string]node, limit int) error {
	if _, seen := nodes[items[0].name]; seen {
		return nil
	}
	var names, keys []string
	for _, it := range items {
		if len(names) >= min(lookAhead, limit) || it.sure {
			break
		}
		if _, seen := nodes[it.name]; !seen && !slices.Contains(names, it.name) {
			names, keys = append(names, it.name), append(keys, strings.TrimSuffix(it.text, "/"))
		}
	}
	answers, errs := w.c.gets(w.ctx, names)
	found := make([]node, len(names))
	for i, err := range errs {
		switch {
		case err == nil:
			if found[i], err = nodeOf(answers[i].data, answers[i].stat, w.epoch); err != nil {
				return unreadable(names[i], err)
			}
		case errors.Is(err, zk.ErrNoNode):
			found[i] = node{epoch: w.epoch}
		default:
			return err
		}
		nodes[names[i]] = found[i]
	}
	if _, err := w.s.judge(w.ctx, found); err != nil {
		return err
	}
	w.s.remember(keys, found)
	return nil
}
