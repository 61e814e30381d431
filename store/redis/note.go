package redis

import (
	"context"
	_ "embed" // the script
	"fmt"
	"slices"
	"strings"

	driver "github.com/redis/go-redis/v9"

	"github.com/onerun-dev/onerun"
)

//go:embed lua/note.lua
var luaNote string

var _ onerun.Notebook = (*Store)(nil)

func (k keys) note(name string) string { return k.is("note:" + name) }
func (k keys) notes() string           { return k.is("notes") }

// Note implements onerun.Notebook.
func (s *Store) Note(ctx context.Context, namespace, name string) (onerun.Note, error) {
	none := onerun.Note{Name: name}
	if err := onerun.CheckNote(name, ""); err != nil {
		return none, err
	}
	notes, err := s.someNotes(ctx, namespace, []string{name})
	if err != nil || len(notes) == 0 {
		return none, s.explain("read a note", err)
	}
	return notes[0], nil
}

// SetNote implements onerun.Notebook, in one round trip. It isn't sent again where the server may
// have heard it: who has won would be told that it has lost.
func (s *Store) SetNote(ctx context.Context, namespace, name string, version int64, text string) (onerun.Note, error) {
	n := onerun.Note{Name: name}
	if err := onerun.CheckNote(name, text); err != nil {
		return n, err
	}
	k := s.keys(namespace)
	v, err := s.once(ctx, s.scripts.note, k, []string{k.note(name), k.notes()}, name, digits(version), text)
	if err != nil {
		return n, s.explain("write a note", err)
	}
	r := replyOf(v)
	won := r.number(0) == 1
	n.Version, n.Text, n.At = r.number(1), r.text(2), fromMicros(r.text(3))
	if r.err != nil {
		return onerun.Note{Name: name}, badAnswer("write a note", r.err)
	}
	if !won {
		return n, &onerun.StateError{Why: fmt.Sprintf("note %s is at version %d, not %d", name, n.Version, version)}
	}
	return n, nil
}

// Notes implements onerun.Notebook.
func (s *Store) Notes(ctx context.Context, namespace, prefix string) ([]onerun.Note, error) {
	if prefix != "" {
		if err := onerun.CheckNote(prefix, ""); err != nil {
			return nil, err
		}
	}
	cmds, err := s.pipelined(ctx, func(p driver.Pipeliner) { p.SMembers(ctx, s.keys(namespace).notes()) })
	if err != nil {
		return nil, s.explain("list the notes", err)
	}
	names := slices.DeleteFunc(cmds[0].(*driver.StringSliceCmd).Val(), func(name string) bool { return !strings.HasPrefix(name, prefix) })
	slices.Sort(names)
	const step = 100
	var notes []onerun.Note
	for some := range slices.Chunk(names, step) {
		found, err := s.someNotes(ctx, namespace, some)
		if err != nil {
			return nil, s.explain("list the notes", err)
		}
		notes = append(notes, found...)
	}
	return notes, nil
}

// someNotes reads notes, those that are there.
func (s *Store) someNotes(ctx context.Context, namespace string, names []string) ([]onerun.Note, error) {
	cmds, err := s.pipelined(ctx, func(p driver.Pipeliner) {
		for _, name := range names {
			p.HMGet(ctx, s.keys(namespace).note(name), "version", "text", "at")
		}
	})
	if err != nil {
		return nil, err
	}
	var notes []onerun.Note
	for i, cmd := range cmds {
		r := &reply{at: cmd.(*driver.SliceCmd).Val()}
		n := onerun.Note{Name: names[i], Version: r.number(0), Text: r.text(1), At: fromMicros(r.text(2))}
		if r.err != nil {
			return nil, badAnswer("read a note", r.err)
		}
		if n.Version != 0 {
			notes = append(notes, n)
		}
	}
	return notes, nil
}
