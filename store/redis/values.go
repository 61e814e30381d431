package redis

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// clean makes a text one that JSON carries as it is.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// encode writes a value of this package's own as JSON.
func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil { // there is nothing in these types that JSON doesn't know
		panic(err)
	}
	return string(b)
}

// The times that are kept as they are. Others are a broken clock's, and the nearest that both
// a script, whose numbers have 53 bits, and this program know.
var (
	firstTime = time.Date(1700, 1, 1, 0, 0, 0, 0, time.UTC)
	lastTime  = time.Date(2250, 1, 1, 0, 0, 0, 0, time.UTC)
)

// micros is a time as it is kept: microseconds since 1970, in digits; "" for none.
func micros(t time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case t.Before(firstTime):
		t = firstTime
	case t.After(lastTime):
		t = lastTime
	}
	return strconv.FormatInt(t.UnixMicro(), 10)
}

// fromMicros reads a time; what is none gives none.
func fromMicros(s string) time.Time {
	us, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// number reads a number; what is none gives 0.
func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

func digits[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// span is a duration as it is kept: in microseconds, and within a script's numbers.
func span(d time.Duration) string { return digits(min(d.Microseconds(), 1<<52)) }

// ceilMicros rounds up: a lease may be longer than its owner thinks, and never shorter.
func ceilMicros(d time.Duration) string {
	return digits(int64((d + time.Microsecond - 1) / time.Microsecond))
}

// within is a number that every store takes.
func within(n int) int { return max(min(n, math.MaxInt32), math.MinInt32) }

func flag(b bool) string {
	if b {
		return "1"
	}
	return ""
}
