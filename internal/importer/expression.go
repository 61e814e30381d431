package importer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onerun-dev/onerun/schedule"
)

// refusal is why a text can't be translated, and what to do.
type refusal struct{ why, do string }

func (r *refusal) Error() string { return r.why }

// refused puts an error of package schedule, whose flags nobody has typed here, into these words.
func refused(err error) *refusal {
	var usage *schedule.UsageError
	if errors.As(err, &usage) {
		return &refusal{usage.Why, usage.Do}
	}
	return &refusal{err.Error(), ""}
}

// checked reads an expression as the configuration will.
func checked(expr string) *refusal {
	if _, err := schedule.ParseCron(expr); err != nil {
		r := refused(err)
		r.why = fmt.Sprintf("the schedule %q can't be: %s", shown(expr, 60), r.why)
		r.do = strings.ReplaceAll(r.do, "--tz ", "tz: ")
		return r
	}
	return nil
}

// zoneOf checks a zone.
func zoneOf(name string) *refusal {
	if _, err := schedule.LoadZone(name); err != nil {
		r := refused(err)
		return &refusal{fmt.Sprintf("the zone %q can't be: %s", shown(name, 60), r.why), r.do}
	}
	return nil
}

// hostZone is the zone of the host, with a report if there is none here: the configuration would be refused.
func (w *writer) hostZone(o Options) string {
	if _, err := schedule.LoadZone("local"); err != nil && !o.Now.IsZero() {
		w.lost(0, "this host's zone can't be told: "+refused(err).why, "name the zone: --tz Asia/Seoul, or what the jobs went by")
	}
	return "local"
}

// everyNote is said of an @every.
const everyNote = "@every is counted from a fixed instant, the same on each host, and not from the start of the scheduler"

// remarks are what somebody should know about an expression of five or six fields.
func (j *job) remarks(expr string) {
	fields := strings.Fields(expr)
	if n := len(fields); n < 5 || strings.HasPrefix(expr, "@") {
		return
	} else if n == 6 {
		fields = fields[1:]
	}
	dom, dow := fields[2], fields[4]
	every := func(f string) bool { return f == "*" || f == "?" }
	switch {
	case every(dom) || every(dow):
	case strings.HasPrefix(dom, "*") || strings.HasPrefix(dow, "*"):
		j.note("day of month and day of week must both match, since one of the two starts with a star (as with cron)")
	default:
		j.note("it is enough that day of month or day of week matches (as with cron)")
	}
	for _, f := range fields {
		for part := range strings.SplitSeq(f, ",") {
			span, _, stepped := strings.Cut(part, "/")
			if _, err := strconv.Atoi(span); stepped && err == nil {
				j.note("%s means from %s on in these steps; some crons refuse it, or take %s alone", part, span, span)
			}
			if from, to, ranged := strings.Cut(span, "-"); ranged && ordinal(from) > ordinal(to) && !strings.EqualFold(to, "SUN") && to != "0" {
				j.note("the range %s goes on past the end; some crons take it and never run it", span)
			}
		}
	}
}

// ordinal is the place of a value of a field among the others of it; 0: it is none that stands in a range.
func ordinal(value string) int {
	if n, err := strconv.Atoi(value); err == nil {
		return n + 1
	}
	for _, names := range []string{"sun mon tue wed thu fri sat", "jan feb mar apr may jun jul aug sep oct nov dec"} {
		if at := slices.Index(strings.Fields(names), strings.ToLower(value)); at >= 0 {
			return at + 1
		}
	}
	return 0
}

// next shows when the job would start, so that whoever reads the file sees what the schedule means.
func (j *job) next(expr, zone string, o Options) {
	if o.Now.IsZero() {
		return
	}
	cron, err := schedule.ParseCron(expr)
	if err != nil || cron.Reboot() {
		return
	}
	loc, err := schedule.LoadZone(zone)
	if err != nil {
		return // the configuration will say it, where it counts
	}
	s := schedule.Schedule{Cron: cron, Zone: loc}
	var all []string
	for at := o.Now; len(all) < 3; {
		next, ok := s.Next(at)
		if !ok {
			break
		}
		all, at = append(all, next.In(loc).Format("Mon 2006-01-02 15:04:05 -07:00")), next
	}
	if len(all) > 0 {
		j.note("next: %s", strings.Join(all, ", "))
	}
}

// span writes a duration as the configuration takes it.
func span(d time.Duration) string {
	switch {
	case d%time.Hour == 0 && d > 0:
		return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
	case d%time.Minute == 0 && d > 0:
		return strconv.FormatInt(int64(d/time.Minute), 10) + "m"
	case d%time.Second == 0:
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
	return d.String()
}

// randomless takes the random values (A~B, cronie and OpenBSD) out of minute and hour: the time becomes the first of them,
// and the jitter how far it is from there to the last.
func randomless(fields []string) (plain []string, jitter time.Duration, err *refusal) {
	plain = append(plain, fields...)
	for i, f := range fields {
		if !strings.Contains(f, "~") {
			continue
		}
		most, unit := 59, time.Minute
		if i == 1 {
			most, unit = 23, time.Hour
		}
		give := &refusal{fmt.Sprintf("the random value %q can't be said here", shown(f, 60)), "choose a value, and say jitter: how much later it may be"}
		if i > 1 {
			return nil, 0, give
		}
		span, step, stepped := strings.Cut(f, "/")
		low, high, _ := strings.Cut(span, "~")
		from, to := 0, most
		var bad1, bad2 error
		if low != "" {
			from, bad1 = strconv.Atoi(low)
		}
		if high != "" {
			to, bad2 = strconv.Atoi(high)
		}
		if bad1 != nil || bad2 != nil || from < 0 || to > most || from > to {
			return nil, 0, give
		}
		if !stepped {
			plain[i] = strconv.Itoa(from)
			jitter += time.Duration(to-from) * unit
			continue
		}
		// The offset of the first is random, the others follow in steps.
		n, bad := strconv.Atoi(step)
		if bad != nil || n < 1 || n > most {
			return nil, 0, give
		}
		plain[i] = fmt.Sprintf("%d-%d/%d", from, to, n)
		jitter += time.Duration(min(n-1, to-from)) * unit
	}
	return plain, jitter, nil
}
