package schedule

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
)

func cron(t testing.TB, text, zone string, dst DST) Schedule {
	t.Helper()
	c, err := ParseCron(text)
	if err != nil {
		t.Fatal(err)
	}
	loc, err := LoadZone(zone)
	if err != nil {
		t.Fatal(err)
	}
	return Schedule{Cron: c, Zone: loc, DST: dst}
}

// fires are the first instants from one on, in UTC, as many as want has.
func fires(t testing.TB, s Schedule, from string, n int) (got []string) {
	t.Helper()
	at, err := time.Parse(time.RFC3339, from)
	if err != nil {
		t.Fatal(err)
	}
	at = at.Add(-time.Nanosecond)
	for range n {
		next, ok := s.Next(at)
		if !ok {
			return append(got, "never")
		}
		got = append(got, next.Format("2006-01-02T15:04:05Z"))
		at = next
	}
	return got
}

func TestCronFires(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ what, text, zone, from, want string }{
		{"the spring gap", "30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", "2026-03-08T07:00:00Z 2026-03-09T06:30:00Z"},
		{"the autumn fold", "30 1 * * *", "America/New_York", "2026-11-01T00:00:00Z", "2026-11-01T05:30:00Z 2026-11-02T06:30:00Z"},
		{"elapsed time in the fold", "*/30 * * * *", "America/New_York", "2026-11-01T05:00:00Z", "2026-11-01T05:00:00Z 2026-11-01T05:30:00Z 2026-11-01T06:00:00Z 2026-11-01T06:30:00Z 2026-11-01T07:00:00Z"},
		{"hours after the gap", "0 7,9 * * *", "America/Los_Angeles", "2020-03-08T00:00:00Z", "2020-03-08T14:00:00Z 2020-03-08T16:00:00Z"},
		{"a midnight that is skipped", "0 0 * * *", "Africa/Cairo", "2025-04-24T00:00:00Z", "2025-04-24T22:00:00Z 2025-04-25T21:00:00Z"},
		{"every second hour there", "0 */2 * * *", "Africa/Cairo", "2025-04-24T20:00:00Z", "2025-04-24T20:00:00Z 2025-04-24T23:00:00Z"},
		{"a day of 25 hours", "0 0 * * *", "Europe/London", "2026-10-24T23:00:01Z", "2026-10-26T00:00:00Z"},
		{"two skipped times", "0,30 2 * * *", "America/New_York", "2026-03-08T00:00:00Z", "2026-03-08T07:00:00Z 2026-03-09T06:00:00Z"},
		{"the skipped one and the one right after", "0 2,3 * * *", "America/New_York", "2026-03-08T00:00:00Z", "2026-03-08T07:00:00Z 2026-03-09T06:00:00Z"},
		{"a jump of half an hour", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", "2026-10-03T15:30:00Z 2026-10-04T15:15:00Z"},
		{"a fold of half an hour", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", "2026-04-04T14:45:00Z 2026-04-05T15:15:00Z"},
		{"a date that a zone left out", "0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", "2011-12-29T22:00:00Z 2011-12-30T22:00:00Z"},
		{"a rare date", "0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z 2032-02-29T00:00:00Z"},
		{"a rarer one", "0 0 29 2 */7", "UTC", "2026-01-01T00:00:00Z", "2032-02-29T00:00:00Z 2060-02-29T00:00:00Z"},
		{"an impossible date or a day of the week", "0 0 30 2 1", "UTC", "2026-01-01T00:00:00Z", "2026-02-02T00:00:00Z 2026-02-09T00:00:00Z"},
		{"one of the two days", "0 4 1,15 * 5", "UTC", "2026-09-01T00:00:00Z", "2026-09-01T04:00:00Z 2026-09-04T04:00:00Z 2026-09-11T04:00:00Z 2026-09-15T04:00:00Z 2026-09-18T04:00:00Z 2026-09-25T04:00:00Z 2026-10-01T04:00:00Z"},
		{"both of the two", "0 9 1-7 * */7", "UTC", "2026-08-01T00:00:00Z", "2026-08-02T09:00:00Z 2026-09-06T09:00:00Z"},
		{"a week that wraps", "0 8 * * FRI-MON", "UTC", "2026-09-01T00:00:00Z", "2026-09-04T08:00:00Z 2026-09-05T08:00:00Z 2026-09-06T08:00:00Z 2026-09-07T08:00:00Z 2026-09-11T08:00:00Z"},
		{"a whole week", "0 8 * * MON-SUN", "UTC", "2026-09-01T00:00:00Z", "2026-09-01T08:00:00Z 2026-09-02T08:00:00Z 2026-09-03T08:00:00Z"},
		{"to Sunday", "0 8 * * 5-7", "UTC", "2026-09-01T00:00:00Z", "2026-09-04T08:00:00Z 2026-09-05T08:00:00Z 2026-09-06T08:00:00Z 2026-09-11T08:00:00Z"},
		{"from Sunday", "0 8 * * SUN-SAT", "UTC", "2026-09-01T00:00:00Z", "2026-09-01T08:00:00Z 2026-09-02T08:00:00Z"},
		{"7 alone", "0 8 * * 7", "UTC", "2026-09-01T00:00:00Z", "2026-09-06T08:00:00Z 2026-09-13T08:00:00Z"},
		{"7 in a list", "0 8 * * 1,7", "UTC", "2026-09-01T00:00:00Z", "2026-09-06T08:00:00Z 2026-09-07T08:00:00Z 2026-09-13T08:00:00Z"},
		{"from 7", "0 8 * * 7-1", "UTC", "2026-09-01T00:00:00Z", "2026-09-06T08:00:00Z 2026-09-07T08:00:00Z 2026-09-13T08:00:00Z"},
		{"hours that wrap", "0 22-2 * * *", "UTC", "2026-09-01T00:30:00Z", "2026-09-01T01:00:00Z 2026-09-01T02:00:00Z 2026-09-01T22:00:00Z 2026-09-01T23:00:00Z 2026-09-02T00:00:00Z"},
		{"minutes that wrap, in steps", "58-2/2 * * * *", "UTC", "2026-09-01T00:00:00Z", "2026-09-01T00:00:00Z 2026-09-01T00:02:00Z 2026-09-01T00:58:00Z"},
		{"a start with a step", "50/5 * * * *", "UTC", "2026-09-01T00:00:00Z", "2026-09-01T00:50:00Z 2026-09-01T00:55:00Z 2026-09-01T01:50:00Z"},
		{"the last day", "0 0 L * *", "UTC", "2027-02-01T00:00:00Z", "2027-02-28T00:00:00Z 2027-03-31T00:00:00Z"},
		{"before the last day", "0 0 L-2 * *", "UTC", "2027-02-01T00:00:00Z", "2027-02-26T00:00:00Z 2027-03-29T00:00:00Z"},
		{"the last weekday", "0 0 LW * *", "UTC", "2026-01-01T00:00:00Z", "2026-01-30T00:00:00Z 2026-02-27T00:00:00Z"},
		{"the weekday nearest to the first", "0 0 1W * *", "UTC", "2026-08-01T00:00:00Z", "2026-08-03T00:00:00Z 2026-09-01T00:00:00Z"},
		{"the weekday nearest to the last", "0 0 31W * *", "UTC", "2026-05-01T00:00:00Z", "2026-05-29T00:00:00Z 2026-07-31T00:00:00Z"},
		{"the second Friday", "0 0 * * 5#2", "UTC", "2026-09-01T00:00:00Z", "2026-09-11T00:00:00Z 2026-10-09T00:00:00Z"},
		{"the fifth Monday", "0 0 * * mon#5", "UTC", "2026-09-01T00:00:00Z", "2026-11-30T00:00:00Z 2027-03-29T00:00:00Z"},
		{"the last Friday", "0 0 * * FRIL", "UTC", "2026-09-01T00:00:00Z", "2026-09-25T00:00:00Z 2026-10-30T00:00:00Z"},
		{"no day of month", "0 0 ? * 1", "UTC", "2026-09-01T00:00:00Z", "2026-09-07T00:00:00Z 2026-09-14T00:00:00Z"},
		{"seconds", "*/20 59 23 31 12 *", "UTC", "2026-09-01T00:00:00Z", "2026-12-31T23:59:00Z 2026-12-31T23:59:20Z 2026-12-31T23:59:40Z 2027-12-31T23:59:00Z"},
		{"zeros and blanks", "  00\t05 * * * ", "UTC", "2026-09-01T00:00:00Z", "2026-09-01T05:00:00Z"},
		{"months by name", "0 0 1 jan,JUL *", "UTC", "2026-09-01T00:00:00Z", "2027-01-01T00:00:00Z 2027-07-01T00:00:00Z"},
		{"hourly", "@hourly", "UTC", "2026-09-01T00:30:00Z", "2026-09-01T01:00:00Z"},
		{"weekly", "@weekly", "UTC", "2026-09-01T00:00:00Z", "2026-09-06T00:00:00Z"},
		{"every so often", "@every 90m", "Asia/Seoul", "2026-09-01T00:00:00Z", "2026-09-01T00:00:00Z 2026-09-01T01:30:00Z"},
		{"every other day", "@every 2d", "UTC", "2026-09-01T00:00:00Z", "2026-09-02T00:00:00Z 2026-09-04T00:00:00Z"},
		{"every year", "@every 365d", "UTC", "2026-09-01T00:00:00Z", "2026-12-18T00:00:00Z 2027-12-18T00:00:00Z"},
		{"bare seconds", "@every 60", "UTC", "2026-09-01T00:00:00Z", "2026-09-01T00:00:00Z 2026-09-01T00:01:00Z"},
		{"days and hours", "@every 1d12h", "UTC", "2026-09-01T00:00:00Z", "2026-09-01T00:00:00Z 2026-09-02T12:00:00Z"},
		{"at boot", "@reboot", "UTC", "2026-09-01T00:00:00Z", "never"},
	} {
		want := strings.Fields(c.want)
		if got := strings.Join(fires(t, cron(t, c.text, c.zone, ""), c.from, len(want)), " "); got != c.want {
			t.Errorf("%s: %q in %s: %s, want %s", c.what, c.text, c.zone, got, c.want)
		}
	}
}

// TestCronDaysOfWeek (B06): every value, range and step of the last field, of which 0 and 7 are Sunday, counted one by one.
func TestCronDaysOfWeek(t *testing.T) {
	t.Parallel()
	sunday := time.Date(2026, 9, 6, 0, 0, 0, 0, time.UTC)
	for a := range 8 {
		for b := a; b <= 7; b++ {
			for step := 1; step <= 7; step++ {
				want, got := map[int]bool{}, map[int]bool{}
				for v := a; v <= b; v += step {
					want[v%7] = true
				}
				fields := []string{fmt.Sprintf("%d-%d/%d", a, b, step)}
				if step == 1 {
					fields = append(fields, fmt.Sprintf("%d-%d", a, b))
				}
				if a == b {
					fields = append(fields, fmt.Sprint(a))
				}
				for _, field := range fields {
					s := cron(t, "0 0 * * "+field, "UTC", "")
					clear(got)
					for at, _ := s.Next(sunday.Add(-1)); at.Before(sunday.AddDate(0, 0, 7)); at, _ = s.Next(at) {
						got[int(at.Weekday())] = true
					}
					if !maps.Equal(got, want) {
						t.Errorf("%s: %v, want %v", field, got, want)
					}
				}
			}
		}
	}
}

// TestCronInItsOwnZone (B03): a job's zone alone counts, whatever the host's is.
func TestCronInItsOwnZone(t *testing.T) {
	t.Parallel()
	for _, minute := range []string{"59 0", "0 1", "1 1", "30 1", "59 1", "0 2"} {
		s := cron(t, minute+" * * *", "UTC", "")
		m, h, _ := strings.Cut(minute, " ")
		at, _ := time.Parse("2006-01-02 15:4", "2022-10-30 "+"0"+h+":"+m)
		if got, _ := s.Next(at.Add(-time.Hour)); !got.Equal(at) {
			t.Errorf("%q: %s, want %s", minute, got, at)
		}
	}
}

func TestCronDST(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dst              DST
		gap, fold, night string // 02:30 in spring, 01:30 in autumn, and every hour through both
	}{
		{DSTOnce, "2026-03-08T07:00:00Z 2026-03-09T06:30:00Z", "2026-11-01T05:30:00Z 2026-11-02T06:30:00Z", "2026-03-08T06:00:00Z 2026-03-08T07:00:00Z"},
		{DSTSkip, "2026-03-09T06:30:00Z 2026-03-10T06:30:00Z", "2026-11-01T05:30:00Z 2026-11-02T06:30:00Z", "2026-03-08T06:00:00Z 2026-03-08T07:00:00Z"},
		{DSTTwice, "2026-03-08T07:00:00Z 2026-03-09T06:30:00Z", "2026-11-01T05:30:00Z 2026-11-01T06:30:00Z", "2026-03-08T06:00:00Z 2026-03-08T07:00:00Z"},
	} {
		for _, x := range [][3]string{{"30 2 * * *", "2026-03-08T00:00:00Z", c.gap}, {"30 1 * * *", "2026-11-01T00:00:00Z", c.fold}, {"0 * * * *", "2026-03-08T06:00:00Z", c.night}} {
			if got := strings.Join(fires(t, cron(t, x[0], "America/New_York", c.dst), x[1], 2), " "); got != x[2] {
				t.Errorf("%s, %q: %s, want %s", c.dst, x[0], got, x[2])
			}
		}
	}
	if _, err := ParseDST("never"); err == nil {
		t.Error("dst never: no error")
	}
}

