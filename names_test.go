package onerun_test

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/onerun-dev/onerun"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"
)

// A name of 100 characters in three scripts, 216 bytes long: more than a file name
// or some servers' locks could hold.
var threeScripts = strings.Repeat("정산", 20) + strings.Repeat("расчёт", 6) + strings.Repeat("x-1_", 6)

func TestCleanName(t *testing.T) {
	const (
		acute  = "\u0301" // combining acute accent, a mark
		zwj    = "\u200d" // zero-width joiner, a format character
		zwnj   = "\u200c"
		bidi   = "\u202e" // right-to-left override
		joiner = "\u034f" // combining grapheme joiner: in spite of its name a mark
	)
	for _, c := range []struct {
		name string
		in   string
		want string // accepted as
		why  string // refused, and the error holds this
	}{
		{name: "plain", in: "daily-settlement", want: "daily-settlement"},
		{name: "all that is allowed", in: "aZ09._-", want: "aZ09._-"},
		{name: "one character", in: "a", want: "a"},
		{name: "first a digit", in: "1st", want: "1st"},
		{name: "first a digit of another script", in: "٣x", want: "٣x"},
		{name: "Korean", in: "일일정산", want: "일일정산"},
		{name: "Korean in single letters", in: norm.NFD.String("일일정산"), want: "일일정산"},
		{name: "composed", in: "caf\u00e9", want: "caf\u00e9"},
		{name: "decomposed", in: "cafe" + acute, want: "caf\u00e9"},
		{name: "a mark that composes with nothing", in: "x" + acute, want: "x" + acute},
		{name: "marks in two orders", in: "a\u0323\u0302", want: norm.NFC.String("a\u0302\u0323")},
		{name: "Devanagari", in: "हिन्दी", want: "हिन्दी"},
		{name: "case matters", in: "Job", want: "Job"},
		{name: "compatibility forms stay apart", in: "ﬁle", want: "ﬁle"},
		{name: "a mark called joiner", in: "a" + joiner + "b", want: "a" + joiner + "b"},
		{name: "three scripts, 100 characters", in: threeScripts, want: threeScripts},
		{name: "100 after normalisation", in: strings.Repeat("e"+acute, 100), want: strings.Repeat("\u00e9", 100)},

		{name: "101 characters", in: threeScripts + "x", why: "has 101 characters; at most 100"},
		{name: "101 after normalisation", in: strings.Repeat("e"+acute, 101), why: "has 101 characters"},
		{name: "90 of three bytes are no more than 90", in: strings.Repeat("日", 90), want: strings.Repeat("日", 90)},
		{name: "200 ASCII", in: strings.Repeat("a", 200), why: "has 200 characters"},
		{name: "empty", in: "", why: "is empty"},
		{name: "slash", in: "a/b", why: `holds "/"`},
		{name: "wide slash", in: "a／b", why: `holds "\uff0f"`},
		{name: "backslash", in: `a\b`, why: `holds "\\"`},
		{name: "parent directory", in: "..", why: `starts with "."`},
		{name: "option", in: "-rf", why: `starts with "-"`},
		{name: "first an underscore", in: "_a", why: `starts with "_"`},
		{name: "first a mark", in: acute + "a", why: `starts with "\u0301"`},
		{name: "space", in: "a b", why: `holds " "`},
		{name: "only a space", in: " ", why: `starts with " "`},
		{name: "no-break space", in: "a\u00a0b", why: `holds "\u00a0"`},
		{name: "NUL", in: "a\x00b", why: `holds "\x00"`},
		{name: "line feed", in: "a\nb", why: `holds "\n"`},
		{name: "escape", in: "a\x1b[31mb", why: `holds "\x1b"`},
		{name: "delete", in: "a\x7fb", why: `holds "\x7f"`},
		{name: "C1 control", in: "a\u0085b", why: `holds "\u0085"`},
		{name: "line separator", in: "a\u2028b", why: `holds "\u2028"`},
		{name: "right-to-left override", in: "a" + bidi + "b", why: `holds "\u202e"`},
		{name: "isolate", in: "a\u2066b", why: `holds "\u2066"`},
		{name: "right-to-left mark", in: "a\u200fb", why: `holds "\u200f"`},
		{name: "zero-width joiner", in: "a" + zwj + "b", why: `holds "\u200d"`},
		{name: "zero-width non-joiner", in: "a" + zwnj + "b", why: `holds "\u200c"`},
		{name: "byte order mark", in: "\ufeffa", why: `starts with "\ufeff"`},
		{name: "plus", in: "a+b", why: `holds "+"`},
		{name: "colon", in: "a:b", why: `holds ":"`},
		{name: "quote", in: "a'b", why: `holds "'"`},
		{name: "dollar", in: "a$b", why: `holds "$"`},
		{name: "percent", in: "a%b", why: `holds "%"`},
		{name: "emoji", in: "a🎉", why: `holds "\U0001f389"`},
		{name: "Roman numeral, no decimal digit", in: "aⅧ", why: `holds "\u2167"`},
		{name: "superscript, no decimal digit", in: "a²", why: `holds "\u00b2"`},
		{name: "broken UTF-8", in: "a\xffb", why: "is not valid UTF-8"},
		{name: "surrogate in UTF-8", in: "a\xed\xa0\x80", why: "is not valid UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := onerun.CleanName("job", c.in)
			if c.why == "" {
				if err != nil || got != c.want {
					t.Fatalf("CleanName(%q) = %q, %v; want %q", c.in, got, err, c.want)
				}
				return
			}
			if err == nil {
				t.Fatalf("CleanName(%q) = %q; want it refused: %s", c.in, got, c.why)
			}
			if !strings.Contains(err.Error(), c.why) {
				t.Errorf("CleanName(%q): %q doesn't say %q", c.in, err, c.why)
			}
			checkRefusedName(t, c.in, err)
		})
	}
}

