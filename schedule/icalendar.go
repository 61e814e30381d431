package schedule

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// icalendar reads the holidays of an iCalendar file (RFC 5545): each event of whole days is one, with all its days, also one
// that comes back each year. What it doesn't know for sure, such as an event with a time of day, is a flaw: a holiday that is
// left out in silence would be a day on which money moves.
type icalendar struct {
	calendar *Calendar
	flaws    func(line int, what, why string)

	open  []component // from the outermost
	ended bool        // END:VCALENDAR was seen
	rules int
}

// component is one that BEGIN has opened, and that END hasn't closed.
type component struct {
	name  string
	line  int
	event *event // of a VEVENT
}

// event is a VEVENT as far as it was read.
type event struct {
	start, end  civil // end: the day after its last; 0: its DURATION or one day
	days        int   // of its DURATION; 0: it has none
	has         map[string]bool
	rule        *yearly
	more, fewer []civil // RDATE, EXDATE
	cancelled   bool
	flawed      bool
}

const (
	lastYear       = 2100 // up to which what comes back each year is known
	maxYearlyRules = 100
	firstYear      = 1900 // from which a row may begin
	maxEventDays   = 366
)

// isICalendar knows a file of RFC 5545 by its first line.
func isICalendar(text string) bool {
	const begin = "BEGIN:VCALENDAR"
	text = strings.TrimLeft(text, " \t\r\n")
	return len(text) >= len(begin) && strings.EqualFold(text[:len(begin)], begin)
}

// read reads the whole text. A line that begins with a blank goes on with the one before it.
func (i *icalendar) read(text string) {
	line, number, at := "", 0, 0
	for next := range strings.SplitSeq(text, "\n") {
		number++
		next = strings.TrimSuffix(next, "\r")
		if next != "" && (next[0] == ' ' || next[0] == '\t') {
			line += next[1:]
			continue
		}
		i.line(at, line)
		line, at = next, number
	}
	i.line(at, line)
	if !i.ended {
		i.flaws(number, "the end of the file", "END:VCALENDAR is missing, so the file was cut off")
	}
}

// line reads a content line: NAME;PARAMETERS:VALUE.
func (i *icalendar) line(number int, text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	name, params, value, ok := property(text)
	switch {
	case !ok:
		i.flaws(number, text, "that is no line of an iCalendar file, which has a name, a colon and a value")
	case name == "BEGIN":
		c := component{name: strings.ToUpper(value), line: number}
		if c.name == "VEVENT" {
			c.event = &event{has: map[string]bool{}}
		}
		i.open, i.ended = append(i.open, c), false
	case name == "END":
		if len(i.open) == 0 || i.open[len(i.open)-1].name != strings.ToUpper(value) {
			i.flaws(number, text, "nothing of that name was begun last")
			return
		}
		c := i.open[len(i.open)-1]
		i.open = i.open[:len(i.open)-1]
		if c.event != nil {
			i.add(c)
		}
		i.ended = len(i.open) == 0
	case len(i.open) > 0 && i.open[len(i.open)-1].event != nil: // and not in an alarm of it
		e := i.open[len(i.open)-1].event
		if why := e.read(name, params, value); why != "" {
			e.flawed = true
			i.flaws(number, text, why)
		}
	}
}

// property takes a content line apart. A quoted parameter may hold colons.
func property(text string) (name, params, value string, ok bool) {
	quoted := false
	for n, c := range []byte(text) {
		switch {
		case c == '"':
			quoted = !quoted
		case c == ':' && !quoted:
			name, params, _ = strings.Cut(text[:n], ";")
			return strings.ToUpper(strings.TrimSpace(name)), strings.ToUpper(params), strings.TrimSpace(text[n+1:]), name != ""
		}
	}
	return "", "", "", false
}

