package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"
)

// FuzzResolve looks for input that panics, hangs, answers with something other
// than a usage error of one line, or leads to a label that is no partition.
func FuzzResolve(f *testing.F) {
	f.Add("today", "Asia/Seoul", "06:00", "", "", "", "2026-01-01\n", int64(1789000000))
	f.Add("", "America/New_York", "01:30", "hour", "2026-11-01T05:59:59Z", "", "", int64(0))
	f.Add("3d-ago", "Pacific/Apia", "23:59", "day", "2011-12-31T00:00:00+14:00", "", "", int64(-1))
	f.Add("previous-business-day", "UTC", "", "", "", "", "\ufeff# x\r\n2026-12-25 # y", int64(1798000000))
	f.Add("", "", "", "1440m", "9999-12-31t23:59:59.9z", "", "x", int64(1)<<62)
	f.Add("", "", "", "", "", "eu:1", "BEGIN:VCALENDAR", int64(0))
	f.Add("2026-02-30", "../x", "6", "05m", "now", "", "2026-02-30\n\x00", int64(0))
	f.Add("36500d-ago", "Asia/Manila", "", "", "0001-01-01T00:00:01Z", "", "", int64(0))
	f.Fuzz(func(t *testing.T, date, zone, dayStart, period, at, partition, holidays string, unix int64) {
		s := Spec{Date: date, Zone: zone, DayStart: dayStart, Period: period, At: at, Partition: partition}
		if zone == "local" {
			s.Zone = "UTC" // the host decides that one
		}
		cal, err := ParseCalendar(strings.NewReader(holidays), "fuzz")
		if err != nil {
			usage(t, err, "--calendar")
		}
		s.Calendar = cal
		now := time.Unix(unix, 0)
		slot, err := s.Resolve(now)
		if again, err2 := s.Resolve(now.UTC()); again != slot || (err == nil) != (err2 == nil) {
			t.Fatalf("two answers: %+v, %v and %+v, %v", slot, err, again, err2)
		}
		if err != nil {
			var ue *UsageError
			if !errors.As(err, &ue) {
				t.Fatalf("%T: %v", err, err)
			}
			usage(t, err, ue.Flag)
			if slot != (Slot{}) {
				t.Fatalf("%+v beside %v", slot, err)
			}
			return
		}
		if slot.ScheduledAt.IsZero() != (at == "") {
			t.Fatalf("--at %q: scheduled at %v", at, slot.ScheduledAt)
		}
		if keyed := date != "" || period != "" || partition != ""; keyed == (slot.Partition == "") {
			t.Fatalf("%+v came to %+v", s, slot)
		}
		if byDay := date != "" || period == "day"; byDay != (slot.BusinessDate != "") {
			t.Fatalf("%+v came to %+v", s, slot)
		}
		if slot.BusinessDate != "" {
			if _, why := parseDate(slot.BusinessDate); why != "" || slot.BusinessDate != slot.Partition {
				t.Fatalf("%+v: %s", slot, why)
			}
		}
		if partition != "" {
			if slot.Partition != partition {
				t.Fatalf("%q became %q", partition, slot.Partition)
			}
			return
		}
		if len(slot.Partition) > 100 || strings.ContainsFunc(slot.Partition, func(r rune) bool {
			return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-+:", r)
		}) {
			t.Fatalf("%q is no partition", slot.Partition)
		}
	})
}
