package schedule

import (
	"slices"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun/internal/fuzzbound"
)

// FuzzCalendar: a file of holidays is read whole or refused on one line, iCalendar and other formats too; and the business
// days of a range are those that the calendar says, in their order, each once.
func FuzzCalendar(f *testing.F) {
	for _, c := range [][4]string{
		{"2026-01-01\n2026-12-25 # x\r\n", "2025-12-20", "2026-01-10", ""},
		{"\xff\xfe2\x000\x00", "2026-01-01", "2026-01-01", "day"},
		{"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20260101\r\n", "", "", ""},
		{"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART:20260101\r\nRRULE:FREQ=YEARLY;BYMONTH=1;BYDAY=3MO\r\nEXDATE:20270118\r\nEND:VEVENT\r\nEND:VCALENDAR", "2026-01-01", "2026-02-01", ""},
		{"\xef\xbb\xbf# x", "2026-01-31", "2026-03-01", "month"},
		{"2026-13-01\nx\n\x00", "2026-02-30", "2026-03-01", "week"},
		{"", "0001-01-01", "9999-12-31", "week"},
		{"", "9999-12-01", "9999-12-31", "month"},
		{strings.Repeat("2026-01-01\n", 100), "2026-01-02", "2026-01-01", "hour"},
		{"BEGIN:vcalendar", "2026-01-01", "2026-02-01", "5m"},
	} {
		f.Add(c[0], c[1], c[2], c[3])
	}
	f.Fuzz(func(t *testing.T, text, from, to, period string) {
		fuzzbound.Run(t, 64*len(text)+len(from)+len(to), func() {
			cal, err := ParseCalendar(strings.NewReader(text), "f")
			if err != nil {
				usage(t, err, "--calendar")
				if cal != nil {
					t.Errorf("%q: a calendar beside %v", text, err)
				}
			}
			all, err := Range(from, to, period, nil)
			if err != nil {
				if all != nil {
					t.Errorf("%s to %s: %d beside %v", from, to, len(all), err)
				}
				return
			}
			if len(all) == 0 || len(all) > maxRange || !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) {
				t.Errorf("%s to %s by %q: %d, from %s to %s", from, to, period, len(all), all[0], all[len(all)-1])
			}
			if cal == nil {
				return
			}
			open, err := Range(from, to, period, cal)
			if err != nil || len(open) > len(all) {
				t.Errorf("%s to %s by %q: %d of %d: %v", from, to, period, len(open), len(all), err)
			}
			for _, p := range open {
				if _, found := slices.BinarySearch(all, p); !found {
					t.Errorf("%s to %s by %q: %s", from, to, period, p)
				}
				if day, why := parseDate(p); why == "" && !cal.isBusinessDay(day) {
					t.Errorf("%s is no business day", p)
				}
			}
		})
	})
}
