package config

import (
	"strings"

	"github.com/goccy/go-yaml/token"
)

// A locator finds where each token stands. The positions of the scanner itself are off after a tab, after a tag and in
// block scalars; and it drops some texts in silence. The locator walks over the text with the tokens in hand: between
// two of them is nothing but white space and comments, so it also notices when something was dropped.
type locator struct {
	src  []rune
	next int
	at   spot // of src[next]
}

func (l *locator) more() bool { return l.next < len(l.src) }

func (l *locator) step() {
	if l.src[l.next] == '\n' {
		l.at = spot{l.at.line + 1, 1}
	} else {
		l.at.column++
	}
	l.next++
}

// gap skips white space and comments. It gives the place of a tab that indents what follows, the zero spot if none does.
func (l *locator) gap() (tab spot) {
	indent := l.at.column == 1
	for l.more() {
		switch l.src[l.next] {
		case '\n':
			indent, tab = true, spot{}
		case '\t':
			if indent && tab == (spot{}) {
				tab = l.at
			}
		case ' ':
		case '#':
			l.line()
			tab = spot{}
			continue
		default:
			return tab
		}
		l.step()
	}
	return spot{}
}

// line skips to the end of the line.
func (l *locator) line() {
	for l.more() && l.src[l.next] != '\n' {
		l.step()
	}
}

// reaches says whether there is something at a place further on.
func (l *locator) reaches(at spot) bool {
	ahead := *l
	l = &ahead
	for l.more() && l.at.line < at.line {
		l.line()
		if l.more() {
			l.step()
		}
	}
	for l.more() && l.at.line == at.line && l.at.column < at.column {
		l.step()
	}
	return l.more() && l.at == at
}

// pass walks over a token and says whether the text there is the token's. inBlock means that it is the text of a block
// scalar, in which # starts no comment.
func (l *locator) pass(tk *token.Token) bool {
	switch tk.Type {
	case token.SingleQuoteType:
		return l.quoted('\'')
	case token.DoubleQuoteType:
		return l.quoted('"')
	}
	// White space is folded in a value and all else is kept, so that is what is compared.
	for _, r := range tk.Value {
		if blank(r) {
			continue
		}
		for l.more() && blank(l.src[l.next]) {
			l.step()
		}
		if !l.more() || l.src[l.next] != r {
			return false
		}
		l.step()
	}
	return true
}

func blank(r rune) bool { return r == ' ' || r == '\t' || r == '\n' }

func (l *locator) quoted(mark rune) bool {
	if !l.more() || l.src[l.next] != mark {
		return false
	}
	l.step()
	for l.more() {
		r := l.src[l.next]
		l.step()
		switch {
		case r == '\\' && mark == '"' && l.more():
			l.step()
		case r == mark && mark == '\'' && l.more() && l.src[l.next] == mark:
			l.step()
		case r == mark:
			return true
		}
	}
	return false
}

// badEscape looks in a double-quoted text, from its opening mark, for an escape that YAML doesn't have, and for \x, \u or
// \U without their hexadecimal digits, which the scanner reads as some other character.
func badEscape(src []rune) (offset int, why string) {
	digits := map[rune]int{'x': 2, 'u': 4, 'U': 8}
	for i := 1; i+1 < len(src) && src[i] != '"'; i++ {
		if src[i] != '\\' {
			continue
		}
		i++
		n, ok := digits[src[i]]
		end := min(i+1+n, len(src))
		switch {
		case ok && (end < i+1+n || strings.Trim(string(src[i+1:end]), "0123456789abcdefABCDEF") != ""):
			return i - 1, string(src[i-1:i+1]) + ` needs hexadecimal digits after it; write \\ for a backslash`
		case !ok && !strings.ContainsRune("0abtnvfre \"/\\N_LP\n\t", src[i]):
			return i - 1, string(src[i-1:i+1]) + ` means nothing in double quotes; write \\ for a backslash, or use single quotes`
		}
	}
	return 0, ""
}
