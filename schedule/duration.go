package schedule

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// longest is the longest time that there is, in whole seconds: what is written as a duration again can be read.
const longest = (1<<63 - 1) / time.Second * time.Second

// ParseDuration reads a duration as every flag and key takes it: 90s, 5m, 2d, 1d12h, 1h30m, or bare seconds. A day has 24 hours.
func ParseDuration(text string) (time.Duration, error) {
	bad := func() (time.Duration, error) {
		return 0, fmt.Errorf("%q is no duration; write for example 90s, 5m, 2d, or bare seconds", text)
	}
	tooLong := func() (time.Duration, error) { return 0, fmt.Errorf("%q is out of range for a duration", text) }
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n < 0 || n > int64(longest/time.Second) {
			return tooLong()
		}
		return time.Duration(n) * time.Second, nil
	}
	rest, days := text, time.Duration(0)
	if n, tail, ok := strings.Cut(text, "d"); ok {
		v, err := strconv.ParseInt(n, 10, 64)
		if err != nil || v < 0 || v > 100_000 {
			return bad()
		}
		days, rest = time.Duration(v)*24*time.Hour, tail
		if rest == "" {
			return days, nil
		}
	}
	v, err := time.ParseDuration(rest)
	switch {
	case err != nil || v < 0 || v > longest:
		return bad()
	case v > longest-days:
		return tooLong()
	}
	return days + v, nil
}
