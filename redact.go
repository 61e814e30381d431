package onerun

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Masked stands where a secret stood.
const Masked = "***"

// Redact masks what is a secret by its form, in a text that is to be stored, logged or
// told:
//
//   - the user part of a URL: scheme://user:password@host
//   - the value of what is named after a secret, as name=value, "name": "value" or
//     --name value; of password and secret also as name: value
//   - the rest of a header line that authenticates: Authorization, Cookie
//   - the word after Bearer or Basic, where it looks like a credential
//
// It would rather mask too much than too little. It can't know a secret that has no
// such form; the configuration file's `redact` patterns are for those.
func Redact(s string) string {
	if !strings.ContainsAny(s, "=:-") && !strings.Contains(s, "earer ") && !strings.Contains(s, "asic ") {
		return s
	}
	r := redactor{in: redactURLs(s)}
	for r.pos < len(r.in) {
		r.step()
	}
	return r.out.String()
}

// redactURLs masks the user part of every URL in a text.
func redactURLs(s string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, "://")
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		i += len("://")
		b.WriteString(s[:i])
		s = s[i:]
		end := strings.IndexFunc(s, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("\"'`<>", r) })
		if end < 0 {
			end = len(s)
		}
		if at := userEnd(s[:end]); at > 0 {
			b.WriteString(Masked)
			s = s[at:]
		}
	}
}

// userEnd is where the user part of a URL ends, at the "@"; 0: it has none. A password
// may hold a slash or an "@", if its writer didn't know better; a path may hold an "@".
func userEnd(s string) int {
	authority := s
	if i := strings.IndexAny(s, "/?#"); i >= 0 {
		authority = s[:i]
	}
	_, port, colon := strings.Cut(authority, ":")
	isPort := colon && strings.Trim(port, "0123456789") == ""
	if !strings.Contains(authority, "@") && (!colon || isPort) {
		return 0
	}
	if i := strings.Index(s, "://"); i >= 0 { // the next URL of a list
		s = s[:i]
	}
	return max(0, strings.LastIndexByte(s, '@'))
}

// redactor goes through a text word by word.
type redactor struct {
	in  string
	pos int
	out strings.Builder
}

func (r *redactor) rest() string { return r.in[r.pos:] }

// take copies n bytes.
func (r *redactor) take(n int) {
	r.out.WriteString(r.in[r.pos : r.pos+n])
	r.pos += n
}

// mask leaves n bytes out.
func (r *redactor) mask(n int) {
	if n > 0 {
		r.out.WriteString(Masked)
		r.pos += n
	}
}

// step copies one word, and masks what follows if the word is named after a secret.
func (r *redactor) step() {
	n := wordLen(r.rest())
	if n == 0 {
		_, size := utf8.DecodeRuneInString(r.rest())
		r.take(size)
		return
	}
	word := strings.ToLower(r.rest()[:n])
	quoted := r.pos > 0 && strings.IndexByte("\"'`", r.in[r.pos-1]) >= 0
	r.take(n)
	switch {
	case word == "bearer" || word == "basic":
		r.credential()
	case isHeader(word):
		if sep := r.separator("=:"); sep > 0 {
			r.take(sep)
			r.mask(lineLen(r.rest()))
		}
	case SecretName(word):
		seps := "="
		if quoted || strings.Contains(word, "pass") || strings.Contains(word, "pwd") || strings.Contains(word, "secret") {
			seps = "=:"
		}
		sep := r.separator(seps)
		if sep == 0 && strings.HasPrefix(word, "--") {
			sep = spaceLen(r.rest())
			if strings.HasPrefix(r.rest()[sep:], "-") { // the next flag
				return
			}
		}
		if sep > 0 {
			r.take(sep)
			r.value()
		}
	}
}

// SecretName reports whether a name (of a parameter, a flag, a variable) is that of a
// secret.
func SecretName(name string) bool {
	name = strings.ToLower(name)
	for _, word := range [...]string{"pass", "pwd", "token", "secret", "credential", "apikey", "api_key", "api-key", "access_key", "access-key", "private_key", "private-key"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

func isHeader(word string) bool {
	word = strings.TrimPrefix(word, "proxy-")
	return word == "authorization" || word == "cookie" || word == "set-cookie"
}

// separator is the length of what stands between a name and its value: a closing
// quote, spaces, and one of seps.
func (r *redactor) separator(seps string) int {
	s := r.rest()
	n := quoteLen(s)
	n += spaceLen(s[n:])
	if n == len(s) || strings.IndexByte(seps, s[n]) < 0 {
		return 0
	}
	n++
	if n < len(s) && s[n] == '=' || strings.HasPrefix(s[n:], "//") { // == compares, and :// is a URL's
		return 0
	}
	return n + spaceLen(s[n:])
}

// value masks a value: a quoted text, or up to the next space or separator.
func (r *redactor) value() {
	s := r.rest()
	if s == "" {
		return
	}
	if n := quoteLen(s); n > 0 {
		r.take(n)
		r.mask(closing(s[n:], s[n-1], n-1))
		return
	}
	end := strings.IndexFunc(s, func(c rune) bool { return unicode.IsSpace(c) || strings.ContainsRune("&;,\"'`<>", c) })
	if end < 0 {
		end = len(s)
	}
	r.mask(end)
}

// quoteLen is the length of the quote that s begins with; one that stands inside of
// another quote has backslashes before it. 0: there is none.
func quoteLen(s string) int {
	n := len(s) - len(strings.TrimLeft(s, `\`))
	if n == len(s) || strings.IndexByte("\"'`", s[n]) < 0 {
		return 0
	}
	return n + 1
}

// closing is where a quoted text ends: at the next quote q with no more backslashes
// before it than the opening one had.
func closing(s string, q byte, backslashes int) int {
	run := 0
	for i := range len(s) {
		switch {
		case s[i] == q && (run <= backslashes || run%2 == 0 && backslashes == 0):
			return i - min(run, backslashes)
		case s[i] == '\\':
			run++
		default:
			run = 0
		}
	}
	return len(s)
}

// credential masks the word after Bearer or Basic, but not an English one.
func (r *redactor) credential() {
	n := spaceLen(r.rest())
	if n == 0 {
		return
	}
	word := r.rest()[n:]
	if end := strings.IndexFunc(word, func(c rune) bool { return unicode.IsSpace(c) || strings.ContainsRune("\"'`,;<>", c) }); end >= 0 {
		word = word[:end]
	}
	if len(word) < 8 || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") == "" {
		return
	}
	r.take(n)
	r.mask(len(word))
}

// wordLen is the length of the word that s begins with.
func wordLen(s string) int {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' {
			return i
		}
	}
	return len(s)
}

func spaceLen(s string) int { return len(s) - len(strings.TrimLeft(s, " \t")) }

// lineLen is the length of the rest of a line, or of a quoted text.
func lineLen(s string) int {
	if i := strings.IndexAny(s, "\r\n\"'`"); i >= 0 {
		return i
	}
	return len(s)
}
