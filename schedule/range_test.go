package schedule_test

import (
	"strings"
	"testing"

	"github.com/onerun-dev/onerun/schedule"
)

func TestRange(t *testing.T) {
	cal, err := schedule.ParseCalendar(strings.NewReader("2026-10-05\n"), "holidays")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, to, period string
		cal              *schedule.Calendar
		want             string
	}{
		{"2026-09-15", "2026-09-15", "", nil, "2026-09-15"},
		{"2024-02-28", "2024-03-01", "day", nil, "2024-02-28 2024-02-29 2024-03-01"},
		{"2026-10-02", "2026-10-07", "", cal, "2026-10-02 2026-10-06 2026-10-07"},
		{"2026-10-03", "2026-10-05", "", cal, ""},
		{"2026-09-30", "2026-11-01", "month", nil, "2026-09 2026-10 2026-11"},
		{"2026-12-27", "2027-01-04", "week", nil, "2026-W52 2026-W53 2027-W01"},
	} {
		got, err := schedule.Range(c.from, c.to, c.period, c.cal)
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s to %s by %q: %q, %v; want %q", c.from, c.to, c.period, got, err, c.want)
		}
	}
	for _, c := range [][3]string{
		{"2026-02-29", "2026-03-01", ""},
		{"2026-03-01", "soon", ""},
		{"2026-03-02", "2026-03-01", ""},
		{"2026-03-01", "2026-03-02", "hour"},
		{"2026-03-01", "2026-03-02", "5m"},
		{"2026-03-01", "2026-03-02", "year"},
		{"0001-01-01", "2026-03-02", ""},
	} {
		if got, err := schedule.Range(c[0], c[1], c[2], nil); err == nil {
			t.Errorf("%q: %q; want it refused", c, got)
		}
	}
}
