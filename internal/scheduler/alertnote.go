package scheduler

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// Telling is a message that is to be sent, to one place.
type Telling struct {
	ID     string // the same each time when it is tried again
	Alert  Alert
	Place  string    // one of Options.Places
	Kind   AlertKind // AlertRecovery when it is over
	About  AlertKind // what is over, or the same
	Job    string
	Title  string
	Lines  []string
	Run    *onerun.Run // nil: there is none
	Again  bool        // a reminder
	Opened time.Time
	Count  int // of messages about it, this one included
	Fires  int // of AlertSkip: how many did not run

	cause, fire string
}

// open is an alert that people know of, in the job's note. Told, Count and Heard are what older versions of this program go by,
// which know of one message to all.
type open struct {
	Cause   string    `json:"cause"`
	Title   string    `json:"title"`
	Since   time.Time `json:"since"`
	Told    time.Time `json:"told"`    // zero: nobody was yet
	Sending time.Time `json:"sending"` // since then an instance tells; zero: nobody does
	Count   int       `json:"count"`
	Heard   []string  `json:"heard,omitempty"`
	Run     string    `json:"run,omitempty"` // the id of the run that it is about
	Over    bool      `json:"over,omitempty"`

	To map[string]reached `json:"to,omitempty"` // by placeKey
}

// reached is what is known of an alert at one place.
type reached struct {
	Told  time.Time `json:"told,omitzero"`  // zero: it isn't yet, by this cause
	Tried time.Time `json:"tried,omitzero"` // zero: the last message arrived
	Count int       `json:"count"`          // of messages that arrived
	Fire  string    `json:"fire,omitempty"` // that the last one was about
}

func placeKey(alert, place string) string { return alert + " " + place }

// placesOf are the places of an alert that were told.
func (o open) placesOf(alert string) (places []string) {
	for key := range o.To {
		if place, ok := strings.CutPrefix(key, placeKey(alert, "")); ok && !strings.Contains(place, " ") {
			places = append(places, place)
		}
	}
	return places
}

// parseOpen reads a job's note. One that nobody of us wrote is as none: people are told once more.
func parseOpen(n onerun.Note) map[AlertKind]open {
	known := map[AlertKind]open{}
	if n.Text != "" && (json.Unmarshal([]byte(n.Text), &known) != nil || known == nil) {
		return map[AlertKind]open{}
	}
	return known
}

// adopt takes over what an older version of this program has told.
func (o *open) adopt(kind AlertKind, alerts []Alert, places func(Alert) []string) {
	if o.To != nil || o.Told.IsZero() && len(o.Heard) == 0 {
		return
	}
	o.To = map[string]reached{}
	for _, a := range alerts {
		heard := func(kind AlertKind) bool { return slices.Contains(o.Heard, a.Name+" "+string(kind)) }
		if !a.hears(kind) || o.Told.IsZero() && !heard(kind) || heard(AlertRecovery) {
			continue
		}
		for _, place := range places(a) {
			o.To[placeKey(a.Name, place)] = reached{Told: later(o.Told, o.Since), Count: max(1, o.Count)}
		}
	}
	o.Heard = nil
}

