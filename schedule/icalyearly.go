package schedule

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// yearly is an RRULE of FREQ=YEARLY, of those parts that holidays need.
type yearly struct {
	interval  int
	count     int   // with the first; 0: no bound
	until     civil // 0: no bound
	months    []int
	monthDays []int // from the end, if negative
	weekdays  []byDay
}

// byDay is one of BYDAY: the nth in its month, from the end if negative; 0: each.
type byDay struct {
	day time.Weekday
	nth int
}

var weekdayNames = []string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}

const onlyYearly = "only FREQ=YEARLY with INTERVAL, COUNT, UNTIL, BYMONTH, BYMONTHDAY and BYDAY is read: write other holidays as single events"

func parseYearly(text string) (*yearly, string) {
	y := &yearly{interval: 1}
	frequency := ""
	for part := range strings.SplitSeq(strings.ToUpper(text), ";") {
		name, value, _ := strings.Cut(part, "=")
		ok := true
		switch name {
		case "FREQ":
			frequency = value
		case "WKST": // of no account for years
		case "INTERVAL":
			y.interval, ok = count(value, 1000)
			ok = ok && y.interval > 0
		case "COUNT":
			y.count, ok = count(value, 10_000)
			ok = ok && y.count > 0
		case "UNTIL":
			day, _, _ := strings.Cut(value, "T")
			var why string
			y.until, why = wholeDay("", day)
			ok = why == ""
		case "BYMONTH":
			y.months, ok = numbers(value, 1, 12)
		case "BYMONTHDAY":
			y.monthDays, ok = numbers(value, -31, 31)
		case "BYDAY":
			y.weekdays, ok = weekdays(value)
		default:
			ok = false
		}
		if !ok {
			return nil, quote(part) + ": " + onlyYearly
		}
	}
	nth := slices.ContainsFunc(y.weekdays, func(w byDay) bool { return w.nth != 0 })
	if frequency != "YEARLY" || nth && y.months == nil {
		return nil, onlyYearly + ", and the nth BYDAY with its BYMONTH"
	}
	return y, ""
}

func numbers(text string, least, most int) (all []int, ok bool) {
	for one := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(one)
		if err != nil || n < least || n > most || n == 0 {
			return nil, false
		}
		all = append(all, n)
	}
	return all, true
}

func weekdays(text string) (all []byDay, ok bool) {
	for one := range strings.SplitSeq(text, ",") {
		if len(one) < 2 {
			return nil, false
		}
		day := slices.Index(weekdayNames, one[len(one)-2:])
		w := byDay{day: time.Weekday(day)}
		if nth := one[:len(one)-2]; nth != "" {
			n, err := strconv.Atoi(nth)
			if err != nil || n == 0 || n < -5 || n > 5 {
				return nil, false
			}
			w.nth = n
		}
		if day < 0 {
			return nil, false
		}
		all = append(all, w)
	}
	return all, true
}

// after are the days of the rule after the first one.
func (y *yearly) after(first civil) (all []civil) {
	for year := first.midnight().Year(); year <= lastYear; year += y.interval {
		for day := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() == year; day = day.AddDate(0, 0, 1) {
			d := civil(day.Unix() / secondsPerDay)
			if y.until != 0 && d > y.until || y.count > 0 && len(all)+1 >= y.count {
				return all
			}
			if d > first && y.has(day, first.midnight()) {
				all = append(all, d)
			}
		}
	}
	return all
}

// has reports whether a day is one of the rule, which takes from the first day what it doesn't say.
func (y *yearly) has(day, first time.Time) bool {
	by := y.monthDays != nil || y.weekdays != nil
	switch {
	case y.months != nil && !slices.Contains(y.months, int(day.Month())),
		y.months == nil && !by && day.Month() != first.Month(),
		!by && day.Day() != first.Day():
		return false
	}
	last := time.Date(day.Year(), day.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
	if y.monthDays != nil && !slices.Contains(y.monthDays, day.Day()) && !slices.Contains(y.monthDays, day.Day()-last-1) {
		return false
	}
	return y.weekdays == nil || slices.ContainsFunc(y.weekdays, func(w byDay) bool {
		return w.day == day.Weekday() && (w.nth == 0 || w.nth == (day.Day()-1)/7+1 || w.nth == -((last-day.Day())/7+1))
	})
}
