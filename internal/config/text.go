package config

import (
	"strings"
	"unicode/utf8"
)

// clean brings a text into the form that the rest works on: no byte order mark, lines ended by \n. What can't stand in a
// YAML file (YAML 1.2.2, section 5.1) is an error, and what would take too long to read.
func clean(text []byte, found *findings) (string, bool) {
	if len(text) > MaxSize {
		found.add(spot{}, "", "the file is larger than %d KiB, so it is no configuration", MaxSize>>10)
		return "", false
	}
	s := strings.TrimPrefix(string(text), "\ufeff")
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s)
	if s != "" && !strings.HasSuffix(s, "\n") {
		s += "\n" // the scanner loses a tag at the very end
	}
	at, tabs, less := spot{1, 1}, 0, 0
	for rest := s; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		if less++; r != '<' {
			less = 0
		}
		switch {
		case less > maxLess:
			// The scanner looks for a merge key at each of them, to the end of the row.
			found.add(at, "", "more than %d < in a row", maxLess)
			return "", false
		case r == utf8.RuneError && size == 1:
			found.add(at, "", "the byte 0x%02X is not valid UTF-8; save the file as UTF-8", rest[0])
			return "", false
		case r == '\n':
			at.line, at.column, tabs = at.line+1, 0, 0
		case r == '\t':
			// The parser's time for a line grows with the number of its tabs times its length.
			if tabs++; tabs > maxTabs {
				found.add(at, "", "more than %d tabs on one line", maxTabs)
				return "", false
			}
		case r < ' ', r >= 0x7f && r < 0xa0 && r != 0x85, r == 0xfffe, r == 0xffff:
			found.add(at, "", `the control character %+q can't stand in a file; write "\x%02x" in double quotes`, r, r)
		}
		at.column++
		rest = rest[size:]
	}
	return s, len(found.list) == 0
}
