package schedule

import (
	"strings"
	"testing"
)

func TestPeriodLabels(t *testing.T) {
	tests := []struct{ period, zone, dayStart, at, want string }{
		// An hour that comes twice has two labels.
		{"hour", "America/New_York", "", "2026-11-01T05:59:59Z", "2026-11-01T01-04:00"},
		{"hour", "America/New_York", "", "2026-11-01T06:00:00Z", "2026-11-01T01-05:00"},
		{"hour", "America/New_York", "", "2026-03-08T06:59:59Z", "2026-03-08T01-05:00"},
		{"hour", "America/New_York", "", "2026-03-08T07:00:00Z", "2026-03-08T03-04:00"},
		{"hour", "UTC", "", "2026-09-15T01:00:00Z", "2026-09-15T01+00:00"},
		{"hour", "Europe/London", "", "2026-01-15T01:00:00Z", "2026-01-15T01+00:00"},
		{"hour", "Asia/Kolkata", "", "2026-09-15T00:29:59Z", "2026-09-15T05+05:30"},
		{"hour", "Asia/Kolkata", "", "2026-09-15T00:30:00Z", "2026-09-15T06+05:30"},
		{"hour", "America/St_Johns", "", "2026-01-15T00:00:00Z", "2026-01-14T20-03:30"},
		{"hour", "Asia/Seoul", "06:00", "2026-09-14T20:00:00Z", "2026-09-15T05+09:00"}, // day-start moves no hour
		// Lord Howe: 01:00 to 02:00 at +11:00, then 01:30 to 02:00 at +10:30.
		{"hour", "Australia/Lord_Howe", "", "2026-04-04T14:59:59Z", "2026-04-05T01+11:00"},
		{"hour", "Australia/Lord_Howe", "", "2026-04-04T15:00:00Z", "2026-04-05T01+10:30"},
		{"hour", "Australia/Lord_Howe", "", "2026-04-04T15:30:00Z", "2026-04-05T02+10:30"},
		{"hour", "Africa/Monrovia", "", "1960-01-01T00:00:00Z", "1959-12-31T23-00:44:30"},
		{"hour", "Asia/Seoul", "", "1900-01-01T00:00:00Z", "1900-01-01T08+08:27:52"},

		{"day", "Asia/Seoul", "06:00", "2026-09-14T20:59:59Z", "2026-09-14"},
		{"day", "Asia/Seoul", "06:00", "2026-09-14T21:00:00Z", "2026-09-15"},

		// ISO 8601 years: 2026-12-28 to 2027-01-03 is W53 of 2026.
		{"week", "UTC", "", "2026-09-15T00:00:00Z", "2026-W38"},
		{"week", "UTC", "", "2027-01-01T00:00:00Z", "2026-W53"},
		{"week", "UTC", "", "2027-01-03T23:59:59Z", "2026-W53"},
		{"week", "UTC", "", "2027-01-04T00:00:00Z", "2027-W01"},
		{"week", "UTC", "", "2024-12-30T00:00:00Z", "2025-W01"},
		{"week", "UTC", "", "2024-12-29T23:59:59Z", "2024-W52"},
		{"week", "UTC", "", "0001-01-01T12:00:00Z", "0001-W01"},
		{"week", "UTC", "", "9999-12-31T12:00:00Z", "9999-W52"},
		{"week", "Asia/Seoul", "", "2026-09-20T15:00:00Z", "2026-W39"},
		{"week", "Asia/Seoul", "06:00", "2026-09-20T20:59:59Z", "2026-W38"},
		{"week", "Asia/Seoul", "06:00", "2026-09-20T21:00:00Z", "2026-W39"},

		{"month", "Asia/Seoul", "", "2026-09-30T14:59:59Z", "2026-09"},
		{"month", "Asia/Seoul", "", "2026-09-30T15:00:00Z", "2026-10"},
		{"month", "Asia/Seoul", "06:00", "2026-09-30T20:59:59Z", "2026-09"},
		{"month", "Asia/Seoul", "06:00", "2026-09-30T21:00:00Z", "2026-10"},
		{"month", "Asia/Seoul", "06:00", "2026-12-31T20:59:59Z", "2026-12"},

		{"1m", "", "", "2026-09-15T01:07:59.999Z", "2026-09-15T01:07:00Z"},
		{"5m", "", "", "2026-09-15T01:04:59.999Z", "2026-09-15T01:00:00Z"},
		{"5m", "", "", "2026-09-15T01:05:00Z", "2026-09-15T01:05:00Z"},
		{"5m", "", "", "2026-09-15T10:09:00+09:00", "2026-09-15T01:05:00Z"},
		{"5m", "", "", "1969-12-31T23:59:59.5Z", "1969-12-31T23:55:00Z"},
		{"7m", "", "", "1970-01-01T00:06:59Z", "1970-01-01T00:00:00Z"},
		{"7m", "", "", "1970-01-01T00:07:00Z", "1970-01-01T00:07:00Z"},
		{"7m", "", "", "2026-09-15T01:00:00Z", "2026-09-15T00:59:00Z"},
		{"1440m", "", "", "2026-09-15T23:59:59Z", "2026-09-15T00:00:00Z"},
		{"1440m", "Asia/Seoul", "06:00", "2026-09-15T23:59:59Z", "2026-09-15T00:00:00Z"},
	}
	for _, tt := range tests {
		got := resolve(t, Spec{Period: tt.period, Zone: tt.zone, DayStart: tt.dayStart, At: tt.at})
		if got.Partition != tt.want {
			t.Errorf("%s in %q from %q at %s = %s, want %s", tt.period, tt.zone, tt.dayStart, tt.at, got.Partition, tt.want)
		}
		if (got.BusinessDate != "") != (tt.period == "day") {
			t.Errorf("%s has the business date %q", tt.period, got.BusinessDate)
		}
	}
}

func TestBadPeriods(t *testing.T) {
	for _, s := range []string{
		"m", "0m", "00m", "05m", "-5m", "+5m", "5M", "5min", "5 m", " 5m", "5m ", "5.5m", "５m", "5", "5s", "5h", "1h", "0x5m", "1_0m", "1e1m",
		"1441m", "4294967301m", "18446744073709551617m", strings.Repeat("9", 5000) + "m", "5mm", "5m\n",
		"Hour", "days", "weekly", "year", "quarter", "minute", "daily", "@daily",
	} {
		refused(t, Spec{Period: s, Zone: "UTC"}, "--period", "5m")
	}
}
