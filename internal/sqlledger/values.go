package sqlledger

import (
	"math"
	"reflect"
	"strings"
	"time"
)

// Clean makes a text one that a server takes: NUL and broken UTF-8 become the replacement
// character.
func Clean(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}

// Null is a value, or nil for an empty one.
func Null[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Or is what a pointer points to, or the zero value.
func Or[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// The times that are kept as they are, in seconds since 1970: the second day of the year 1, and
// the last but one of 9999. Others are a broken clock's, and the nearest that a server and this
// program both know.
const (
	firstSecond = -62135510400
	lastSecond  = 253402128000
)

// FirstTime is the first time that is kept as it is.
func FirstTime() time.Time { return time.Unix(firstSecond, 0).UTC() }

// Micros is a time as it travels: in microseconds since 1970; nil for none.
func Micros(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	us := int64(lastSecond) * 1e6
	switch s := t.Unix(); {
	case s < firstSecond:
		us = firstSecond * 1e6
	case s < lastSecond:
		us = t.UnixMicro()
	}
	return &us
}

// FromMicros is a time that has travelled; zero for none.
func FromMicros(us *int64) time.Time {
	if us == nil {
		return time.Time{}
	}
	return time.UnixMicro(*us).UTC()
}

// Micro is a duration that has travelled.
func Micro(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// CeilMicros rounds up: a lease may be longer than its owner thinks, and never shorter.
func CeilMicros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

// Within is a number that fits into a server's integer.
func Within(n int) int { return max(min(n, math.MaxInt32), math.MinInt32) }

// ExitCode is an exit code that fits into a server's integer; nil for none.
func ExitCode(code *int) *int {
	if code == nil {
		return nil
	}
	n := Within(*code)
	return &n
}

// Params are arguments as a server takes them: text is valid text, whatever its Go type.
func Params(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		switch v := reflect.ValueOf(a); {
		case v.Kind() == reflect.String:
			a = Clean(v.String())
		case v.Kind() == reflect.Pointer && !v.IsNil() && v.Elem().Kind() == reflect.String:
			a = Clean(v.Elem().String())
		}
		out[i] = a
	}
	return out
}
