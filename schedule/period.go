package schedule

import (
	"fmt"
	"strings"
	"time"
)

// period is a parsed --period; the zero value is none.
type period struct {
	unit    string // "hour", "day", "week", "month" or "minutes"
	minutes int    // of "minutes": 1 to 1440
}

// maxMinutes bounds Nm: a longer slot is a day, a week or a month.
const maxMinutes = 24 * 60

func parsePeriod(s string) (period, error) {
	switch s {
	case "":
		return period{}, nil
	case "hour", "day", "week", "month":
		return period{unit: s}, nil
	}
	if n, ok := strings.CutSuffix(s, "m"); ok {
		if minutes, ok := count(n, maxMinutes); ok && minutes > 0 {
			return period{"minutes", minutes}, nil
		}
	}
	return period{}, &UsageError{
		"--period", s, orForeign(s, "that is not a period"),
		"give hour, day, week, month, or minutes from 1m to 1440m such as 5m",
	}
}

// local tells whether the period depends on a zone.
func (p period) local() bool { return p.unit != "" && p.unit != "minutes" }

// label names the slot that holds the instant at. loc may be nil when the
// period is not local.
func (p period) label(at time.Time, loc *time.Location, dayStart int64) (string, error) {
	if p.unit == "minutes" {
		return minutesLabel(at, p.minutes), nil
	}
	if p.unit == "hour" {
		return hourLabel(at.In(loc))
	}
	day := businessDate(at, loc, dayStart)
	if !day.inRange() {
		return "", outOfRange(at)
	}
	switch p.unit {
	case "week":
		// ISO 8601: week 1 holds the year's first Thursday, so the days around
		// New Year may belong to the week's year, not to their own.
		year, week := day.midnight().ISOWeek()
		return fmt.Sprintf("%04d-W%02d", year, week), nil
	case "month":
		return day.midnight().Format("2006-01"), nil
	}
	return day.String(), nil
}

// minutesLabel is the start of the slot in UTC. Slots count from the Unix
// epoch, 1970-01-01T00:00:00Z, so they are the same on every host and in every
// zone, and line up with hours and UTC days when n divides 60 or 1440.
func minutesLabel(at time.Time, n int) string {
	length := int64(n) * 60
	start := floorDiv(at.Unix(), length) * length
	return time.Unix(start, 0).UTC().Format("2006-01-02T15:04:05Z")
}

// hourLabel is the hour the wall clock shows and its offset from UTC as in
// RFC 3339, "+00:00" for UTC itself. The offset tells apart an hour that the
// clock shows twice. Where only half an hour is skipped or repeated (Lord Howe),
// each side of the change is a slot of its own. An offset with seconds, as
// local mean time had, is written with them ("+00:19:32"): rounded, two
// offsets could become one label.
func hourLabel(local time.Time) (string, error) {
	if y := local.Year(); y < 1 || y > 9999 {
		return "", outOfRange(local)
	}
	layout := "2006-01-02T15-07:00"
	if _, offset := local.Zone(); offset%60 != 0 {
		layout = "2006-01-02T15-07:00:00"
	}
	return local.Format(layout), nil
}
