package schedule

import (
	"strings"
	"time"
)

// civil is a calendar date: days since 1970-01-01 in the proleptic Gregorian
// calendar (ISO 8601). It has no zone, so plus and minus are exact.
type civil int64

const (
	firstDate civil = -719162 // 0001-01-01
	lastDate  civil = 2932896 // 9999-12-31, the last with a four-digit year
)

const secondsPerDay = 24 * 60 * 60

// midnight is the date as package time's calendar knows it.
func (d civil) midnight() time.Time { return time.Unix(int64(d)*secondsPerDay, 0).UTC() }

func (d civil) String() string { return d.midnight().Format(time.DateOnly) }

// inRange tells whether the date has a four-digit year other than 0000.
func (d civil) inRange() bool { return firstDate <= d && d <= lastDate }

// parseDate reads YYYY-MM-DD, the extended calendar date of ISO 8601: exactly
// ten ASCII characters, a date that exists, years 0001 to 9999. If it is not
// that, why says so.
func parseDate(s string) (d civil, why string) {
	if !shaped(s, "9999-99-99") {
		return 0, orForeign(s, "that is not of the form YYYY-MM-DD")
	}
	t, err := time.Parse(time.DateOnly, s)
	if err != nil || t.Year() < 1 {
		return 0, "there is no such day in the calendar"
	}
	return civil(t.Unix() / secondsPerDay), ""
}

// maxDaysAgo bounds Nd-ago to about a century: more is a typing error.
const maxDaysAgo = 36500

type dateKind int

const (
	absolute dateKind = iota
	daysAgo
	businessDay
	previousBusinessDay
)

// dateExpr is a parsed --date.
type dateExpr struct {
	kind dateKind
	day  civil // of an absolute date
	ago  int   // of daysAgo
}

func parseDateExpr(s string) (dateExpr, error) {
	switch s {
	case "today":
		return dateExpr{kind: daysAgo}, nil
	case "yesterday":
		return dateExpr{kind: daysAgo, ago: 1}, nil
	case "business-day":
		return dateExpr{kind: businessDay}, nil
	case "previous-business-day":
		return dateExpr{kind: previousBusinessDay}, nil
	}
	if n, ok := strings.CutSuffix(s, "d-ago"); ok {
		ago, ok := count(n, maxDaysAgo)
		if !ok {
			return dateExpr{}, badDate(s, orForeign(s, "the number of days is not one from 0 to 36500, without sign or leading zero"))
		}
		return dateExpr{kind: daysAgo, ago: ago}, nil
	}
	day, why := parseDate(s)
	if why != "" {
		return dateExpr{}, badDate(s, why)
	}
	return dateExpr{kind: absolute, day: day}, nil
}

func badDate(value, why string) *UsageError {
	return &UsageError{
		"--date", value, why,
		"give YYYY-MM-DD, today, yesterday, 3d-ago, business-day or previous-business-day",
	}
}

// from counts a relative date from the business date today. It does calendar
// arithmetic only: no instant and no zone is involved any more.
func (e dateExpr) from(today civil, cal *Calendar) (civil, error) {
	switch e.kind {
	case daysAgo:
		return today - civil(e.ago), nil
	case businessDay:
		return cal.onOrBefore(today)
	case previousBusinessDay:
		return cal.onOrBefore(today - 1)
	}
	return e.day, nil
}
