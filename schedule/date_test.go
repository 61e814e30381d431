package schedule

import (
	"strings"
	"testing"
	"time"
)

func TestAbsoluteDates(t *testing.T) {
	for _, s := range []string{"0001-01-01", "1582-10-10", "1900-02-28", "2000-02-29", "2024-02-29", "9999-12-31"} {
		if got := resolve(t, Spec{Date: s}); got.Partition != s || got.BusinessDate != s {
			t.Errorf("%s = %+v", s, got)
		}
	}
	for _, s := range []string{
		"2026-02-30", "2025-02-29", "1900-02-29", "2026-04-31", "2026-00-10", "2026-13-01", "2026-01-00", "2026-01-32", "0000-01-01",
		"2026-2-3", "2026-02-3", "20260203", "26-02-03", "02026-02-03", "12026-02-03", "-001-02-03", "+2026-02-03", "2026/02/03", "2026-034", "2026-W06",
		" 2026-02-03", "2026-02-03 ", "2026-02-03\n", "2026-02-03T00:00:00Z", "２０２６-０２-０３", "2026‑02‑03", "٢٠٢٦-٠٢-٠٣", "2026-02-0\xff", "2026-02-03\x00",
		"tomorrow", "Today", "TODAY", "today ", "now", "-", "business_day", "next-business-day", "last-business-day",
	} {
		refused(t, Spec{Date: s, Zone: "UTC", Calendar: &Calendar{}}, "--date", "YYYY-MM-DD")
	}
	refused(t, Spec{Date: "2026-02-0３"}, "--date", "U+FF13")
	refused(t, Spec{Date: "2026-02-0\xff"}, "--date", "not UTF-8")
}

func TestDaysAgo(t *testing.T) {
	for _, s := range []string{
		"d-ago", "-1d-ago", "+1d-ago", "01d-ago", "00d-ago", "1.5d-ago", "1 d-ago", " 1d-ago", "1d-ago ", "1D-ago", "3days-ago", "3d_ago", "3dago", "３d-ago",
		"36501d-ago", "99999999999d-ago", "18446744073709551617d-ago", strings.Repeat("9", 5000) + "d-ago", "0x3d-ago", "1_0d-ago", "1d-agod-ago",
	} {
		refused(t, Spec{Date: s, Zone: "UTC"}, "--date", "3d-ago")
	}
}

// The number of days and the date are two views of one thing.
func TestCivilBounds(t *testing.T) {
	if firstDate.String() != "0001-01-01" || lastDate.String() != "9999-12-31" {
		t.Errorf("bounds are %s and %s", firstDate, lastDate)
	}
	if (firstDate - 1).inRange() || (lastDate + 1).inRange() || !firstDate.inRange() || !lastDate.inRange() {
		t.Error("inRange is off by one")
	}
	for d := firstDate; d <= lastDate; d += 97 {
		if back := date(t, d.String()); back != d {
			t.Fatalf("%d is %s is %d", d, d, back)
		}
	}
	if got := date(t, "1970-01-01"); got != 0 {
		t.Errorf("the epoch is day %d", got)
	}
}

func TestDayStartSyntax(t *testing.T) {
	for s, want := range map[string]time.Duration{"": 0, "00:00": 0, "06:00": 6 * time.Hour, "23:59": 23*time.Hour + 59*time.Minute} {
		if got, err := parseDayStart(s); err != nil || got != int64(want.Seconds()) {
			t.Errorf("%q = %d, %v", s, got, err)
		}
	}
	for _, s := range []string{"6:00", "06", "0600", "06:0", "24:00", "23:60", "-6:00", "06:00:00", "6am", "06:00 ", " 06:00", "０6:00", "06.00", "06:00\n", "ab:cd"} {
		refused(t, Spec{Date: "today", Zone: "UTC", DayStart: s}, "--day-start", "HH:MM")
	}
}

