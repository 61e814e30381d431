// Package config reads onerun's configuration file, strictly: a key that is not known, a value of the wrong kind, a name
// that is none is an error with its line and column, and all errors are found in one reading. What keys exist and what
// their values may be is the caller's to say, in a [Schema]; so the package knows nothing of flags.
//
// The file is YAML 1.2 of one document, less what a configuration can do without and what reads one way and means another:
// tags (!!str), directives (%YAML) and keys written with "?". Anchors, aliases and the merge key << work. A value is kept
// as it is written, so that 1.10 stays 1.10 and 007 stays 007; nothing becomes a number, and only a key that is a switch
// takes true and false.
package config

import "regexp"

// Kind says what the value of a key looks like.
type Kind int

// The kinds.
const (
	Scalar Kind = iota // one value: a word, a number, a duration, a quoted text
	Bool               // true or false
	List               // a list of values
	Map                // a mapping of names to values
	Table              // a mapping of names to mappings, whose keys are those of Key.Inner
	Any                // anything but nothing; it isn't looked into
)

// Key says what one key of the file may hold.
type Key struct {
	Kind Kind
	// Check refuses a text; nil takes all. It is asked for a Scalar with its text, for a Bool with "true" or "false", for a
	// List with each item, and for a Map with each name=value. Its error is shown in the form "KEY: ERROR".
	Check func(text string) error
	// Inner are the keys of each mapping of a Table; Check is asked for its names.
	Inner map[string]Key
	// Later says why this version can't act on the key; "" means that it can. The key is read and checked all the same.
	Later string
}

// Schema is what a file may hold, beside the keys of the format itself: defaults, jobs, redact and calendars.
type Schema struct {
	Top map[string]Key
	Job map[string]Key // below each job, and, less command and shell, below defaults
}

// Value is what a key holds, with its place in the file. A value that came in by an alias or a merge key has the place
// where it is written.
type Value struct {
	Text         string            // of a Scalar; "true" or "false" of a Bool
	List         []string          // of a List
	Map          map[string]string // of a Map
	Table        map[string]map[string]Value
	Line, Column int // from 1; columns count characters

	at []spot // of each of List
}

// Item is the i-th of List, with its own place.
func (v Value) Item(i int) Value {
	return Value{Text: v.List[i], Line: v.at[i].line, Column: v.at[i].column}
}

// File is a file without errors.
type File struct {
	Path      string
	Top       map[string]Value
	Defaults  map[string]Value
	Jobs      map[string]map[string]Value // by the job's name in NFC; the defaults are not mixed in
	Redact    []*regexp.Regexp
	Calendars map[string]string // name to path, a relative one joined to the file's directory
	Later     []Note            // in the order of the file
}

// Note is a key that is there and that this version can't act on.
type Note struct {
	Path         string
	Line, Column int
	In           string // "" at the top, "defaults", or "job NAME"
	Key, Why     string
}

func (n Note) String() string {
	return Error{Path: n.Path, Line: n.Line, Column: n.Column, Message: n.Key + ": " + n.Why}.Error()
}

// What a file may be at most. The bounds are far from what anybody writes; they keep a file that was made to do harm, or
// that isn't a configuration at all, from costing more than a moment.
const (
	MaxSize = 1 << 20 // bytes

	maxDepth  = 32      // collections within each other
	maxKeys   = 20_000  // in the whole file
	maxTokens = 100_000 // keys, values and punctuation
	maxKey    = 256     // characters of one key
	maxTabs   = 1000    // on one line
	maxLess   = 100     // of the character < in a row
	maxValues = 250_000 // after aliases and merge keys are followed
	maxErrors = 1000
)

// Parse reads the text of a file. path names the file in errors, and calendars count from its directory. An error is an
// [Errors] with all that is wrong, in the order of the file.
//
// What it keeps from the reader of an error is the value of a key that looks like a secret (store, notify, ping, and
// what has password, token and the like in its name). With an error the File holds nothing but the redact patterns that
// are sound, for what the errors show.
func Parse(path string, text []byte, s Schema) (*File, error) {
	found := &findings{path: path}
	file := &File{
		Path: path,
		Top:  map[string]Value{}, Defaults: map[string]Value{}, Jobs: map[string]map[string]Value{}, Calendars: map[string]string{},
	}
	if source, ok := clean(text, found); ok {
		if root, at, ok := parse(source, found); ok && root != nil {
			t := &tree{findings: found, at: at, flat: map[mapping][]entry{}}
			t.link(root)
			(&reader{tree: t, schema: s, file: file}).top(root)
		}
	}
	if err := Errors(found.list).OrNil(); err != nil {
		return &File{Path: path, Redact: file.Redact}, err
	}
	return file, nil
}
