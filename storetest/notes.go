package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// noteCases: a note is changed by compare-and-set, and whoever loses is told by what. Every store
// has to be a onerun.Notebook.
func noteCases() []check {
	return []check{
		{"notes/absent", func(t *trial) {
			absent := onerun.Note{Name: "job/settle"}
			equal(t, t.noteAt("job/settle"), absent, "a note that was never written")
			t.noteStays("job/settle", 1, "new", absent)
			t.noteStays("job/settle", -1, "new", absent)
			equal(t, t.noteNames(""), "", "notes")
		}},
		{"notes/create", func(t *trial) {
			n := t.noted("job/settle", 0, "since monday")
			equal(t, n.Version > 0, true, "whether the version %d is above none", n.Version)
			t.noteStays("job/settle", 0, "since tuesday", n)
			equal(t, t.noteNames(""), "job/settle", "notes")
		}},
		{"notes/compare and set", func(t *trial) {
			n := t.noted("job/settle", 0, "0")
			first := n.Version
			for i := range 5 {
				next := t.noted("job/settle", n.Version, fmt.Sprint(i))
				equal(t, next.Version > n.Version, true, "whether version %d is above the one before it, %d", next.Version, n.Version)
				t.noteStays("job/settle", n.Version, "late", next)
				n = next
			}
			t.noteStays("job/settle", first, "late", n)
			t.noteStays("job/settle", n.Version+1, "early", n)
			t.noteStays("job/settle", 0, "new", n)
		}},
		{"notes/the same text is a change", func(t *trial) {
			n := t.noted("alert", 0, "open")
			next := t.noted("alert", n.Version, "open")
			equal(t, next.Version > n.Version, true, "whether version %d is above the one before it, %d", next.Version, n.Version)
		}},
		{"notes/an empty text is one", func(t *trial) {
			n := t.noted("alert", 0, "")
			equal(t, n.Version > 0, true, "whether the version %d is above none", n.Version)
			open := t.noted("alert", n.Version, "open")
			closed := t.noted("alert", open.Version, "")
			equal(t, closed.Version > open.Version, true, "whether version %d is above the one before it, %d", closed.Version, open.Version)
			t.noteStays("alert", 0, "open", closed)
			equal(t, t.noteNames(""), "alert", "notes")
		}},
		{"notes/a lost reply", func(t *trial) {
			n := t.noted("alert", 0, "by worker 7")
			t.noteStays("alert", 0, "by worker 7", n) // by which worker 7 knows that it was it
			next := t.noted("alert", n.Version, "by worker 8")
			t.noteStays("alert", n.Version, "by worker 8", next)
		}},
		{"notes/one of many writers wins", func(t *trial) {
			clients := t.opens(t.h.Clients)
			for round := range 2 * t.h.Rounds {
				name := fmt.Sprint("fire ", round)
				var was onerun.Note
				for range 2 { // to make it, and to change it
					answers, errs := make([]onerun.Note, len(clients)), make([]error, len(clients))
					t.together(len(clients), func(i int) error {
						answers[i], errs[i] = t.notebook(clients[i]).SetNote(t.ctx, t.ns, name, was.Version, fmt.Sprint("by worker ", i))
						return nil
					})
					now := t.noteAt(name)
					winners := 0
					for i, err := range errs {
						if err == nil {
							winners++
						} else {
							t.is(err, onerun.ErrState, "worker %d", i)
						}
						equal(t, plain(answers[i]), now, "what worker %d is told (%v)", i, err)
					}
					equal(t, winners, 1, "winners")
					equal(t, now.Version > was.Version, true, "whether version %d is above the one before it, %d", now.Version, was.Version)
					was = now
				}
			}
		}},
		{"notes/no change is lost", func(t *trial) {
			clients := t.opens(t.h.Clients)
			t.together(len(clients), func(i int) error {
				book := t.notebook(clients[i])
				n, err := book.Note(t.ctx, t.ns, "all")
				for done := false; err == nil && !done; {
					n, err = book.SetNote(t.ctx, t.ns, "all", n.Version, fmt.Sprintf("%s %d", n.Text, i))
					if done = err == nil; errors.Is(err, onerun.ErrState) {
						err = nil // once more, from what the winner has written
					}
				}
				return err
			})
			equal(t, len(strings.Fields(t.noteAt("all").Text)), len(clients), "changes")
		}},
		{"notes/the store's clock", func(t *trial) {
			const slack = time.Second // a store may round, or know its server's clock only so well
			for range 2 {
				before := t.now()
				n := t.noteAt("alert")
				n = t.noted("alert", n.Version, "open")
				after := t.now()
				equal(t, n.At.Before(before.Add(-slack)) || n.At.After(after.Add(slack)), false,
					"whether the change at %s is outside of %s to %s", n.At.Format(time.RFC3339Nano), before.Format(time.RFC3339Nano), after.Format(time.RFC3339Nano))
				t.pass(t.scale(time.Hour, 5*time.Millisecond))
			}
		}},
		{"notes/of each namespace", func(t *trial) {
			other := t.inside(1)
			t.noted("alert", 0, "here")
			equal(t, other.noteAt("alert"), onerun.Note{Name: "alert"}, "the note of another namespace")
			equal(t, other.noteNames(""), "", "notes of another namespace")
			n := other.noted("alert", 0, "there")
			other.noted("alert", n.Version, "there again")
			equal(t, t.noteAt("alert").Text, "here", "Text")
			var others []*trial
			for i, end := range []string{"a", "A", "aa", "á", "ß", "ss", "가", ".", "_", "-"} {
				o := &trial{ctx: t.ctx, h: t.h, ns: t.ns + end, s: t.s}
				o.noted("alert", 0, fmt.Sprint(i))
				others = append(others, o)
			}
			for i, o := range others {
				equal(t, o.noteAt("alert").Text, fmt.Sprint(i), "Text in namespace %q", o.ns)
				equal(t, o.noteNames(""), "alert", "notes in namespace %q", o.ns)
			}
		}},
		{"notes/by bytes", func(t *trial) {
			long := strings.Repeat("가", onerun.MaxNoteName/3)
			names := append(slices.Clone(byBytes), "settle", "settle/x", `set"tle'\`, "{settle}", "settle*", "settle?", "settle;--", "a:b", "..", "#1", long, long[:len(long)-3],
				strings.Repeat("x", onerun.MaxNoteName), strings.Repeat("x", onerun.MaxNoteName-1), strings.Repeat("x", onerun.MaxNoteName-1)+"y")
			for i, name := range names {
				t.noted(name, 0, fmt.Sprint(i))
			}
			for i, name := range names {
				n := t.noteAt(name)
				equal(t, n.Name, name, "Name")
				equal(t, n.Text, fmt.Sprint(i), "Text of %q", name)
			}
			slices.Sort(names)
			equal(t, t.noteNames(""), strings.Join(names, "\n"), "names in the order of bytes")
		}},
		{"notes/listed by prefix", func(t *trial) {
			names := []string{"job/A", "job/_x", "job/a", "job/a%b", "job/a%bc", "job/a_", "job/axb", "job/b", "job/é", "job/일일정산", "jobs", "Job/a", "alert/a", "job/일", "job0", "job"}
			for _, name := range names {
				t.noted(name, 0, "text of "+name)
			}
			slices.Sort(names)
			for _, prefix := range []string{
				"", "j", "job", "job/", "job/a", "job/a%", "job/a%b", "job/a_", "job/_", "%", "_", "job_", "job/일", "job/일일", "J", "job/a ", "job/a%bcd", `job\`, "job*", "jo?", "job/[a]", "none",
			} {
				want := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.HasPrefix(name, prefix) })
				equal(t, t.noteNames(prefix), strings.Join(want, "\n"), "names that begin with %q", prefix)
			}
			notes, err := t.notebook(t.s).Notes(t.ctx, t.ns, "job/a%")
			t.must(err, "list notes")
			for _, n := range notes {
				equal(t, plain(n), t.noteAt(n.Name), "a note in a list")
			}
		}},
		{"notes/a long list", func(t *trial) {
			var names []string
			for i := range 230 {
				name := fmt.Sprintf("job/%03d", (i*7)%230)
				t.noted(name, 0, name)
				names = append(names, name)
			}
			slices.Sort(names)
			equal(t, t.noteNames("job/"), strings.Join(names, "\n"), "names")
		}},
		{"notes/any text", func(t *trial) {
			n := onerun.Note{Name: "text"}
			for _, text := range []string{
				`{"since":"2026-09-15T01:00:00+09:00"}`, " both ends ", "\n", "a\r\nb\n", "\x01\x1f\x7f\t", "<&>\"'\\", "%s ? $1 :x", "일일정산 é e\u0301 \u2028 \U0001F600 \uFFFD", "null", "0",
			} {
				n = t.noted("text", n.Version, text)
			}
		}},
		{"notes/a long text", func(t *trial) {
			n := onerun.Note{Name: "text"}
			for _, part := range []string{"x", "\x01", "<", "가", "\U0001F600", "\n"} { // whichever form a store keeps them in
				text := strings.Repeat(part, onerun.MaxNoteText/len(part))
				text += strings.Repeat("x", onerun.MaxNoteText-len(text))
				n = t.noted("text", n.Version, text)
				t.noteStays("text", n.Version-1, "late", n)
				_, err := t.notebook(t.s).SetNote(t.ctx, t.ns, "text", n.Version, text+"x")
				t.is(err, onerun.ErrUsage, "a text of %d bytes", len(text)+1)
				equal(t, t.noteAt("text") == n, true, "whether the note is unchanged")
			}
		}},
		{"notes/malformed", func(t *trial) {
			book := t.notebook(t.s)
			for _, name := range []string{"", "a\nb", "a\x00b", "a\x7f", "\xff", "가"[:2], strings.Repeat("x", onerun.MaxNoteName+1)} {
				_, err := book.SetNote(t.ctx, t.ns, name, 0, "text")
				t.is(err, onerun.ErrUsage, "to write a note with the name %q", name)
				_, err = book.Note(t.ctx, t.ns, name)
				t.is(err, onerun.ErrUsage, "to read a note with the name %q", name)
				if name != "" {
					_, err = book.Notes(t.ctx, t.ns, name)
					t.is(err, onerun.ErrUsage, "to list notes with the prefix %q", name)
				}
			}
			for _, text := range []string{"a\x00b", "\xff", "가"[:2]} {
				_, err := book.SetNote(t.ctx, t.ns, "text", 0, text)
				t.is(err, onerun.ErrUsage, "to write the text %q", text)
			}
			equal(t, t.noteNames(""), "", "notes")
		}},
	}
}

// byBytes are names of which no two are the same by bytes, and some are by other ways to compare.
var byBytes = []string{"a", "A", "a ", "a  ", "á", "a\u0301", "ａ", "a%", "a_", "aa", "ab", "%", "_", "가", "\u1100\u1161", "ß", "ss", "İ", "i", "-", "a-"}

// notebook is the ability of a store, which every store has to have.
func (t *trial) notebook(s onerun.Store) onerun.Notebook {
	book, ok := onerun.Ability[onerun.Notebook](s)
	if !ok {
		t.failf("expected a store that is a Notebook, got %T", s)
	}
	return book
}

// noteAt reads a note.
func (t *trial) noteAt(name string) onerun.Note {
	n, err := t.notebook(t.s).Note(t.ctx, t.ns, name)
	t.must(err, "read note %q", name)
	return plain(n)
}

// noted writes a note that has to be at a version still.
func (t *trial) noted(name string, version int64, text string) onerun.Note {
	n, err := t.notebook(t.s).SetNote(t.ctx, t.ns, name, version, text)
	t.must(err, "write note %q at version %d", name, version)
	n = plain(n)
	equal(t, n.Name, name, "Name")
	equal(t, n.Text == text, true, "whether the text %s is as it was given (%s)", short(n.Text), short(text))
	equal(t, n.At.IsZero(), false, "whether At is empty")
	equal(t, t.noteAt(name) == n, true, "whether the note is read as the answer said")
	return n
}

// noteStays writes a note that is at another version: that is refused, with the note as it is.
func (t *trial) noteStays(name string, version int64, text string, want onerun.Note) {
	n, err := t.notebook(t.s).SetNote(t.ctx, t.ns, name, version, text)
	t.is(err, onerun.ErrState, "write note %q at version %d, which is at %d", name, version, want.Version)
	n = plain(n)
	equal(t, n == want, true, "whether the answer, version %d at %s with text %s, is the note as it is, version %d at %s with text %s",
		n.Version, n.At, short(n.Text), want.Version, want.At, short(want.Text))
	equal(t, t.noteAt(name) == want, true, "whether the note is unchanged")
}

// noteNames lists names, one a line.
func (t *trial) noteNames(prefix string) string {
	notes, err := t.notebook(t.s).Notes(t.ctx, t.ns, prefix)
	t.must(err, "list notes that begin with %q", prefix)
	var names []string
	for _, n := range notes {
		names = append(names, n.Name)
	}
	return strings.Join(names, "\n")
}

// plain is a note that compares: its time in one zone.
func plain(n onerun.Note) onerun.Note {
	n.At = n.At.Round(0).UTC()
	return n
}

// short is a text as a failure shows it.
func short(s string) string { return fmt.Sprintf("%.40q (%d bytes)", s, len(s)) }