// Each row is the last instant of one business day and the first of the next.
func TestDayBoundaries(t *testing.T) {
	tests := []struct {
		name, zone, dayStart string
		first                string // the first instant of day
		before, day          string
	}{
		{"plain midnight", "Asia/Seoul", "", "2026-09-14T15:00:00Z", "2026-09-14", "2026-09-15"},
		{"plain 06:00", "Asia/Seoul", "06:00", "2026-09-14T21:00:00Z", "2026-09-14", "2026-09-15"},
		{"06:00 at the turn of the year", "Asia/Seoul", "06:00", "2026-12-31T21:00:00Z", "2026-12-31", "2027-01-01"},
		{"before 1970", "Asia/Tokyo", "06:00", "1965-01-01T21:00:00Z", "1965-01-01", "1965-01-02"},
		{"Cairo's midnight in the gap", "Africa/Cairo", "", "2025-04-24T22:00:00Z", "2025-04-24", "2025-04-25"},
		{"day-start in that gap", "Africa/Cairo", "00:30", "2025-04-24T22:00:00Z", "2025-04-24", "2025-04-25"},
		{"day-start right after it", "Africa/Cairo", "01:00", "2025-04-24T22:00:00Z", "2025-04-24", "2025-04-25"},
		{"New York, in the gap", "America/New_York", "02:30", "2026-03-08T07:00:00Z", "2026-03-07", "2026-03-08"},
		{"New York, 06:00 on the 23-hour day", "America/New_York", "06:00", "2026-03-08T10:00:00Z", "2026-03-07", "2026-03-08"},
		{"New York, 06:00 on the 25-hour day", "America/New_York", "06:00", "2026-11-01T11:00:00Z", "2026-10-31", "2026-11-01"},
		{"New York, 01:30 twice, the first counts", "America/New_York", "01:30", "2026-11-01T05:30:00Z", "2026-10-31", "2026-11-01"},
		{"London after a 25-hour day", "Europe/London", "", "2026-10-26T00:00:00Z", "2026-10-25", "2026-10-26"},
		{"Havana, midnight twice", "America/Havana", "", "2025-11-02T04:00:00Z", "2025-11-01", "2025-11-02"},
		{"Sao Paulo, 23:00 twice", "America/Sao_Paulo", "", "2018-02-18T03:00:00Z", "2018-02-17", "2018-02-18"},
		{"Sao Paulo, 23:30 twice", "America/Sao_Paulo", "23:30", "2018-02-18T01:30:00Z", "2018-02-16", "2018-02-17"},
		{"St. John's, back over midnight", "America/St_Johns", "", "2010-11-07T02:30:00Z", "2010-11-06", "2010-11-07"},
		{"Lord Howe, half an hour skipped", "Australia/Lord_Howe", "02:15", "2026-10-03T15:30:00Z", "2026-10-03", "2026-10-04"},
		{"Lord Howe, half an hour twice", "Australia/Lord_Howe", "01:45", "2026-04-04T14:45:00Z", "2026-04-04", "2026-04-05"},
		{"Samoa without 12-30", "Pacific/Apia", "", "2011-12-30T10:00:00Z", "2011-12-29", "2011-12-31"},
		{"Samoa at 06:00, 12-30 begins with the jump", "Pacific/Apia", "06:00", "2011-12-30T10:00:00Z", "2011-12-29", "2011-12-30"},
		{"Samoa at 06:00, and ends at 06:00", "Pacific/Apia", "06:00", "2011-12-30T16:00:00Z", "2011-12-30", "2011-12-31"},
		{"Kwajalein without 1993-08-21", "Pacific/Kwajalein", "", "1993-08-21T12:00:00Z", "1993-08-20", "1993-08-22"},
		{"Kwajalein, 1969-09-30 of 47 hours", "Pacific/Kwajalein", "", "1969-10-01T12:00:00Z", "1969-09-30", "1969-10-01"},
		{"Troll, two hours", "Antarctica/Troll", "02:00", "2026-03-29T01:00:00Z", "2026-03-28", "2026-03-29"},
		{"Kathmandu", "Asia/Kathmandu", "", "2026-09-14T18:15:00Z", "2026-09-14", "2026-09-15"},
		{"local mean time", "Asia/Seoul", "", "1899-12-31T15:32:08Z", "1899-12-31", "1900-01-01"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			first, err := time.Parse(time.RFC3339, tt.first)
			if err != nil {
				t.Fatal(err)
			}
			spec := Spec{Date: "today", Zone: tt.zone, DayStart: tt.dayStart}
			for at, want := range map[time.Time]string{
				first.Add(-1): tt.before, first: tt.day,
				first.Add(15 * time.Minute): tt.day, first.Add(31 * time.Minute): tt.day, first.Add(time.Hour): tt.day, first.Add(2 * time.Hour): tt.day,
			} {
				got, err := spec.Resolve(at)
				if err != nil || got.BusinessDate != want {
					t.Errorf("%s = %+v, %v, want %s", at, got, err, want)
				}
			}
		})
	}
}
