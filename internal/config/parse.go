package config

import (
	"errors"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// places says where each token stands.
type places map[*token.Token]spot

// parse makes the tree of a document. A nil tree without an error is an empty file.
func parse(source string, found *findings) (root ast.Node, at places, ok bool) {
	defer func() {
		// A file can't be the reason for a stack trace.
		if p := recover(); p != nil {
			found.add(spot{}, "", "the file can't be understood as YAML, and the parser failed without a place (%v)", p)
			root, at, ok = nil, nil, false
		}
	}()
	l := &lexing{findings: found, text: locator{src: []rune(source), at: spot{1, 1}}, at: places{}}
	tokens, ok := l.run(source)
	if !ok {
		return nil, nil, false
	}
	// Duplicate keys are left to us: the parser stops at the first, and compares them as they are written.
	f, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		l.refuse(err)
		return nil, nil, false
	}
	for _, doc := range f.Docs {
		if doc.Body != nil {
			return doc.Body, l.at, true
		}
	}
	return nil, l.at, true
}

func (l *lexing) refuse(err error) {
	// Not named as yaml.Error: the module's root package has its encoder and decoder in it, for which every start would pay.
	var syntax interface {
		error
		GetToken() *token.Token
		GetMessage() string
	}
	if !errors.As(err, &syntax) {
		l.add(spot{}, "", "%s", err)
		return
	}
	tk := syntax.GetToken()
	if strings.HasPrefix(syntax.GetMessage(), secondColon) && tk != nil && tk.Next != nil {
		tk = tk.Next // the colon itself: what is before it can have begun lines above
	}
	at := spot{1, 1}
	// The parser makes up tokens for what is missing; the last real one before is the nearest place.
	for ; tk != nil; tk = tk.Prev {
		if known, ok := l.at[tk]; ok {
			at = known
			break
		}
	}
	l.add(at, "", "%s", explain(syntax.GetMessage()))
}

// secondColon begins the parser's message for KEY: VALUE where a value was open already.
const secondColon = "mapping value is not allowed in this context"

// explain puts a message of the parser into words that say what to do, where it is one that people will meet. What it
// quotes could be a secret.
func explain(message string) string {
	begins := func(text string) bool { return strings.HasPrefix(message, text) }
	switch {
	case strings.HasSuffix(message, "is a reserved character"):
		return strings.TrimSuffix(message, " is a reserved character") + " can't start a value; put the value in quotes"
	case begins(secondColon):
		return `": " can't stand in this value; put the value in quotes, or, if a key is meant, indent it like the one above`
	case begins("value is not allowed in this context"):
		return "this can't follow what stands before it; put a value that starts with a special character in quotes"
	case begins("non-map value is specified"), begins("unexpected key name"):
		return "KEY: VALUE is wanted here"
	case begins("could not find end character of "):
		return "the closing quote is missing"
	case begins("could not find flow mapping end token"):
		return "the closing } is missing"
	case begins("sequence end token"):
		return "the closing ] is missing"
	case begins("',' or '"):
		return "a comma or the closing bracket is missing before this"
	case strings.Contains(message, "tab character"), strings.Contains(message, "\t"):
		return tabIndents
	case begins("could not find multi-line content"):
		return "the text that belongs to | or > is missing, or not indented"
	case begins("found an invalid key"):
		return "a key has to be a word"
	case begins("undefined anchor value"), begins("could not find anchor value"):
		return "the anchor has no value"
	case begins("invalid header option"):
		return "after | or > stands something else than an indentation and + or -; put a value that starts with one in quotes"
	}
	return regexp.MustCompile(`"(?:[^"\\]|\\.){2,}"`).ReplaceAllString(message, "***")
}