// read takes a property of an event; why says what is wrong with it.
func (e *event) read(name, params, value string) (why string) {
	switch name {
	case "DTSTART", "DTEND", "DURATION", "RRULE", "STATUS":
		if e.has[name] {
			return "the event has two of them"
		}
		e.has[name] = true
	}
	switch name {
	case "DTSTART":
		e.start, why = wholeDay(params, value)
	case "DTEND":
		e.end, why = wholeDay(params, value)
	case "DURATION":
		e.days, why = daysOf(value)
	case "RDATE":
		e.more, why = dates(e.more, params, value)
	case "EXDATE":
		e.fewer, why = dates(e.fewer, params, value)
	case "RRULE":
		e.rule, why = parseYearly(value)
	case "RECURRENCE-ID", "EXRULE":
		why = "events that change one of a row are not read: write that row as single events"
	case "STATUS":
		e.cancelled = strings.EqualFold(value, "CANCELLED")
	}
	return why
}

// wholeDay reads a date, or midnight by some clock on a wall, which is how some programs write one.
func wholeDay(params, value string) (civil, string) {
	date, clock, timed := strings.Cut(value, "T")
	if timed && (clock != "000000" || strings.Contains(params, "VALUE=DATE") && !strings.Contains(params, "VALUE=DATE-TIME")) {
		return 0, "that is a time of day, and only events of whole days are holidays"
	}
	t, err := time.Parse("20060102", date)
	if err != nil || len(date) != 8 || t.Year() < 1 {
		return 0, "that is no date YYYYMMDD"
	}
	return civil(t.Unix() / secondsPerDay), ""
}

func dates(all []civil, params, value string) ([]civil, string) {
	for one := range strings.SplitSeq(value, ",") {
		day, why := wholeDay(params, one)
		if why != "" {
			return all, why
		}
		all = append(all, day)
	}
	return all, ""
}

// daysOf reads a duration of whole days: P3D, P1W.
func daysOf(value string) (int, string) {
	n, ok := strings.CutPrefix(strings.TrimPrefix(value, "+"), "P")
	unit := 1
	if weeks, is := strings.CutSuffix(n, "W"); is {
		n, unit = weeks, 7
	} else if n, is = strings.CutSuffix(n, "D"); !is {
		ok = false
	}
	days, err := strconv.Atoi(n)
	if !ok || err != nil || days < 1 || days*unit > maxEventDays {
		return 0, fmt.Sprintf("that is no duration of 1 to %d whole days, such as P1D", maxEventDays)
	}
	return days * unit, ""
}

// add puts the days of an event into the calendar.
func (i *icalendar) add(c component) {
	e := c.event
	switch {
	case e.flawed || e.cancelled:
		return
	case !e.has["DTSTART"]:
		i.flaws(c.line, "BEGIN:VEVENT", "the event has no DTSTART")
		return
	case e.has["DTEND"] && e.has["DURATION"]:
		i.flaws(c.line, "BEGIN:VEVENT", "the event has both DTEND and DURATION")
		return
	}
	long := max(e.days, 1)
	if e.has["DTEND"] {
		long = max(int(e.end-e.start), 1) // some write the same day twice for one day
		if e.end < e.start || long > maxEventDays {
			i.flaws(c.line, "BEGIN:VEVENT", fmt.Sprintf("the event ends on %s, and begins on %s: %d days are the most", e.end, e.start, maxEventDays))
			return
		}
	}
	starts := append([]civil{e.start}, e.more...)
	if e.rule != nil {
		if i.rules++; i.rules > maxYearlyRules {
			i.flaws(c.line, "RRULE", fmt.Sprintf("more than %d events come back each year", maxYearlyRules))
			return
		}
		if e.start.midnight().Year() < firstYear {
			i.flaws(c.line, "RRULE", fmt.Sprintf("the event comes back each year since before %d", firstYear))
			return
		}
		starts = append(starts, e.rule.after(e.start)...)
	}
	fewer := map[civil]bool{}
	for _, day := range e.fewer {
		fewer[day] = true
	}
	for _, day := range starts {
		if fewer[day] {
			continue
		}
		for n := range civil(long) {
			i.calendar.holidays[day+n] = struct{}{}
		}
	}
}
