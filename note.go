package onerun

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"
)

// Notebook is an optional ability of a store: small texts that several programs share, each of which
// is changed by compare-and-set. A scheduler keeps there what no run tells: since when it
// knows a job, and which alert is open.
type Notebook interface {
	// Note gives a note; one that was never written has Version 0 and no text.
	//
	// Errors: ErrUsage for a name that CheckNote refuses.
	Note(ctx context.Context, namespace, name string) (Note, error)

	// SetNote writes a note that is still at a version (0: it was never written), and gives
	// it as it is now. There is no removing: an empty text is one. After a StoreError the
	// change may have been made: asked again, the answer is ErrState then, with the caller's own
	// text. So a text says whose it is, where that matters.
	//
	// Errors: ErrState when it is at another version, together with the note as it is;
	// ErrUsage for what CheckNote refuses.
	SetNote(ctx context.Context, namespace, name string, version int64, text string) (Note, error)

	// Notes lists the notes whose names begin with a prefix, by name (bytes).
	//
	// Errors: ErrUsage for a prefix that CheckNote refuses as a name, but for the empty one.
	Notes(ctx context.Context, namespace, prefix string) ([]Note, error)
}

// Note is a text of a Notebook.
type Note struct {
	Name    string
	Text    string
	Version int64     // grows with each change
	At      time.Time // of the last change, by the store's clock
}

// What a note may be at most, in bytes.
const (
	MaxNoteName = 900 // a key, and what it is of
	MaxNoteText = 64 << 10
)

// CheckNote refuses a name or a text that no store takes.
func CheckNote(name, text string) error {
	switch {
	case name == "" || len(name) > MaxNoteName || !utf8.ValidString(name):
		return fmt.Errorf("%w: a note's name has 1 to %d bytes of UTF-8", ErrUsage, MaxNoteName)
	case len(text) > MaxNoteText || !utf8.ValidString(text):
		return fmt.Errorf("%w: a note's text has up to %d bytes of UTF-8", ErrUsage, MaxNoteText)
	}
	for i := range len(name) {
		if name[i] < ' ' || name[i] == 0x7f {
			return fmt.Errorf("%w: a note's name has a control character", ErrUsage)
		}
	}
	for i := range len(text) {
		if text[i] == 0 {
			return fmt.Errorf("%w: a note's text has a NUL", ErrUsage)
		}
	}
	return nil
}
