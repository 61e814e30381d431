package schedule

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// ics is an iCalendar file of some events.
func ics(events ...string) string {
	text := "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//x//EN\r\n"
	for _, e := range events {
		text += "BEGIN:VEVENT\r\nUID:1\r\n" + strings.ReplaceAll(e, "\n", "\r\n") + "\r\nEND:VEVENT\r\n"
	}
	return text + "END:VCALENDAR\r\n"
}

// TestICalendar: whole days, in the spellings that programs write them, and those that come back each year.
func TestICalendar(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"none", ics(), ""},
		{"one day", ics("DTSTART;VALUE=DATE:20260101\nDTEND;VALUE=DATE:20260102\nSUMMARY:New Year"), "2026-01-01"},
		{"without an end", ics("DTSTART;VALUE=DATE:20260101"), "2026-01-01"},
		{"the same end", ics("DTSTART;VALUE=DATE:20260101\nDTEND;VALUE=DATE:20260101"), "2026-01-01"},
		{"days in a row", ics("DTSTART;VALUE=DATE:20260924\nDTEND;VALUE=DATE:20260927"), "2026-09-24 2026-09-25 2026-09-26"},
		{"a duration", ics("DTSTART;VALUE=DATE:20261231\nDURATION:P2D"), "2026-12-31 2027-01-01"},
		{"a week", ics("DTSTART;VALUE=DATE:20260101\nDURATION:P1W"), "2026-01-01 2026-01-02 2026-01-03 2026-01-04 2026-01-05 2026-01-06 2026-01-07"},
		{"midnight to midnight", ics("DTSTART;TZID=Asia/Seoul:20260101T000000\nDTEND;TZID=Asia/Seoul:20260103T000000"), "2026-01-01 2026-01-02"},
		{"without VALUE", ics("DTSTART:20260101"), "2026-01-01"},
		{"a quoted parameter", ics("SUMMARY;X=\"a:b;c\":d\nDTSTART;X=\"a:b\";VALUE=DATE:20260101"), "2026-01-01"},
		{"folded", ics("DTSTART;VALU\n E=DATE:2026\n\t0101"), "2026-01-01"},
		{"newlines alone, small letters, blank lines", "begin:vcalendar\nbegin:vevent\n\ndtstart;value=date:20260101\nend:vevent\nend:vcalendar", "2026-01-01"},
		{"cancelled", ics("DTSTART;VALUE=DATE:20260101\nSTATUS:CANCELLED", "DTSTART;VALUE=DATE:20260102\nSTATUS:CONFIRMED"), "2026-01-02"},
		{"an alarm", ics("DTSTART;VALUE=DATE:20260101\nBEGIN:VALARM\nTRIGGER:-PT15M\nDURATION:PT5M\nEND:VALARM"), "2026-01-01"},
		{"what is no event", "BEGIN:VCALENDAR\nBEGIN:VTIMEZONE\nBEGIN:STANDARD\nDTSTART:19701025T030000\nRRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=10\nEND:STANDARD\nEND:VTIMEZONE\nBEGIN:VTODO\nDTSTART:20260101T120000\nEND:VTODO\nEND:VCALENDAR", ""},
		{"two calendars", ics("DTSTART:20260101") + ics("DTSTART:20260102"), "2026-01-01 2026-01-02"},
		{"more dates", ics("DTSTART;VALUE=DATE:20260101\nRDATE;VALUE=DATE:20260301,20260302\nEXDATE;VALUE=DATE:20260301"), "2026-01-01 2026-03-02"},
		{"each year", ics("DTSTART;VALUE=DATE:20260501\nRRULE:FREQ=YEARLY;COUNT=3"), "2026-05-01 2027-05-01 2028-05-01"},
		{"until", ics("DTSTART;VALUE=DATE:20260501\nRRULE:FREQ=YEARLY;UNTIL=20270501T000000Z"), "2026-05-01 2027-05-01"},
		{"but one", ics("DTSTART;VALUE=DATE:20260501\nRRULE:FREQ=YEARLY;COUNT=3\nEXDATE;VALUE=DATE:20270501"), "2026-05-01 2028-05-01"},
		{"each fourth year", ics("DTSTART;VALUE=DATE:20260501\nRRULE:FREQ=YEARLY;INTERVAL=4;COUNT=2"), "2026-05-01 2030-05-01"},
		{"29 February", ics("DTSTART;VALUE=DATE:20240229\nRRULE:FREQ=YEARLY;COUNT=2"), "2024-02-29 2028-02-29"},
		{"the third Monday", ics("DTSTART;VALUE=DATE:20260119\nRRULE:FREQ=YEARLY;BYMONTH=1;BYDAY=3MO;COUNT=3;WKST=SU"), "2026-01-19 2027-01-18 2028-01-17"},
		{"the last Monday", ics("DTSTART;VALUE=DATE:20260525\nRRULE:FREQ=YEARLY;BYMONTH=5;BYDAY=-1MO;COUNT=3"), "2026-05-25 2027-05-31 2028-05-29"},
		{"a Monday from the 22nd on", ics("DTSTART;VALUE=DATE:20260928\nRRULE:FREQ=YEARLY;BYMONTH=9;BYMONTHDAY=22,23,24,25,26,27,28;BYDAY=MO;COUNT=2"), "2026-09-28 2027-09-27"},
		{"the last of two months", ics("DTSTART;VALUE=DATE:20260228\nRRULE:FREQ=YEARLY;BYMONTH=2,12;BYMONTHDAY=-1;COUNT=4"), "2026-02-28 2026-12-31 2027-02-28 2027-12-31"},
		{"two days each year", ics("DTSTART;VALUE=DATE:20261225\nDTEND;VALUE=DATE:20261227\nRRULE:FREQ=YEARLY;COUNT=2"), "2026-12-25 2026-12-26 2027-12-25 2027-12-26"},
	}
	for _, tt := range tests {
		c, err := ParseCalendar(strings.NewReader(tt.text), "h.ics")
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		var got []string
		for _, day := range slices.Sorted(maps.Keys(c.holidays)) {
			got = append(got, day.String())
		}
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, text, tt.want)
		}
	}
	for year, want := range map[int]bool{2099: true, 2100: true, 2101: false} { // without an end
		c := parseCalendar(t, ics("DTSTART;VALUE=DATE:20260501\nRRULE:FREQ=YEARLY"))
		if _, is := c.holidays[civil(time.Date(year, 5, 1, 0, 0, 0, 0, time.UTC).Unix()/secondsPerDay)]; is != want {
			t.Errorf("May 1st of %d is a holiday: %v", year, is)
		}
	}
}

