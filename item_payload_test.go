package onerun_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/fuzzbound"
)

// FuzzPayload: whatever bytes an item's payload has, it is kept as text that every store can hold, comes back as it was,
// and no two are kept alike; and what something else wrote is given as it stands.
func FuzzPayload(f *testing.F) {
	for _, p := range [][2]string{{"order 1", "order 2"}, {"", "\\x"}, {"\\x00", "\x00"}, {"\xff", "\\xff"}, {"\\xzz", "\\x0"}, {"한", "\xed\x95"}} {
		f.Add(p[0], p[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		fuzzbound.Run(t, len(a)+len(b), func() {
			kept, other := onerun.KeptPayload(a), onerun.KeptPayload(b)
			if !utf8.ValidString(kept) || strings.ContainsRune(kept, 0) || len(kept) > 2*len(a)+2 {
				t.Errorf("%q is kept as %q", a, kept)
			}
			if back := onerun.PayloadOf(kept); back != a {
				t.Errorf("%q is kept as %q, and comes back as %q", a, kept, back)
			}
			if (a == b) != (kept == other) {
				t.Errorf("%q and %q are kept as %q and %q", a, b, kept, other)
			}
			if len(onerun.PayloadOf(a)) > len(a) {
				t.Errorf("%q written by something else is %q", a, onerun.PayloadOf(a))
			}
		})
	})
}