func TestCleanPartition(t *testing.T) {
	for _, ok := range []string{"2026-09-15", "2026-11-01T01-05:00", "2026-W38", "a+b:c", "1"} {
		if got, err := onerun.CleanPartition(ok); err != nil || got != ok {
			t.Errorf("CleanPartition(%q) = %q, %v; want it accepted", ok, got, err)
		}
	}
	for _, bad := range []string{"", "+1", ":1", "a/b", "a b", "a,b", strings.Repeat("1", 101)} {
		if _, err := onerun.CleanPartition(bad); !errors.Is(err, onerun.ErrUsage) {
			t.Errorf("CleanPartition(%q): %v; want a usage error", bad, err)
		}
	}
}

func TestSplitKey(t *testing.T) {
	for _, c := range []struct{ in, job, partition string }{
		{"j", "j", ""},
		{"j:p", "j", "p"},
		{"j:2026-11-01T01:00-05:00", "j", "2026-11-01T01:00-05:00"}, // at the first colon
		{"cafe\u0301:e\u0301", "caf\u00e9", "\u00e9"},
	} {
		job, partition, err := onerun.SplitKey(c.in)
		if err != nil || job != c.job || partition != c.partition {
			t.Errorf("SplitKey(%q) = %q, %q, %v; want %q, %q", c.in, job, partition, err, c.job, c.partition)
		}
	}
	for _, bad := range []string{"", ":", ":p", "j:", "j::p", "j+:p", "j:p/q", "j :p", "j:\x00"} {
		if job, partition, err := onerun.SplitKey(bad); !errors.Is(err, onerun.ErrUsage) {
			t.Errorf("SplitKey(%q) = %q, %q, %v; want a usage error", bad, job, partition, err)
		}
	}
}

func TestLockNames(t *testing.T) {
	for _, c := range []struct {
		lock       onerun.LockName
		kind, name string
	}{
		{onerun.JobLock("j"), "job", "j"},
		{onerun.KeyLock("j:p"), "key", "j:p"},
		{onerun.NamedLock("n"), "name", "n"},
	} {
		if c.lock.Kind() != c.kind || c.lock.Name() != c.name {
			t.Errorf("%s: kind %q, name %q; want %q, %q", c.lock, c.lock.Kind(), c.lock.Name(), c.kind, c.name)
		}
	}
}

// allowed is the rule for one character, written down a second time.
func allowed(r rune, extra string) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd) || strings.ContainsRune(extra, r)
}

// names draws strings of which many are good names and many are nearly so.
func names() *rapid.Generator[string] {
	likely := rapid.SampledFrom([]rune("aZ09._-+:eoé日정ᄒ\u1161\u11ab\u0301\u0323\u0302ясй٣"))
	odd := rapid.SampledFrom([]rune("/ \x00\n\x1b\x7f\u0085\u200d\u202e\ufeff\u034f🎉Ⅷ²'"))
	return rapid.OneOf(
		rapid.StringOfN(likely, 1, 120, -1),
		rapid.StringOfN(rapid.OneOf(likely, likely, likely, odd), 0, 120, -1),
		rapid.StringOf(rapid.Rune()),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		rapid.Map(rapid.IntRange(0, 120), func(n int) string { return "a" + strings.Repeat("\u0301\u0323", n) }),
	)
}

