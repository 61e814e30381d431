package schedule

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// UsageError refuses what a flag said. The same words may have come from an
// environment variable or the config file; Flag names the flag all the same.
// The command line ends with exit status 64 (EX_USAGE of sysexits.h) for it.
type UsageError struct {
	Flag  string // the flag, with its dashes: "--date"; "" where none was typed
	Value string // what it said, unaltered; "" when the flag is missing
	Why   string // why that cannot be used
	Do    string // what to do instead
}

// maxShown bounds, in bytes, how much of a bad value an error repeats.
const maxShown = 200

// Error is one line: what, why, what to do. The value is quoted and its
// unprintable characters are escaped, so that it cannot break the line.
func (e *UsageError) Error() string {
	what, why := e.Flag, e.Why
	if e.Value != "" {
		what = strings.TrimLeft(what+" "+quote(e.Value), " ")
	}
	if e.Do != "" {
		why += "; " + e.Do
	}
	if what == "" {
		return why
	}
	return what + ": " + why
}

// Repeats is what Error shows of Value, as it stands there: what masks secrets in a message has to look at it by itself, since
// before the colon of the message's own words its end can look like the name of one.
func (e *UsageError) Repeats() string {
	if e.Value == "" {
		return ""
	}
	return quote(e.Value)
}

func quote(s string) string { return quoteUpTo(s, maxShown) }

// quoteUpTo quotes at most so many bytes.
func quoteUpTo(s string, most int) string {
	if len(s) <= most {
		return strconv.Quote(s)
	}
	cut := most
	for cut > most-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strconv.Quote(s[:cut]) + "..."
}

// orForeign is why, unless s holds a character outside ASCII. Then it names
// that character, because a full-width digit or a typographic dash looks just
// like the right one on many screens.
func orForeign(s, why string) string {
	if !utf8.ValidString(s) {
		return "that is not UTF-8"
	}
	for _, r := range s {
		if r > unicode.MaxASCII {
			return fmt.Sprintf("that holds the character %U, and only ASCII is read here", r)
		}
	}
	return why
}

// shaped reports whether s has the form of pattern, byte by byte: a 9 stands
// for any ASCII digit, everything else for itself.
func shaped(s, pattern string) bool {
	if len(s) != len(pattern) {
		return false
	}
	for i := range len(pattern) {
		if pattern[i] == '9' {
			if s[i] < '0' || s[i] > '9' {
				return false
			}
		} else if s[i] != pattern[i] {
			return false
		}
	}
	return true
}

// count reads a decimal number of at most most. Signs, blanks, leading zeros
// and digits of other scripts are refused, so that one number has one spelling.
func count(s string, most int) (int, bool) {
	if s == "" || len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
		if n > most {
			return 0, false
		}
	}
	return n, true
}
