package storetest_test

import (
	"context"
	"errors"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onerun-dev/onerun"
)

func noteBugs() []bug {
	as := func(f func(n *notary)) func(onerun.Store) onerun.Store {
		return func(s onerun.Store) onerun.Store {
			book, _ := onerun.Ability[onerun.Notebook](s)
			n := &notary{Store: s, book: book}
			f(n)
			return n
		}
	}
	named := func(f func(string) string) func(onerun.Store) onerun.Store {
		return as(func(n *notary) { n.named = f })
	}
	set := func(f func(ctx context.Context, n *notary, w writing) (onerun.Note, error)) func(onerun.Store) onerun.Store {
		return as(func(n *notary) { n.set = f })
	}
	cut := func(most int) func(string) string { return func(s string) string { return s[:min(len(s), most)] } }
	return []bug{
		{name: "no notes at all", caught: "notes/absent", disguise: func(s onerun.Store) onerun.Store { return struct{ onerun.Store }{s} }},
		{name: "a note that isn't there is written at any version", caught: "notes/absent", disguise: set(func(ctx context.Context, n *notary, w writing) (onerun.Note, error) {
			if was, _ := n.book.Note(ctx, w.ns, w.name); was.Version == 0 {
				w.version = 0
			}
			return n.write(ctx, w)
		})},
		{name: "a note is made over another", caught: "notes/create", disguise: set(func(ctx context.Context, n *notary, w writing) (onerun.Note, error) {
			if w.version == 0 {
				w.version = n.version(ctx, w)
			}
			return n.write(ctx, w)
		})},
		{name: "notes are written whatever their version", caught: "notes/compare and set", disguise: set(func(ctx context.Context, n *notary, w writing) (onerun.Note, error) {
			return n.write(ctx, w.at(n.version(ctx, w)))
		})},
		{name: "notes are written at an older version", caught: "notes/compare and set", disguise: set(func(ctx context.Context, n *notary, w writing) (onerun.Note, error) {
			if now := n.version(ctx, w); w.version > 0 && w.version < now {
				w.version = now
			}
			return n.write(ctx, w)
		})},
		{name: "a mismatch tells nothing", caught: "notes/compare and set", disguise: set(func(ctx context.Context, n *notary, w writing) (onerun.Note, error) {
			note, err := n.write(ctx, w)
			if err != nil {
				note = onerun.Note{Name: w.name}
			}
			return note, err
		})},
		{name: "a mismatch is no error", caught: "notes/compare and set", disguise: set(func(ctx context.Context, n *notary, w writing) (onerun.Note, error) {
			note, err := n.write(ctx, w)
			if errors.Is(err, onerun.ErrState) {
				err = nil
			}
			return note, err
		})},
		{name: "a mismatch is a lost lease", caught: "notes/compare and set", disguise: set(func(ctx context.Context, n *notary, w writing) (onerun.Note, error) {
			note, err := n.write(ctx, w)
			if errors.Is(err, onerun.ErrState) {
				err = onerun.ErrLost
			}
			return note, err
		})},
		{name: "versions are of the text", caught: "notes/the same text is a change", disguise: set(func(ctx context.Context, n *notary, w writing) (onerun.Note, error) {
			if was, err := n.book.Note(ctx, w.ns, w.name); err == nil && was.Version == w.version && w.version > 0 && was.Text == w.text {
				return was, nil
			}
			return n.write(ctx, w)
		})},
		{name: "an empty text removes", caught: "notes/an empty text is one", disguise: as(func(n *notary) {
			n.seen = func(note onerun.Note) (onerun.Note, bool) {
				if note.Text == "" {
					return onerun.Note{Name: note.Name}, false
				}
				return note, true
			}
		})},
		{name: "the same again is taken for a lost reply", caught: "notes/a lost reply", disguise: set(func(ctx context.Context, n *notary, w writing) (onerun.Note, error) {
			note, err := n.write(ctx, w)
			if errors.Is(err, onerun.ErrState) && note.Text == w.text && note.Version == w.version+1 {
				err = nil
			}
			return note, err
		})},
		{name: "check, then act: notes", caught: "notes/one of many writers wins", disguise: set(func(ctx context.Context, n *notary, w writing) (onerun.Note, error) {
			was, err := n.book.Note(ctx, w.ns, w.name)
			if err != nil || was.Version != w.version {
				return was, &onerun.StateError{Why: "it is at another version"}
			}
			n.meet()
			for {
				note, err := n.write(ctx, w.at(was.Version))
				if !errors.Is(err, onerun.ErrState) {
					return note, err
				}
				was = note
			}
		})},
		{name: "the loser is told what it knew", caught: "notes/one of many writers wins", disguise: set(func(ctx context.Context, n *notary, w writing) (onerun.Note, error) {
			was, err := n.book.Note(ctx, w.ns, w.name)
			if err != nil {
				return was, err
			}
			n.meet()
			note, err := n.write(ctx, w)
			if errors.Is(err, onerun.ErrState) {
				note = was
			}
			return note, err
		})},
		{name: "nobody wins", caught: "notes/one of many writers wins", disguise: set(func(ctx context.Context, n *notary, w writing) (onerun.Note, error) {
			note, err := n.write(ctx, w)
			if err == nil {
				err = &onerun.StateError{Why: "somebody was faster"}
			}
			return note, err
		})},
		{name: "changes are lost", caught: "notes/no change is lost", disguise: set(func(ctx context.Context, n *notary, w writing) (onerun.Note, error) {
			n.meet()
			for {
				note, err := n.write(ctx, w.at(n.version(ctx, w)))
				if !errors.Is(err, onerun.ErrState) {
					return note, err
				}
			}
		})},
		{name: "a note is stamped by the caller's clock", caught: "notes/the store's clock", disguise: as(func(n *notary) {
			at := time.Now()
			n.seen = func(note onerun.Note) (onerun.Note, bool) {
				note.At = at
				return note, true
			}
		})},
		{name: "notes are stamped once", caught: "notes/the store's clock", disguise: as(func(n *notary) {
			var first time.Time
			n.seen = func(note onerun.Note) (onerun.Note, bool) {
				if first.IsZero() {
					first = note.At
				}
				note.At = first
				return note, true
			}
		})},
		{name: "notes are of every namespace", caught: "notes/of each namespace", disguise: as(func(n *notary) { n.inside = func(string) string { return "all" } })},
		{name: "namespaces of notes without case", caught: "notes/of each namespace", disguise: as(func(n *notary) { n.inside = strings.ToLower })},
		{name: "notes are compared without case", caught: "notes/by bytes", disguise: named(strings.ToLower)},
		{name: "notes are compared without spaces at the end", caught: "notes/by bytes", disguise: named(func(s string) string { return strings.TrimRight(s, " ") })},
		{name: "notes are compared without accents", caught: "notes/by bytes", disguise: named(func(s string) string { return strings.ReplaceAll(s, "á", "a") })},
		{name: "one form of a letter is another", caught: "notes/by bytes", disguise: named(func(s string) string { return strings.ReplaceAll(s, "\u1100\u1161", "가") })},
		{name: "names of notes are cut", caught: "notes/by bytes", disguise: named(cut(255))},
		{name: "names of notes are cut by one", caught: "notes/by bytes", disguise: named(cut(onerun.MaxNoteName - 1))},
		{name: "notes are listed in a language's order", caught: "notes/by bytes", disguise: as(func(n *notary) {
			n.order = func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) }
		})},
		{name: "notes are listed as they come", caught: "notes/listed by prefix", disguise: as(func(n *notary) { n.order = func(a, b string) int { return strings.Compare(b, a) } })},
		{name: "a prefix is a pattern of LIKE", caught: "notes/listed by prefix", disguise: as(func(n *notary) { n.begins = like })},
		{name: "a prefix is a pattern of a shell", caught: "notes/listed by prefix", disguise: as(func(n *notary) {
			n.begins = func(name, prefix string) bool {
				ok, err := path.Match(prefix+"*", name)
				return ok && err == nil || strings.HasPrefix(name, prefix)
			}
		})},
		{name: "a prefix without case", caught: "notes/listed by prefix", disguise: as(func(n *notary) {
			n.begins = func(name, prefix string) bool {
				return strings.HasPrefix(strings.ToLower(name), strings.ToLower(prefix))
			}
		})},
		{name: "a prefix is a folder", caught: "notes/listed by prefix", disguise: as(func(n *notary) {
			n.begins = func(name, prefix string) bool { return strings.HasPrefix(name, prefix) && name != prefix }
		})},
		{name: "a list has one page", caught: "notes/a long list", disguise: as(func(n *notary) { n.page = 100 })},
		{name: "spaces around a text go", caught: "notes/any text", disguise: as(func(n *notary) { n.text = strings.TrimSpace })},
		{name: "line ends become others", caught: "notes/any text", disguise: as(func(n *notary) { n.text = func(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") } })},
		{name: "a letter of four bytes becomes another", caught: "notes/any text", disguise: as(func(n *notary) { n.text = func(s string) string { return strings.ReplaceAll(s, "\U0001F600", "?") } })},
		{name: "a text is cut by one", caught: "notes/a long text", disguise: as(func(n *notary) { n.text = cut(onerun.MaxNoteText - 1) })},
		{name: "a text that is too long is cut", caught: "notes/a long text", disguise: set(func(ctx context.Context, n *notary, w writing) (onerun.Note, error) {
			w.text = cut(onerun.MaxNoteText)(w.text)
			return n.write(ctx, w)
		})},
		{name: "a text that grows in its store has no room", caught: "notes/a long text", disguise: set(func(ctx context.Context, n *notary, w writing) (onerun.Note, error) {
			if strings.Count(w.text, "\x01")*6 > 256<<10 {
				return onerun.Note{}, onerun.ErrIO
			}
			return n.write(ctx, w)
		})},
		{name: "any name of a note will do", caught: "notes/malformed", disguise: named(func(s string) string {
			return "x" + strings.ToValidUTF8(strings.Map(visible, s[:min(len(s), 200)]), "")
		})},
	}
}

// visible drops what is no part of a name.
func visible(r rune) rune {
	if r < ' ' || r == 0x7f {
		return -1
	}
	return r
}

// like reports whether a name is like a prefix with more behind it, where % is anything and _ any
// character.
func like(name, prefix string) bool {
	if prefix == "" {
		return true
	}
	switch prefix[0] {
	case '%':
		for i := range len(name) + 1 {
			if like(name[i:], prefix[1:]) {
				return true
			}
		}
		return false
	case '_':
		return name != "" && like(name[1:], prefix[1:])
	}
	return name != "" && name[0] == prefix[0] && like(name[1:], prefix[1:])
}

// notary keeps notes in ways that are wrong.
type notary struct {
	onerun.Store
	book   onerun.Notebook
	set    func(ctx context.Context, n *notary, w writing) (onerun.Note, error)
	named  func(string) string                           // what a name is kept by
	inside func(string) string                           // … and a namespace
	text   func(string) string                           // what is kept of a text
	seen   func(onerun.Note) (note onerun.Note, ok bool) // what is read of a note
	begins func(name, prefix string) bool
	order  func(a, b string) int
	page   int

	mu     sync.Mutex
	inHand int
}

// meet lets others come as far as this, for a moment.
func (n *notary) meet() {
	n.mu.Lock()
	n.inHand++
	n.mu.Unlock()
	for range 2000 {
		n.mu.Lock()
		met := n.inHand > 1
		n.mu.Unlock()
		if met {
			break
		}
		runtime.Gosched()
	}
	n.mu.Lock()
	n.inHand--
	n.mu.Unlock()
}

// writing is what SetNote is asked for.
type writing struct {
	ns, name string
	version  int64
	text     string
}

func (w writing) at(version int64) writing {
	w.version = version
	return w
}

func (n *notary) write(ctx context.Context, w writing) (onerun.Note, error) {
	return n.book.SetNote(ctx, w.ns, w.name, w.version, w.text)
}

func (n *notary) version(ctx context.Context, w writing) int64 {
	note, _ := n.book.Note(ctx, w.ns, w.name)
	return note.Version
}

func (n *notary) kept(ns, name string) (keptNS, keptName string) {
	if n.inside != nil {
		ns = n.inside(ns)
	}
	if n.named != nil {
		name = n.named(name)
	}
	return ns, name
}

func (n *notary) told(note onerun.Note, name string) onerun.Note {
	if note.Name = name; n.seen != nil && note.Version > 0 {
		note, _ = n.seen(note)
	}
	return note
}

func (n *notary) Note(ctx context.Context, ns, name string) (onerun.Note, error) {
	keptNS, keptName := n.kept(ns, name)
	note, err := n.book.Note(ctx, keptNS, keptName)
	return n.told(note, name), err
}

func (n *notary) SetNote(ctx context.Context, ns, name string, version int64, text string) (onerun.Note, error) {
	w := writing{version: version, text: text}
	w.ns, w.name = n.kept(ns, name)
	if n.text != nil {
		w.text = n.text(text)
	}
	write := n.write
	if n.set != nil {
		write = func(ctx context.Context, w writing) (onerun.Note, error) { return n.set(ctx, n, w) }
	}
	note, err := write(ctx, w)
	return n.told(note, name), err
}

func (n *notary) Notes(ctx context.Context, ns, prefix string) ([]onerun.Note, error) {
	if n.named != nil {
		prefix = n.named(prefix)
	}
	keptNS, _ := n.kept(ns, "")
	asked := prefix
	if n.begins != nil {
		asked = ""
	}
	all, err := n.book.Notes(ctx, keptNS, asked)
	var notes []onerun.Note
	for _, note := range all {
		ok := n.begins == nil || n.begins(note.Name, prefix)
		if n.seen != nil && ok {
			note, ok = n.seen(note)
		}
		if ok {
			notes = append(notes, note)
		}
	}
	if n.order != nil {
		slices.SortStableFunc(notes, func(a, b onerun.Note) int { return n.order(a.Name, b.Name) })
	}
	if n.page > 0 {
		notes = notes[:min(len(notes), n.page)]
	}
	return notes, err
}
