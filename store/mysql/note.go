package mysql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

var _ onerun.Notebook = (*Store)(nil)

// lookAtNote gives one row: the schema's version, whether the statement before it has changed a
// row, and the note, NULL where there is none.
const lookAtNote = "SELECT s.version, ROW_COUNT(), n.version, n.text, n.changed_at FROM onerun_schema s LEFT JOIN onerun_note n ON n.namespace = ? AND n.name = ?"

// scanNote reads the row of lookAtNote.
func (s *Store) scanNote(scan func(...any) error, name string) (n onerun.Note, changed bool, err error) {
	var schema, count int64
	var version, at *int64
	var text *string
	if err := scan(&schema, &count, &version, &text, &at); err != nil {
		return onerun.Note{Name: name}, false, err
	}
	if err := s.rightVersion(schema); err != nil {
		return onerun.Note{Name: name}, false, err
	}
	return onerun.Note{Name: name, Version: or(version), Text: or(text), At: fromMicros(at)}, count == 1, nil
}

// Note implements onerun.Notebook, in one round trip.
func (s *Store) Note(ctx context.Context, namespace, name string) (onerun.Note, error) {
	n := onerun.Note{Name: name}
	if err := onerun.CheckNote(name, ""); err != nil {
		return n, err
	}
	b := &batch{}
	b.add(beginRead)
	b.add(lookAtNote, namespace, name)
	b.add("COMMIT")
	err := s.explain("read a note", s.prepared(ctx, func() error {
		return s.once(ctx, func(t *tx) (err error) {
			n, _, err = s.scanNote(t.row(b.text.String(), b.args...).Scan, name)
			return err
		})
	}))
	return n, err
}

// SetNote implements onerun.Notebook, in one round trip, unless several make a note at once. It
// isn't sent again where the server may have heard it: who has won would be told that it has lost.
func (s *Store) SetNote(ctx context.Context, namespace, name string, version int64, text string) (onerun.Note, error) {
	n := onerun.Note{Name: name}
	if err := onerun.CheckNote(name, text); err != nil {
		return n, err
	}
	b := &batch{}
	b.add(begin)
	if version == 0 {
		b.add(`INSERT INTO onerun_note (namespace, name, version, text, changed_at) SELECT ?, ?, 1, ?, `+now+` FROM onerun_schema
			WHERE version = ? AND NOT EXISTS (SELECT 1 FROM onerun_note n WHERE n.namespace = ? AND n.name = ?)`,
			namespace, name, text, len(steps), namespace, name)
	} else {
		b.add(`UPDATE onerun_note SET version = version + 1, text = ?, changed_at = `+now+`
			WHERE namespace = ? AND name = ? AND version = ? AND EXISTS (SELECT 1 FROM onerun_schema s WHERE s.version = ?)`,
			text, namespace, name, version, len(steps))
	}
	b.add(lookAtNote, namespace, name)
	b.add(commit)
	won := false
	err := s.explain("write a note", s.prepared(ctx, func() error {
		return s.patiently(ctx, func() error {
			return s.connected(ctx, func(conn *sql.Conn) (err error) {
				t := &tx{ctx: ctx, conn: conn}
				n, won, err = s.scanNote(t.row(b.text.String(), b.args...).Scan, name)
				if err == nil {
					return nil
				}
				t.rollback()
				if code(err) == errDuplicate { // somebody has just made it
					return errAgain
				}
				return err
			})
		})
	}))
	if err == nil && !won {
		err = &onerun.StateError{Why: fmt.Sprintf("note %s is at version %d, not %d", name, n.Version, version)}
	}
	return n, err
}

// Notes implements onerun.Notebook.
func (s *Store) Notes(ctx context.Context, namespace, prefix string) (notes []onerun.Note, err error) {
	if prefix != "" {
		if err := onerun.CheckNote(prefix, ""); err != nil {
			return nil, err
		}
	}
	err = s.read(ctx, "list the notes", func(t *tx) (err error) {
		notes, err = sqlledger.Notes(t.each, "SELECT name, version, text, changed_at FROM onerun_note WHERE namespace = ? AND name >= ? AND LEFT(name, ?) = ? ORDER BY name",
			namespace, prefix, len(prefix), prefix)
		return err
	})
	return notes, err
}
