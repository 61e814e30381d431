package schedule

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// seoul lists the holidays around Chuseok 2026 (Thursday 24 to Friday 25
// September) in every spelling that a list may have.
const seoul = "\ufeff# Korea\r\n\r\n2026-09-24\r\n\t 2026-09-25 # Chuseok\r\n2026-09-25\r\n2026-10-09\r\n2026-09-26"

func parseCalendar(t *testing.T, text string) *Calendar {
	t.Helper()
	c, err := ParseCalendar(strings.NewReader(text), "test")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestBusinessDays(t *testing.T) {
	tests := []struct {
		calendar                string
		today, on, before, name string
	}{
		{"", "2026-09-16", "2026-09-16", "2026-09-15", "Wednesday"},
		{"", "2026-09-14", "2026-09-14", "2026-09-11", "Monday looks back to Friday"},
		{"", "2026-09-12", "2026-09-11", "2026-09-11", "Saturday: both are Friday"},
		{"", "2026-09-13", "2026-09-11", "2026-09-11", "Sunday: both are Friday"},
		{"", "2026-01-01", "2026-01-01", "2025-12-31", "an empty calendar knows weekends only"},
		{"# nothing\n", "2026-01-01", "2026-01-01", "2025-12-31", "so does one of comments"},
		{seoul, "2026-09-23", "2026-09-23", "2026-09-22", "before the holidays"},
		{seoul, "2026-09-24", "2026-09-23", "2026-09-23", "on a holiday"},
		{seoul, "2026-09-27", "2026-09-23", "2026-09-23", "Sunday after holidays"},
		{seoul, "2026-09-28", "2026-09-28", "2026-09-23", "first day back"},
		{seoul, "2026-10-10", "2026-10-08", "2026-10-08", "the last line has no newline"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cal := parseCalendar(t, tt.calendar)
			for date, want := range map[string]string{"business-day": tt.on, "previous-business-day": tt.before} {
				s := Spec{Date: date, Zone: "UTC", Calendar: cal, At: tt.today + "T12:00:00Z"}
				if got := resolve(t, s); got.Partition != want || got.BusinessDate != want {
					t.Errorf("%s on %s = %+v, want %s", date, tt.today, got, want)
				}
			}
		})
	}
}

func TestBusinessDayFollowsDayStart(t *testing.T) {
	s := Spec{Date: "previous-business-day", Zone: "Asia/Seoul", DayStart: "06:00", Calendar: parseCalendar(t, "")}
	s.At = "2026-09-14T05:59:59+09:00" // Monday by the clock, still Sunday's business date
	if got := resolve(t, s).Partition; got != "2026-09-11" {
		t.Errorf("before the day-start: %s", got)
	}
	s.At = "2026-09-15T05:59:59+09:00" // still Monday
	if got := resolve(t, s).Partition; got != "2026-09-11" {
		t.Errorf("before Tuesday's day-start: %s", got)
	}
	s.At = "2026-09-15T06:00:00+09:00"
	if got := resolve(t, s).Partition; got != "2026-09-14" {
		t.Errorf("from Tuesday's day-start: %s", got)
	}
}

func TestCalendarWithoutBusinessDays(t *testing.T) {
	var all strings.Builder
	last := date(t, "2026-09-15")
	for d := last - 4000; d <= last; d++ {
		fmt.Fprintln(&all, d)
	}
	s := Spec{Date: "business-day", Zone: "UTC", Calendar: parseCalendar(t, all.String()), At: "2026-09-15T12:00:00Z"}
	start := time.Now()
	refused(t, s, "--calendar", "no business day in the ten years up to 2026-09-15")
	if took := time.Since(start); took > 10*time.Second { // milliseconds, on any machine that isn't busy
		t.Errorf("took %v", took)
	}
	s.Calendar = parseCalendar(t, "0001-01-01")
	s.At = "0001-01-01T12:00:00Z"
	refused(t, s, "--calendar", "no business day")
}

func TestBadCalendars(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
		not        string
	}{
		{"every bad line", "2026-01-01\n20260102\r\n\n2026-02-30\nx y\n", []string{
			`line 2: "20260102": that is not of the form YYYY-MM-DD`,
			`line 4: "2026-02-30": there is no such day`,
			`line 5: "x y": `,
		}, "line 1"},
		{"two on a line", "2026-01-01 2026-01-02", []string{"line 1: "}, ""},
		{"full-width", "2026-01-0１", []string{"line 1: ", "U+FF11"}, ""},
		{"terminal escape", "\x1b[31m", []string{`line 1: "\x1b[31m"`}, "\x1b"},
		{"iCalendar", "BEGIN:VCALENDAR\r\nVERSION:2.0\r\n", []string{"iCalendar"}, "line 1:"},
		{"iCalendar after a mark", "\ufeff\r\nbegin:vcalendar", []string{"iCalendar"}, "line 1:"},
		{"UTF-16", "\xff\xfe2\x00", []string{"UTF-16"}, "line 1:"},
		{"too long", strings.Repeat("2026-01-01\n", 100_000), []string{"1 MiB"}, "line 1:"},
		{"no text", strings.Repeat(strings.Repeat("\xff\x00", 300)+"\n", 20), []string{"line 1: ", "that is not UTF-8", "and 15 more bad lines"}, strings.Repeat(`\xff\x00`, 31)},
		{"flood", strings.Repeat("x\n", 250), []string{"line 5: ", "and 245 more bad lines"}, "line 6"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseCalendar(strings.NewReader(tt.text), "kr.txt")
			msg := usage(t, err, "--calendar")
			for _, want := range append(tt.want, "kr.txt") {
				if !strings.Contains(msg, want) {
					t.Errorf("%q does not say %q", msg, want)
				}
			}
			if tt.not != "" && strings.Contains(msg, tt.not) {
				t.Errorf("%q says %q", msg, tt.not)
			}
		})
	}
}

func TestLoadCalendar(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "휴일.txt")
	if err := os.WriteFile(path, []byte(seoul), 0o600); err != nil {
		t.Fatal(err)
	}
	cal, err := LoadCalendar(path)
	if err != nil {
		t.Fatal(err)
	}
	if cal.isBusinessDay(date(t, "2026-09-25")) || !cal.isBusinessDay(date(t, "2026-09-23")) {
		t.Error("the file's holidays are not known")
	}

	_, err = LoadCalendar(filepath.Join(dir, "no\nsuch"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if pe := (*fs.PathError)(nil); !errors.As(err, &pe) || pe.Op != "open" {
		t.Errorf("missing file: %v wraps no *fs.PathError", err)
	}
	oneLine(t, err)
	if _, err = LoadCalendar(dir); err == nil {
		t.Error("a directory was read as a calendar")
	} else if ue := (*UsageError)(nil); errors.As(err, &ue) {
		t.Errorf("an I/O error came as a usage error: %v", err)
	}
	_, err = LoadCalendar("")
	usage(t, err, "--calendar")
}

func TestCalendarReadError(t *testing.T) {
	boom := errors.New("boom")
	if _, err := ParseCalendar(iotest.ErrReader(boom), "pipe"); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
}
