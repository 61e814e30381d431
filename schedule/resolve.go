package schedule

import "time"

// Spec is what the flags --date, --tz, --day-start, --calendar, --period, --at
// and --partition said. An empty field means that the flag was not given; a
// flag given as empty is for the caller to refuse.
type Spec struct {
	// Date is YYYY-MM-DD (years 0001 to 9999) or a relative date, which needs
	// a zone: "today" is the business date of the instant; "yesterday" and
	// "3d-ago" (0 to 36500) are calendar days before today; "business-day" is the
	// latest business day that is not after today; "previous-business-day" is the
	// latest business day before today. From Saturday to Monday the last
	// is Friday each time, as with Excel's WORKDAY(today, -1): the business day
	// that has ended, whether or not today is one. The last two need a Calendar.
	Date string

	// Zone is an IANA name, or "local"; see LoadZone. It is checked even when
	// nothing depends on it.
	Zone string

	// DayStart is the wall-clock time HH:MM, 00:00 to 23:59, at which a business
	// day begins; empty is 00:00. It moves relative dates and the periods day,
	// week and month. Everything else has no use for it and ignores it, so it
	// may stand in a config file for all jobs; a malformed one is always refused.
	DayStart string

	// Calendar is for "business-day" and "previous-business-day", and ignored
	// otherwise.
	Calendar *Calendar

	// Period is "hour", "day", "week", "month", which need a zone, or minutes
	// "1m" to "1440m" in slots that count from 1970-01-01T00:00:00Z.
	Period string

	// At is the instant to count from, in RFC 3339 with an offset.
	At string

	// Partition is the partition itself. It is passed on unaltered: its
	// characters are checked where keys are.
	Partition string
}

// Slot is what the flags came to.
type Slot struct {
	// Partition is the label of the slot; empty means unkeyed.
	Partition string

	// BusinessDate is YYYY-MM-DD, or empty unless the slot is a day: a date was
	// given, or the period is "day".
	BusinessDate string

	// ScheduledAt is At in UTC, and the zero time when that was not given.
	ScheduledAt time.Time

	// Skipped is whether the slot is that of a time which the clock skips; see
	// Schedule.Slot.
	Skipped bool
}

// Resolve finds the slot of the instant s.At, or of now when s.At is empty. The
// zone of now has no effect, and with s.At now has none at all: every retry,
// rerun and host comes to the same slot.
//
// Every error is a *UsageError: a value that cannot be read; Partition together
// with Date or Period; Date together with a Period other than "day"; a relative
// date or a local period without a zone; a business day without a calendar, or
// with one that has none in ten years; a result outside the years 0001 to 9999.
func (s Spec) Resolve(now time.Time) (Slot, error) { return s.resolve(now, time.Time{}) }

// resolve is Resolve. What goes by the clock on the wall goes by meant, if that isn't zero; see Schedule.Slot.
func (s Spec) resolve(now, meant time.Time) (Slot, error) {
	if err := s.conflict(); err != nil {
		return Slot{}, err
	}
	var expr dateExpr
	var err error
	if s.Date != "" {
		if expr, err = parseDateExpr(s.Date); err != nil {
			return Slot{}, err
		}
	}
	per, err := parsePeriod(s.Period)
	if err != nil {
		return Slot{}, err
	}
	dayStart, err := parseDayStart(s.DayStart)
	if err != nil {
		return Slot{}, err
	}
	slot := Slot{Partition: s.Partition}
	at := now
	if s.At != "" {
		if at, err = parseInstant(s.At); err != nil {
			return Slot{}, err
		}
		slot.ScheduledAt = at
	}
	loc, err := s.zone(expr, per)
	if err != nil {
		return Slot{}, err
	}
	counted := expr.kind != absolute || s.Date == "" && s.Period != "" // from the instant
	if counted && !datable(at) {
		return Slot{}, outOfRange(at)
	}
	if !meant.IsZero() && per.unit != "minutes" {
		at, loc, slot.Skipped = meant, meant.Location(), true
	}

	switch {
	case s.Date != "":
		day, err := s.day(expr, at, loc, dayStart)
		if err != nil {
			return Slot{}, err
		}
		slot.Partition, slot.BusinessDate = day.String(), day.String()
	case s.Period != "":
		if slot.Partition, err = per.label(at, loc, dayStart); err != nil {
			return Slot{}, err
		}
		if per.unit == "day" {
			slot.BusinessDate = slot.Partition
		}
	}
	return slot, nil
}

// conflict refuses flags that would each name the partition in its own way.
func (s Spec) conflict() error {
	switch {
	case s.Partition != "" && s.Date != "":
		return &UsageError{"--date", s.Date, "--partition names the partition already", "give one of the two"}
	case s.Partition != "" && s.Period != "":
		return &UsageError{"--period", s.Period, "--partition names the partition already", "give one of the two"}
	case s.Date != "" && s.Period != "" && s.Period != "day":
		return &UsageError{"--period", s.Period, "--date names a day", "leave out one of the two, or use --period day"}
	}
	return nil
}

// zone loads the zone if one was given, and refuses if none was but the result
// would depend on it: the host's zone is not to slip in.
func (s Spec) zone(expr dateExpr, per period) (*time.Location, error) {
	if s.Zone != "" {
		return LoadZone(s.Zone)
	}
	switch {
	case expr.kind != absolute:
		return nil, noZone("--date " + s.Date + " depends on a time zone and none is given")
	case s.Date == "" && per.local():
		return nil, noZone("--period " + s.Period + " depends on a time zone and none is given")
	}
	return nil, nil
}

func (s Spec) day(expr dateExpr, at time.Time, loc *time.Location, dayStart int64) (civil, error) {
	if expr.kind == absolute {
		return expr.day, nil
	}
	if (expr.kind == businessDay || expr.kind == previousBusinessDay) && s.Calendar == nil {
		return 0, &UsageError{"--date", s.Date, "there is no calendar to tell business days by", "give --calendar FILE, or a plain date such as yesterday"}
	}
	today := businessDate(at, loc, dayStart)
	if !today.inRange() {
		return 0, outOfRange(at)
	}
	day, err := expr.from(today, s.Calendar)
	if err != nil {
		return 0, err
	}
	if !day.inRange() {
		return 0, badDate(s.Date, "that is before the year 0001")
	}
	return day, nil
}
