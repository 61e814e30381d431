package cli

import (
	"strings"
	"testing"
)

// The greatest names, in three scripts: of one, two, three and four bytes a character.
var longNames = map[string]string{
	"latin":     strings.Repeat("settlement", 10),
	"hangul":    strings.Repeat("일", 100),
	"arabic":    strings.Repeat("تسوية", 20),
	"gothic":    strings.Repeat("𐌰𐌱", 50),
	"90 × 日":    strings.Repeat("日", 90),
	"marks":     strings.Repeat("n\u0328", 50), // which no one letter stands for
	"a digit":   "1",
	"all kinds": "일일.정산_daily-1",
}

// Every name that is accepted is accepted everywhere, is a key of its own and a lock of
// its own, and comes back as it was.
func TestNames(t *testing.T) {
	for what, name := range longNames {
		t.Run(what, func(t *testing.T) {
			b := newBed(t)
			b.run("run", name, "--partition", name, "--", "true").exits(t, 0).silent(t)
			b.run("run", name, "--partition", name, "-E", "75", "--", "true").exits(t, 75)
			b.run("lock", "-n", name, "--", "true").exits(t, 0).silent(t)
			b.run("run", name, "--lock", name, "--version-label", name, "--label", name+"="+name, "--", "true").exits(t, 0).silent(t)
			b.run("--namespace", name, "run", name, "--", "true").exits(t, 0).silent(t)
			runs := b.list(t, "history", "--limit", "0")
			if len(runs) != 2 || runs[1]["job"] != name || runs[1]["partition"] != name || runs[1]["key"] != name+":"+name {
				t.Errorf("history: %v", runs)
			}
			b.run("pause", name, "--reason", "why").exits(t, 0)
			b.run("run", name, "-E", "75", "--", "true").exits(t, 75)
			if r := b.run("show", name+":"+name); r.code != 0 || !strings.Contains(r.out, name) {
				t.Errorf("show: %+v", r)
			}
		})
	}
}

// One character too many is refused, not cut.
func TestNamesTooLong(t *testing.T) {
	b := newBed(t)
	for _, name := range []string{strings.Repeat("a", 101), strings.Repeat("일", 101), strings.Repeat("a", 100_000)} {
		r := b.run("run", name, "--", "true").exits(t, 64).oneLine(t)
		if !strings.Contains(r.err, "at most 100") || len(r.err) > 1000 {
			t.Errorf("%d characters: %.300s", len(name), r.err)
		}
		b.run("run", "settle", "--partition", name, "--", "true").exits(t, 64).oneLine(t)
		b.run("run", "settle", "--lock", name, "--", "true").exits(t, 64).oneLine(t)
		b.run("lock", name, "--", "true").exits(t, 64).oneLine(t)
		b.run("--namespace", name, "history").exits(t, 64).oneLine(t)
	}
}

// Names that differ are different, however late or little; those that only look so are not.
func TestNamesAlike(t *testing.T) {
	long := strings.Repeat("a", 99)
	for _, c := range []struct {
		what, one, other string
		same             bool
	}{
		{"the first 99 characters equal", long + "b", long + "c", false},
		{"the first 99 equal, in Hangul", strings.Repeat("일", 99) + "이", strings.Repeat("일", 99) + "삼", false},
		{"one a prefix of the other", long, long + "a", false},
		{"upper and lower case", "Settle", "settle", false},
		{"a dash and an underscore", "settle-1", "settle_1", false},
		{"two alphabets that look alike", "a", "а", false},
		{"composed and decomposed", "caf\u00e9", "cafe\u0301", true},
		{"Hangul syllable and jamo", "\uc77c", "\u110b\u1175\u11af", true},
	} {
		t.Run(c.what, func(t *testing.T) {
			b := newBed(t)
			inside := []string{"run", c.one, "--partition", c.one, "--", program(), "run", c.other, "--partition", c.other, "-E", "75", "--", "true"}
			want := 0
			if c.same {
				want = 75 // the same key, and the same lock
			}
			b.run(inside...).exits(t, want)
			b.run("lock", "-n", c.one, "--", program(), "lock", "-n", "-E", "75", c.other, "--", "true").exits(t, want)
			if got := len(b.list(t, "history")); got != 2-want/75 {
				t.Errorf("%d runs", got)
			}
		})
	}
}
