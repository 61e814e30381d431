package schedule

import (
	"fmt"
	"math/bits"
	"strings"
)

// field is what one field of a cron expression may hold.
type field struct {
	name     string
	min, max int      // the values; a day of the week has 7 as well, for Sunday
	names    []string // of the values, from min on
}

// The fields in the order of crontab(5), after the seconds that it doesn't have.
var (
	secondField = field{name: "second", max: 59}
	minuteField = field{name: "minute", max: 59}
	hourField   = field{name: "hour", max: 23}
	domField    = field{name: "day of month", min: 1, max: 31}
	monthField  = field{name: "month", min: 1, max: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}}
	dowField    = field{name: "day of week", max: 6, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}}
)

const sunday = 7 // as the end of a range, and the second of its two numbers

// isDOW reports whether the field is that of the days of the week, where Sunday is 0 and 7.
func (f field) isDOW() bool { return f.min == 0 && f.max == 6 }

// star reports whether a field starts with a star, which is what counts for cron(8): "*/2" is one
// as "*" is. Where a day may be "?", that is another way to write it.
func star(text string) bool { return strings.HasPrefix(text, "*") || text == "?" }

// parse reads the elements of a field that are plain values, ranges and steps, as bits. What else
// a day can be is given to special; nil: nothing else.
func (f field) parse(text string, special func(element string) (done bool, err error)) (set uint64, err error) {
	for element := range strings.SplitSeq(text, ",") {
		if special != nil {
			done, err := special(element)
			if err != nil {
				return 0, err
			}
			if done {
				continue
			}
		}
		some, err := f.element(element)
		if err != nil {
			return 0, err
		}
		set |= some
	}
	return set, nil
}

// element reads "*", "A", "A-B", and each of them with "/STEP". A range whose end comes before its
// start wraps around, so that FRI-MON is four days and 22-2 five hours. "A/STEP" begins at A.
func (f field) element(text string) (uint64, error) {
	span, stepText, stepped := strings.Cut(text, "/")
	size := f.max - f.min + 1
	step := 1
	if stepped {
		n, ok := number(stepText)
		switch {
		case !ok:
			return 0, fmt.Errorf("the step %s of the %s field is no number", quote(stepText), f.name)
		case n == 0:
			return 0, fmt.Errorf("the %s field has a step of 0", f.name)
		case n > size:
			return 0, fmt.Errorf("the %s field has a step of %d, and only %d values", f.name, n, size)
		}
		step = n
	}
	if span == "*" {
		return f.bits(f.min, f.max, step), nil
	}
	from, to, ranged := strings.Cut(span, "-")
	a, err := f.value(from)
	if err != nil {
		return 0, err
	}
	b := a
	switch {
	case ranged:
		if b, err = f.value(to); err != nil {
			return 0, err
		}
	case stepped:
		b = f.max
	}
	if f.isDOW() && ranged && b == 0 && a != 0 { // the Sunday at the end of a week
		b = sunday
	}
	if b < a {
		b += size
	}
	return f.bits(a, b, step), nil
}

// bits are the values from a to b, which may lie beyond the last one.
func (f field) bits(a, b, step int) (set uint64) {
	size := f.max - f.min + 1
	for v := a; v <= b; v += step {
		set |= 1 << (f.min + (v-f.min)%size)
	}
	return set
}

// value reads one number or name.
func (f field) value(text string) (int, error) {
	if n, ok := number(text); ok {
		most := f.max
		if f.isDOW() {
			most = sunday
		}
		switch {
		case n < f.min:
			return 0, fmt.Errorf("%d is no %s, which begins at %d", n, f.name, f.min)
		case n > most:
			return 0, fmt.Errorf("%d is no %s, which ends at %d", n, f.name, most)
		}
		return n, nil
	}
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.min + i, nil
		}
	}
	switch {
	case text == "":
		return 0, fmt.Errorf("the %s field has an empty part", f.name)
	case strings.Contains(text, "~"):
		return 0, fmt.Errorf("the %s field has a random value, %s, which would be another on each host", f.name, quote(text))
	case text == "?":
		return 0, fmt.Errorf("the %s field can't be ?, which is for one of the two day fields", f.name)
	case strings.ContainsAny(text, "Hh") && strings.Trim(strings.ToUpper(text), "H0123456789()-") == "":
		return 0, fmt.Errorf("the %s field has %s, which only Jenkins knows", f.name, quote(text))
	}
	for _, name := range f.names {
		if len(text) > len(name) && strings.EqualFold(text[:len(name)], name) {
			return 0, fmt.Errorf("%s is no %s; a name has three letters: %s", quote(text), f.name, strings.ToUpper(name))
		}
	}
	return 0, fmt.Errorf("%s is no %s", quote(text), f.name)
}

// number reads a decimal number of at most four digits, with leading zeros as people align them.
func number(text string) (n int, ok bool) {
	if text == "" || len(text) > 4 {
		return 0, false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		n = n*10 + int(text[i]-'0')
	}
	return n, true
}

// from is the smallest value of a set that is at least v; -1: there is none.
func from(set uint64, v int) int {
	if set &= ^uint64(0) << v; v > 63 || set == 0 {
		return -1
	}
	return bits.TrailingZeros64(set)
}

// upTo is the greatest value of a set that is at most v; -1: there is none.
func upTo(set uint64, v int) int {
	if v < 0 {
		return -1
	}
	return bits.Len64(set&(1<<(v+1)-1)) - 1
}
