package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// A meeting of hosts stands in one note of the store, which each of them changes by
// compare-and-set: who is there, how far each has come, and what each saw executed.

const (
	meetingNote  = "verify/"              // and the code
	beatMeeting  = 500 * time.Millisecond // how often who waits says that it is there
	ghostAfter   = 15 * time.Second       // of silence: who waits is taken off the list, an old meeting for over
	silentAfter  = time.Minute            // of silence: who is needed isn't waited for any more
	meetingLook  = 30 * time.Millisecond
	stageHere    = 0 // it waits for the others
	stageReady   = 1 // it has seen all of them
	stagesPerLap = 2 // of each round: all have an answer; all have come to their end
	stageDone    = 1 << 20
	lingerMost   = 10 * time.Second
)

// table is what the note holds.
type table struct {
	ID     string             `json:"id"`
	Hosts  int                `json:"hosts"`
	Rounds int                `json:"rounds"`
	Seats  map[string]*seated `json:"seats"`
}

// seated is a host at the table.
type seated struct {
	Name   string     `json:"name"`
	Beat   int64      `json:"beat"`
	Stage  int        `json:"stage"`
	Wins   [][2]int64 `json:"wins,omitempty"` // round and token of each execution that it saw
	Failed string     `json:"failed,omitempty"`
}

// meeting is one host's part in it.
type meeting struct {
	*verification
	notes onerun.Notebook
	note  string
	me    string
	mine  seated
	last  table                // as it was seen last
	heard map[string]heardFrom // by seat
	stage int
}

// heardFrom is when a seat has changed last, by this host's clock.
type heardFrom struct {
	beat    int64
	at      time.Time
	changed bool // while this host looked
}

var errTable = errors.New("the note is none of a meeting's")

// gather waits until all hosts are there.
func (m *meeting) gather(ctx context.Context) (string, error) {
	var ok bool
	if m.notes, ok = onerun.Ability[onerun.Notebook](m.store); !ok {
		return "", &onerun.StateError{Why: "this store keeps no notes, so hosts can't meet in it; start onerun verify without --rendezvous on each"}
	}
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	m.note, m.me, m.heard = meetingNote+m.rendezvous, onerun.NewID()[:12], map[string]heardFrom{}
	m.mine = seated{Name: fmt.Sprintf("%s/%d", host, os.Getpid())}
	began := time.Now()
	for end := began.Add(m.within); ; {
		if err := m.update(ctx); err != nil {
			return "", err
		}
		m.progress(fmt.Sprintf("%d of %d hosts are at the rendezvous %s", len(m.last.Seats), m.hosts, m.rendezvous))
		if m.all(stageReady) {
			m.name = "onerun-verify-" + m.last.ID
			if m.lock != "" {
				m.lock = m.name
			}
			return fmt.Sprintf("%d hosts met after %s: %s", m.hosts, span(time.Since(began)), strings.Join(m.names(), ", ")), nil
		}
		switch over := time.Now().After(end); {
		case over && m.last.Seats[m.me] == nil:
			return "", disproved("a meeting with the code %s is under way without this host (%s); give a code of their own to those that are to meet", m.rendezvous, strings.Join(m.names(), ", "))
		case over:
			return "", disproved("%d of %d hosts came to the rendezvous %s within %s (%s). Whoever was there at the same time and didn't meet them looks at another store "+
				"or another namespace: compare the last line that each prints; else they were started too far apart: give --within",
				len(m.last.Seats), m.hosts, m.rendezvous, span(m.within), strings.Join(m.names(), ", "))
		}
		if err := m.pause(ctx, meetingLook); err != nil {
			return "", err
		}
	}
}

