package filelock

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/onerun-dev/onerun"
)

// fullNote has every field set.
func fullNote() Note {
	status, n := 3, int64(math.MaxInt64)
	o := Outcome{
		Status: onerun.Failed, Reason: onerun.ReasonExit, ExitCode: &status, Signal: "SIGKILL", Error: "no <money> left",
		Processed: &n, Failed: &n, FinishedAt: time.Date(2026, 9, 15, 1, 2, 3, 4000, time.UTC),
	}
	return Note{
		Kind: "job", Name: "일일정산", Namespace: "prod", Owner: onerun.NewID(), RunID: onerun.NewRunID(time.Now()),
		Attempt: 2, Token: 1789000000000, VersionLabel: "v1.2", StartedAt: o.FinishedAt.Add(-time.Hour),
		Host: "db1", Machine: strings.Repeat("a", 32), Boot: "b4e1b5f6-0000-4000-8000-1234567890ab",
		PIDNS: 4026531836, TimeNS: 4026531834, PID: 4194304, StartTicks: math.MaxUint64,
		State: StateEnded, Group: 4194303, GroupStartTicks: 1, Guard: 5, GuardStartTicks: 6, Outcome: &o,
		Flock: true, Released: true, Left: &Left{Owner: onerun.NewID(), RunID: "r", Attempt: 1, Token: 7, Outcome: o},
	}
}

func TestNoteRoundTrip(t *testing.T) {
	want := fullNote()
	text, err := want.encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range [][]byte{text, pad(text), append(bytes.Clone(text), "{\"rest of an older note"...), bytes.TrimSuffix(text, []byte("\n"))} {
		got, err := parseNote(text)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(*got, want) {
			t.Errorf("got %+v, want %+v", *got, want)
		}
	}
	// the names of the fields are those of the documentation, and no others
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields("pid kind name started_at host boot start_ticks owner token version_label machine pid_ns time_ns namespace run_id attempt uid state group group_start_ticks guard guard_start_ticks outcome flock released left") {
		if _, ok := fields[name]; !ok {
			t.Errorf("no field %q in %s", name, text)
		}
		delete(fields, name)
	}
	if len(fields) > 0 {
		t.Errorf("more fields: %v", fields)
	}
}

// Whatever the texts, a note keeps to its room, and what identifies its owner is whole.
func TestNoteKeepsToItsRoom(t *testing.T) {
	for _, fill := range []string{"x", "\"", "\x01", "\x00", "<", "\xff", "日", "𝔻", "\u2028", "e\u0301"} {
		long := strings.Repeat(fill, 5000)
		n := fullNote()
		n.Name = strings.Repeat("𝔻", onerun.MaxName)
		n.Namespace = n.Name
		n.VersionLabel, n.Host = long, long
		n.Outcome.Error, n.Left.Outcome.Error = long, long
		text, err := n.encode()
		if err != nil {
			t.Fatalf("%q: %v", fill, err)
		}
		if len(text) > noteMax || !utf8.Valid(text) {
			t.Errorf("%q: %d bytes, valid %v", fill, len(text), utf8.Valid(text))
		}
		got, err := parseNote(text)
		if err != nil {
			t.Fatalf("%q: %v", fill, err)
		}
		if got.Owner != n.Owner || got.Name != n.Name || got.Left.Owner != n.Left.Owner || *got.Outcome.ExitCode != 3 {
			t.Errorf("%q: lost something: %+v", fill, got)
		}
	}
}

// An ordinary error text isn't cut at all.
func TestNoteKeepsAnError(t *testing.T) {
	n := fullNote()
	n.Left = nil
	n.Outcome.Error = strings.Repeat("e", onerun.MaxError)
	text, err := n.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseNote(text)
	if err != nil || got.Outcome.Error != n.Outcome.Error {
		t.Errorf("error %v, %d of %d bytes are left", err, len(got.Outcome.Error), len(n.Outcome.Error))
	}
}

// junk is what may stand in a lock file that nobody wrote as a whole.
func junk(t testing.TB) map[string][]byte {
	n := fullNote()
	text, err := n.encode()
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		"half a note":       text[:len(text)/2],
		"NULs":              make([]byte, 512),
		"a note, then NULs": append(bytes.Clone(text[:100]), make([]byte, 400)...),
		"1 MiB":             bytes.Repeat([]byte("junk "), 1<<20/5),
		"1 MiB of a number": bytes.Repeat([]byte("9"), 1<<20),
		"binary":            {0x7f, 'E', 'L', 'F', 2, 1, 1, 0, 0xff, 0xfe, 0x80, '\n', '{'},
		"null":              []byte("null\n"),
		"a list":            []byte("[]\n"),
		"no owner":          []byte("{}\n"),
		"a path for owner":  []byte(`{"owner":"../../../etc/passwd"}` + "\n"),
		"a slash in owner":  []byte(`{"owner":"abcdef/0123456789"}` + "\n"),
		"owner too long":    []byte(`{"owner":"` + strings.Repeat("a", 3000) + `"}` + "\n"),
		"wrong type":        []byte(`{"owner":"0123456789abcdef","pid":"12"}` + "\n"),
		"pid too large":     []byte(`{"owner":"0123456789abcdef","pid":99999999999999999999}` + "\n"),
		"ended, no outcome": []byte(`{"owner":"0123456789abcdef","state":"ended"}` + "\n"),
		"a pid, as others":  []byte("12345\n"),
		"deep nesting":      bytes.Repeat([]byte("["), 4000),
	}
}

func TestParseRefusesJunk(t *testing.T) {
	for name, text := range junk(t) {
		if n, err := parseNote(text); !errors.Is(err, errNote) {
			t.Errorf("%s: note %+v, error %v", name, n, err)
		}
	}
	for _, text := range []string{"", "\n", "\n{\"owner\":"} {
		if _, err := parseNote([]byte(text)); !errors.Is(err, errEmpty) {
			t.Errorf("%q: %v, want empty", text, err)
		}
	}
}

// No text makes the parser panic or accept an owner that can't be a file name; and what
// is accepted can be judged and written again.
func FuzzParseNote(f *testing.F) {
	for _, text := range junk(f) {
		if len(text) < 10000 {
			f.Add(text)
		}
	}
	n := fullNote()
	text, err := n.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(pad(text))
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := parseNote(text)
		if err != nil {
			if n != nil {
				t.Errorf("note with error %v", err)
			}
			return
		}
		if !isOwner(n.Owner) || strings.ContainsAny(n.Owner, "/.\x00") {
			t.Errorf("owner %q", n.Owner)
		}
		if n.Boot != thisWorker().Boot { // else it would look at processes
			_ = Judge(*n)
			_ = JudgeFree(*n)
		}
		again, err := n.encode()
		if err != nil {
			return // fields longer than any that we write
		}
		if _, err := parseNote(again); err != nil {
			t.Errorf("written again: %v in %q", err, again)
		}
	})
}
