package schedule

import (
	"math"
	"time"
)

// DST says what becomes of the fixed times of a schedule when the wall clock is changed. A time is
// fixed unless its minute or hour field starts with a star: those follow elapsed time, and fire
// whenever the clock shows one of theirs, as with cron(8).
//
// A change of three hours or more is a correction of the clock, and no daylight saving: fixed times
// too are then whenever the clock shows them.
type DST string

// The choices.
const (
	DSTOnce  DST = "once"  // as cron(8): a time that is skipped is right after the jump, and one that is shown twice the first time
	DSTSkip  DST = "skip"  // a time that is skipped isn't; one that is shown twice is the first time
	DSTTwice DST = "twice" // a time that is skipped is right after the jump; one that is shown twice is both times
)

// correction is the change from which on it is no daylight saving.
const correction = 3 * 60 * 60

// ParseDST reads a choice; "" is DSTOnce.
//
// Errors: a *UsageError for --dst.
func ParseDST(text string) (DST, error) {
	switch d := DST(text); d {
	case "":
		return DSTOnce, nil
	case DSTOnce, DSTSkip, DSTTwice:
		return d, nil
	}
	return "", &UsageError{"--dst", text, orForeign(text, "there is no such choice"), "give once, skip or twice"}
}

// Schedule tells the instants of a cron expression in a zone.
type Schedule struct {
	Cron *Cron
	Zone *time.Location
	DST  DST // "": DSTOnce
}

// Next is the first instant after t; false: there is none, as for @reboot.
func (s Schedule) Next(t time.Time) (time.Time, bool) {
	return s.found(s.search(t.Unix() + 1))
}

// Previous is the last instant before t; false: there is none.
func (s Schedule) Previous(t time.Time) (time.Time, bool) {
	u := t.Unix()
	if t.Nanosecond() == 0 {
		u--
	}
	return s.found(s.searchBack(u))
}

func (s Schedule) found(u int64, ok bool) (time.Time, bool) {
	if !ok || u < int64(firstDate)*secondsPerDay || u >= int64(lastDate+1)*secondsPerDay {
		return time.Time{}, false
	}
	return time.Unix(u, 0).UTC(), true
}

// segment is a stretch of time under one offset from UTC.
type segment struct {
	start, end int64 // [start, end)
	offset     int64

	shownFrom, shownTo int64 // the local times that fixed times don't count, having been shown before: [from, to)
	skipped            int64 // how many seconds before its first local time were skipped; 0: none that count
}

// at is the segment of an instant.
func (s Schedule) at(u int64) segment {
	t := time.Unix(u, 0).In(s.Zone)
	_, offset := t.Zone()
	g := segment{start: math.MinInt64, end: math.MaxInt64, offset: int64(offset)}
	start, end := t.ZoneBounds()
	if !end.IsZero() {
		g.end = end.Unix()
	}
	if g.end <= u { // package time has the last day of leap years wrong, after the last change that a zone's file lists
		g.end = (floorDiv(u, secondsPerDay) + 1) * secondsPerDay
	}
	if start.IsZero() {
		return g
	}
	g.start = start.Unix()
	if s.Cron.follows {
		return g
	}
	before := time.Unix(g.start-1, 0).In(s.Zone)
	_, was := before.Zone()
	switch change := int64(offset - was); {
	case change > 0 && change < correction && s.DST != DSTSkip:
		g.skipped = change
	case change < 0 && change > -correction && s.DST != DSTTwice:
		g.shownFrom, g.shownTo = g.start+g.offset, g.start+int64(was)
		if from, _ := before.ZoneBounds(); !from.IsZero() { // it showed no more than it lasted
			g.shownFrom = max(g.shownFrom, from.Unix()+int64(was))
		}
	}
	return g
}

// afterJump reports whether a fixed time was skipped right before a segment.
func (s Schedule) afterJump(g segment) bool {
	if g.skipped == 0 {
		return false
	}
	l, ok := s.Cron.next(g.start + g.offset - g.skipped)
	return ok && l < g.start+g.offset
}

// Slot is what a spec comes to for the time of the schedule at an instant. A fixed time that the clock skips fires right after the
// jump, and belongs to the day and the hour in which it would have been: else 23:30 of a day whose clock jumps to midnight would be
// of the next day, which then had two, and its own none. Everything else is as with Spec.Resolve, whose errors it has.
func (s Schedule) Slot(spec Spec, at time.Time) (Slot, error) {
	spec.At = at.UTC().Format(time.RFC3339)
	return spec.resolve(at, s.meant(at.Unix()))
}

// meant is the last skipped time that fires at an instant, as the clock before the jump would have shown it; zero: none, or the
// clock shows one of the schedule's times.
func (s Schedule) meant(u int64) time.Time {
	c := s.Cron
	if c.reboot || c.every > 0 {
		return time.Time{}
	}
	g := s.at(u)
	first := g.start + g.offset
	if u != g.start || !s.afterJump(g) {
		return time.Time{}
	}
	if l, ok := c.next(first); ok && l == first {
		return time.Time{}
	}
	l, _ := c.previous(first - 1)
	was := g.offset - g.skipped
	return time.Unix(l-was, 0).In(time.FixedZone("", int(was)))
}

// search finds the first instant from u on.
func (s Schedule) search(u int64) (int64, bool) {
	c := s.Cron
	switch {
	case c.reboot:
		return 0, false
	case c.every > 0:
		step := int64(c.every / time.Second)
		return -floorDiv(-u, step) * step, true
	}
	for {
		g := s.at(u)
		if u == g.start && s.afterJump(g) {
			return u, true
		}
		l, ok := c.next(u + g.offset)
		if ok && g.shownFrom <= l && l < g.shownTo {
			l, ok = c.next(g.shownTo)
		}
		switch {
		case !ok:
			return 0, false
		case l-g.offset < g.end:
			return l - g.offset, true
		}
		// Nothing comes before the day of l, whatever the offset is then.
		u = max(g.end, l-int64(lookBack/time.Second))
	}
}

// searchBack finds the last instant up to u.
func (s Schedule) searchBack(u int64) (int64, bool) {
	c := s.Cron
	switch {
	case c.reboot:
		return 0, false
	case c.every > 0:
		step := int64(c.every / time.Second)
		return floorDiv(u, step) * step, true
	}
	for {
		g := s.at(u)
		l, ok := c.previous(u + g.offset)
		if ok && g.shownFrom <= l && l < g.shownTo {
			l, ok = c.previous(g.shownFrom - 1)
		}
		switch {
		case ok && l-g.offset >= g.start:
			return l - g.offset, true
		case g.start != math.MinInt64 && s.afterJump(g):
			return g.start, true
		case !ok || g.start == math.MinInt64:
			return 0, false
		}
		u = min(g.start-1, l+int64(lookBack/time.Second))
	}
}