// compare says what is to be told, and puts what is new into known; changed: so that it has to be kept, even when nothing is
// told.
func (j *Job) compare(known map[AlertKind]open, troubles []trouble, places func(Alert) []string, now time.Time) (tell []Telling, changed bool) {
	all := map[AlertKind]trouble{}
	for _, t := range troubles {
		all[t.kind] = t
		if _, ok := known[t.kind]; !ok && !t.held {
			known[t.kind] = open{Cause: t.cause, Since: now}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(known)) {
		o := known[kind]
		o.adopt(kind, j.Alerts, places)
		t, stands := all[kind]
		if busy(o, now) || stands && t.held {
			continue
		}
		changed = o.meets(t, stands, now) || changed
		asked := map[string]bool{}
		for _, a := range j.Alerts {
			for _, place := range places(a) {
				at := placeKey(a.Name, place)
				if asked[at] {
					continue
				}
				asked[at] = true
				switch m := j.message(kind, o.To[at], a, o, t, stands, now); m.Kind {
				case "":
				case forgotten:
					delete(o.To, at)
					changed = true
				default:
					m.Place = place
					tell = append(tell, m)
				}
			}
		}
		known[kind] = o
		if !stands && !slices.ContainsFunc(tell, func(m Telling) bool { return m.About == kind }) && !o.waits(now) {
			delete(known, kind) // nobody knows of it, or everybody knows that it is over
			changed = true
		}
	}
	return tell, changed
}

// meets makes what was known what is so now, and reports whether that is another thing.
func (o *open) meets(t trouble, stands bool, now time.Time) (changed bool) {
	if !stands {
		changed, o.Over = !o.Over, true
		return changed
	}
	if o.Over || another(t.cause, o.Cause) {
		o.Since, o.Told = now, time.Time{}
		for at, r := range o.To {
			o.To[at] = reached{Count: r.Count}
		}
	}
	changed = o.Over || t.cause != o.Cause
	o.Cause, o.Title, o.Over = t.cause, t.title, false
	if t.run != nil {
		o.Run = t.run.RunID
	}
	return changed
}

// waits reports whether a message that could not be sent is yet to be tried again.
func (o open) waits(now time.Time) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(o.To)), func(r reached) bool { return r.Count > 0 && r.rests(now) })
}

// rests reports whether a place couldn't be reached a moment ago.
func (r reached) rests(now time.Time) bool {
	return !r.Tried.IsZero() && now.Sub(r.Tried).Abs() < tellAgain
}

// forgotten is no kind: that a place is to be told nothing more about an alert, and knows of it.
const forgotten AlertKind = "forgotten"

// message is what one place is to be told of one kind; without a kind: nothing.
func (j *Job) message(kind AlertKind, r reached, a Alert, o open, t trouble, stands bool, now time.Time) Telling {
	m := Telling{About: kind, Alert: a, Job: j.Name, Opened: o.Since, Count: r.Count + 1, cause: o.Cause}
	switch {
	case r.rests(now):
	case stands && t.concerns(a):
		m.Title, m.Lines, m.Run, m.Fires, m.fire, m.Again = t.title, t.lines, t.run, t.fires, t.fire, !r.Told.IsZero()
		// What was late and is done nobody can do anything about: only the next one is news.
		if !m.Again || a.Remind > 0 && now.Sub(r.Told) >= a.Remind && !(t.done && t.fire == r.Fire) {
			m.Kind = kind
		}
	case r.Count == 0:
	case a.hears(kind) && a.hears(AlertRecovery):
		m.Kind, m.Title, m.Lines = AlertRecovery, j.Name+" has recovered", []string{"it was: " + o.Title}
	default:
		m.Kind = forgotten
	}
	return m
}

// told puts what became of a message into what is known.
func told(known map[AlertKind]open, t Telling, sent bool, now time.Time) {
	o, ok := known[t.About]
	if !ok {
		return
	}
	if o.To == nil {
		o.To = map[string]reached{}
	}
	at := placeKey(t.Alert.Name, t.Place)
	switch r := o.To[at]; {
	case !sent:
		r.Tried = now
		o.To[at] = r
	case t.Kind == AlertRecovery:
		delete(o.To, at)
	default:
		o.To[at] = reached{Told: now, Count: t.Count, Fire: t.fire}
		o.Told, o.Count = now, max(o.Count, t.Count)
	}
	o.Sending = time.Time{}
	known[t.About] = o
	if o.Over && len(o.To) == 0 {
		delete(known, t.About)
	}
}

func busy(o open, now time.Time) bool {
	return !o.Sending.IsZero() && now.Sub(o.Sending).Abs() < sendingTooOld
}
