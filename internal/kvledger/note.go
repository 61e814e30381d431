package kvledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

var _ onerun.Notebook = (*Ledger)(nil)

// noteRecord is a note but for its text, which follows as it is, after a line feed: as JSON a text
// can take six times its length, and have no room in a value.
type noteRecord struct {
	Name    string
	Version int64 // its own; a store can count the changes of all its keys together
	At      time.Time
}

func keyNote(ns, name string) string { return path("note", segment(ns), segment(name)) }

func encodeNote(n onerun.Note) ([]byte, error) {
	b, err := json.Marshal(noteRecord{Name: n.Name, Version: n.Version, At: n.At})
	return append(append(b, '\n'), n.Text...), err
}

func decodeNote(e Entry) (onerun.Note, error) {
	head, text, _ := bytes.Cut(e.Value, []byte("\n"))
	r, err := decode[noteRecord](e.Key, head)
	if err != nil {
		return onerun.Note{}, err
	}
	return onerun.Note{Name: r.Name, Text: string(text), Version: r.Version, At: r.At}, nil
}

// note reads a note.
func (t *tx) note(namespace, name string) (onerun.Note, error) {
	key := keyNote(namespace, name)
	if err := t.read(key); err != nil {
		return onerun.Note{Name: name}, err
	}
	if e := t.seen[key]; e.Version != 0 {
		return decodeNote(e)
	}
	return onerun.Note{Name: name}, nil
}

// Note implements onerun.Notebook.
func (l *Ledger) Note(ctx context.Context, namespace, name string) (n onerun.Note, err error) {
	n.Name = name
	if err := onerun.CheckNote(name, ""); err != nil {
		return n, err
	}
	err = l.decide(ctx, "read a note", nil, func(t *tx) (err error) {
		n, err = t.note(namespace, name)
		return err
	})
	return n, err
}

// SetNote implements onerun.Notebook.
func (l *Ledger) SetNote(ctx context.Context, namespace, name string, version int64, text string) (n onerun.Note, err error) {
	n.Name = name
	if err := onerun.CheckNote(name, text); err != nil {
		return n, err
	}
	err = l.decide(ctx, "write a note", nil, func(t *tx) error {
		was, err := t.note(namespace, name)
		if err != nil {
			return err
		}
		if was.Version != version {
			n = was
			return &onerun.StateError{Why: fmt.Sprintf("note %s is at version %d, not %d", name, was.Version, version)}
		}
		if err := t.clock(); err != nil {
			return err
		}
		now := onerun.Note{Name: name, Text: text, Version: version + 1, At: t.now}
		b, err := encodeNote(now)
		if err != nil {
			return &onerun.StoreError{Kind: onerun.ErrInternal, What: "write a note", Err: err}
		}
		t.putText(keyNote(namespace, name), string(b))
		if _, err := t.commit("write a note"); err != nil {
			return err
		}
		n = now
		return nil
	})
	if err != nil && !errors.Is(err, onerun.ErrState) {
		n = onerun.Note{Name: name}
	}
	return n, err
}

// notesAtOnce is how many notes are read at once: each may be long.
const notesAtOnce = 50

// Notes implements onerun.Notebook. A long name stands in its key by its hash, so it is the names
// that are compared and sorted.
func (l *Ledger) Notes(ctx context.Context, namespace, prefix string) (notes []onerun.Note, err error) {
	if prefix != "" {
		if err := onerun.CheckNote(prefix, ""); err != nil {
			return nil, err
		}
	}
	err = l.decide(ctx, "list the notes", nil, func(*tx) error {
		notes = nil
		from, to := under(path("note", segment(namespace)))
		return l.walkRange(ctx, from, to, notesAtOnce, func(e Entry) (bool, error) {
			n, err := decodeNote(e)
			if err == nil && strings.HasPrefix(n.Name, prefix) {
				notes = append(notes, n)
			}
			return err == nil, err
		})
	})
	slices.SortFunc(notes, func(a, b onerun.Note) int { return strings.Compare(a.Name, b.Name) })
	return notes, err
}
