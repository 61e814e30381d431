package schedule

import "time"

// parseDayStart reads HH:MM, 00:00 to 23:59, as seconds after midnight by the
// wall clock. Nothing given is midnight.
func parseDayStart(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	t, err := time.Parse("15:04", s)
	if err != nil || !shaped(s, "99:99") {
		return 0, &UsageError{
			"--day-start", s, orForeign(s, "that is not a time of day"),
			"give HH:MM from 00:00 to 23:59, such as 06:00",
		}
	}
	return int64(t.Hour()*3600 + t.Minute()*60), nil
}

// lookBack is more than two offsets can differ: all of the database lie within
// 16 hours of UTC. A clock set back longer ago than that has caught up again.
const lookBack = 48 * time.Hour

// businessDate is the date whose business day holds the instant at; see
// "Where a day begins" in the package documentation. dayStart is in seconds.
//
// A day has begun once the wall clock has shown its day-start or something
// later, so what counts is not the clock's reading now but its highest reading
// so far. The two differ only for a while after a clock was set back.
func businessDate(at time.Time, loc *time.Location, dayStart int64) civil {
	segment := at.In(loc)
	highest := wallSeconds(segment)
	for {
		// In years after the last one the database lists, bounds at New Year are
		// reported that are no change; looking past them does no harm.
		start, _ := segment.ZoneBounds()
		if start.IsZero() || at.Sub(start) > lookBack {
			break
		}
		segment = start.Add(-1) // the last instant under the offset before
		highest = max(highest, wallSeconds(segment))
	}
	return civil(floorDiv(highest-dayStart, secondsPerDay))
}

// wallSeconds is the reading of the wall clock as seconds since it read
// 1970-01-01T00:00:00, fractions dropped: a boundary is always at a whole second.
func wallSeconds(t time.Time) int64 {
	_, offset := t.Zone()
	return t.Unix() + int64(offset)
}

// floorDiv rounds towards the past, also before 1970. b must be positive.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
