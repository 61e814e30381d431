package config

import (
	"errors"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// value reads the value of a key; false when it isn't one, which is an error by then.
func (r *reader) value(e entry, key Key, in string) (Value, bool) {
	if r.empty(e) {
		return Value{}, false
	}
	at := r.place(e.value)
	v := Value{Line: at.line, Column: at.column}
	ok := true
	switch key.Kind {
	case Scalar:
		v.Text, ok = r.scalar(e, key)
	case Bool:
		v.Text, ok = r.boolean(e, key)
	case List:
		v.List, v.at, ok = r.items(e, key)
	case Map:
		v.Map, ok = r.pairs(e, key)
	case Table:
		v.Table, ok = r.table(e, key, in)
	}
	if ok && key.Later != "" {
		r.file.Later = append(r.file.Later, Note{Path: r.file.Path, Line: e.at.line, Column: e.at.column, In: in, Key: e.key, Why: key.Later})
	}
	return v, ok
}

// empty says that there is no value to read: none is written, or an alias leads nowhere.
func (r *reader) empty(e entry) bool {
	switch n := e.value.(type) {
	case nil:
		return true
	case *ast.NullNode:
		at, written := r.at[n.Token]
		if !written {
			at = e.at
		}
		r.add(at, "", "%s: the value is empty; give it one, or leave the key out", e.key)
		return true
	}
	return false
}

func (r *reader) scalar(e entry, key Key) (string, bool) {
	switch e.value.(type) {
	case *ast.MappingNode, *ast.SequenceNode:
		r.wrongKind(e, "one value is wanted here")
		return "", false
	case *ast.BoolNode:
		r.wrongKind(e, "a word is wanted here; if this is the word, put it in quotes")
		return "", false
	}
	s := text(e.value)
	if s == "" {
		r.add(r.place(e.value), "", "%s: the value is empty; give it one, or leave the key out", e.key)
		return "", false
	}
	return s, r.check(e.key, s, s, r.place(e.value), key)
}

func (r *reader) boolean(e entry, key Key) (string, bool) {
	b, ok := e.value.(*ast.BoolNode)
	if !ok {
		meant := ""
		switch strings.ToLower(text(e.value)) {
		case "true", "yes", "y", "on", "1":
			meant = "true"
		case "false", "no", "n", "off", "0":
			meant = "false"
		}
		r.add(r.place(e.value), meant, "%s: true or false is wanted here, without quotes", e.key)
		return "", false
	}
	s := strings.ToLower(b.Token.Value)
	return s, r.check(e.key, s, s, r.place(b), key)
}

func (r *reader) items(e entry, key Key) (items []string, at []spot, good bool) {
	list, ok := e.value.(*ast.SequenceNode)
	if !ok {
		r.wrongKind(e, "a list is wanted here, [A, B] or a line with - for each")
		return nil, nil, false
	}
	if !r.spend(len(list.Values), e.at) {
		return nil, nil, false
	}
	items, good = make([]string, 0, len(list.Values)), true
	for _, n := range list.Values {
		item, ok := r.one(e, r.follow(n), "an item of the list", r.place(n))
		good = ok && r.check(e.key, item, item, r.place(n), key) && good
		items, at = append(items, item), append(at, r.place(n))
	}
	return items, at, good
}

func (r *reader) pairs(e entry, key Key) (map[string]string, bool) {
	m, ok := e.value.(mapping)
	if !ok {
		r.wrongKind(e, "a mapping is wanted here, {NAME: VALUE} or a line with NAME: VALUE for each")
		return nil, false
	}
	list := r.entries(m)
	if !r.spend(len(list), e.at) {
		return nil, false
	}
	pairs := make(map[string]string, len(list))
	good := true
	for _, p := range list {
		at := p.at
		if p.value != nil && r.place(p.value) != (spot{}) {
			at = r.place(p.value)
		}
		s, ok := r.one(e, p.value, "the value of "+quote(p.key), at)
		about := e.key
		if secret(p.key) {
			about = p.key
		}
		good = ok && r.check(about, s, p.key+"="+s, at, key) && good
		pairs[p.key] = s
	}
	return pairs, good
}

// table reads a mapping of names to mappings.
func (r *reader) table(e entry, key Key, in string) (map[string]map[string]Value, bool) {
	m, ok := r.mapping(e, "NAME: {KEY: VALUE}")
	if !ok {
		return nil, false
	}
	rows := r.entries(m)
	if !r.spend(len(rows), e.at) {
		return nil, false
	}
	table := make(map[string]map[string]Value, len(rows))
	good := true
	for _, row := range rows {
		good = r.check(e.key, row.key, row.key, row.at, key) && good
		inner, ok := r.mapping(row, "KEY: VALUE")
		if !ok {
			good = false
			continue
		}
		values := map[string]Value{}
		for _, cell := range r.entries(inner) {
			k, known := key.Inner[cell.key]
			if !known {
				r.add(cell.at, nearest(cell.key, keys(key.Inner)), "unknown key %s in %s of %s", quote(cell.key), quote(row.key), e.key)
				good = false
				continue
			}
			v, ok := r.value(cell, k, in)
			values[cell.key] = v
			good = ok && good
		}
		table[row.key] = values
	}
	return table, good
}

// one reads a value inside the list or mapping that e holds. An empty text in quotes is one.
func (r *reader) one(e entry, n ast.Node, what string, at spot) (string, bool) {
	if at == (spot{}) {
		at = e.at
	}
	switch n.(type) {
	case nil:
		return "", false
	case *ast.NullNode:
		r.add(at, "", `%s: %s is empty; write "" for an empty text, and put null and ~ in quotes`, e.key, what)
		return "", false
	case *ast.MappingNode, *ast.SequenceNode:
		r.add(at, "", "%s: %s has to be one value, not a list or a mapping", e.key, what)
		return "", false
	}
	return text(n), true
}

// check asks the key's own check. text is what is checked, and value the part of it that may be a secret.
func (r *reader) check(name, value, text string, at spot, key Key) bool {
	if strings.ContainsRune(text, 0) {
		r.add(at, "", "%s: the value holds a NUL character, which no program can be given", name)
		return false
	}
	if key.Check == nil {
		return true
	}
	err := key.Check(text)
	if err == nil {
		return true
	}
	why, repeated := err.Error(), ""
	var plain Plain
	switch hide := secret(name); {
	case !hide:
		repeated = RepeatedBy(err)
	case !errors.As(err, &plain):
		why = mask(why, value)
	}
	if long := []rune(why); len(long) > 300 {
		why = string(long[:300]) + "…"
	}
	r.put(Error{Path: r.path, Line: at.line, Column: at.column, Message: oneLine(name + ": " + why), Repeated: repeated})
	return false
}

func (r *reader) wrongKind(e entry, want string) {
	is := "one value"
	switch e.value.(type) {
	case *ast.MappingNode:
		is = "a mapping"
	case *ast.SequenceNode:
		is = "a list"
	case *ast.BoolNode:
		is = "true or false"
	}
	r.add(r.place(e.value), "", "%s: this is %s; %s", e.key, is, want)
}

// text is a scalar as it is written, less quotes and the indentation of a block.
func text(n ast.Node) string {
	switch n := n.(type) {
	case *ast.LiteralNode:
		return n.Value.Value
	case *ast.MappingNode, *ast.SequenceNode, nil:
		return ""
	}
	return n.GetToken().Value
}
