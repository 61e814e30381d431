package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/procfs"
)

// The witness is a file that what verify executes appends to, a line at a time. It is what is
// believed of what was executed, and when; onerun's own words aren't.

// What a line of the witness tells.
const (
	sawIn      = "in"      // it was started
	sawAt      = "at"      // it was still there
	sawOut     = "out"     // it went on to its end
	sawOverlap = "overlap" // it was started while what the label names still ran
)

// How what verify executes behaves.
const (
	workOnce  = "once"  // it ends at once
	workHold  = "hold"  // it ends when its standard input does
	workBeat  = "beat"  // the same, and it says all the time that it is there, and heeds no request to end
	workChild = "child" // the same, with a process of its own that does the same
)

// beatEvery is how often it says that it is there.
const beatEvery = 10 * time.Millisecond

// sighting is a line of the witness.
type sighting struct {
	what, label, owner string
	token              int64
	who                procfs.Identity
	at                 time.Duration // CLOCK_BOOTTIME
}

// witnessed is the command that verify's starts execute: mode is MODE:LABEL.
func witnessed(mode, path string) error {
	mode, label, _ := strings.Cut(mode, ":")
	self, err := procfs.Self()
	if err != nil {
		return &onerun.StoreError{Kind: onerun.ErrIO, What: "verify's witness", Err: err}
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_RDWR, 0)
	if err != nil {
		return &onerun.StoreError{Kind: onerun.ErrIO, What: "verify's witness", Path: path, Err: pathCause(err)}
	}
	defer func() { _ = f.Close() }()
	note := func(what, label string) error {
		owner, token := os.Getenv("ONERUN_OWNER"), os.Getenv("ONERUN_TOKEN")
		_, err := fmt.Fprintf(f, "%s %s %s %s %d %d %d\n", what, label, orNone(owner), orNone(token), self.PID, self.StartTicks, sinceBoot())
		return err
	}
	if mode == workBeat || mode == workChild {
		signal.Ignore(syscall.SIGTERM)
	}
	if err := note(sawIn, label); err != nil {
		return written(err)
	}
	if !strings.HasSuffix(label, "/child") { // it is beside its own parent, as it should be
		for _, other := range strangers(f, self) {
			if err := note(sawOverlap, other); err != nil {
				return written(err)
			}
		}
	}
	if mode == workOnce {
		return nil
	}
	if mode == workChild {
		child := exec.Command("/proc/self/exe", "verify", "--probe", workBeat+":"+label+"/child", path)
		child.Stdin = os.Stdin
		if err := child.Start(); err != nil {
			return &onerun.StoreError{Kind: onerun.ErrInternal, What: "verify's witness", Err: err}
		}
	}
	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // whoever holds the other end has told or has died
		close(over)
	}()
	for beats := mode != workHold; ; {
		var next <-chan time.Time
		if beats {
			next = time.After(beatEvery)
		}
		select {
		case <-over:
			return written(note(sawOut, label))
		case <-next:
			if err := note(sawAt, label); err != nil {
				return written(err)
			}
		}
	}
}

// strangers are those who wrote to the witness before, and still run without having said
// that they are at their end.
func strangers(f *os.File, self procfs.Identity) (labels []string) {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
	if err != nil {
		return []string{"unreadable"}
	}
	there := map[procfs.Identity]string{}
	for _, s := range sightings(string(text)) {
		switch s.what {
		case sawIn:
			there[s.who] = s.label
		case sawOut:
			delete(there, s.who)
		}
	}
	for who, label := range there {
		if alive, _ := procfs.Judge(who); alive != procfs.Dead && who != self {
			labels = append(labels, label)
		}
	}
	return labels
}

// sightings reads a witness's text.
func sightings(text string) (all []sighting) {
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		var s sighting
		var token string
		n, _ := fmt.Sscan(lines.Text(), &s.what, &s.label, &s.owner, &token, &s.who.PID, &s.who.StartTicks, &s.at)
		if n < 7 { // whoever wrote it was killed meanwhile
			continue
		}
		_, _ = fmt.Sscan(token, &s.token) // none: 0
		all = append(all, s)
	}
	return all
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// asError is errors.As for an error that may be nil.
func asError[T error](err error, target *T) bool { return err != nil && errors.As(err, target) }

// testimony is what a witness has written so far.
type testimony []sighting

// read reads the witness.
func (v *verification) read() (testimony, error) {
	text, err := os.ReadFile(v.witness)
	if err != nil {
		return nil, &onerun.StoreError{Kind: onerun.ErrIO, What: "verify's witness", Path: v.witness, Err: pathCause(err)}
	}
	return sightings(string(text)), nil
}

// of are the lines of one kind about a label.
func (t testimony) of(what, label string) (some testimony) {
	for _, s := range t {
		if s.what == what && s.label == label {
			some = append(some, s)
		}
	}
	return some
}

// overlaps says who was started while whom still ran; "": nobody.
func (t testimony) overlaps() string {
	for _, s := range t {
		if s.what == sawOverlap {
			return fmt.Sprintf("process %d was started while the command of %q still ran", s.who.PID, s.label)
		}
	}
	return ""
}

// last is when a label's processes were last there.
func (t testimony) last(label string) (at time.Duration) {
	for _, s := range t {
		if s.what != sawOverlap && (s.label == label || s.label == label+"/child") {
			at = max(at, s.at)
		}
	}
	return at
}

// follows is nil when what was started began after all that is known of a label.
func (t testimony) follows(in sighting, label string) error {
	if overlap := t.overlaps(); overlap != "" {
		return disproved("%s", overlap)
	}
	if last := t.last(label); last >= in.at {
		return disproved("the next start executed its command while the earlier one still ran, for %s more", span(last-in.at))
	}
	return nil
}
