package importer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/onerun-dev/onerun/schedule"
)

// part is one element of a list in a calendar event: a value, a range, with a step or without.
type part struct{ from, to, step int } // to is -1 without a range, step 0 without one

// calendarShort are the names of systemd.time(7).
func calendarShort(name string) string {
	switch name {
	case "minutely":
		return "* * * * *"
	case "hourly":
		return "0 * * * *"
	case "daily":
		return "0 0 * * *"
	case "weekly":
		return "0 0 * * MON"
	case "monthly":
		return "0 0 1 * *"
	case "yearly", "annually":
		return "0 0 1 1 *"
	case "quarterly":
		return "0 0 1 1,4,7,10 *"
	case "semiannually", "semi-annually", "biannually", "bi-annually":
		return "0 0 1 1,7 *"
	}
	return ""
}

var weekdays = []string{"MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"}

// calendarEvent makes a cron expression of a calendar event of systemd's.
func calendarEvent(text string) (expr, zone, note string, r *refusal) {
	bad := func(format string, args ...any) (string, string, string, *refusal) {
		return "", "", "", &refusal{fmt.Sprintf("OnCalendar=%s: ", shown(text, 60)) + fmt.Sprintf(format, args...), "look with systemd-analyze calendar what is meant, and write the schedule by hand"}
	}
	fields := strings.Fields(text)
	if len(fields) == 0 || len(fields) > 5 {
		return bad("it is no calendar event")
	}
	if last := fields[len(fields)-1]; len(fields) > 1 && !strings.ContainsAny(last, ":*~.,") && isLetter(last[0]) && dayNames(last) == nil {
		if _, err := schedule.LoadZone(last); err != nil {
			return bad("the zone can't be: %s", refused(err).why)
		}
		zone, fields = last, fields[:len(fields)-1]
	}
	if short := calendarShort(strings.ToLower(fields[0])); short != "" && len(fields) == 1 {
		return short, zone, "", nil
	}
	var days []string
	if isLetter(fields[0][0]) {
		if days = dayNames(fields[0]); days == nil {
			return bad("%q is no day of the week", shown(fields[0], 20))
		}
		fields = fields[1:]
	}
	date, clock := "", ""
	for _, f := range fields {
		switch {
		case strings.HasPrefix(f, "@"):
			return bad("it is one instant, which no schedule has")
		case strings.Contains(f, ":") && clock == "":
			clock = f
		case date == "" && clock == "":
			date = f
		default:
			return bad("it is no calendar event")
		}
	}
	month, dom, fromEnd := []part(nil), []part(nil), false
	if date != "" {
		var why string
		if month, dom, fromEnd, why = calendarDate(date); why != "" {
			return bad("%s", why)
		}
	}
	at := [][]part{{{0, -1, 0}}, {{0, -1, 0}}, {{0, -1, 0}}} // hour, minute, second
	if clock != "" {
		pieces := strings.Split(clock, ":")
		if len(pieces) > 3 {
			return bad("%q is no time", shown(clock, 20))
		}
		for i, p := range pieces {
			var why string
			if at[i], why = parts(p); why != "" {
				return bad("%s", why)
			}
		}
	}
	domText, dowText, note, ok := both(dom, fromEnd, days)
	if !ok {
		return bad("here day of month and day of week must both match, and no cron expression says that of these")
	}
	expr = strings.Join([]string{partText(at[1]), partText(at[0]), domText, partText(month), dowText}, " ")
	if seconds := partText(at[2]); seconds != "0" {
		expr = seconds + " " + expr
	}
	if r := checked(expr); r != nil {
		return bad("%s", r.why)
	}
	return expr, zone, note, nil
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// dayNames reads a list of days of the week, as elements of a cron field; nil: it is none.
func dayNames(text string) (list []string) {
	index := func(name string) int {
		lower := strings.ToLower(name)
		for i, full := range []string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"} {
			if lower == full || lower == full[:3] {
				return i
			}
		}
		return -1
	}
	for element := range strings.SplitSeq(strings.TrimSuffix(text, ","), ",") {
		from, to, ranged := strings.Cut(element, "..")
		if !ranged {
			from, to, ranged = strings.Cut(element, "-")
		}
		a := index(from)
		b := a
		if ranged {
			b = index(to)
		}
		if a < 0 || b < a {
			return nil
		}
		if ranged {
			list = append(list, weekdays[a]+"-"+weekdays[b])
		} else {
			list = append(list, weekdays[a])
		}
	}
	return list
}

// calendarDate reads [YEAR-]MONTH-DAY, or [YEAR-]MONTH~DAY, whose days count from the end of the month.
func calendarDate(text string) (month, dom []part, fromEnd bool, why string) {
	rest, day, ok := cutLast(text, "~")
	fromEnd = ok
	if !ok {
		if rest, day, ok = cutLast(text, "-"); !ok {
			return nil, nil, false, fmt.Sprintf("%q is no date", shown(text, 20))
		}
	}
	year, m, hasYear := strings.Cut(rest, "-")
	if !hasYear {
		year, m = "*", rest
	}
	if year != "*" {
		return nil, nil, false, "it is for the year " + shown(year, 20) + ", and there are no years in a schedule"
	}
	if month, why = parts(m); why == "" {
		dom, why = parts(day)
	}
	return month, dom, fromEnd, why
}