// TestICalendarFlaws: what isn't known for sure is refused with its line: no holiday is left out in silence.
func TestICalendarFlaws(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"a time of day", ics("DTSTART:20260101T180000Z"), `line 6: "DTSTART:20260101T180000Z": that is a time of day`},
		{"no start", ics("SUMMARY:x"), "line 4:"},
		{"no date", ics("DTSTART;VALUE=DATE:20260231"), "no date YYYYMMDD"},
		{"an end before the start", ics("DTSTART:20260102\nDTEND:20260101"), "the event ends on 2026-01-01"},
		{"years long", ics("DTSTART:20260102\nDTEND:20290101"), "366 days are the most"},
		{"an end and a duration", ics("DTSTART:20260102\nDTEND:20260103\nDURATION:P2D"), "both DTEND and DURATION"},
		{"a day of weeks", ics("DTSTART:20260102\nDURATION:P1DW"), "no duration"},
		{"no P", ics("DTSTART:20260102\nDURATION:1D"), "no duration"},
		{"hours", ics("DTSTART:20260102\nDURATION:PT8H"), "no duration"},
		{"each week", ics("DTSTART:20260102\nRRULE:FREQ=WEEKLY;BYDAY=FR"), "only FREQ=YEARLY"},
		{"a position", ics("DTSTART:20260102\nRRULE:FREQ=YEARLY;BYMONTH=1;BYDAY=MO;BYSETPOS=1"), `"BYSETPOS=1"`},
		{"the nth of a year", ics("DTSTART:20260102\nRRULE:FREQ=YEARLY;BYDAY=20MO"), "BYDAY=20MO"},
		{"the nth without a month", ics("DTSTART:20260102\nRRULE:FREQ=YEARLY;BYDAY=2MO"), "with its BYMONTH"},
		{"one of a row changed", ics("DTSTART:20260102\nRECURRENCE-ID:20260101"), "change one of a row"},
		{"two starts", ics("DTSTART:20260102\nDTSTART:20260103"), "two of them"},
		{"cut off", "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20260101\nEND:VEVENT\n", "END:VCALENDAR is missing"},
		{"crossed", "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20260101\nEND:VCALENDAR\n", "nothing of that name"},
		{"no property", ics("DTSTART:20260101\nhello"), `"hello"`},
		{"since Rome", ics("DTSTART;VALUE=DATE:00010101\nRRULE:FREQ=YEARLY"), "before 1900"},
		{"too many rows", ics(slices.Repeat([]string{"DTSTART:20260101\nRRULE:FREQ=YEARLY"}, maxYearlyRules+1)...), "more than 100"},
	} {
		c, err := ParseCalendar(strings.NewReader(tt.text), "h.ics")
		if err == nil || c != nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
