package importer

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

// node is a value of a YAML document, with its aliases followed.
type node struct {
	kind nodeKind
	text string // of a scalar
	line int
	keys []member
	list []*node
	size int  // of it with all below
	used bool // the translation has looked at it
}

type nodeKind int

const (
	nullNode nodeKind = iota
	scalarNode
	mapNode
	listNode
)

// member is one key of a mapping.
type member struct {
	key   string
	line  int
	value *node
}

// get follows keys; nil if one isn't there. What it passes and finds counts as looked at, once it is a scalar or said to be.
func (n *node) get(path ...string) *node {
	for _, key := range path {
		if n == nil || n.kind != mapNode {
			return nil
		}
		var found *node
		for _, m := range n.keys {
			if m.key == key {
				found = m.value
			}
		}
		n = found
	}
	return n
}

// value is the text of a scalar below, "" if there is none, and counts as looked at.
func (n *node) value(path ...string) string {
	if n = n.get(path...); n == nil || n.kind != scalarNode {
		return ""
	}
	n.used = true
	return n.text
}

// at is the line of a key, or of what it would be in.
func (n *node) at(path ...string) int {
	for i := len(path); i > 0; i-- {
		in := n.get(path[:i-1]...)
		if in == nil || in.kind != mapNode {
			continue
		}
		for _, m := range slices.Backward(in.keys) {
			if m.key == path[i-1] {
				return m.line
			}
		}
	}
	return n.line
}

// What a document may be at most: far from what anybody has, and read in a moment.
const (
	maxTokens = 400_000
	maxDepth  = 64
	maxNodes  = 400_000
	maxTabs   = 1000 // on one line: the parser's time grows with their number times its length
	maxLess   = 100  // of < in a row: the scanner looks for a merge key at each of them
)

// document is one of a file.
type document struct {
	first int // the line it begins with
	text  string
}

// documents parts a file at its lines ---.
func documents(text string) (all []document) {
	n, first := 0, 1
	var b strings.Builder
	end := func(next int) {
		if strings.TrimSpace(b.String()) != "" {
			all = append(all, document{first, b.String()})
		}
		b.Reset()
		first = next
	}
	for line := range strings.Lines(text) {
		n++
		switch bare := strings.TrimRight(line, " \t\n"); {
		case bare == "---" || bare == "...":
			end(n + 1)
		case strings.HasPrefix(line, "--- "):
			end(n)
			b.WriteString("    " + line[4:])
		case strings.HasPrefix(line, "%") && strings.TrimSpace(b.String()) == "": // a directive
			b.WriteByte('\n')
		default:
			b.WriteString(line)
		}
	}
	end(n)
	return all
}

// yamlTree reads a document. The line of an error is 0 when it isn't known.
func yamlTree(d document) (root *node, line int, err error) {
	defer func() {
		if p := recover(); p != nil { // a file can't be the reason for a stack trace
			root, line, err = nil, 0, fmt.Errorf("the parser failed (%v)", p)
		}
	}()
	if line, err := readable(d.text); err != nil {
		return nil, d.first + line - 1, err
	}
	tokens, line, err := scan(d.text)
	if err != nil {
		return nil, d.first + line - 1, err
	}
	f, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		line, why := syntax(err)
		return nil, d.first + line - 1, errors.New(why)
	}
	c := &converter{first: d.first, anchors: map[string]*node{}}
	for _, doc := range f.Docs {
		if doc.Body != nil {
			root, err = c.convert(doc.Body)
			return root, 0, err
		}
	}
	return nil, 0, nil
}

// readable looks for what the parser would take too long over.
func readable(text string) (line int, err error) {
	line = 1
	tabs, less := 0, 0
	for i, r := range text {
		if less++; r != '<' {
			less = 0
		}
		switch {
		case less > maxLess:
			return line, fmt.Errorf("more than %d < in a row", maxLess)
		case r == '\n':
			line, tabs = line+1, 0
		case r == '\t':
			if tabs++; tabs > maxTabs {
				return line, fmt.Errorf("more than %d tabs on one line", maxTabs)
			}
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd"):
			return line, fmt.Errorf("the byte 0x%02X is not valid UTF-8", text[i])
		case r < ' ' || r == 0x7f:
			return line, fmt.Errorf("the control character %+q can't stand in a file", r)
		}
	}
	return 1, nil
}

