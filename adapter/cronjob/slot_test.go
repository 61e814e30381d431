package cronjob_test

import (
	"errors"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/adapter/cronjob"
	"github.com/onerun-dev/onerun/schedule"
)

func parse(t testing.TB, expr string) cron.Schedule {
	t.Helper()
	at, err := cron.ParseStandard(expr)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// TestSlotIsWhatCronFiredFor: where clocks change, and elsewhere, a fire finds the time that cron
// meant. One that comes late finds that or a later one.
func TestSlotIsWhatCronFiredFor(t *testing.T) {
	days := []struct{ from, to string }{
		{"2026-03-06", "2026-03-10"},
		{"2026-04-03", "2026-04-07"},
		{"2026-04-22", "2026-04-26"},
		{"2026-10-02", "2026-10-06"},
		{"2026-10-28", "2026-11-03"},
	}
	check := func(expr string, in *time.Location, from, to string) (fires int) {
		at := parse(t, expr)
		until, err := time.ParseInLocation(time.DateOnly, to, in)
		if err != nil {
			t.Fatal(err)
		}
		slot, err := time.ParseInLocation(time.DateOnly, from, in)
		if err != nil {
			t.Fatal(err)
		}
		for slot = at.Next(slot); !slot.After(until) && !slot.IsZero(); fires++ {
			next := at.Next(slot)
			for _, late := range []time.Duration{0, time.Millisecond, 1500 * time.Millisecond} {
				if got, err := cronjob.Latest(at, slot.Add(late)); err != nil || !got.Equal(slot) {
					t.Errorf("%s, fired for %s %s late: slot %s, %v", expr, slot, late, got, err)
				}
			}
			now := next.Add(-time.Millisecond)
			if got, err := cronjob.Latest(at, now); err != nil || got.Before(slot) || got.After(now) {
				t.Errorf("%s, fired for %s at %s: slot %s, %v", expr, slot, now, got, err)
			}
			slot = next
		}
		return fires
	}
	for _, name := range []string{"America/New_York", "Africa/Cairo", "Australia/Lord_Howe", "UTC"} {
		for _, expr := range []string{"0 1 * * *", "30 2 * * *", "30 1 * * *", "0 0 * * *", "*/30 * * * *", "0 */2 * * *", "0 9 * * 1-5", "CRON_TZ=Asia/Seoul 0 1 * * *"} {
			for _, d := range days {
				if check(expr, zone(t, name), d.from, d.to) == 0 {
					t.Errorf("%s in %s never fired from %s to %s", expr, name, d.from, d.to)
				}
			}
		}
	}
	for _, expr := range []string{"0 0 1 * *", "15 3 29 2 *"} {
		if check(expr, time.UTC, "2024-01-01", "2028-12-31") == 0 {
			t.Errorf("%s never fired", expr)
		}
	}
}

// backward is a schedule that doesn't go on.
type backward struct{}

func (backward) Next(t time.Time) time.Time { return t.Truncate(time.Hour) }

// TestSlotsThatAreNone: what can't be keyed is refused where it is written.
func TestSlotsThatAreNone(t *testing.T) {
	runner := onerun.NewRunner(nil)
	for what, opt := range map[string]cronjob.Option{
		"@every":             cronjob.Keyed(parse(t, "@every 1h"), time.UTC, schedule.Spec{}),
		"never":              cronjob.Keyed(parse(t, "0 0 30 2 *"), time.UTC, schedule.Spec{}),
		"no location":        cronjob.Keyed(parse(t, "0 1 * * *"), nil, schedule.Spec{}),
		"no zone":            cronjob.Keyed(parse(t, "0 1 * * *"), time.UTC, schedule.Spec{Date: "yesterday"}),
		"an instant":         cronjob.Keyed(parse(t, "0 1 * * *"), time.UTC, schedule.Spec{At: "2026-09-15T01:00:00Z"}),
		"two names of a key": cronjob.Keyed(parse(t, "0 1 * * *"), time.UTC, schedule.Spec{Partition: "a", Period: "5m"}),
	} {
		if _, err := cronjob.New(t.Context(), runner, onerun.Job{Name: "daily"}, nil, opt); !errors.Is(err, onerun.ErrUsage) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := cronjob.Wrapper(t.Context(), runner, onerun.Job{Name: "daily"}, opt); !errors.Is(err, onerun.ErrUsage) {
			t.Errorf("%s, of a wrapper: %v", what, err)
		}
	}
	if at, err := cronjob.Latest(backward{}, time.Now().Add(time.Hour)); !errors.Is(err, onerun.ErrUsage) {
		t.Errorf("a schedule that doesn't go on: %s, %v", at, err)
	}
}
