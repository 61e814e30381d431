package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// oddZones are those whose clocks did something unusual: changes at or across
// midnight, of half an hour or two hours, of a whole day either way, of odd
// seconds, several in one month, daylight saving in winter.
var oddZones = []string{
	"UTC", "Africa/Cairo", "Africa/Casablanca", "Africa/Monrovia", "America/Asuncion", "America/Caracas", "America/Havana",
	"America/Juneau", "America/Metlakatla", "America/New_York", "America/Nuuk", "America/Santiago", "America/Sao_Paulo", "America/Scoresbysund",
	"America/St_Johns", "Antarctica/Casey", "Antarctica/Troll", "Asia/Amman", "Asia/Beirut", "Asia/Gaza", "Asia/Kathmandu", "Asia/Kolkata",
	"Asia/Manila", "Asia/Pyongyang", "Asia/Seoul", "Asia/Singapore", "Asia/Tehran", "Atlantic/Azores", "Australia/Lord_Howe", "Europe/Amsterdam", "Europe/Dublin",
	"Europe/London", "Europe/Moscow", "Pacific/Apia", "Pacific/Chatham", "Pacific/Fakaofo", "Pacific/Guam", "Pacific/Kiritimati", "Pacific/Kwajalein", "Pacific/Norfolk",
}

func drawZone(t *rapid.T) *time.Location {
	loc, err := LoadZone(rapid.SampledFrom(oddZones).Draw(t, "zone"))
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// drawInstant is anywhere from 1840 to 2100, mostly close to a change of the
// zone's clock, where mistakes live.
func drawInstant(t *rapid.T, loc *time.Location) time.Time {
	at := time.Unix(rapid.Int64Range(-4102444800, 4102444800).Draw(t, "unix"), 0)
	hours := rapid.SampledFrom([]int64{0, 3, 3, 26, 72}).Draw(t, "hours from a change")
	if _, end := at.In(loc).ZoneBounds(); hours > 0 && !end.IsZero() {
		at = end.Add(time.Duration(rapid.Int64Range(-hours*3600, hours*3600).Draw(t, "seconds")) * time.Second)
	}
	return at
}

// drawDayStart is anything, mostly close to what the clock shows at the instant.
func drawDayStart(t *rapid.T, wall time.Time) string {
	m := rapid.IntRange(0, 24*60-1).Draw(t, "day-start")
	switch rapid.IntRange(0, 3).Draw(t, "kind of day-start") {
	case 0:
		return ""
	case 1, 2:
		m = (24*60 + wall.Hour()*60 + wall.Minute() + m%180 - 90) % (24 * 60)
	}
	return fmt.Sprintf("%02d:%02d", m/60, m%60)
}

func must(t *rapid.T, s Spec, at time.Time) Slot {
	slot, err := s.Resolve(at)
	if err != nil {
		t.Fatalf("%+v at %s: %v", s, at, err)
	}
	return slot
}

// While time goes on, a label that was left never comes back, and all labels but
// the hour's (whose text holds an offset) only grow.
func TestLabelsNeverComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loc := drawZone(t)
		at := drawInstant(t, loc)
		dayStart := drawDayStart(t, at.In(loc))
		step := time.Duration(rapid.IntRange(1, 3*3600).Draw(t, "step")) * time.Second
		for _, period := range []string{"hour", "day", "week", "month", "7m", "60m"} {
			spec := Spec{Period: period, Zone: loc.String(), DayStart: dayStart}
			left := map[string]bool{}
			last := ""
			for i := range 60 {
				now := at.Add(time.Duration(i) * step)
				label := must(t, spec, now).Partition
				if label == last {
					continue
				}
				if left[label] {
					t.Fatalf("%s came back at %s", label, now)
				}
				if period != "hour" && label < last {
					t.Fatalf("%s follows %s at %s", label, last, now)
				}
				left[last], last = true, label
			}
		}
	})
}

// An hour's label can be read back to the wall-clock hour and offset that hold
// the instant, so two different slots cannot share one.
func TestHourLabelReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loc := drawZone(t)
		at := drawInstant(t, loc)
		label := must(t, Spec{Period: "hour", Zone: loc.String()}, at).Partition
		layout := "2006-01-02T15-07:00"
		if len(label) > len("2026-11-01T01-05:00") {
			layout += ":00"
		}
		hour, err := time.Parse(layout, label)
		if err != nil {
			t.Fatal(err)
		}
		if at.Before(hour) || !at.Before(hour.Add(time.Hour)) {
			t.Fatalf("%s is not in the hour of %s", at.UTC(), label)
		}
		_, want := at.In(loc).Zone()
		if _, got := hour.Zone(); got != want {
			t.Fatalf("%s has the offset %d, the zone %d", label, got, want)
		}
	})
}

func TestRelativeDatesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loc := drawZone(t)
		at := drawInstant(t, loc)
		spec := Spec{Zone: loc.String(), DayStart: drawDayStart(t, at.In(loc))}
		day := func(expr string) time.Time {
			spec.Date = expr
			d, err := time.Parse(time.DateOnly, must(t, spec, at).BusinessDate)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		today := day("today")
		if y := day("yesterday"); !y.AddDate(0, 0, 1).Equal(today) {
			t.Fatalf("yesterday is %s, today %s", y, today)
		}
		n := rapid.IntRange(0, 36500).Draw(t, "n")
		if d := day(fmt.Sprintf("%dd-ago", n)); !d.AddDate(0, 0, n).Equal(today) {
			t.Fatalf("%dd-ago is %s, today %s", n, d, today)
		}
		spec.Date, spec.Period = "", "day"
		if got := must(t, spec, at); got.Partition != today.Format(time.DateOnly) || got.BusinessDate != got.Partition {
			t.Fatalf("period day is %+v, today %s", got, today)
		}
	})
}

// The oracle looks at a real clock minute by minute, as a person would: the
// business day changes when the wall clock first reaches the day-start.
func TestBusinessDateAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loc := drawZone(t)
		start := drawInstant(t, loc).Truncate(time.Minute)
		dayStart := drawDayStart(t, start.In(loc))
		seconds, err := parseDayStart(dayStart)
		if err != nil {
			t.Fatal(err)
		}
		spec := Spec{Date: "today", Zone: loc.String(), DayStart: dayStart}

		reached := "" // the latest business day whose day-start the clock has shown
		for m := -3 * 24 * 60; m <= 24*60; m++ {
			at := start.Add(time.Duration(m) * time.Minute)
			wall := at.In(loc)
			// The same reading on a clock that never changes, turned back by the day-start.
			y, mo, d := wall.Date()
			flat := time.Date(y, mo, d, wall.Hour(), wall.Minute(), wall.Second(), 0, time.UTC)
			if day := flat.Add(-time.Duration(seconds) * time.Second).Format(time.DateOnly); day > reached {
				reached = day
			}
			if m >= 0 && m%13 == 0 {
				if got := must(t, spec, at).BusinessDate; got != reached {
					t.Fatalf("%s from %s is %s, want %s", wall, dayStart, got, reached)
				}
			}
		}
	})
}

// A retry says --at again: it must come to the same slot at any later time.
func TestAtFixesTheSlot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loc := drawZone(t)
		at := drawInstant(t, loc)
		spec := Spec{Zone: loc.String(), DayStart: drawDayStart(t, at.In(loc))}
		if rapid.Bool().Draw(t, "by date") {
			spec.Date = rapid.SampledFrom([]string{"today", "yesterday", "9d-ago"}).Draw(t, "date")
		} else {
			spec.Period = rapid.SampledFrom([]string{"hour", "day", "week", "month", "5m"}).Draw(t, "period")
		}
		live := must(t, spec, at)
		offset := rapid.IntRange(-23*60, 23*60).Draw(t, "offset")
		spec.At = at.In(time.FixedZone("", offset*60)).Format(time.RFC3339Nano)
		replay := must(t, spec, drawInstant(t, loc))
		if !replay.ScheduledAt.Equal(at) {
			t.Fatalf("scheduled at %s, want %s", replay.ScheduledAt, at)
		}
		replay.ScheduledAt = time.Time{}
		if replay != live {
			t.Fatalf("%+v became %+v", live, replay)
		}
	})
}

func TestBusinessDayProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		today := civil(rapid.Int64Range(-20000, 40000).Draw(t, "today"))
		var list strings.Builder
		for _, back := range rapid.SliceOfN(rapid.IntRange(-5, 60), 0, 50).Draw(t, "holidays") {
			fmt.Fprintln(&list, today-civil(back))
		}
		cal, err := ParseCalendar(strings.NewReader(list.String()), "drawn")
		if err != nil {
			t.Fatal(err)
		}
		spec := Spec{Zone: "UTC", Calendar: cal, At: today.String() + "T00:00:00Z"}
		find := func(expr string) civil {
			spec.Date = expr
			d, why := parseDate(must(t, spec, instant).BusinessDate)
			if why != "" {
				t.Fatal(why)
			}
			return d
		}
		business := func(d civil) bool {
			wd := d.midnight().Weekday()
			return wd != time.Saturday && wd != time.Sunday && !strings.Contains(list.String(), d.String())
		}
		on, before := find("business-day"), find("previous-business-day")
		if !business(on) || !business(before) || on > today || before >= today {
			t.Fatalf("today %s: on %s, before %s", today, on, before)
		}
		for d := before + 1; d <= today; d++ {
			if business(d) && d != on {
				t.Fatalf("today %s: on %s, before %s, but %s is a business day", today, on, before, d)
			}
		}
		if want := today; business(today) && on != want {
			t.Fatalf("today %s is a business day, business-day is %s", today, on)
		}
	})
}
