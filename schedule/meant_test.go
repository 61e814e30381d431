package schedule

import (
	"testing"
	"time"
)

// TestSlotOfSkippedTime (B01, B02): a fixed time that the clock skips belongs to the day, and the hour, in which it would have been, and
// not to those of the instant right after the jump, at which it fires.
func TestSlotOfSkippedTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, cron, zone, at string
		spec                 Spec
		want                 string
	}{
		{"before a jump to midnight", "30 23 * * *", "America/Nuuk", "2026-03-29T01:00:00Z", Spec{Period: "day"}, "2026-03-28"},
		{"and the same in another zone", "15 23 * * 6", "America/Scoresbysund", "2027-03-28T01:00:00Z", Spec{Period: "day"}, "2027-03-27"},
		{"the day after", "30 23 * * *", "America/Nuuk", "2026-03-30T00:30:00Z", Spec{Period: "day"}, "2026-03-29"},
		{"yesterday of it", "30 23 * * *", "America/Nuuk", "2026-03-29T01:00:00Z", Spec{Date: "yesterday"}, "2026-03-27"},
		{"midnight itself, which the clock shows", "0 0,23 * * *", "America/Nuuk", "2026-03-29T01:00:00Z", Spec{Period: "day"}, "2026-03-29"},
		{"a jump over midnight", "0 0 * * *", "Africa/Cairo", "2025-04-24T22:00:00Z", Spec{Period: "day"}, "2025-04-25"},
		{"before the day starts", "30 2 * * *", "America/New_York", "2026-03-08T07:00:00Z", Spec{Period: "day", DayStart: "03:00"}, "2026-03-07"},
		{"after the day has started", "30 2 * * *", "America/New_York", "2026-03-08T07:00:00Z", Spec{Period: "day", DayStart: "02:15"}, "2026-03-08"},
		{"the hour that isn't", "30 2 * * *", "America/New_York", "2026-03-08T07:00:00Z", Spec{Period: "hour"}, "2026-03-08T02-05:00"},
		{"the hour after it", "30 2,3 * * *", "America/New_York", "2026-03-08T07:30:00Z", Spec{Period: "hour"}, "2026-03-08T03-04:00"},
		{"minutes count from 1970", "30 2 * * *", "America/New_York", "2026-03-08T07:00:00Z", Spec{Period: "15m"}, "2026-03-08T07:00:00Z"},
		{"a date", "30 23 * * *", "America/Nuuk", "2026-03-29T01:00:00Z", Spec{Date: "2026-01-05"}, "2026-01-05"},
		{"elapsed time", "*/30 23 * * *", "America/Nuuk", "2026-03-29T00:30:00Z", Spec{Period: "day"}, "2026-03-28"},
		{"a zone that left a day out", "0 12 * * *", "Pacific/Apia", "2011-12-30T22:00:00Z", Spec{Period: "day"}, "2011-12-31"},
	} {
		s := cron(t, c.cron, c.zone, "")
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		c.spec.Zone = c.zone
		got, err := s.Slot(c.spec, at)
		if err != nil || got.Partition != c.want || !got.ScheduledAt.Equal(at) {
			t.Errorf("%s: %q in %s at %s: %+v, %v; want %s", c.what, c.cron, c.zone, c.at, got, err, c.want)
		}
	}
}

// TestEveryDayOnce (B02): a job of each day, at whatever time of it, has each date of the calendar once, in every zone.
func TestEveryDayOnce(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{
		"America/Nuuk", "America/New_York", "America/Havana", "America/Santiago", "Africa/Cairo", "Africa/Casablanca", "Asia/Beirut",
		"Australia/Lord_Howe", "Antarctica/Troll",
	} {
		for _, start := range []string{"", "03:00"} {
			for _, at := range []string{"0 0", "30 0", "30 1", "15 2", "30 2", "0 23", "59 23"} {
				s := cron(t, at+" * * *", zone, "")
				spec := Spec{Period: "day", Zone: zone, DayStart: start}
				from := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
				slot, err := s.Slot(spec, first(t, s, from))
				if err != nil {
					t.Fatal(err)
				}
				day, _ := parseDate(slot.BusinessDate)
				for now := first(t, s, from); now.Year() < 2027; now = first(t, s, now) {
					slot, err := s.Slot(spec, now)
					if err != nil || slot.BusinessDate != day.String() {
						t.Errorf("%s, %s, day-start %q: %s is %s (%v), want %s", zone, at, start, now.Format(time.RFC3339), slot.BusinessDate, err, day)
						break
					}
					day++
				}
			}
		}
	}
}

func first(t *testing.T, s Schedule, after time.Time) time.Time {
	t.Helper()
	next, ok := s.Next(after)
	if !ok {
		t.Fatalf("never after %s", after)
	}
	return next
}
