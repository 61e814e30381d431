package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Cron is a cron expression: which times of which days it means, by a wall clock. When that is, a
// Schedule tells.
type Cron struct {
	text string

	second, minute, hour, month uint64
	days                        days
	follows                     bool // its minute or hour field starts with a star; see Schedule

	every  time.Duration // of @every
	reboot bool
}

// macros are the names that crontab(5) has for expressions.
var macros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// ParseCron reads a cron expression: five fields as crontab(5) has them, or six, of which the first
// is the second; or @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, @every
// DURATION (such as @every 90s, as ParseDuration reads it; of whole seconds up to 365 days, counted from 1970-01-01T00:00:00Z, so that it means
// the same to every host), or @reboot (once per boot, of which no time can be told before).
//
// A field is a list, parted by commas, of values, ranges, and steps (A-B/N, */N, A/N). Months and
// days of the week have their English names of three letters. A range may wrap around (FRI-MON,
// 22-2), and 0 and 7 are both Sunday. In a day field "?" is another way to write "*". A day of
// the month can also be L (the last one), L-N (N days before it), NW (the day from Monday to Friday
// that is nearest to the Nth, in the same month) or LW (the last such day); a day of the week D#N (the Nth of
// the month) or DL (the last of the month).
//
// Day of month and day of week: when one of them starts with a star a day must match both, else
// one of the two is enough, as with cron(8).
//
// Every error is a *UsageError for --cron: an expression that can't be read, and one that no day
// of the calendar matches, such as the 30th of February.
func ParseCron(text string) (*Cron, error) {
	c, err := parseCron(text)
	if err != nil {
		var e *UsageError
		if errors.As(err, &e) {
			return nil, e
		}
		return nil, badCron(text, orForeign(text, err.Error()), "give five fields: minute, hour, day of month, month, day of week, such as \"0 1 * * *\"")
	}
	if c.every == 0 && !c.reboot {
		if _, ok := c.day(0, maxCycle); !ok {
			return nil, badCron(text, "no day of the calendar is one of these", "correct the day of month or the month")
		}
	}
	return c, nil
}

func badCron(text, why, do string) *UsageError { return &UsageError{"--cron", text, why, do} }

func parseCron(text string) (*Cron, error) {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return nil, badCron(text, "the expression is empty", "give five fields, such as \"0 1 * * *\"")
	}
	if strings.HasPrefix(fields[0], "@") {
		return parseMacro(text, fields)
	}
	if name, zone, ok := strings.Cut(fields[0], "="); ok && (name == "TZ" || name == "CRON_TZ") {
		return nil, badCron(text, "the zone isn't part of the expression", "say it beside: --tz "+zone)
	}
	c := &Cron{text: strings.Join(fields, " "), second: 1}
	var err error
	switch len(fields) {
	case 5:
	case 6:
		if n, ok := number(fields[5]); ok && n > 99 {
			return nil, badCron(text, "the sixth field is a year, and there are no years here", "leave out the last field")
		}
		if c.second, err = secondField.parse(fields[0], nil); err != nil {
			return nil, err
		}
		fields = fields[1:]
	case 7:
		return nil, badCron(text, "it has seven fields, and there are no years here", "leave out the last field")
	case 1:
		return nil, errors.New("it has one field")
	default:
		return nil, fmt.Errorf("it has %d fields", len(fields))
	}
	if c.minute, err = minuteField.parse(fields[0], nil); err != nil {
		return nil, err
	}
	if c.hour, err = hourField.parse(fields[1], nil); err != nil {
		return nil, err
	}
	c.follows = star(fields[0]) || star(fields[1])
	if c.month, err = monthField.parse(fields[3], nil); err != nil {
		return nil, err
	}
	c.days, err = parseDays(fields[2], fields[4])
	return c, err
}

// maxEvery is a year: more is a typing error.
const maxEvery = 365 * 24 * time.Hour

