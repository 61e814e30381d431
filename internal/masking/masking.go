// Package masking masks a text in which names stand that are known to be none of the secrets
// that they look like: a key such as reset-password:2026-09-15.
package masking

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/onerun-dev/onerun"
)

// fields are those of a log line that hold what has been checked already, or was made here.
var fields = []string{"namespace", "job", "key", "business_date", "run_id", "lock", "reason"}

// Checked reports whether the value of a log line's field has the form of a name, and needs no
// mask.
func Checked(field string) bool { return slices.Contains(fields, field) }

// Names are those that a text about a run may hold.
func Names(r onerun.Run) []string { return []string{r.Key(), r.Job, r.Namespace, string(r.Lock)} }

// Keep masks a text, but not the names in it: where mask would change one, something else
// stands in its place meanwhile, so that what is around it is masked as it would be.
func Keep(mask func(string) string, text string, names ...string) string {
	var kept []string
	for _, name := range names {
		if name == "" || mask(name) == name || strings.IndexByte(text, 0) >= 0 && len(kept) == 0 {
			continue
		}
		if out := replace(text, name, stand(len(kept))); out != text {
			text, kept = out, append(kept, name)
		}
	}
	text = mask(text)
	for i, name := range kept {
		text = strings.ReplaceAll(text, stand(i), name)
	}
	return text
}

// stand is what stands in the place of a name: no text for people holds a NUL.
func stand(i int) string { return "\x00" + strconv.Itoa(i) + "\x00" }

// replace puts another text in the place of each old one that stands alone.
func replace(s, old, other string) string {
	var b strings.Builder
	for from := 0; ; {
		i := strings.Index(s[from:], old)
		if i < 0 {
			b.WriteString(s[from:])
			return b.String()
		}
		i += from
		before, _ := utf8.DecodeLastRuneInString(s[:i])
		after, _ := utf8.DecodeRuneInString(s[i+len(old):])
		b.WriteString(s[from:i])
		if isWord(before) || isWord(after) {
			b.WriteString(old)
		} else {
			b.WriteString(other)
		}
		from = i + len(old)
	}
}

func isWord(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) }
