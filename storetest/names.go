package storetest

import (
	"fmt"
	"strings"

	"github.com/onerun-dev/onerun"
)

// pair is two names that a store must tell apart.
type pair struct{ what, a, b string }

// differ are names that look alike to some technology: a collation, a file system,
// a column that is too short. All are names that onerun.CleanName lets through as
// they are.
var differ = []pair{
	{"case", "Settle", "settle"},
	{"case beyond ASCII", "Ärger", "ärger"},
	{"a trailing dot", "settle", "settle."},
	{"a trailing underscore", "settle", "settle_"},
	{"dot and underscore", "a.b", "a_b"},
	{"dash and underscore", "a-b", "a_b"},
	{"full-width digits", "job1", "job１"},
	{"digits of another script", "job2", "job٢"},
	{"sharp s", "straße", "strasse"},
	{"dotted capital I", "İzmir", "izmir"},
	{"dotted capital I, in lower case", "İzmir", "i̇zmir"},
	{"dotless i", "ılık", "ilik"},
	{"accents", "café", "cafe"},
	{"ligatures", "ﬁle", "file"},
	{"half-width kana", "ｶﾅ", "カナ"},
	{"Greek final sigma", "λόγος", "λόγοσ"},
	{"Cyrillic a", "pаy", "pay"},
	{"leading zeros", "01", "1"},
	{"numbers", "1e2", "100"},
	{"a word of SQL and its like", "NULL", "null"},
	{"a lock file's suffix", "settle", "settle.lock"},
	{"the last of 100 characters", strings.Repeat("a", 99) + "x", strings.Repeat("a", 99) + "y"},
	{"the last of 100 characters, three bytes each", strings.Repeat("日", 99) + "本", strings.Repeat("日", 99) + "月"},
	{"the last of 100 characters, four bytes each", strings.Repeat("𐐨", 99) + "𐐩", strings.Repeat("𐐨", 99) + "𐐪"},
	{"the length", strings.Repeat("b", 64), strings.Repeat("b", 65)},
}

// partitionsDiffer are more, for partitions.
var partitionsDiffer = []pair{
	{"colon and plus", "a:b", "a+b"},
	{"offsets", "2026-11-01T01+05:00", "2026-11-01T01-05:00"},
	{"a trailing colon", "a", "a:"},
}

