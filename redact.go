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
//   - the value of a header that authenticates: Authorization, Cookie; quoted, or the rest
//     of its line
//   - the word after Bearer or Basic, where it looks like a credential
//
// What stands for a secret in advice (USER@ and FILE), and MySQL's "(using password: YES)", are none. It would
// rather mask too much than too little. It can't know a secret that has no
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
	for scheme := ""; ; {
		i := strings.Index(s, "://")
		segment := s // up to the next URL, so that no byte is looked at once for each URL before it
		if i >= 0 {
			segment = s[:i]
		}
		if scheme != "" {
			if at := userEnd(scheme, segment[:urlLen(segment)]); at > 0 && segment[:at] != "USER" { // the word for one in advice on how to write a URL
				b.WriteString(Masked)
				segment = segment[at:]
			}
		}
		b.WriteString(segment)
		if i < 0 {
			return b.String()
		}
		scheme = "://"
		for _, plain := range [...]string{"http", "https", "ws", "wss"} {
			if strings.HasSuffix(strings.ToLower(segment[max(0, len(segment)-len(plain)):]), plain) {
				scheme = plain + scheme
				break
			}
		}
		b.WriteString("://")
		s = s[i+len("://"):]
	}
}

// userEnd is where the user part of a URL ends, at the "@"; 0: it has none. A password
// may hold a slash or an "@", if its writer didn't know better; the path of a web page may
// hold an "@" too, and what looks like its port is one.
func userEnd(scheme, s string) int {
	authority := s
	if i := strings.IndexAny(s, "/?#"); i >= 0 {
		authority = s[:i]
	}
	_, port, colon := strings.Cut(authority, ":")
	isPort := scheme != "://" && strings.Trim(port, "0123456789") == ""
	if !strings.Contains(authority, "@") && (!colon || isPort) {
		return 0
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
	if n := colourLen(r.rest()); n > 0 {
		r.take(n)
		return
	}
	n := wordLen(r.rest())
	if n == 0 {
		_, size := utf8.DecodeRuneInString(r.rest())
		r.take(size)
		return
	}
	word := r.rest()[:n]
	lower, before := strings.ToLower(word), r.in[:r.pos]
	quote, backslashes := r.opening()
	path := r.pos > 0 && r.in[r.pos-1] == '/' // open /run/secrets/password: no such file
	r.take(n)
	switch {
	case lower == "bearer" || lower == "basic":
		r.credential()
	case isHeader(word):
		if sep, closed := r.separator("=:"); sep > 0 {
			r.take(sep)
			if closed {
				quote = 0
			}
			r.header(quote, backslashes)
		}
	case lower == "password" && strings.HasSuffix(before, "(using ") && (strings.HasPrefix(r.rest(), ": YES)") || strings.HasPrefix(r.rest(), ": NO)")):
	case SecretName(word):
		seps := "="
		if tellsSecret(word) && (quote != 0 || tellsPassword(word) || strings.HasPrefix(lower, "x-")) {
			seps = "=:"
		}
		sep, _ := r.separator(seps)
		if path && sep > 0 && quoteLen(r.rest()[sep:]) == 0 && strings.IndexByte(r.rest()[:sep], ':') >= 0 {
			return
		}
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

// opening is the quote right before the word, and the number of backslashes before that;
// 0: there is none.
func (r *redactor) opening() (quote byte, backslashes int) {
	before := r.in[:r.pos]
	if before == "" || !isQuote(before[len(before)-1]) {
		return 0, 0
	}
	quote, before = before[len(before)-1], before[:len(before)-1]
	return quote, len(before) - len(strings.TrimRight(before, `\`))
}

// separator is the length of what stands between a name and its value: a closing quote,
// spaces, and one of seps.
func (r *redactor) separator(seps string) (n int, closed bool) {
	s := r.rest()
	n = gapLen(s)
	q := quoteLen(s[n:])
	n += q
	n += gapLen(s[n:])
	if n == len(s) || strings.IndexByte(seps, s[n]) < 0 {
		return 0, false
	}
	n++
	switch after := s[n:]; {
	case s[n-1] == ':' && strings.HasPrefix(after, "//"): // :// is a URL's
		return 0, false
	case s[n-1] == ':' && strings.HasPrefix(after, "="), s[n-1] == '=' && strings.HasPrefix(after, ">"): // := and =>
		n++
	case strings.HasPrefix(after, "="): // == compares
		return 0, false
	}
	return n + gapLen(s[n:]), q > 0
}

// header masks the value of a header: a quoted text; else up to the quote that closes the
// one before its name, or the rest of the line.
func (r *redactor) header(quote byte, backslashes int) {
	if r.quoted() {
		return
	}
	line := r.rest()
	if i := strings.IndexAny(line, "\r\n"); i >= 0 {
		line = line[:i]
	}
	if quote != 0 {
		r.mask(closing(line, quote, backslashes))
		return
	}
	r.mask(headerLen(line))
}

// headerLen is where a header's value ends that nothing encloses but perhaps a text of which
// it is the end: at a closing quote. name="value" and what follows it are of the value.
func headerLen(line string) int {
	for i := 0; i < len(line); i++ {
		n := quoteLen(line[i:])
		if n == 0 {
			continue
		}
		if i > 0 && strings.IndexByte(" \t=,;:(", line[i-1]) < 0 {
			return i
		}
		i += n
		i += closing(line[i:], line[i-1], n-1)
		i += max(0, quoteLen(line[min(i, len(line)):])-1)
	}
	return len(line)
}

// value masks a value: a quoted text, or a word.
func (r *redactor) value() {
	if r.quoted() {
		return
	}
	if n := plainLen(r.rest()); r.rest()[:n] == "FILE" {
		r.take(n)
	} else {
		r.mask(n)
	}
}

// quoted masks a quoted text, or each one of a list; false: there is none. What is glued to
// it is of the same word, as in a shell's 'it'\”s'.
func (r *redactor) quoted() bool {
	s := r.rest()
	n := 0
	list := strings.HasPrefix(s, "[")
	if list {
		n = 1 + gapLen(s[1:])
	}
	found := false
	for {
		n += prefixLen(s[n:])
		q := quoteLen(s[n:])
		if q == 0 {
			return found
		}
		found = true
		r.take(n + q)
		r.mask(closing(r.rest(), s[n+q-1], q-1))
		r.take(quoteLen(r.rest()))
		s = r.rest()
		if !list {
			if glued(s) {
				r.mask(plainLen(s))
			}
			return true
		}
		n = gapLen(s)
		if !strings.HasPrefix(s[n:], ",") {
			return true
		}
		n++
		n += gapLen(s[n:])
	}
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
