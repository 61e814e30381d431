package onerun_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/onerun-dev/onerun"
	"pgregory.net/rapid"
)

func TestCutError(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", ""},
		{"short", "no disk", "no disk"},
		{"lines are kept", "a\nb\tc\r\n", "a\nb\tc\r\n"},
		{"1,000 characters", strings.Repeat("정", 1000), strings.Repeat("정", 1000)},
		{"1,001 characters", strings.Repeat("정", 1000) + "x", strings.Repeat("정", 1000)},
		{"four bytes each", strings.Repeat("🎉", 1200), strings.Repeat("🎉", 1000)},
		{"NUL", "a\x00b", "a\ufffdb"},
		{"broken UTF-8", "a\xffb", "a\ufffdb"},
		{"cut off in a character", "a\xed\x95", "a\ufffd\ufffd"},
		{"surrogate", "\xed\xa0\x80", "\ufffd\ufffd\ufffd"},
		{"NUL at the cut", strings.Repeat("x", 999) + "\x00\x00", strings.Repeat("x", 999) + "\ufffd"},
	} {
		if got := onerun.CutError(c.in); got != c.want {
			t.Errorf("%s: %q; want %q", c.name, got, c.want)
		}
	}
}

func TestCutErrorIsAlwaysText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOfN(rapid.Byte(), 0, 1500).Draw(t, "bytes"))
		out := onerun.CutError(in)
		if !utf8.ValidString(out) || strings.Contains(out, "\x00") || utf8.RuneCountInString(out) > onerun.MaxError {
			t.Fatalf("%q became %q", in, out)
		}
		if again := onerun.CutError(out); again != out {
			t.Fatalf("%q, cut again, became %q", out, again)
		}
	})
}

func TestHolderString(t *testing.T) {
	at := time.Date(2026, 9, 15, 1, 0, 0, 0, time.FixedZone("", 9*3600))
	for _, c := range []struct {
		name   string
		holder onerun.Holder
		want   string
		id     string
	}{
		{"nobody", onerun.Holder{}, "", ""},
		{
			"a run",
			onerun.Holder{RunID: "r", Name: "j:p", Attempt: 2, Worker: onerun.Worker{Host: "h", PID: 7}, Since: at},
			"j:p by h/7 since 2026-09-15T01:00:00+09:00, run r attempt 2", "r/2",
		},
		{
			"a worker with a label",
			onerun.Holder{Name: "j", Worker: onerun.Worker{Label: "pod-1", Host: "h", PID: 7}},
			"j by pod-1 (h/7)", "pod-1",
		},
		{"a lock without a run", onerun.Holder{Name: "name/n", Detail: "owner abc"}, "name/n: owner abc", "owner abc"},
		{"words alone", onerun.Holder{Detail: "a lock file"}, "a lock file", "a lock file"},
		{"a pause", onerun.Holder{Name: "j", Detail: "paused by kim: a\r\n\tb"}, "j: paused by kim: a b", "paused by kim: a\r\n\tb"},
	} {
		if got := c.holder.String(); got != c.want {
			t.Errorf("%s: %q; want %q", c.name, got, c.want)
		}
		if got := c.holder.ID(); got != c.id {
			t.Errorf("%s: its id is %q; want %q", c.name, got, c.id)
		}
	}
}

// Whatever a host is called, a worker is labelled or an operator wrote.
func TestHoldersAreOneLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringN(1, 40, -1), rapid.SampledFrom([]string{"a\nb", "a\r", "\x1b[2J", "a\u2028b", "\u0085", "\x00"}))
		h := onerun.Holder{
			Name:   "j",
			Worker: onerun.Worker{Label: text.Draw(t, "label"), Host: text.Draw(t, "host"), PID: 7},
			Detail: text.Draw(t, "detail"),
		}
		r := &onerun.Refusal{Reason: onerun.RefusedLocked, Job: "j", Holder: h}
		for _, s := range []string{h.String(), r.Error(), (&onerun.StateError{Why: h.Detail + "x"}).Error()} {
			if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' }) {
				t.Fatalf("%q is more than one line", s)
			}
		}
	})
}
