package schedule

import "time"

// maxRange bounds a range of dates to about a century: more is a typing error.
const maxRange = 36500

// Range lists the partitions from one date to another, both YYYY-MM-DD and included, in
// their order: each day, or with a calendar each business day; with the period "week" or
// "month" each of those that has such a day in it. Other periods have no dates.
//
// Every error is a *UsageError.
func Range(from, to, period string, cal *Calendar) ([]string, error) {
	first, why := parseDate(from)
	if why != "" {
		return nil, badDate(from, why)
	}
	last, why := parseDate(to)
	if why != "" {
		return nil, badDate(to, why)
	}
	per, err := parsePeriod(period)
	switch {
	case err != nil:
		return nil, err
	case per.unit != "" && per.unit != "day" && per.unit != "week" && per.unit != "month":
		return nil, &UsageError{"--period", period, "its slots are no dates", "give day, week or month"}
	case last < first:
		return nil, &UsageError{"--to", to, "that is before --from " + from, "give the earlier date to --from"}
	case last-first >= maxRange:
		return nil, &UsageError{"--to", to, "that is more than a hundred years after --from " + from, "give a shorter range"}
	}
	var out []string
	for d := first; d <= last; d++ {
		if cal != nil && !cal.isBusinessDay(d) {
			continue
		}
		label := d.String()
		if per.unit != "" {
			if label, err = per.label(d.midnight(), time.UTC, 0); err != nil {
				return nil, err
			}
		}
		if n := len(out); n == 0 || out[n-1] != label {
			out = append(out, label)
		}
	}
	return out, nil
}