func TestCronRefused(t *testing.T) {
	t.Parallel()
	for text, why := range map[string]string{
		"":                             "empty",
		"0 0 30 2 *":                   "no day of the calendar",
		"0 0 31 4,6,9,11 *":            "no day of the calendar",
		"0 0 31W 2 *":                  "no day of the calendar",
		"0 24 * * *":                   "24 is no hour, which ends at 23",
		"60 * * * *":                   "60 is no minute",
		"*/0 * * * *":                  "a step of 0",
		"*/70 * * * *":                 "a step of 70, and only 60 values",
		"0 0 0 1 *":                    "0 is no day of month, which begins at 1",
		"0 0 * 13 *":                   "13 is no month",
		"0 0 * * 8":                    "8 is no day of week",
		"1,,2 * * * *":                 "empty part",
		", * * * *":                    "empty part",
		"1- * * * *":                   "empty part",
		"-1 * * * *":                   "empty part",
		"1/ * * * *":                   "no number",
		"* * * *":                      "4 fields",
		"* * * * * * *":                "seven fields",
		"* * * * * * * *":              "8 fields",
		"0 0 ** * *":                   "no day of month",
		"a * * * *":                    "no minute",
		"0 0 * monday *":               "no month",
		"0 0 * * monday":               "no day of week",
		"? * * * *":                    "one of the two day fields",
		"0 0 * * L":                    "L alone",
		"0 0 * * 5#6":                  "1st to the 5th",
		"0 0 * * 5#0":                  "1st to the 5th",
		"0 0 W * *":                    "W follows the number",
		"0 0 1-5W * *":                 "W follows the number",
		"0 0 L-31 * *":                 "up to 30",
		"0~30 * * * *":                 "random",
		"H * * * *":                    "Jenkins",
		"@fortnightly":                 "no name of a schedule",
		"@daily 5":                     "@daily stands alone",
		"@reboot 5":                    "@reboot stands alone",
		"@every":                       "@every takes one duration",
		"@every 5 m":                   "@every takes one duration",
		"0 0 1 1 * 2027":               "the sixth field is a year",
		"5":                            "it has one field",
		"0 0 * * SUNDAY":               "a name has three letters: SUN",
		"0 0 1 sept *":                 "a name has three letters: SEP",
		"@every 1.5s":                  "whole seconds",
		"@every 100ms":                 "whole seconds",
		"@every 8761h":                 "whole seconds",
		"@every 365d1s":                "whole seconds",
		"@every 0":                     "whole seconds",
		"@every -60":                   "whole seconds",
		"CRON_TZ=Asia/Tokyo 0 0 * * *": "the zone isn't part",
		"0 0 * * ５":                    "U+FF15",
		"0 0 * * *\x00":                "no day of week",
		"12345 * * * *":                "no minute",
	} {
		_, err := ParseCron(text)
		var e *UsageError
		if !errors.As(err, &e) || e.Flag != "--cron" || !strings.Contains(err.Error(), why) || strings.ContainsAny(err.Error(), "\n\x00") {
			t.Errorf("%q: %v, want it refused for %q", text, err, why)
		}
	}
}

// TestRareDates (B04): what is rare, or doesn't exist, is found without a walk through all time.
func TestRareDates(t *testing.T) {
	t.Parallel()
	began := time.Now()
	for _, text := range []string{"0 0 30 2 *", "0 0 29 2 *", "0 0 29 2 */7", "59 59 23 31 12 */7", "0 0 31W 2,3 *"} {
		if c, err := ParseCron(text); err == nil {
			Schedule{Cron: c, Zone: time.UTC}.Next(time.Unix(0, 0))
		}
	}
	if took := time.Since(began); took > 5*time.Second { // milliseconds, on any machine that isn't busy
		t.Errorf("it took %s", took)
	}
}
