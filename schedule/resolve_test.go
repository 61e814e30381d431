package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// instant is the time that tests without --at start from: a Tuesday.
var instant = time.Date(2026, 9, 15, 1, 7, 30, 0, time.UTC)

func resolve(t testing.TB, s Spec) Slot {
	t.Helper()
	slot, err := s.Resolve(instant)
	if err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	return slot
}

func date(t testing.TB, s string) civil {
	t.Helper()
	d, why := parseDate(s)
	if why != "" {
		t.Fatalf("%s: %s", s, why)
	}
	return d
}

// refused expects a usage error for flag that says want, and gives its text.
func refused(t testing.TB, s Spec, flag, want string) {
	t.Helper()
	slot, err := s.Resolve(instant)
	if slot != (Slot{}) {
		t.Errorf("%+v: a slot %+v beside the error", s, slot)
	}
	if msg := usage(t, err, flag); !strings.Contains(msg, want) {
		t.Errorf("%+v: %q does not say %q", s, msg, want)
	}
}

func usage(t testing.TB, err error, flag string) string {
	t.Helper()
	var ue *UsageError
	if !errors.As(err, &ue) {
		t.Fatalf("got %v (%T), want a usage error for %s", err, err, flag)
	}
	if ue.Flag != flag {
		t.Errorf("%v: blames %s, want %s", err, ue.Flag, flag)
	}
	if ue.Why == "" || ue.Do == "" {
		t.Errorf("%v: does not say why and what to do", err)
	}
	oneLine(t, err)
	return err.Error()
}

func oneLine(t testing.TB, err error) {
	t.Helper()
	msg := err.Error()
	if strings.ContainsFunc(msg, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("%q holds unprintable characters", msg)
	}
	if r := []rune(msg)[0]; unicode.IsUpper(r) {
		t.Errorf("%q starts with a capital", msg)
	}
}