// names are those of the hosts at the table.
func (m *meeting) names() (names []string) {
	for _, s := range m.last.Seats {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return names
}

// all says that all hosts are there, and have come as far.
func (m *meeting) all(stage int) bool {
	n := 0
	for _, s := range m.last.Seats {
		if s.Stage >= stage {
			n++
		}
	}
	return n == m.hosts
}

// update looks at the table, and sits down at it or says how it stands here, when it is time for that.
func (m *meeting) update(ctx context.Context) error {
	for {
		bounded, cancel := m.env.bound(ctx)
		note, err := m.notes.Note(bounded, m.env.Namespace, m.note)
		if err != nil {
			cancel()
			return err
		}
		t, err := m.read(note.Text)
		if err != nil {
			cancel()
			return err
		}
		changed, err := m.change(&t)
		if err == nil && changed {
			var text []byte
			if text, err = json.Marshal(t); err == nil {
				_, err = m.notes.SetNote(bounded, m.env.Namespace, m.note, note.Version, string(text))
			}
		}
		cancel()
		switch {
		case errors.Is(err, onerun.ErrState): // somebody else was faster; or it was this one, and the answer was lost
			continue
		case err == nil:
			m.last = t
		}
		return err
	}
}

// read reads the table as it stands, and hears who has said something.
func (m *meeting) read(text string) (t table, err error) {
	if text != "" && (json.Unmarshal([]byte(text), &t) != nil || t.ID == "" || slices.Contains(slices.Collect(maps.Values(t.Seats)), nil)) {
		return t, &onerun.StoreError{Kind: onerun.ErrState, What: "rendezvous " + m.rendezvous, Err: errTable, Do: "use another code"}
	}
	now := time.Now()
	for id, s := range t.Seats {
		switch h, known := m.heard[id]; {
		case !known:
			m.heard[id] = heardFrom{beat: s.Beat, at: now}
		case h.beat != s.Beat:
			m.heard[id] = heardFrom{beat: s.Beat, at: now, changed: true}
		}
	}
	return t, nil
}

// change makes the table what it is to be by this host's word, if that differs from what it is.
func (m *meeting) change(t *table) (changed bool, err error) {
	if t.Seats[m.me] == nil && m.stage == stageHere {
		return m.sitDown(t)
	}
	own := t.Seats[m.me]
	if own == nil {
		return false, disproved("the meeting was ended by another start with the code %s", m.rendezvous)
	}
	if m.stage == stageHere {
		for id := range t.Seats { // ghosts keep nobody's place
			if id != m.me && t.Seats[id].Stage == stageHere && time.Since(m.heard[id].at) > ghostAfter {
				delete(t.Seats, id)
				changed = true
			}
		}
		if m.everybody(t) {
			m.stage = stageReady
		}
	}
	if own.Stage != m.stage || len(own.Wins) != len(m.mine.Wins) || own.Failed != m.mine.Failed || time.Since(m.heard[m.me].at) > beatMeeting {
		m.mine.Beat++
		m.mine.Stage = m.stage
		mine := m.mine
		t.Seats[m.me], changed = &mine, true
	}
	return changed, nil
}

// everybody says that as many are there as are to be, each of them seen alive.
func (m *meeting) everybody(t *table) bool {
	for id := range t.Seats {
		if id != m.me && !m.heard[id].changed {
			return false
		}
	}
	return len(t.Seats) == m.hosts
}

// sitDown joins the meeting, or begins one where there is none that lives.
func (m *meeting) sitDown(t *table) (bool, error) {
	full, silent := len(t.Seats) >= m.hosts, true
	for id, s := range t.Seats {
		full = full || s.Stage != stageHere
		silent = silent && time.Since(m.heard[id].at) > ghostAfter
	}
	switch {
	case t.ID == "" || silent: // what is left of an earlier one is nobody's any more
		*t = table{ID: onerun.NewID()[:12], Hosts: m.hosts, Rounds: m.rounds, Seats: map[string]*seated{}}
	case t.Hosts != m.hosts || t.Rounds != m.rounds:
		return false, usage("the rendezvous %s is one of %d hosts and %d rounds; give --hosts %[2]d --rounds %[3]d here too", m.rendezvous, t.Hosts, t.Rounds)
	case full: // it is under way without this host, or ends right now
		return false, nil
	}
	mine := m.mine
	t.Seats[m.me] = &mine
	return true, nil
}

// leave leaves the table, once the others have seen all that this host had to say; the last one
// clears it.
func (m *meeting) leave(ctx context.Context) {
	if m.notes == nil || m.last.Seats[m.me] == nil {
		return
	}
	if m.stage != stageHere {
		if m.mine.Failed == "" {
			m.stage = stageDone
		}
		for end := time.Now().Add(lingerMost); m.update(ctx) == nil && !m.done() && time.Now().Before(end); {
			_ = m.pause(ctx, meetingLook) // an end of ctx is one of update's, too
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(m.env.StoreTimeout))
	defer cancel()
	for errors.Is(m.getUp(ctx), onerun.ErrState) {
		continue // somebody else was faster
	}
}

// done says that whoever is still there needs nobody any more.
func (m *meeting) done() bool {
	for _, s := range m.last.Seats {
		if s.Stage < stageDone && s.Failed == "" {
			return false
		}
	}
	return true
}

// getUp takes this host off the table.
func (m *meeting) getUp(ctx context.Context) error {
	note, err := m.notes.Note(ctx, m.env.Namespace, m.note)
	if err != nil {
		return err
	}
	t, err := m.read(note.Text)
	if err != nil || t.Seats[m.me] == nil {
		return nil // it is somebody else's by now
	}
	delete(t.Seats, m.me)
	for id := range t.Seats { // who was killed clears nothing up
		if h, known := m.heard[id]; known && time.Since(h.at) > silentAfter {
			delete(t.Seats, id)
		}
	}
	var text []byte
	if len(t.Seats) > 0 {
		if text, err = json.Marshal(t); err != nil {
			return nil
		}
	}
	_, err = m.notes.SetNote(ctx, m.env.Namespace, m.note, note.Version, string(text))
	return err
}
