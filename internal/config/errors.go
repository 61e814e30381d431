package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/onerun-dev/onerun"
)

// Error is one thing that is wrong with a file.
type Error struct {
	Path         string
	Line, Column int    // from 1, columns in characters; 0 when it is about the whole file
	Message      string // what and why, on one line
	Suggestion   string // what was probably meant; may be ""
	Repeated     string // what Message repeats of a value, as it stands there, to be looked at by itself for secrets; may be ""
}

// Repeats is Repeated, as of other errors.
func (e Error) Repeats() string { return e.Repeated }

// Plain is an error of a [Key]'s Check that shows nothing of a value but what may be seen. Nothing in it is masked.
type Plain struct{ Err error }

func (e Plain) Error() string { return e.Err.Error() }

// Unwrap gives the error itself.
func (e Plain) Unwrap() error { return e.Err }

// RepeatedBy is what an error repeats of a value, as far as it says so.
func RepeatedBy(err error) string {
	var r interface{ Repeats() string }
	if errors.As(err, &r) {
		return r.Repeats()
	}
	return ""
}

// Error is PATH:LINE:COLUMN: MESSAGE; did you mean "SUGGESTION"?
func (e Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Path)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	b.WriteString(": " + e.Message)
	if e.Suggestion != "" {
		fmt.Fprintf(&b, "; did you mean %q?", e.Suggestion)
	}
	return oneLine(b.String())
}

// Errors is all that is wrong with a file, in the order of the file; never empty. It is an [onerun.ErrConfig].
type Errors []Error

// Error is the first of them, on one line, with the number of the others.
func (e Errors) Error() string {
	switch len(e) {
	case 0:
		return "no error"
	case 1:
		return e[0].Error()
	}
	return fmt.Sprintf("%s (and %d more)", e[0], len(e)-1)
}

// OrNil is them in the order of the file, as an error: nil if there is none.
func (e Errors) OrNil() error {
	if len(e) == 0 {
		return nil
	}
	slices.SortStableFunc(e, func(a, b Error) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column)) })
	return e
}

// Is makes Errors an [onerun.ErrConfig].
func (e Errors) Is(target error) bool { return target == onerun.ErrConfig }

// spot is a place in the file.
type spot struct{ line, column int }

// findings gathers errors.
type findings struct {
	path string
	list []Error
	seen map[Error]bool
}

func (f *findings) add(at spot, suggestion, format string, args ...any) {
	f.put(Error{Path: f.path, Line: at.line, Column: at.column, Message: oneLine(fmt.Sprintf(format, args...)), Suggestion: suggestion})
}

func (f *findings) put(e Error) {
	// What stands under an anchor is read once for every alias of it, and is wrong only once.
	if f.seen[e] || len(f.list) >= maxErrors {
		return
	}
	if f.seen == nil {
		f.seen = map[Error]bool{}
	}
	f.seen[e] = true
	f.list = append(f.list, e)
}

// oneLine keeps a text from breaking the line it is shown on, or writing to the reader's terminal.
func oneLine(s string) string {
	if !strings.ContainsFunc(s, unprintable) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t':
			b.WriteByte(' ')
		case unprintable(r):
			b.WriteString(strings.Trim(fmt.Sprintf("%+q", r), "'"))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }

// quote shows what stands in the file, cut so that the line stays readable.
func quote(s string) string {
	if r := []rune(s); len(r) > 60 {
		s = string(r[:60]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
