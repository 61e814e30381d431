package schedule

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// Calendar tells business days from others: Saturdays, Sundays and the dates
// listed as holidays are none. It does not change once made, so any number of
// goroutines may use it.
type Calendar struct {
	name     string
	holidays map[civil]struct{}
}

const (
	maxCalendarBytes = 1 << 20 // a century of holidays is some 20 KiB
	maxCalendarFlaws = 5       // after so many, the rest is only counted: what is no calendar at all has thousands
	maxCalendarShown = 60      // bytes of a bad line
	maxSearchDays    = 3660    // ten years: the longest closure looked through
)

// LoadCalendar reads a calendar file; see ParseCalendar. A file that cannot be
// read is reported with its cause wrapped, so errors.Is(err, fs.ErrNotExist)
// and errors.As to a *fs.PathError work; such an error is no *UsageError.
func LoadCalendar(path string) (*Calendar, error) {
	if path == "" {
		return nil, badCalendar("", "the name of the file is empty")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, &readError{path, err}
	}
	defer func() { _ = f.Close() }() // only read from
	return ParseCalendar(f, path)
}

// ParseCalendar reads holidays: an iCalendar file (RFC 5545), whose events of
// whole days are holidays, also those that come back each year, up to the year
// 2100; or else one date YYYY-MM-DD a line. Blank lines count
// for nothing, nor does anything from a "#" to the end of its line, nor blanks
// around a date, nor a UTF-8 byte order mark at the start; a line may end in
// CR LF. Dates may come in any order and more than once. Without a single date
// the calendar knows weekends only. name is for error messages.
//
// What is wrong in the text comes as one *UsageError for --calendar that lists
// the first five bad lines with their numbers, and counts the others. An error from
// r is wrapped instead.
func ParseCalendar(r io.Reader, name string) (*Calendar, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxCalendarBytes+1))
	if err != nil {
		return nil, &readError{name, err}
	}
	if len(text) > maxCalendarBytes {
		return nil, badCalendar(name, "it is longer than 1 MiB, so hardly a list of holidays")
	}
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return nil, badCalendar(name, "it is encoded in UTF-16, and only UTF-8 is read")
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	c := &Calendar{name: name, holidays: map[civil]struct{}{}}
	var flaws []string
	bad := 0
	flaw := func(line int, what, why string) {
		if bad++; bad <= maxCalendarFlaws {
			flaws = append(flaws, fmt.Sprintf("line %d: %s: %s", line, quoteUpTo(what, maxCalendarShown), why))
		}
	}
	if isICalendar(string(text)) {
		(&icalendar{calendar: c, flaws: flaw}).read(string(text))
	} else {
		c.lines(string(text), flaw)
	}
	if bad > maxCalendarFlaws {
		flaws = append(flaws, fmt.Sprintf("and %d more bad lines", bad-maxCalendarFlaws))
	}
	if bad > 0 {
		return nil, badCalendar(name, strings.Join(flaws, ", "))
	}
	return c, nil
}

// lines reads one date a line.
func (c *Calendar) lines(text string, flaw func(line int, what, why string)) {
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		entry, _, _ := strings.Cut(line, "#")
		entry = strings.Trim(strings.TrimSuffix(entry, "\r"), " \t")
		if entry == "" {
			continue
		}
		day, why := parseDate(entry)
		if why != "" {
			flaw(number, entry, why)
			continue
		}
		c.holidays[day] = struct{}{}
	}
}

func badCalendar(name, why string) *UsageError {
	return &UsageError{"--calendar", name, why, "give a text file with one holiday YYYY-MM-DD a line, comments after #, or an iCalendar file of whole days"}
}

// readError says why a calendar file could not be read. It leaves out the path
// that a *fs.PathError repeats unquoted, so that the message stays one line
// whatever the file is called.
type readError struct {
	name string
	err  error
}

func (e *readError) Error() string {
	cause := e.err
	var pe *fs.PathError
	if errors.As(cause, &pe) {
		cause = pe.Err
	}
	return fmt.Sprintf("--calendar %s: the file cannot be read: %v; check its path and permissions", quote(e.name), cause)
}

func (e *readError) Unwrap() error { return e.err }

func (c *Calendar) isBusinessDay(d civil) bool {
	if wd := d.midnight().Weekday(); wd == time.Saturday || wd == time.Sunday {
		return false
	}
	_, holiday := c.holidays[d]
	return !holiday
}

// onOrBefore is the latest business day that is not after d. The search is
// bounded, so that a calendar full of holidays is an error and not a hang.
func (c *Calendar) onOrBefore(d civil) (civil, error) {
	for day := d; day > d-maxSearchDays && day.inRange(); day-- {
		if c.isBusinessDay(day) {
			return day, nil
		}
	}
	return 0, &UsageError{
		"--calendar", c.name,
		fmt.Sprintf("it leaves no business day in the ten years up to %s", d), "check the file, it lists holidays and not business days",
	}
}
