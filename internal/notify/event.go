package notify

import (
	"fmt"
	"slices"
	"strings"
)

// Event is what a message is about.
type Event string

// The events.
const (
	Failure  Event = "failure"  // an attempt FAILED, or its end could not be recorded
	Blocked  Event = "blocked"  // a start was refused, and somebody has to do something
	Skip     Event = "skip"     // a start was refused, as on any day
	Late     Event = "late"     // a run goes on past its time
	Recovery Event = "recovery" // a success after a failure
)

// All are the events there are.
var all = []Event{Failure, Blocked, Skip, Late, Recovery}

// Events is a set of them, in the order in which it was written.
type Events []Event

// UnmarshalText adds the words of a list with commas in between. It implements
// encoding.TextUnmarshaler.
func (e *Events) UnmarshalText(text []byte) error {
	for word := range strings.SplitSeq(string(text), ",") {
		ev := Event(strings.TrimSpace(word))
		if !slices.Contains(all, ev) {
			return fmt.Errorf("%q is no event; use some of %s", word, Events(all))
		}
		if !e.Has(ev) {
			*e = append(*e, ev)
		}
	}
	return nil
}

// Has reports whether an event is among them.
func (e Events) Has(ev Event) bool { return slices.Contains(e, ev) }

func (e Events) String() string {
	words := make([]string, len(e))
	for i, ev := range e {
		words[i] = string(ev)
	}
	return strings.Join(words, ",")
}