// scan cuts a document into tokens, and refuses one in which the parser would lose itself.
func scan(text string) (tokens token.Tokens, line int, err error) {
	var s scanner.Scanner
	s.Init(text)
	flow := 0
	var blocks []int
	for {
		some, err := s.Scan()
		if errors.Is(err, io.EOF) {
			break
		}
		tokens.Add(some...)
		for i, tk := range some {
			if strings.Contains(strings.TrimSpace(tk.Origin), "\t") && !strings.Contains(tk.Value, "\t") {
				// The scanner leaves it out without a word: "rm a\tb" would become "rm ab".
				return nil, tk.Position.Line, errors.New("a tab within a value; put the value in quotes")
			}
			switch tk.Type {
			case token.TagType:
				return nil, tk.Position.Line, errors.New("tags (!) have no place in a manifest")
			case token.MappingKeyType:
				return nil, tk.Position.Line, errors.New(`a key that starts with "? " has no place in a manifest`)
			case token.AnchorType:
				if at := len(tokens) - len(some) + i; at > 1 && tokens[at-2].Type == token.AnchorType {
					return nil, tk.Position.Line, errors.New("two anchors for one value")
				}
			case token.InvalidType:
				return nil, tk.Position.Line, errors.New(shown(tk.Error, 100))
			case token.SequenceStartType, token.MappingStartType:
				flow++
			case token.SequenceEndType, token.MappingEndType:
				flow = max(0, flow-1)
			case token.SequenceEntryType, token.MappingValueType:
				if flow > 0 {
					break
				}
				column := tk.Position.Column
				if tk.Prev != nil && tk.Type == token.MappingValueType {
					column = tk.Prev.Position.Column
				}
				for n := len(blocks); n > 0 && blocks[n-1] >= column; n-- {
					blocks = blocks[:n-1]
				}
				blocks = append(blocks, column)
			}
			if flow+len(blocks) > maxDepth {
				return nil, tk.Position.Line, fmt.Errorf("more than %d lists and mappings within each other", maxDepth)
			}
		}
		if len(tokens) > maxTokens {
			return nil, 1, fmt.Errorf("it has more than %d parts", maxTokens)
		}
		if err != nil {
			break
		}
	}
	return tokens, 1, nil
}

// syntax is the place and the message of an error of the parser's.
func syntax(err error) (line int, why string) {
	var at interface {
		error
		GetToken() *token.Token
		GetMessage() string
	}
	if !errors.As(err, &at) {
		return 1, shown(err.Error(), 100)
	}
	if tk := at.GetToken(); tk != nil && tk.Position != nil {
		return max(1, tk.Position.Line), shown(at.GetMessage(), 100)
	}
	return 1, shown(at.GetMessage(), 100)
}

// converter makes nodes of the parser's.
type converter struct {
	first   int
	anchors map[string]*node
	nodes   int
}

func (c *converter) convert(n ast.Node) (*node, error) {
	if c.nodes++; c.nodes > maxNodes {
		return nil, fmt.Errorf("it has more than %d values", maxNodes)
	}
	out := &node{line: c.line(n), size: 1}
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return out, nil
	case *ast.AnchorNode:
		value, err := c.convert(n.Value)
		if err == nil && n.Name != nil {
			c.anchors[n.Name.GetToken().Value] = value
		}
		return value, err
	case *ast.AliasNode:
		if target := c.anchors[n.Value.GetToken().Value]; target != nil {
			// A few lines of aliases of aliases can stand for millions of values.
			c.nodes += target.size
			return target, nil
		}
		return nil, fmt.Errorf("no anchor %s stands above", shown(n.Value.GetToken().Value, 40))
	case *ast.TagNode:
		return c.convert(n.Value)
	case *ast.MappingNode:
		out.kind = mapNode
		return out, c.members(out, n.Values)
	case *ast.MappingValueNode:
		out.kind = mapNode
		return out, c.members(out, []*ast.MappingValueNode{n})
	case *ast.SequenceNode:
		out.kind = listNode
		for _, v := range n.Values {
			item, err := c.convert(v)
			if err != nil {
				return nil, err
			}
			out.list = append(out.list, item)
			out.size += item.size
		}
		return out, nil
	case *ast.LiteralNode:
		out.kind, out.text = scalarNode, n.Value.Value
		return out, nil
	}
	out.kind, out.text = scalarNode, n.GetToken().Value
	return out, nil
}

func (c *converter) members(out *node, values []*ast.MappingValueNode) error {
	for _, v := range values {
		value, err := c.convert(v.Value)
		if err != nil {
			return err
		}
		if v.Key.IsMergeKey() {
			from := []*node{value}
			if value.kind == listNode {
				from = value.list
			}
			for _, one := range from {
				if c.nodes += one.size; c.nodes > maxNodes {
					return fmt.Errorf("it has more than %d values", maxNodes)
				}
				out.size += one.size
				out.keys = append(append([]member(nil), one.keys...), out.keys...) // what comes last wins: its own keys, then the first merged
			}
			continue
		}
		var key ast.Node = v.Key
		if anchor, ok := key.(*ast.AnchorNode); ok {
			key = anchor.Value
		}
		m := member{key: key.GetToken().Value, line: c.line(key), value: value}
		if value.kind == nullNode {
			value.line = m.line
		}
		out.keys = append(out.keys, m)
		out.size += value.size
	}
	return nil
}

// line is where a node stands in the file.
func (c *converter) line(n ast.Node) int {
	switch m := n.(type) {
	case nil:
		return c.first
	case *ast.MappingNode:
		if !m.IsFlowStyle && len(m.Values) > 0 {
			return c.line(m.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return c.line(m.Key)
	case *ast.LiteralNode:
		if m.Start != nil && m.Start.Position != nil {
			return c.first + m.Start.Position.Line - 1
		}
	}
	if tk := n.GetToken(); tk != nil && tk.Position != nil && tk.Position.Line > 0 {
		return c.first + tk.Position.Line - 1
	}
	return c.first
}
