package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/reugn/go-quartz/quartz"
	"github.com/robfig/cron/v3"

	"github.com/onerun-dev/onerun/schedule"
)

// expressions are what Next is measured with: as robfig/cron has them, and as go-quartz has.
var expressions = []struct{ text, quartz string }{
	{"* * * * *", "0 * * * * ?"},
	{"*/15 9-17 * * 1-5", "0 */15 9-17 ? * 2-6"},
	{"0 1 * * *", "0 0 1 * * ?"},
	{"30 2 1 1 *", "0 30 2 1 1 ?"},
	{"0 0 29 2 *", "0 0 0 29 2 ?"},
}

// compareNext holds what it takes to find the next times of an expression against the others', in a zone with
// daylight saving, a thousand of them in a row, or up to the end of the century.
func compareNext() error {
	zone, err := schedule.LoadZone("Europe/Berlin")
	if err != nil {
		return err
	}
	from := time.Date(2026, 11, 29, 12, 0, 0, 0, zone)
	fmt.Printf("\n# The next time of an expression: ours, as a ratio to the others' (below 1: ours is faster)\n\n")
	for _, x := range expressions {
		ours, err := schedule.ParseCron(x.text)
		if err != nil {
			return err
		}
		s := schedule.Schedule{Cron: ours, Zone: zone}
		robfig, err := cron.ParseStandard(x.text)
		if err != nil {
			return err
		}
		trigger, err := quartz.NewCronTriggerWithLoc(x.quartz, zone)
		if err != nil {
			return err
		}
		sides := []func(time.Time) (time.Time, bool){
			s.Next,
			func(t time.Time) (time.Time, bool) { t = robfig.Next(t); return t, !t.IsZero() },
			func(t time.Time) (time.Time, bool) {
				n, err := trigger.NextFireTime(t.UnixNano())
				return time.Unix(0, n), err == nil
			},
		}
		var times [3][]time.Duration
		for round := range 21 {
			for i := range sides {
				i = (i + round) % len(sides)
				times[i] = append(times[i], each(from, sides[i]))
			}
		}
		median := func(i int) float64 { slices.Sort(times[i]); return float64(times[i][len(times[i])/2]) }
		fmt.Printf("%-20s / robfig/cron %5.2f   / go-quartz %5.2f\n", x.text, median(0)/median(1), median(0)/median(2))
	}
	return nil
}

// each is how long one of many times takes.
func each(from time.Time, next func(time.Time) (time.Time, bool)) time.Duration {
	begin, n := time.Now(), 0
	for t, ok := from, true; ok && n < 1000; n++ {
		if t, ok = next(t); t.Year() > 2099 {
			break
		}
	}
	return time.Since(begin) / time.Duration(max(n, 1))
}
