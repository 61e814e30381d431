package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

var _ onerun.Notebook = (*Store)(nil)

// noteRow is a note in an answer; see sql/functions/09_notes.sql.
type noteRow struct {
	Won     bool    `json:"won"`
	Version *int64  `json:"version"`
	Text    *string `json:"text"`
	AtUS    *int64  `json:"at_us"`
}

func (r noteRow) note(name string) onerun.Note {
	if r.Version == nil {
		return onerun.Note{Name: name}
	}
	return onerun.Note{Name: name, Text: or(r.Text), Version: *r.Version, At: fromMicros(r.AtUS)}
}

// Note implements onerun.Notebook, in one round trip.
func (s *Store) Note(ctx context.Context, namespace, name string) (onerun.Note, error) {
	none := onerun.Note{Name: name}
	if err := onerun.CheckNote(name, ""); err != nil {
		return none, err
	}
	var answer string
	if err := s.call(ctx, "read a note", "onerun_get_note($1, $2)", []any{namespace, name}, &answer); err != nil {
		return none, err
	}
	var rows []noteRow
	if err := json.Unmarshal([]byte(answer), &rows); err != nil {
		return none, badAnswer("read a note", err)
	}
	if len(rows) == 0 {
		return none, nil
	}
	return rows[0].note(name), nil
}

// SetNote implements onerun.Notebook, in one round trip. It isn't sent again where the server may
// have heard it: who has won would be told that it has lost.
func (s *Store) SetNote(ctx context.Context, namespace, name string, version int64, text string) (onerun.Note, error) {
	none := onerun.Note{Name: name}
	if err := onerun.CheckNote(name, text); err != nil {
		return none, err
	}
	var answer string
	err := s.patiently(ctx, func() error {
		return s.asks(ctx, "onerun_set_note($1, $2, $3, $4)", []any{namespace, name, version, text}, &answer, false)
	})
	if disconnected(err) {
		s.pool.Reset() // the others are as dead, perhaps
	}
	if err != nil {
		return none, s.explain("write a note", err)
	}
	var row noteRow
	if err := json.Unmarshal([]byte(answer), &row); err != nil {
		return none, badAnswer("write a note", err)
	}
	n := row.note(name)
	if !row.Won {
		return n, &onerun.StateError{Why: fmt.Sprintf("note %s is at version %d, not %d", name, n.Version, version)}
	}
	return n, nil
}

// Notes implements onerun.Notebook.
func (s *Store) Notes(ctx context.Context, namespace, prefix string) (notes []onerun.Note, err error) {
	if prefix != "" {
		if err := onerun.CheckNote(prefix, ""); err != nil {
			return nil, err
		}
	}
	err = s.read(ctx, "list the notes", func(t *tx) (err error) {
		notes, err = sqlledger.Notes(t.each, "SELECT name, version, text, onerun_us(changed_at) FROM onerun_note WHERE namespace = $1 AND name >= $2 AND starts_with(name, $2) ORDER BY name",
			namespace, prefix)
		return err
	})
	return notes, err
}
