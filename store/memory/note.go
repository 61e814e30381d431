package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/onerun-dev/onerun"
)

var _ onerun.Notebook = (*Store)(nil)

// Note implements onerun.Notebook.
func (s *Store) Note(ctx context.Context, namespace, n string) (onerun.Note, error) {
	if err := onerun.CheckNote(n, ""); err != nil {
		return onerun.Note{Name: n}, err
	}
	if _, err := s.enter(ctx); err != nil {
		return onerun.Note{Name: n}, err
	}
	defer s.mu.Unlock()
	return s.note(namespace, n), nil
}

func (s *Store) note(namespace, n string) onerun.Note {
	if note, ok := s.notes[name{namespace, n}]; ok {
		return note
	}
	return onerun.Note{Name: n}
}

// SetNote implements onerun.Notebook.
func (s *Store) SetNote(ctx context.Context, namespace, n string, version int64, text string) (onerun.Note, error) {
	if err := onerun.CheckNote(n, text); err != nil {
		return onerun.Note{Name: n}, err
	}
	now, err := s.enter(ctx)
	if err != nil {
		return onerun.Note{Name: n}, err
	}
	defer s.mu.Unlock()
	if was := s.note(namespace, n); was.Version != version {
		return was, &onerun.StateError{Why: fmt.Sprintf("note %s is at version %d, not %d", n, was.Version, version)}
	}
	note := onerun.Note{Name: n, Text: text, Version: version + 1, At: now}
	s.notes[name{namespace, n}] = note
	return note, nil
}

// Notes implements onerun.Notebook.
func (s *Store) Notes(ctx context.Context, namespace, prefix string) ([]onerun.Note, error) {
	if prefix != "" {
		if err := onerun.CheckNote(prefix, ""); err != nil {
			return nil, err
		}
	}
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var notes []onerun.Note
	for id, note := range s.notes {
		if id.namespace == namespace && strings.HasPrefix(id.name, prefix) {
			notes = append(notes, note)
		}
	}
	slices.SortFunc(notes, func(a, b onerun.Note) int { return strings.Compare(a.Name, b.Name) })
	return notes, nil
}