func parseMacro(text string, fields []string) (*Cron, error) {
	name := strings.ToLower(fields[0])
	if plain, ok := macros[name]; ok && len(fields) == 1 {
		c, err := parseCron(plain)
		c.text = name
		return c, err
	}
	_, known := macros[name]
	switch {
	case name == "@reboot" && len(fields) == 1:
		return &Cron{text: name, reboot: true}, nil
	case (known || name == "@reboot") && len(fields) > 1:
		return nil, badCron(text, name+" stands alone", "leave out what follows it")
	case name == "@every":
		if len(fields) != 2 {
			return nil, badCron(text, "@every takes one duration", "give one such as @every 90s, @every 6h or @every 2d")
		}
		d, err := ParseDuration(fields[1])
		if err != nil || d < time.Second || d > maxEvery || d%time.Second != 0 {
			return nil, badCron(text, "that is no duration of whole seconds, from 1s to 365 days", "give one such as @every 90s, @every 6h or @every 2d")
		}
		return &Cron{text: name + " " + fields[1], every: d}, nil
	}
	return nil, badCron(text, "that is no name of a schedule", "use @hourly, @daily, @weekly, @monthly, @yearly, @every DURATION or @reboot")
}

// String is the expression, with single spaces.
func (c *Cron) String() string { return c.text }

// Reboot reports whether it is @reboot.
func (c *Cron) Reboot() bool { return c.reboot }

// maxCycle is after how many days the calendar, with its days of the week, begins anew: 400 years.
const maxCycle = 146097

// day is the first day from d on that matches, within as many days.
func (c *Cron) day(d civil, within civil) (civil, bool) {
	for end := min(d+within, lastDate+1); d < end; {
		y, m, dom := d.midnight().Date()
		if c.month&(1<<m) == 0 {
			d = firstOf(y, m+1)
			continue
		}
		if c.days.match(y, m, dom, d) {
			return d, true
		}
		d++
	}
	return 0, false
}

// dayBefore is the last day up to d that matches.
func (c *Cron) dayBefore(d civil) (civil, bool) {
	for start := max(d-maxCycle, firstDate); d >= start; {
		y, m, dom := d.midnight().Date()
		if c.month&(1<<m) == 0 {
			d = firstOf(y, m) - 1
			continue
		}
		if c.days.match(y, m, dom, d) {
			return d, true
		}
		d--
	}
	return 0, false
}

// next is the first local time from l on that matches, as seconds since the wall clock read
// 1970-01-01T00:00:00.
func (c *Cron) next(l int64) (int64, bool) {
	d := civil(floorDiv(l, secondsPerDay))
	if m, ok := c.day(d, 1); ok {
		if s := c.time(int(l - int64(m)*secondsPerDay)); s >= 0 {
			return int64(d)*secondsPerDay + int64(s), true
		}
	}
	d, ok := c.day(d+1, maxCycle)
	return int64(d)*secondsPerDay + int64(c.time(0)), ok
}

// previous is the last local time up to l that matches.
func (c *Cron) previous(l int64) (int64, bool) {
	d := civil(floorDiv(l, secondsPerDay))
	if m, ok := c.day(d, 1); ok {
		if s := c.timeBefore(int(l - int64(m)*secondsPerDay)); s >= 0 {
			return int64(d)*secondsPerDay + int64(s), true
		}
	}
	d, ok := c.dayBefore(d - 1)
	return int64(d)*secondsPerDay + int64(c.timeBefore(secondsPerDay-1)), ok
}

// time is the first matching time of a day from s on, in seconds after midnight; -1: none is left.
func (c *Cron) time(s int) int {
	h, m, sec := s/3600, s/60%60, s%60
	if c.hour&(1<<h) != 0 {
		if c.minute&(1<<m) != 0 {
			if x := from(c.second, sec); x >= 0 {
				return h*3600 + m*60 + x
			}
		}
		if x := from(c.minute, m+1); x >= 0 {
			return h*3600 + x*60 + from(c.second, 0)
		}
	}
	x := from(c.hour, h+1)
	if x < 0 {
		return -1
	}
	return x*3600 + from(c.minute, 0)*60 + from(c.second, 0)
}

// timeBefore is the last matching time of a day up to s; -1: there was none.
func (c *Cron) timeBefore(s int) int {
	h, m, sec := s/3600, s/60%60, s%60
	if c.hour&(1<<h) != 0 {
		if c.minute&(1<<m) != 0 {
			if x := upTo(c.second, sec); x >= 0 {
				return h*3600 + m*60 + x
			}
		}
		if x := upTo(c.minute, m-1); x >= 0 {
			return h*3600 + x*60 + upTo(c.second, 59)
		}
	}
	x := upTo(c.hour, h-1)
	if x < 0 {
		return -1
	}
	return x*3600 + upTo(c.minute, 59)*60 + upTo(c.second, 59)
}
