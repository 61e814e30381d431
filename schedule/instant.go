package schedule

import (
	"fmt"
	"strings"
	"time"
)

// parseInstant reads a date-time of RFC 3339 section 5.6, with any number of
// fractional digits (those after the ninth are dropped). As the RFC allows,
// "t" and "z" may be lower case and a space may stand for the "T". The result
// is in UTC and after the zero time.Time.
//
// Refused: a time without an offset, which names a different instant on every
// host; a leap second, which Unix time cannot hold; a zone suffix of RFC 9557,
// since --tz says the zone.
func parseInstant(s string) (time.Time, error) {
	refuse := func(why string) (time.Time, error) {
		return time.Time{}, &UsageError{
			"--at", s, why,
			"give RFC 3339 with an offset, such as 2026-09-15T01:00:00+09:00 or 2026-09-14T16:00:00Z",
		}
	}
	const dateTime = "9999-99-99T99:99:99"
	canonical := []byte(s)
	if len(s) >= len(dateTime) && strings.ContainsRune("Tt ", rune(s[10])) {
		canonical[10] = 'T'
	}
	if n := len(s); n > 0 && s[n-1] == 'z' {
		canonical[n-1] = 'Z'
	}
	c := string(canonical)
	if len(c) < len(dateTime) || !shaped(c[:len(dateTime)], dateTime) {
		return refuse(orForeign(s, "that is not a time of RFC 3339"))
	}
	rest := c[len(dateTime):]
	if fraction, ok := strings.CutPrefix(rest, "."); ok {
		rest = strings.TrimLeft(fraction, "0123456789") // time.Parse wants at least one
	}
	if rest == "" {
		return refuse("without an offset from UTC that is a different instant in every zone")
	}
	if rest != "Z" && !shaped(rest, "+99:99") && !shaped(rest, "-99:99") {
		return refuse(orForeign(s, "that is not a time of RFC 3339"))
	}
	if rest != "Z" && (rest[1:3] > "23" || rest[4:6] > "59") {
		return refuse("there is no such offset from UTC") // package time takes +24:00 and +00:60
	}
	t, err := time.Parse(time.RFC3339Nano, c)
	if err != nil {
		return refuse("there is no such time")
	}
	if t = t.UTC(); !t.After(time.Time{}) || !datable(t) {
		return refuse("only the years 0001 to 9999 can be used")
	}
	return t, nil
}

// datable tells whether the instant's year in UTC is from 0001 to 9999.
func datable(t time.Time) bool {
	return int64(firstDate)*secondsPerDay <= t.Unix() && t.Unix() < int64(lastDate+1)*secondsPerDay
}

// outOfRange refuses an instant whose label would need a year before 0001 or
// after 9999. Without --at that means the host's clock is badly wrong.
func outOfRange(at time.Time) *UsageError {
	return &UsageError{
		Flag: "--at",
		Why:  fmt.Sprintf("the slot of the instant %d s after 1970 lies outside the years 0001 to 9999", at.Unix()),
		Do:   "give another --at, or set the clock if none was given",
	}
}