func TestNamesFollowTheRule(t *testing.T) {
	for _, kind := range []struct {
		name, extra string
		clean       func(string) (string, error)
	}{
		{"name", "._-", func(s string) (string, error) { return onerun.CleanName("job", s) }},
		{"partition", "._-+:", onerun.CleanPartition},
	} {
		t.Run(kind.name, rapid.MakeCheck(func(t *rapid.T) {
			in := names().Draw(t, "name")
			got, err := kind.clean(in)
			n := norm.NFC.String(in)
			good := utf8.ValidString(in) && in != "" && utf8.RuneCountInString(n) <= 100
			for i, r := range n {
				good = good && allowed(r, kind.extra)
				good = good && (i > 0 || unicode.In(r, unicode.L, unicode.Nd))
			}
			if good != (err == nil) {
				t.Fatalf("%q: %v; by the rule it is good: %v", in, err, good)
			}
			if err != nil {
				checkRefusedName(t, in, err)
				return
			}
			if got != n {
				t.Fatalf("%q became %q; want its NFC %q", in, got, n)
			}
			if again, err := kind.clean(got); err != nil || again != got {
				t.Fatalf("%q: cleaned twice it is %q, %v", got, again, err)
			}
		}))
	}
}

// Names that mean the same are the same bytes afterwards, others are not.
func TestNamesAreComparedByBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := names().Draw(t, "a")
		other := rapid.OneOf(names(), rapid.Just(norm.NFD.String(in)), rapid.Just(norm.NFC.String(in))).Draw(t, "b")
		a, errA := onerun.CleanName("job", in)
		b, errB := onerun.CleanName("job", other)
		same := norm.NFD.String(in) == norm.NFD.String(other)
		if same && (errA == nil) != (errB == nil) {
			t.Fatalf("%q: %v, but %q: %v", in, errA, other, errB)
		}
		if errA == nil && errB == nil && same != (a == b) {
			t.Fatalf("%q and %q are equivalent: %v, but became %q and %q", in, other, same, a, b)
		}
	})
}

func TestKeysComeApartAsTheyWereMade(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		job, err1 := onerun.CleanName("job", names().Draw(t, "job"))
		partition, err2 := onerun.CleanPartition(names().Draw(t, "partition"))
		if err1 != nil || err2 != nil {
			return
		}
		j, p, err := onerun.SplitKey(onerun.MakeKey(job, partition))
		if err != nil || j != job || p != partition {
			t.Fatalf("%q and %q came back as %q, %q, %v", job, partition, j, p, err)
		}
		if key := onerun.MakeKey(job, ""); key != "" {
			t.Fatalf("an unkeyed run has the key %q", key)
		}
	})
}

func FuzzCleanName(f *testing.F) {
	for _, s := range []string{"", "a", "일일정산", "cafe\u0301", "a\x00", "\xff", "..", threeScripts, "a" + strings.Repeat("\u0301", 99)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := onerun.CleanName("job", in)
		if err != nil {
			checkRefusedName(t, in, err)
			return
		}
		if again, err := onerun.CleanName("job", got); err != nil || again != got {
			t.Fatalf("%q became %q, and that %q, %v", in, got, again, err)
		}
		if n := utf8.RuneCountInString(got); n < 1 || n > 100 || strings.ContainsAny(got, "/\\ \x00\n'\"") {
			t.Fatalf("%q was accepted as %q", in, got)
		}
	})
}

// checkRefusedName checks that a refused name can do no harm to who reads of it.
func checkRefusedName(t interface {
	Helper()
	Errorf(string, ...any)
}, in string, err error,
) {
	t.Helper()
	onlyKind(t, err, onerun.ErrUsage)
	var e *onerun.NameError
	if !errors.As(err, &e) || e.Name != in {
		t.Errorf("%q: the error %#v isn't a NameError about it", in, err)
	}
	checkLine(t, err.Error())
	if n := utf8.RuneCountInString(err.Error()); n > 400 {
		t.Errorf("%q: the error has %d characters", in, n)
	}
}

// checkLine checks that a text is one line without anything that moves a cursor.
func checkLine(t interface {
	Helper()
	Errorf(string, ...any)
}, text string,
) {
	t.Helper()
	if text == "" || !utf8.ValidString(text) {
		t.Errorf("%q is no text", text)
	}
	for _, r := range text {
		if unicode.Is(unicode.C, r) || r == '\u2028' || r == '\u2029' {
			t.Errorf("%q holds %U", text, r)
			return
		}
	}
}
