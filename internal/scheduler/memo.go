package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/schedule"
)

// memo is what the instances know together of one job.
type memo struct {
	Digest     string    `json:"digest"`
	Generation int64     `json:"generation"`
	Since      time.Time `json:"since"` // nothing up to it was missed
	Done       time.Time `json:"done"`  // every slot up to it was taken; later ones may be, before earlier ones
	Taken      []taken   `json:"taken"` // oldest first: those after Done, and the last ones before it
}

// taken is a slot that an instance has taken.
type taken struct {
	Slot   time.Time `json:"slot"`
	By     string    `json:"by"`
	Missed *Missed   `json:"missed,omitempty"` // the slots that are told of and not started, of which this is the last
	Again  bool      `json:"again,omitempty"`  // no slot, but the time at which a retry or a rerun could be taken
	Waits  bool      `json:"waits,omitempty"`  // its fire waits on that instance, perhaps for long
}

// How many slots a memo keeps. A slot is looked for when its instance is found dead, which is after deadAfter; a job that
// fires each second needs as many. More than mostTaken are only there when an early slot is never taken, and Done stands still.
const (
	keepTaken  = 2 * time.Minute
	leastTaken = 8
	mostTaken  = 400
)

// memoPrefix is before the job's name in the name of its note.
const memoPrefix = "schedule/"

// by says who took a slot; "": nobody.
func (m memo) by(slot time.Time) string {
	for _, t := range m.Taken {
		if t.Slot.Equal(slot) {
			return t.By
		}
	}
	return ""
}

// with is the memo after an instance took a slot of a schedule.
func (m memo) with(now taken, s schedule.Schedule) memo {
	m.Taken = slices.DeleteFunc(slices.Clone(m.Taken), func(t taken) bool { return t.Slot.Equal(now.Slot) })
	m.Taken = append(m.Taken, now)
	slices.SortFunc(m.Taken, func(a, b taken) int { return a.Slot.Compare(b.Slot) })
	return m.tidy(now, s)
}

// tidy moves Done on, and forgets what nobody will look for.
func (m memo) tidy(now taken, s schedule.Schedule) memo {
	if now.Missed != nil && !now.Missed.First.After(m.next(s)) {
		m.Done = later(m.Done, now.Missed.Last)
	}
	for next := m.next(s); !next.IsZero() && m.by(next) != ""; next = m.next(s) {
		m.Done = next
	}
	old := now.Slot.Add(-keepTaken)
	left := len(m.Taken)
	m.Taken = slices.DeleteFunc(m.Taken, func(t taken) bool {
		if left <= leastTaken || left <= mostTaken && (t.Waits || !t.Slot.Before(old) || t.Slot.After(m.Done)) {
			return false
		}
		left--
		m.Done = later(m.Done, t.Slot)
		return true
	})
	return m
}

// next is the first slot after Done; zero: there is none.
func (m memo) next(s schedule.Schedule) time.Time {
	next, ok := s.Next(m.Done)
	if !ok {
		return time.Time{}
	}
	return next
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// page is a memo as the store has it.
type page struct {
	memo
	version int64
}

// book reads and writes memos.
type book struct {
	notes     onerun.Notebook
	namespace string
}

func (b book) read(ctx context.Context, job string) (page, error) {
	n, err := b.notes.Note(ctx, b.namespace, memoPrefix+job)
	if err != nil {
		return page{}, err
	}
	return parsePage(n)
}

// write puts a memo in the place of a page. Where that has changed, it gives the page as it is
// now, and onerun.ErrState.
func (b book) write(ctx context.Context, job string, version int64, m memo) (page, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return page{}, err
	}
	n, err := b.notes.SetNote(ctx, b.namespace, memoPrefix+job, version, string(text))
	if err != nil && !errors.Is(err, onerun.ErrState) {
		return page{}, err
	}
	now, wrong := parsePage(n)
	if wrong != nil {
		return page{}, wrong
	}
	return now, err
}

func parsePage(n onerun.Note) (page, error) {
	p := page{version: n.Version}
	if n.Text == "" {
		return p, nil
	}
	if err := json.Unmarshal([]byte(n.Text), &p.memo); err != nil {
		return p, fmt.Errorf("the note %s can't be read: %w", n.Name, err)
	}
	return p, nil
}