// nameCases: names are compared byte by byte, on every store alike (B22).
func nameCases() []check {
	return []check{
		{"names/jobs that differ", func(t *trial) {
			t.pairs(differ, onerun.CleanName, func(t *trial, p pair) {
				t.apart(t.job(p.a, day), t.job(p.b, day))
				t.pause(p.a) // which comes before the lock that is held
				t.refused(t.job(p.a, "2026-09-16"), onerun.RefusedPaused)
				t.refused(t.job(p.b, "2026-09-16"), onerun.RefusedLocked)
			})
		}},
		{"names/unkeyed jobs that differ", func(t *trial) {
			t.pairs(differ, onerun.CleanName, func(t *trial, p pair) {
				t.apart(t.job(p.a, ""), t.job(p.b, ""))
			})
		}},
		{"names/partitions that differ", func(t *trial) {
			clean := func(_, s string) (string, error) { return onerun.CleanPartition(s) }
			t.pairs(append(partitionsDiffer, differ...), clean, func(t *trial, p pair) {
				a, b := t.job("settle", p.a), t.job("settle", p.b)
				t.apart(under(a, onerun.KeyLock(a.Key())), under(b, onerun.KeyLock(b.Key())))
			})
		}},
		{"names/locks that differ", func(t *trial) {
			t.pairs(differ, onerun.CleanName, func(t *trial, p pair) {
				t.granted(t.lockOnly(p.a))
				t.granted(t.lockOnly(p.b))
				t.refused(t.lockOnly(p.a), onerun.RefusedLocked)
				t.granted(under(t.job("x", ""), onerun.JobLock(p.a)))
				t.granted(under(t.job("y", ""), onerun.JobLock(p.b)))
				t.refused(under(t.job("z", ""), onerun.JobLock(p.a)), onerun.RefusedLocked)
			})
		}},
		{"names/namespaces that differ", func(t *trial) {
			t.pairs(differ, onerun.CleanName, func(t *trial, p pair) {
				// The case's own namespace comes first, and its end is left for the
				// name: the length is what it may be in whole.
				x, y := t.job("settle", day), t.job("settle", day)
				x.Namespace, y.Namespace = prefixed(t.ns, p.a), prefixed(t.ns, p.b)
				t.grantedBy(t.s, x)
				t.grantedBy(t.s, y)
				t.refusedBy(t.s, again(x), onerun.RefusedRunning)
				equal(t, len(t.runs(onerun.Query{Namespace: x.Namespace})), 1, "runs of namespace %s", x.Namespace)
			})
		}},
		{"names/one name in two forms", func(t *trial) {
			// NFC and NFD of the same text (UAX #15). CleanName makes them one; what it
			// gives must be one for the store too.
			for i, p := range []pair{
				{"a Latin letter with an accent", "caf\u00e9", "cafe\u0301"},
				{"Hangul", "\uc77c\uc77c\uc815\uc0b0", "\u110b\u1175\u11af\u110b\u1175\u11af\u110c\u1165\u11bc\u1109\u1161\u11ab"},
				{"the Angstrom sign", "\u00c5ngstr\u00f6m", "\u212bngstro\u0308m"},
				{"two marks in another order", "q\u0323\u0307", "q\u0307\u0323"},
			} {
				t := t.inside(i)
				a, err := onerun.CleanName("name", p.a)
				t.must(err, "clean %s", p.what)
				b, err := onerun.CleanName("name", p.b)
				t.must(err, "clean %s", p.what)
				equal(t, b, a, "CleanName of %s", p.what)
				t.granted(t.job(a, day))
				t.refused(t.job(b, day), onerun.RefusedRunning)
				t.granted(t.lockOnly(a))
				t.refused(t.lockOnly(b), onerun.RefusedLocked)
				t.ended(t.job("settle", a), succeeded)
				t.refused(t.job("settle", b), onerun.RefusedSucceeded)
			}
		}},
		{"names/a hundred characters of any script", func(t *trial) {
			for i, ch := range []string{"a", "é", "일", "𐐨", "9", "ا"} {
				t := t.inside(i)
				name := strings.Repeat(ch, onerun.MaxName)
				clean, err := onerun.CleanName("job", name)
				t.must(err, "clean 100 times %s", ch)
				equal(t, clean, name, "CleanName of 100 times %s", ch)
				c := t.job(name, name)
				c.Lock = onerun.KeyLock(c.Key())
				g := t.granted(c)
				equal(t, g.Run.Job, name, "Run.Job")
				equal(t, g.Run.Partition, name, "Run.Partition")
				t.refused(again(c), onerun.RefusedRunning)
				t.finish(g, succeeded)
				r := t.runs(onerun.Query{Namespace: t.ns, Job: name, Partition: name})
				equal(t, len(r), 1, "runs of 100 times %s", ch)
				equal(t, r[0].Key(), c.Key(), "key that was kept")
				t.finish(t.granted(t.lockOnly(name)), succeeded)
				ns := c
				ns.Namespace = prefixed(t.ns, name)
				t.finish(t.grantedBy(t.s, again(ns)), succeeded)
			}
		}},
		{"names/the key's two halves stay apart", func(t *trial) {
			t.finish(t.granted(t.job("a", "b:c")), succeeded)
			t.granted(t.job("a", "b"))
			t.refused(t.job("a", "b:c"), onerun.RefusedSucceeded)
			t.granted(t.job("a.b", "c"))
			t.granted(t.job("ab", "c"))
		}},
		{"names/that mean something elsewhere", func(t *trial) {
			// To a shell, a path, a pattern, an option, a device.
			for i, name := range []string{"a..b", "CON", "nul", "0", "true", "a.", "a-", "x_y", "xay", "x.y", "C", "c-3.lock", "1.excl"} {
				t := t.inside(i)
				c := t.job(name, name)
				t.ended(c, succeeded)
				t.refused(again(c), onerun.RefusedSucceeded)
			}
		}},
	}
}

// pairs looks at each pair in a namespace of its own, since the same name comes in
// several.
func (t *trial) pairs(all []pair, clean func(what, name string) (string, error), look func(t *trial, p pair)) {
	for i, p := range all {
		for _, name := range []string{p.a, p.b} {
			c, err := clean("name", name)
			t.must(err, "clean %s", p.what)
			equal(t, c, name, "clean form of %s", p.what)
		}
		if p.a == p.b {
			t.failf("names that differ in %s: expected two, got one", p.what)
		}
		in := t.inside(i)
		in.note = fmt.Sprintf(" (%s: %q and %q)", p.what, p.a, p.b)
		look(in, p)
	}
}

// inside is the same trial in another namespace.
func (t *trial) inside(i int) *trial {
	return &trial{ctx: t.ctx, h: t.h, ns: fmt.Sprintf("%s-%d", t.ns, i), s: t.s}
}

// apart checks that two claims don't know of each other.
func (t *trial) apart(a, b onerun.Claim) {
	t.granted(a)
	t.granted(b)
	t.refused(again(a), t.busy(a))
	equal(t, len(t.skips(a)), 1, "rows of refusals of the one")
	equal(t, len(t.skips(b)), 0, "rows of refusals of the other")
	for _, c := range []onerun.Claim{a, b} {
		rs := t.runs(onerun.Query{Namespace: t.ns, Job: c.Job, Partition: c.Partition})
		equal(t, len(rs), 1, "runs of %s", nameOf(c))
		equal(t, rs[0].Owner, c.Owner, "owner of %s", nameOf(c))
	}
}

// prefixed puts a case's namespace before a name, within the length of a name: it
// is the end that tells names apart.
func prefixed(ns, name string) string {
	r := []rune(name)
	if over := len(r) + len(ns) + 1 - onerun.MaxName; over > 0 {
		r = r[over:]
	}
	return ns + "-" + string(r)
}
