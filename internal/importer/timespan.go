package importer

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// timespan reads a span of time as systemd.time(7) has it: numbers with units, that add up; without a unit they are seconds.
func timespan(text string) (time.Duration, *refusal) {
	give := &refusal{fmt.Sprintf("%q is no span of time that can be said here", shown(text, 60)), "write a duration such as 90s, 5m or 2h into the configuration"}
	rest := strings.TrimSpace(text)
	if rest == "" {
		return 0, give
	}
	total := 0.0
	for rest != "" {
		end := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if end < 0 {
			end = len(rest)
		}
		n, err := strconv.ParseFloat(rest[:end], 64)
		if err != nil {
			return 0, give
		}
		rest = strings.TrimLeft(rest[end:], " \t")
		end = strings.IndexAny(rest, "0123456789. \t")
		if end < 0 {
			end = len(rest)
		}
		unit, ok := unitSeconds(rest[:end])
		if !ok {
			return 0, give
		}
		total += n * unit
		rest = strings.TrimLeft(rest[end:], " \t")
	}
	if total > 100*365*24*3600 {
		return 0, give
	}
	return time.Duration(math.Round(total*1e6)) * time.Microsecond, nil
}

// unitSeconds is how long a unit of systemd.time(7) is.
func unitSeconds(unit string) (float64, bool) {
	switch unit {
	case "", "s", "sec", "second", "seconds":
		return 1, true
	case "us", "usec", "µs", "μs":
		return 1e-6, true
	case "ms", "msec":
		return 1e-3, true
	case "m", "min", "minute", "minutes":
		return 60, true
	case "h", "hr", "hour", "hours":
		return 3600, true
	case "d", "day", "days":
		return 24 * 3600, true
	case "w", "week", "weeks":
		return 7 * 24 * 3600, true
	case "M", "month", "months":
		return 30.44 * 24 * 3600, true
	case "y", "year", "years":
		return 365.25 * 24 * 3600, true
	}
	return 0, false
}

// wholeSpan is timespan for what the configuration takes in whole seconds.
func wholeSpan(text string) (time.Duration, *refusal) {
	d, r := timespan(text)
	if r == nil && d%time.Second != 0 {
		return 0, &refusal{fmt.Sprintf("%q is no whole number of seconds", shown(text, 60)), "round it"}
	}
	return d, r
}

// systemdTrue reads a switch as systemd does.
func systemdTrue(text string) bool {
	switch strings.ToLower(text) {
	case "1", "yes", "y", "true", "t", "on":
		return true
	}
	return false
}
