package schedule

import (
	"fmt"
	"strings"
	"time"
)

// days are the day of month and the day of week of a cron expression.
type days struct {
	dom, dow uint64
	both     bool // one of the fields starts with a star: a day must match both

	last    []int // so many days before the last of the month
	nearest []int // the weekday that is nearest to that day; 0: the last one
	nth     []nth
}

// nth is a day of the week, and which one of the month; 0: the last.
type nth struct{ dow, n int }

func parseDays(dom, dow string) (d days, err error) {
	d.both = star(dom) || star(dow)
	if dom == "?" {
		dom = "*"
	}
	if dow == "?" {
		dow = "*"
	}
	if d.dom, err = domField.parse(dom, d.ofMonth); err != nil {
		return d, err
	}
	d.dow, err = dowField.parse(dow, d.ofWeek)
	return d, err
}

// ofMonth reads L, L-N, NW and LW.
func (d *days) ofMonth(text string) (done bool, err error) {
	up := strings.ToUpper(text)
	switch {
	case up == "L":
		d.last = append(d.last, 0)
	case up == "LW" || up == "WL":
		d.nearest = append(d.nearest, 0)
	case strings.HasPrefix(up, "L-"):
		n, ok := number(up[2:])
		if !ok || n > 30 {
			return false, fmt.Errorf("%s is no day of month; L-N has an N up to 30", quote(text))
		}
		d.last = append(d.last, n)
	case strings.HasSuffix(up, "W"):
		n, err := domField.value(up[:len(up)-1])
		if err != nil {
			return false, fmt.Errorf("%s is no day of month; W follows the number of one day", quote(text))
		}
		d.nearest = append(d.nearest, n)
	default:
		return false, nil
	}
	return true, nil
}

// ofWeek reads D#N and DL.
func (d *days) ofWeek(text string) (done bool, err error) {
	day, which, counted := strings.Cut(text, "#")
	n := 0
	switch {
	case counted:
		var ok bool
		if n, ok = number(which); !ok || n < 1 || n > 5 {
			return false, fmt.Errorf("%s: a month has the 1st to the 5th of a day of the week", quote(text))
		}
	case strings.EqualFold(text, "L"):
		return false, fmt.Errorf("an L alone is no day of week; write SAT, or FRIL for the last Friday of the month")
	case len(text) > 1 && (text[len(text)-1] == 'L' || text[len(text)-1] == 'l'):
		day = text[:len(text)-1]
	default:
		return false, nil
	}
	v, err := dowField.value(day)
	if err != nil {
		return false, err
	}
	d.nth = append(d.nth, nth{v % 7, n})
	return true, nil
}

// match reports whether a day is one of them. at is the same day as y, m and dom.
func (d *days) match(y int, m time.Month, dom int, at civil) bool {
	dow := weekday(at)
	byMonth := d.dom&(1<<dom) != 0
	if !byMonth && len(d.last)+len(d.nearest) > 0 {
		length := monthLength(y, m)
		for _, before := range d.last {
			byMonth = byMonth || dom == length-before
		}
		for _, near := range d.nearest {
			byMonth = byMonth || dom == nearestWeekday(near, length, at-civil(dom)+1)
		}
	}
	byWeek := d.dow&(1<<dow) != 0
	for i := 0; i < len(d.nth) && !byWeek; i++ {
		of := d.nth[i]
		switch {
		case of.dow != dow:
		case of.n == 0:
			byWeek = dom+7 > monthLength(y, m)
		default:
			byWeek = (dom-1)/7+1 == of.n
		}
	}
	if d.both {
		return byMonth && byWeek
	}
	return byMonth || byWeek
}

// nearestWeekday is the day of month from Monday to Friday that is nearest to a day of it, or to its
// last one if that is 0; 0: the month has no such day. first is the first of the month.
func nearestWeekday(day, length int, first civil) int {
	switch {
	case day > length:
		return 0
	case day == 0:
		day = length
		switch weekday(first + civil(day-1)) {
		case 6:
			return day - 1
		case 0:
			return day - 2
		}
		return day
	}
	switch weekday(first + civil(day-1)) {
	case 6:
		if day == 1 {
			return 3
		}
		return day - 1
	case 0:
		if day == length {
			return day - 2
		}
		return day + 1
	}
	return day
}

// weekday is 0 for Sunday.
func weekday(d civil) int { return int((d%7 + 11) % 7) } // 1970-01-01 was a Thursday

func firstOf(y int, m time.Month) civil {
	return civil(floorDiv(time.Date(y, m, 1, 0, 0, 0, 0, time.UTC).Unix(), secondsPerDay))
}

func monthLength(y int, m time.Month) int { return int(firstOf(y, m+1) - firstOf(y, m)) }
