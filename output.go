package onerun

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxOutput is the greatest length of a kept output, in bytes.
const MaxOutput = 4 << 20

// Output is what an attempt printed, as far as it is kept: the end of it, standard output
// and error together.
type Output struct {
	Text      string    // in the form of CleanOutput
	Total     int64     // how many bytes were printed
	Truncated bool      // the beginning is not in Text
	At        time.Time // when it was recorded, by the store's clock
}

// Cleaned is the output in the form in which every store keeps it. What is too long loses
// its beginning.
func (o Output) Cleaned() Output {
	o.Text = CleanOutput(o.Text)
	if cut := LastBytes(o.Text, MaxOutput); len(cut) < len(o.Text) {
		o.Text, o.Truncated = cut, true
	}
	return o
}

// CleanOutput makes what a job printed fit to be kept: secrets are masked (see Redact),
// and what not every store can hold as text, NUL and bytes that are no UTF-8, is written
// as \x00 to \xff. A text in this form stays as it is.
func CleanOutput(s string) string {
	s = Redact(s)
	if strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == 0 || r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&b, `\x%02x`, s[i])
		} else {
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

// LastBytes is the end of a text, of at most n bytes, that begins with a whole character.
func LastBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[len(s)-n:]
	for i := range min(utf8.UTFMax, len(s)) {
		if utf8.RuneStart(s[i]) {
			return s[i:]
		}
	}
	if len(s) < utf8.UTFMax { // the end of one character, and no room for the whole of it
		return ""
	}
	return s
}
