package cli

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Kinds of answers.
const (
	completeWords   = "words"
	completeFiles   = "files"
	completeDirs    = "dirs"
	completeCommand = "command"
)

// typed is a command line as far as it is typed, read by kong's model of it.
type typed struct {
	env      *env // the common flags that stand on the line
	app      *kong.Node
	node     *kong.Node // the command, once it is there, else the program
	filled   int        // positional arguments of it that are there
	dashes   bool       // -- was there: no flags follow
	awaiting *kong.Flag // a flag whose value comes next
}

// answerTo says what may stand in the place of the last word. The first is the program.
func answerTo(ctx context.Context, words []string) answer {
	none := answer{kind: completeWords}
	if len(words) < 2 {
		return none
	}
	e := &env{out: io.Discard, err: io.Discard}
	k, _ := model(e, "")
	t := &typed{env: e, app: k.Model.Node, node: k.Model.Node}
	for _, f := range t.app.Flags {
		t.keep(f, f.Default)
	}
	last := len(words) - 1
	for i, w := range words[1:last] {
		i++ // of words
		switch {
		case t.awaiting != nil:
			t.keep(t.awaiting, w)
			t.awaiting = nil
		case !t.dashes && w == "--":
			if t.passes() {
				return answer{kind: completeCommand, skip: i + 1}
			}
			t.dashes = true
		case !t.dashes && len(w) > 1 && w[0] == '-':
			t.flag(w)
		case t.node == t.app:
			at := slices.IndexFunc(t.app.Children, func(n *kong.Node) bool { return n.Name == w })
			if at < 0 {
				return none
			}
			t.node = t.app.Children[at]
		case t.passes():
			return answer{kind: completeCommand, skip: i}
		default:
			t.filled++
		}
	}
	return t.next(ctx, words[last], last)
}

// next is the answer for the word under the cursor.
func (t *typed) next(ctx context.Context, word string, at int) answer {
	a := answer{kind: completeWords}
	name, value, joined := strings.Cut(word, "=")
	f := t.find(strings.TrimPrefix(name, "--"))
	switch {
	case t.awaiting != nil:
		a = valuesOf(t.awaiting)
	case !t.dashes && joined && strings.HasPrefix(name, "--") && f != nil:
		a = valuesOf(f)
		for i := range a.words {
			a.words[i].word = name + "=" + a.words[i].word
		}
		if a.kind != completeWords {
			word = value
		}
	case !t.dashes && strings.HasPrefix(word, "-"):
		a.words = t.flags()
	case t.node == t.app:
		a.words = t.commands()
	case t.passes():
		return answer{kind: completeCommand, skip: at}
	case t.filled < len(t.node.Positional):
		a.words = t.argument(ctx, t.node.Positional[t.filled], word)
	}
	a.words = slices.DeleteFunc(a.words, func(c choice) bool { return !strings.HasPrefix(c.word, word) })
	return a
}

// passes reports whether the command that is to be executed comes next.
func (t *typed) passes() bool {
	return t.filled < len(t.node.Positional) && t.node.Positional[t.filled].Passthrough
}

// argument are the words that a positional argument may be, by its name.
func (t *typed) argument(ctx context.Context, p *kong.Positional, start string) []choice {
	if p.Enum != "" {
		return enumerated(p)
	}
	switch p.Name {
	case "command":
		return t.commands()
	case "job":
		return t.env.known(ctx, start, strings.Contains(start, ":"))
	case "key":
		return t.env.known(ctx, start, true)
	}
	return nil
}

func (t *typed) commands() (choices []choice) {
	for _, n := range t.app.Children {
		if !n.Hidden {
			choices = append(choices, choice{n.Name, n.Help})
		}
	}
	return choices
}

func (t *typed) flags() (choices []choice) {
	for _, f := range flagsOf(t.node) {
		if f.Hidden {
			continue
		}
		if f.Short != 0 {
			choices = append(choices, choice{"-" + string(f.Short), f.Help})
		}
		choices = append(choices, choice{"--" + f.Name, f.Help})
	}
	return choices
}

// find is the flag of a name, long or short.
func (t *typed) find(name string) *kong.Flag {
	for _, f := range flagsOf(t.node) {
		if f.Name == name || string(f.Short) == name {
			return f
		}
	}
	return nil
}

// flag reads a word of flags: --name, --name=value, -n, -w5 or -nw.
func (t *typed) flag(word string) {
	if long, ok := strings.CutPrefix(word, "--"); ok {
		name, value, joined := strings.Cut(long, "=")
		switch f := t.find(name); {
		case f == nil || f.IsBool():
		case joined:
			t.keep(f, value)
		default:
			t.awaiting = f
		}
		return
	}
	for i, short := range word[1:] {
		f := t.find(string(short))
		if f == nil || f.IsBool() {
			continue
		}
		if i+2 == len(word) {
			t.awaiting = f
		}
		return
	}
}

// keep remembers the value of a common flag: it may name the store.
func (t *typed) keep(f *kong.Flag, value string) {
	if slices.Contains(t.app.Flags, f) {
		_ = set(f.Target, value) // a value that is wrong completes nothing
	}
}

// flagsOf are the flags that a command takes, its own first.
func flagsOf(n *kong.Node) (flags []*kong.Flag) {
	for ; n != nil; n = n.Parent {
		flags = append(flags, n.Flags...)
	}
	return flags
}

// valuesOf is what may follow a flag. Its placeholder says what kind it is.
func valuesOf(f *kong.Flag) answer {
	switch {
	case f.Enum != "":
		return answer{kind: completeWords, words: enumerated(f.Value)}
	case f.PlaceHolder == "FILE":
		return answer{kind: completeFiles}
	case f.PlaceHolder == "DIR":
		return answer{kind: completeDirs}
	}
	return answer{kind: completeWords}
}

func enumerated(v *kong.Value) (choices []choice) {
	for _, word := range v.EnumSlice() {
		choices = append(choices, choice{word: word})
	}
	return choices
}