// parts reads a list of values; nil: all of them.
func parts(text string) (list []part, why string) {
	if text == "*" {
		return nil, ""
	}
	if strings.Contains(strings.ReplaceAll(text, "..", ""), ".") {
		return nil, "a schedule has whole seconds"
	}
	for element := range strings.SplitSeq(text, ",") {
		p := part{to: -1}
		body, step, stepped := strings.Cut(element, "/")
		from, to, ranged := strings.Cut(body, "..")
		ok := true
		read := func(text string) int {
			n, err := strconv.Atoi(text)
			ok = ok && err == nil && n >= 0 && n < 100
			return n
		}
		p.from = read(from)
		if ranged {
			p.to = read(to)
			ok = ok && p.to >= p.from
		}
		if stepped {
			p.step = read(step)
			ok = ok && p.step > 0
		}
		if !ok {
			return nil, fmt.Sprintf("%q is no value, range or step", shown(element, 20))
		}
		list = append(list, p)
	}
	return list, ""
}

// partText is a list as a cron field.
func partText(list []part) string {
	if list == nil {
		return "*"
	}
	var texts []string
	for _, p := range list {
		text := strconv.Itoa(p.from)
		if p.to >= 0 {
			text += "-" + strconv.Itoa(p.to)
		}
		if p.step > 0 {
			text += "/" + strconv.Itoa(p.step)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ",")
}

// values are the days that a list means; those from the end are counted backwards, 1 is the last.
func values(list []part, fromEnd bool) (days []int) {
	for d := 1; d <= 31; d++ {
		for _, p := range list {
			in := false
			switch {
			case p.step == 0 && p.to < 0:
				in = d == p.from
			case fromEnd && p.to < 0: // from there to the end of the month
				in = d <= p.from && (p.from-d)%p.step == 0
			default:
				in = d >= p.from && (p.to < 0 || d <= p.to) && (d-p.from)%max(1, p.step) == 0
			}
			if in && !slices.Contains(days, d) {
				days = append(days, d)
			}
		}
	}
	return days
}

// both makes the two day fields of a date and days of the week that must both match, which a cron expression says when
// one of its fields begins with a star.
func both(dom []part, fromEnd bool, days []string) (domText, dowText, note string, ok bool) {
	domText, dowText = partText(dom), strings.Join(days, ",")
	list := values(dom, fromEnd)
	if fromEnd && dom != nil {
		var texts []string
		for _, d := range list {
			if d == 1 {
				texts = append(texts, "L")
			} else {
				texts = append(texts, "L-"+strconv.Itoa(d-1))
			}
		}
		domText = strings.Join(texts, ",")
	}
	named := expand(days)
	switch {
	case domText == "":
		return "", "", "", false
	case len(named) == 7 || len(days) == 0:
		return domText, "*", "", true
	case dom == nil:
		return "*", dowText, "", true
	}
	if weeks, whole := wholeWeeks(list, fromEnd); whole {
		var texts []string
		for _, week := range weeks {
			for _, day := range named {
				if fromEnd {
					texts = append(texts, day+"L")
				} else {
					texts = append(texts, day+"#"+strconv.Itoa(week))
				}
			}
		}
		return "*", strings.Join(texts, ","), "", true
	}
	switch {
	case !fromEnd && slices.Contains(list, 1):
		return "*/31," + domText, dowText, "*/31 is the 1st, and its star makes day of month and day of week count both, as with systemd", true
	case slices.Contains(named, "SUN"):
		return domText, "*/7," + dowText, "*/7 is Sunday, and its star makes day of month and day of week count both, as with systemd", true
	}
	return "", "", "", false
}

// expand names each day of a list.
func expand(days []string) (all []string) {
	for _, d := range days {
		from, to, ranged := strings.Cut(d, "-")
		if !ranged {
			to = from
		}
		for i := slices.Index(weekdays, from); i <= slices.Index(weekdays, to); i++ {
			if !slices.Contains(all, weekdays[i]) {
				all = append(all, weekdays[i])
			}
		}
	}
	return all
}

// wholeWeeks reports whether days of a month are some of its first, second, … seven, or its last seven.
func wholeWeeks(list []int, fromEnd bool) (weeks []int, whole bool) {
	left := map[int]bool{}
	for _, d := range list {
		left[d] = true
	}
	for week := 1; week <= 5; week++ {
		n := 0
		from, to := 7*week-6, min(7*week, 31)
		for d := from; d <= to; d++ {
			if left[d] {
				n++
			}
		}
		if n == to-from+1 {
			weeks = append(weeks, week)
		} else if n > 0 {
			return nil, false
		}
	}
	if fromEnd && (len(weeks) != 1 || weeks[0] != 1) {
		return nil, false
	}
	return weeks, len(weeks) > 0
}