func TestResolve(t *testing.T) {
	at := time.Date(2026, 9, 14, 16, 0, 0, 0, time.UTC)
	day := func(s string) Slot { return Slot{Partition: s, BusinessDate: s} }
	tests := []struct {
		name string
		spec Spec
		want Slot
	}{
		{"unkeyed", Spec{}, Slot{}},
		{"unkeyed at an instant", Spec{At: "2026-09-15T01:00:00+09:00"}, Slot{ScheduledAt: at}},
		{"partition", Spec{Partition: "eu:1+2"}, Slot{Partition: "eu:1+2"}},
		{"partition that looks like a date", Spec{Partition: "2026-09-15"}, Slot{Partition: "2026-09-15"}},
		{"partition with all that is harmless", Spec{Partition: "p", Zone: "Asia/Seoul", DayStart: "06:00", Calendar: &Calendar{}, At: "2026-09-15T01:00:00+09:00"}, Slot{Partition: "p", ScheduledAt: at}},
		{"absolute date without a zone", Spec{Date: "2026-02-28"}, day("2026-02-28")},
		{"absolute date with period day without a zone", Spec{Date: "2026-02-28", Period: "day"}, day("2026-02-28")},
		{"absolute date ignores day-start and calendar", Spec{Date: "2026-09-12", DayStart: "23:59", Calendar: &Calendar{}, Zone: "UTC"}, day("2026-09-12")},
		{"today in UTC", Spec{Date: "today", Zone: "UTC"}, day("2026-09-15")},
		{"today in Los Angeles", Spec{Date: "today", Zone: "America/Los_Angeles"}, day("2026-09-14")},
		{"yesterday", Spec{Date: "yesterday", Zone: "UTC"}, day("2026-09-14")},
		{"0d-ago", Spec{Date: "0d-ago", Zone: "UTC"}, day("2026-09-15")},
		{"3d-ago", Spec{Date: "3d-ago", Zone: "UTC"}, day("2026-09-12")},
		{"36500d-ago", Spec{Date: "36500d-ago", Zone: "UTC"}, day("1926-10-10")},
		{"a calendar is harmless with today", Spec{Date: "today", Zone: "UTC", Calendar: &Calendar{}}, day("2026-09-15")},
		{"period day is today", Spec{Period: "day", Zone: "Asia/Seoul"}, day("2026-09-15")},
		{"period day with a relative date", Spec{Period: "day", Date: "yesterday", Zone: "Asia/Seoul"}, day("2026-09-14")},
		{"hour has no business date", Spec{Period: "hour", Zone: "Asia/Seoul"}, Slot{Partition: "2026-09-15T10+09:00"}},
		{"week has none", Spec{Period: "week", Zone: "Asia/Seoul"}, Slot{Partition: "2026-W38"}},
		{"month has none", Spec{Period: "month", Zone: "Asia/Seoul"}, Slot{Partition: "2026-09"}},
		{"minutes need no zone", Spec{Period: "5m"}, Slot{Partition: "2026-09-15T01:05:00Z"}},
		{"minutes ignore the zone", Spec{Period: "5m", Zone: "Asia/Kathmandu", DayStart: "06:00"}, Slot{Partition: "2026-09-15T01:05:00Z"}},
		{
			"relative to the slot",
			Spec{Date: "yesterday", Zone: "Asia/Seoul", At: "2026-09-14T16:00:00Z"},
			Slot{Partition: "2026-09-14", BusinessDate: "2026-09-14", ScheduledAt: at},
		},
		{
			"minutes at an instant",
			Spec{Period: "60m", At: "2026-09-15T01:59:59.999999999+09:00"},
			Slot{Partition: "2026-09-14T16:00:00Z", ScheduledAt: at.Add(time.Hour - 1)},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, resolve(t, tt.spec)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestRefusedCombinations(t *testing.T) {
	tests := []struct {
		spec       Spec
		flag, want string
	}{
		{Spec{Date: "today", Zone: "UTC", Partition: "p"}, "--date", "--partition"},
		{Spec{Date: "2026-09-15", Partition: "2026-09-15"}, "--date", "--partition"},
		{Spec{Period: "day", Zone: "UTC", Partition: "p"}, "--period", "--partition"},
		{Spec{Period: "5m", Partition: "p"}, "--period", "--partition"},
		{Spec{Date: "today", Zone: "UTC", Period: "hour"}, "--period", "--date"},
		{Spec{Date: "today", Zone: "UTC", Period: "week"}, "--period", "--date"},
		{Spec{Date: "2026-09-15", Period: "month"}, "--period", "--date"},
		{Spec{Date: "2026-09-15", Period: "5m"}, "--period", "--date"},
		{Spec{Date: "business-day", Zone: "UTC"}, "--date", "--calendar"},
		{Spec{Date: "previous-business-day", Zone: "UTC"}, "--date", "--calendar"},
		{Spec{Date: "36500d-ago", Zone: "UTC", At: "0099-01-01T00:00:00Z"}, "--date", "before the year 0001"},
		{Spec{Date: "today", Zone: "America/New_York", At: "0001-01-01T00:00:01Z"}, "--at", "0001 to 9999"},
		{Spec{Period: "hour", Zone: "Asia/Seoul", At: "9999-12-31T23:00:00Z"}, "--at", "0001 to 9999"},
		{Spec{Period: "month", Zone: "Asia/Seoul", At: "9999-12-31T23:00:00Z"}, "--at", "0001 to 9999"},
		// What nothing depends on must still be right.
		{Spec{Zone: "Europe/Nowhere"}, "--tz", "Europe/Nowhere"},
		{Spec{Partition: "p", Zone: "Europe/Nowhere"}, "--tz", "Europe/Nowhere"},
		{Spec{Date: "2026-09-15", Zone: "Europe/Nowhere"}, "--tz", "Europe/Nowhere"},
		{Spec{Period: "5m", Zone: "Europe/Nowhere"}, "--tz", "Europe/Nowhere"},
		{Spec{Partition: "p", DayStart: "6"}, "--day-start", "06:00"},
		{Spec{Partition: "p", At: "noon"}, "--at", "RFC 3339"},
	}
	for _, tt := range tests {
		refused(t, tt.spec, tt.flag, tt.want)
	}
}

// A business date never comes silently from the server's zone.
func TestZoneIsAsked(t *testing.T) {
	cal := parseCalendar(t, "")
	for _, s := range []Spec{
		{Date: "today"},
		{Date: "yesterday"},
		{Date: "3d-ago"},
		{Date: "0d-ago"},
		{Date: "business-day", Calendar: cal},
		{Date: "previous-business-day", Calendar: cal},
		{Date: "today", Period: "day"},
		{Date: "today", At: "2026-09-15T01:00:00+09:00"},
		{Period: "hour"},
		{Period: "day"},
		{Period: "week"},
		{Period: "month"},
	} {
		refused(t, s, "--tz", "ONERUN_TZ")
		refused(t, s, "--tz", s.Date)
		refused(t, s, "--tz", s.Period)
	}
}

func TestAt(t *testing.T) {
	tests := []struct{ at, want string }{
		{"2026-09-15T01:00:00+09:00", "2026-09-14T16:00:00Z"},
		{"2026-09-14T16:00:00Z", "2026-09-14T16:00:00Z"},
		{"2026-09-14t16:00:00z", "2026-09-14T16:00:00Z"},
		{"2026-09-14 16:00:00+00:00", "2026-09-14T16:00:00Z"},
		{"2026-09-14T16:00:00-00:00", "2026-09-14T16:00:00Z"},
		{"2026-09-14T16:00:00.5Z", "2026-09-14T16:00:00.5Z"},
		{"2026-09-14T16:00:00.1234567891-23:59", "2026-09-15T15:59:00.123456789Z"},
		{"0001-01-01T00:00:01Z", "0001-01-01T00:00:01Z"},
		{"9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"},
	}
	for _, tt := range tests {
		got := resolve(t, Spec{At: tt.at}).ScheduledAt
		if s := got.Format(time.RFC3339Nano); s != tt.want || got.Location() != time.UTC {
			t.Errorf("%s = %s, want %s", tt.at, got, tt.want)
		}
	}
	for _, at := range []string{
		"2026-09-15T01:00:00", "2026-09-15T01:00:00.5", "2026-09-15 01:00:00",
	} {
		refused(t, Spec{At: at}, "--at", "without an offset")
	}
	for _, at := range []string{
		"now", "2026-09-15", "2026-09-15T01:00Z", "2026-09-15T1:00:00Z", "2026-09-15T01:00:00+9:00",
		"2026-09-15T01:00:00+0900", "2026-09-15T01:00:00+09", "2026-09-15T01:00:00.Z", "2026-09-15T01:00:00,5Z",
		"2026-09-15T01:00:00Z ", " 2026-09-15T01:00:00Z", "2026-09-15T01:00:00+09:00[Asia/Seoul]", "2026-09-15T01:00:00 +09:00",
		"2026-02-30T01:00:00Z", "2026-09-15T24:00:00Z", "2026-09-15T23:59:60Z", "2026-13-01T00:00:00Z",
		"2026-09-15T01:00:00+24:00", "2026-09-15T01:00:00+09:60", "2026-09-15T01:00:00−09:00", "２026-09-15T01:00:00Z",
		"0000-12-31T23:00:00Z", "0001-01-01T00:00:00Z", "0001-01-01T01:00:00+02:00", "9999-12-31T23:59:59-01:00",
		"12026-09-15T01:00:00Z", "1789000000", "@1789000000", "2026-09-15X01:00:00Z", "2026-09-15T01:00:00\nZ", "z",
	} {
		refused(t, Spec{At: at}, "--at", "RFC 3339")
	}
}

// With --at, neither the time nor the zone of now matters; without, only its time.
func TestNowIsOnlyAnInstant(t *testing.T) {
	kst := time.FixedZone("", 9*3600)
	spec := Spec{Date: "today", Zone: "America/New_York"}
	a, _ := spec.Resolve(instant)
	b, _ := spec.Resolve(instant.In(kst))
	if a != b || a.Partition != "2026-09-14" {
		t.Errorf("the zone of now had an effect: %+v, %+v", a, b)
	}
	spec.At = "2026-09-15T12:00:00Z"
	for _, now := range []time.Time{{}, instant, time.Unix(1<<60, 0), time.Unix(-1<<60, 0)} {
		if got, err := spec.Resolve(now); err != nil || got.Partition != "2026-09-15" {
			t.Errorf("now %v: %+v, %v", now, got, err)
		}
	}
}

// What counts nothing from the clock works whatever the clock says.
func TestClockFarOff(t *testing.T) {
	far := time.Unix(1<<62, 0)
	for _, s := range []Spec{{}, {Partition: "p"}, {Date: "2026-09-15"}, {Date: "2026-09-15", Period: "day"}} {
		if _, err := s.Resolve(far); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	for _, sec := range []int64{1 << 62, -1 << 62, 253402300800, -62135596801} {
		for _, s := range []Spec{{Period: "5m"}, {Period: "hour", Zone: "UTC"}, {Period: "week", Zone: "UTC"}, {Date: "today", Zone: "UTC"}} {
			_, err := s.Resolve(time.Unix(sec, 0))
			usage(t, err, "--at")
		}
	}
}

func TestLongValuesAreCut(t *testing.T) {
	for _, long := range []string{strings.Repeat("x", 100_000), strings.Repeat("일", 100_000), strings.Repeat("\xbf", 100_000)} {
		_, err := Spec{Date: long}.Resolve(instant)
		if msg := usage(t, err, "--date"); len(msg) > 1500 || !strings.Contains(msg, `"...`) {
			t.Errorf("%d bytes: %.300s", len(msg), msg)
		}
	}
	if got := quote(strings.Repeat("일", 100)); got != `"`+strings.Repeat("일", 66)+`"...` {
		t.Errorf("cut inside a character: %s", got)
	}
}
