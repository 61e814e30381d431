package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/onerun-dev/onerun"
)

var _ onerun.Notebook = (*Store)(nil)

// Note implements onerun.Notebook.
func (s *Store) Note(ctx context.Context, namespace, name string) (onerun.Note, error) {
	n := onerun.Note{Name: name}
	if err := onerun.CheckNote(name, ""); err != nil {
		return n, err
	}
	err := s.read(ctx, "read a note", func(t *tx) (err error) {
		n, err = t.note(namespace, name)
		return err
	})
	return n, err
}

func (t *tx) note(namespace, name string) (onerun.Note, error) {
	n, err := scanNote(t.row("SELECT name, version, text, changed_at FROM onerun_note WHERE namespace = ?1 AND name = ?2", namespace, name).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return onerun.Note{Name: name}, nil
	}
	return n, err
}

func scanNote(scan func(...any) error) (onerun.Note, error) {
	var n onerun.Note
	var at int64
	err := scan(&n.Name, &n.Version, &n.Text, &at)
	n.At = fromMicros(&at)
	return n, err
}

// SetNote implements onerun.Notebook. It waits for the disk: a version that was given away once
// must not be given away again after a power failure.
func (s *Store) SetNote(ctx context.Context, namespace, name string, version int64, text string) (onerun.Note, error) {
	n := onerun.Note{Name: name}
	if err := onerun.CheckNote(name, text); err != nil {
		return n, err
	}
	err := s.write(ctx, "write a note", func(t *tx) (err error) {
		if version == 0 {
			n, err = scanNote(t.row(`INSERT INTO onerun_note (namespace, name, version, text, changed_at) VALUES (?1, ?2, 1, ?3, ?4)
				ON CONFLICT DO NOTHING RETURNING name, version, text, changed_at`, namespace, name, text, t.now.UnixMicro()).Scan)
		} else {
			n, err = scanNote(t.row(`UPDATE onerun_note SET version = version + 1, text = ?3, changed_at = ?4
				WHERE namespace = ?1 AND name = ?2 AND version = ?5 RETURNING name, version, text, changed_at`,
				namespace, name, text, t.now.UnixMicro(), version).Scan)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if n, err = t.note(namespace, name); err == nil {
			err = &onerun.StateError{Why: fmt.Sprintf("note %s is at version %d, not %d", name, n.Version, version)}
		}
		return err
	})
	return n, err
}

// Notes implements onerun.Notebook.
func (s *Store) Notes(ctx context.Context, namespace, prefix string) (notes []onerun.Note, err error) {
	if prefix != "" {
		if err := onerun.CheckNote(prefix, ""); err != nil {
			return nil, err
		}
	}
	err = s.read(ctx, "list the notes", func(t *tx) error {
		notes = nil
		return t.each(func(scan func(...any) error) error {
			n, err := scanNote(scan)
			notes = append(notes, n)
			return err
		}, `SELECT name, version, text, changed_at FROM onerun_note
			WHERE namespace = ?1 AND name >= ?2 AND substr(name, 1, length(?2)) = ?2 ORDER BY name`, namespace, prefix)
	})
	return notes, err
}
