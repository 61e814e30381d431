package config

import (
	"errors"
	"io"
	"strings"

	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

const tabIndents = "a tab indents this line; indent with spaces"

// lexing cuts the text into tokens and refuses what the parser shouldn't see: what it would take too long over, or lose
// itself in, and what this format does without.
type lexing struct {
	*findings
	text locator
	at   places

	flow   int   // depth of [ and {
	blocks []int // columns of the keys and dashes that the place is below
	keys   int
	begun  bool // a document has begun
	ended  bool
}

func (l *lexing) run(source string) (token.Tokens, bool) {
	var s scanner.Scanner
	s.Init(source)
	var tokens token.Tokens
	for {
		some, err := s.Scan()
		if errors.Is(err, io.EOF) {
			break
		}
		tokens.Add(some...)
		if err != nil {
			break
		}
	}
	if len(tokens) > maxTokens {
		l.add(spot{}, "", "the file has more than %d parts, so it is no configuration", maxTokens)
		return nil, false
	}
	for i, tk := range tokens {
		if tk.Type == token.CommentType {
			continue
		}
		if !l.look(tokens, i) {
			return nil, false
		}
	}
	if l.text.gap(); l.text.more() {
		l.add(l.text.at, "", "what stands here can't be understood; put a value that starts with a special character in quotes")
	}
	return tokens, len(l.list) == 0
}

// look takes one token; false ends the reading.
func (l *lexing) look(tokens token.Tokens, i int) bool {
	tk := tokens[i]
	content := tk.Type == token.StringType && i > 0 && block(before(tokens, i))
	if content {
		l.text.line() // what follows | is a comment, but a # below isn't
	} else if tab := l.text.gap(); tab != (spot{}) && l.flow == 0 {
		l.add(tab, "", tabIndents)
		if tk.Type == token.InvalidType {
			return false
		}
	}
	start, from := l.text.at, l.text.next
	if last := before(tokens, i); last != nil && !l.text.more() {
		start = l.at[last] // something is missing at the end
	}
	l.at[tk] = start
	if !content && strings.Contains(strings.TrimSpace(tk.Origin), "\t") && !strings.Contains(tk.Value, "\t") && tk.Type == token.StringType {
		l.add(start, "", "a tab stands within this value, and would be lost; put the value in quotes") // "rm a\tb" would be "rm ab"
		return false
	}
	if (tk.Type == token.DoubleQuoteType || tk.Type == token.InvalidType) && l.text.more() && l.text.src[from] == '"' {
		if offset, why := badEscape(l.text.src[from:]); why != "" {
			in := l.text
			for range offset {
				in.step()
			}
			l.add(in.at, "", "%s", why)
			if tk.Type == token.InvalidType {
				return false
			}
		}
	}
	if tk.Type == token.InvalidType {
		if at := (spot{tk.Position.Line, tk.Position.Column}); at.line > start.line && l.text.reaches(at) {
			start = at // inside a text of several lines
		}
		l.add(start, "", "%s", explain(tk.Error))
		return false
	}
	if !l.text.pass(tk) {
		l.add(start, "", "what stands here can't be understood; put a value that starts with a special character in quotes")
		return false
	}
	return content || l.structure(tokens, i, start)
}

// structure looks at what a token means for the shape of the document.
func (l *lexing) structure(tokens token.Tokens, i int, start spot) bool {
	tk := tokens[i]
	switch tk.Type {
	case token.TagType:
		l.add(start, "", "tags have no place here; put a text that starts with ! in quotes, and one that looks like a number too")
		return false
	case token.DirectiveType:
		l.add(start, "", "a line that starts with %% has no place here; leave it out")
		return false
	case token.MappingKeyType:
		l.add(start, "", `a key that starts with "? " has no place here; write KEY: VALUE`)
		return false
	case token.DocumentHeaderType:
		if l.begun {
			l.add(start, "", "a second document starts here; a file holds one")
			return false
		}
		l.begun = true
		return true
	case token.DocumentEndType:
		l.begun, l.ended = true, true
		return true
	case token.AnchorType:
		// A mapping and its first key can have one each, on lines of their own.
		if i > 1 && tokens[i-2].Type == token.AnchorType && (l.at[tokens[i-2]].line == start.line || i > 3 && tokens[i-4].Type == token.AnchorType) {
			l.add(start, "", "two anchors for one value; keep one")
			return false
		}
	case token.AliasType:
		if strings.TrimSpace(tk.Value) == "*" && l.text.more() && blank(l.text.src[l.text.next]) { // no name, as in: schedule: * * * * *
			l.add(start, "", "a * has another meaning here; put the value in quotes")
			return false
		}
	case token.SequenceStartType, token.MappingStartType:
		l.flow++
	case token.SequenceEndType, token.MappingEndType:
		l.flow = max(0, l.flow-1)
	case token.SequenceEntryType:
		l.block(start.column)
	}
	if l.ended {
		l.add(start, "", "the document ended with the line ..., so nothing can follow")
		return false
	}
	l.begun = true
	if i+1 < len(tokens) && tokens[i+1].Type == token.MappingValueType {
		l.block(start.column)
		if l.keys++; l.keys > maxKeys {
			l.add(start, "", "the file has more than %d keys, so it is no configuration", maxKeys)
			return false
		}
		if len([]rune(tk.Value)) > maxKey {
			l.add(start, "", "the key has more than %d characters", maxKey)
			return false
		}
	}
	if l.flow+len(l.blocks) > maxDepth {
		l.add(start, "", "more than %d lists and mappings within each other", maxDepth)
		return false
	}
	return true
}

// block notes a key or dash of a block collection.
func (l *lexing) block(column int) {
	if l.flow > 0 {
		return
	}
	for n := len(l.blocks); n > 0 && l.blocks[n-1] >= column; n-- {
		l.blocks = l.blocks[:n-1]
	}
	l.blocks = append(l.blocks, column)
}

// block says whether the token opens a block scalar.
func block(tk *token.Token) bool {
	return tk != nil && (tk.Type == token.LiteralType || tk.Type == token.FoldedType)
}

// before is the token before the i-th that is no comment.
func before(tokens token.Tokens, i int) *token.Token {
	for i--; i >= 0; i-- {
		if tokens[i].Type != token.CommentType {
			return tokens[i]
		}
	}
	return nil
}
