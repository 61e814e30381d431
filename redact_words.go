package onerun

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// SecretName reports whether a name (of a parameter, a flag, a variable) is that of a
// secret.
func SecretName(name string) bool {
	lower := strings.ToLower(name)
	for _, word := range [...]string{"pass", "pwd", "token", "secret", "credential", "apikey", "api_key", "api-key", "access_key", "access-key", "private_key", "private-key"} {
		if strings.Contains(lower, word) {
			return true
		}
	}
	return tellsSecret(name) // accessKey
}

// tellsPassword reports whether a part of a name is the word for a password or a secret:
// db.password, clientSecret, PGPASSWORD; but not bypass or secretary, since a colon follows
// many a name that isn't a secret's.
func tellsPassword(name string) bool {
	return anyPart(name, func(part, _ string) bool {
		part = strings.TrimSuffix(part, "s")
		return part == "pas" || part == "passphrase" || part == "passcode" ||
			strings.HasSuffix(part, "password") || strings.HasSuffix(part, "passwd") || strings.HasSuffix(part, "pwd") || strings.HasSuffix(part, "secret")
	})
}

// tellsSecret reports the same of every kind of secret.
func tellsSecret(name string) bool {
	return tellsPassword(name) || anyPart(name, func(part, before string) bool {
		part = strings.TrimSuffix(part, "s")
		return strings.HasSuffix(part, "token") || strings.HasSuffix(part, "credential") || strings.HasSuffix(part, "apikey") ||
			part == "key" && (before == "api" || before == "access" || before == "private")
	})
}

// isHeader reports whether a name is that of a header that authenticates, or of a variable
// with it: Proxy-Authorization, HTTP_COOKIE, headers.authorization.
func isHeader(name string) bool {
	last := ""
	anyPart(name, func(part, _ string) bool { last = part; return false })
	return last == "authorization" || last == "cookie"
}

// anyPart goes through the parts of a name, in small letters, each with the one before it:
// they end at . _ - and before a capital letter that follows a small one.
func anyPart(name string, is func(part, before string) bool) bool {
	before, start := "", 0
	for i := 0; i <= len(name); i++ {
		sep := i < len(name) && strings.IndexByte("._-", name[i]) >= 0
		hump := i > 0 && i < len(name) && name[i] >= 'A' && name[i] <= 'Z' && name[i-1] >= 'a' && name[i-1] <= 'z'
		if i < len(name) && !sep && !hump {
			continue
		}
		if part := strings.ToLower(name[start:i]); part != "" {
			if is(part, before) {
				return true
			}
			before = part
		}
		start = i
		if sep {
			start++
		}
	}
	return false
}

// plainLen is the length of a value that is not quoted. It is one word: a comma, an
// ampersand or a quote in it ends it only where what follows can't be of the same value.
func plainLen(s string) int {
	if s == "" || strings.IndexByte("&;,<>", s[0]) >= 0 {
		return 0
	}
	for i := 0; i < len(s); {
		c, size := utf8.DecodeRuneInString(s[i:])
		rest := s[i+size:]
		switch {
		case unicode.IsSpace(c):
			return i
		case c == '<' || c == '>':
			if rest == "" || rest[0] == '/' || isSpace(rest) {
				return i
			}
		case c == ',' || c == ';' || c == '&':
			if separates(rest, false) {
				return i
			}
		case c < utf8.RuneSelf && (isQuote(byte(c)) || c == '\\'):
			size = len(s[i:]) - len(strings.TrimLeft(s[i:], "\"'`\\"))
			if i > 0 && strings.ContainsAny(s[i:i+size], "\"'`") && encloses(s[i+size:]) {
				return i
			}
		}
		i += size
	}
	return len(s)
}

// urlLen is the length of a URL.
func urlLen(s string) int {
	if s == "" || isQuote(s[0]) {
		return 0
	}
	for i := 0; i < len(s); {
		c, size := utf8.DecodeRuneInString(s[i:])
		rest := s[i+size:]
		switch {
		case unicode.IsSpace(c):
			return i
		case c == '<' || c == '>':
			if rest == "" || rest[0] == '/' || isSpace(rest) {
				return i
			}
		case c < utf8.RuneSelf && isQuote(byte(c)):
			size = len(s[i:]) - len(strings.TrimLeft(s[i:], "\"'`\\"))
			if encloses(s[i+size:]) {
				return i
			}
		}
		i += size
	}
	return len(s)
}

// encloses reports whether a quote closes the text around a value, by what follows it.
func encloses(s string) bool {
	switch {
	case s == "" || isSpace(s) || strings.IndexByte(")}]>|", s[0]) >= 0:
		return true
	case strings.IndexByte(",;:&", s[0]) >= 0:
		return separates(s[1:], true)
	}
	return false
}

// separates reports whether a comma or the like ends a value, by what follows it: nothing, a
// space, the next name with its value; after a quote, also the next quoted text.
func separates(s string, quoted bool) bool {
	if s == "" || isSpace(s) {
		return true
	}
	if n := quoteLen(s); n > 0 {
		s = s[n:]
		n = wordLen(s)
		after := s[n:]
		q := quoteLen(after)
		after = after[q:]
		after = after[spaceLen(after):]
		return quoted || n > 0 && q > 0 && after != "" && (after[0] == ':' || after[0] == '=')
	}
	n := wordLen(s)
	s = s[n:]
	return n > 0 && len(s) > 1 && s[0] == '=' && s[1] != '=' && !isSpace(s[1:])
}

// glued reports whether what follows a closing quote is of the same word.
func glued(s string) bool {
	s = strings.TrimLeft(s, "\"'`\\$")
	return wordLen(s) > 0 && s[0] != '.' && s[0] != '-'
}

func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }

// isSpace reports whether a text begins with a space.
func isSpace(s string) bool {
	c, _ := utf8.DecodeRuneInString(s)
	return unicode.IsSpace(c)
}

// prefixLen is the length of what some languages put before a quote: $'a', b'a', u"a".
func prefixLen(s string) int {
	n := len(s) - len(strings.TrimLeft(s, "$bBuUrRfF@"))
	if n > 2 || quoteLen(s[n:]) == 0 {
		return 0
	}
	return n
}

// quoteLen is the length of the quote that s begins with; one that stands inside of
// another quote has backslashes before it. 0: there is none.
func quoteLen(s string) int {
	n := len(s) - len(strings.TrimLeft(s, `\`))
	if n == len(s) || !isQuote(s[n]) {
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

// colourLen is the length of the control sequence of a terminal that s begins with, as it is
// or as JSON and shells write it.
func colourLen(s string) int {
	n := 0
	for _, intro := range [...]string{"\x1b[", `\x1b[`, `\x1B[`, `\033[`, `\e[`, `\u001b[`, `\u001B[`} {
		if strings.HasPrefix(s, intro) {
			n = len(intro)
			break
		}
	}
	if n == 0 {
		return 0
	}
	n = len(s) - len(strings.TrimLeft(s[n:], "0123456789;:"))
	if n == len(s) || s[n] < '@' || s[n] > '~' {
		return 0
	}
	return n + 1
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

// gapLen is the length of spaces and colours.
func gapLen(s string) int {
	n := spaceLen(s)
	for c := colourLen(s[n:]); c > 0; c = colourLen(s[n:]) {
		n += c
		n += spaceLen(s[n:])
	}
	return n
}
