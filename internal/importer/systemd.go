package importer

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun/schedule"
)

// timer is a timer unit in the reading.
type timer struct {
	*writer
	o    Options
	name unitName
	job  job // what all its jobs have

	calendar   []directive
	monotonic  []directive
	unit       directive
	persistent bool
	delay      time.Duration
}

// Systemd translates a timer unit and the service that it starts, which is looked for in o.Files. name is the timer's path.
func Systemd(name string, text []byte, o Options) Result {
	t := &timer{writer: newWriter("systemd", name), o: o, name: parseUnitName(path.Base(name))}
	zone := o.Zone
	if zone == "" {
		zone = t.hostZone(o)
		t.say("systemd goes by the clock of its host where a timer names no zone. Better name it, such as Asia/Seoul.")
	}
	t.say("Once the job is here, switch the timer off (systemctl disable --now %s), else both start it.", shown(t.name.full, 100))
	t.say("A drop-in beside the unit is reported. One in another directory, such as systemctl edit writes into /etc/systemd/system, is not seen: compare with systemctl cat.")
	t.top = append(t.top, "timezone: "+quote(zone))
	if len(text) > MaxSize {
		t.lost(0, fmt.Sprintf("the file is larger than %d KiB, so it is no unit", MaxSize>>10), "")
		return t.result()
	}
	if t.name.kind == "service" {
		t.lost(0, "this is a service, and its schedule stands in the timer", "name the .timer beside it")
		return t.result()
	}
	all, bad := parseUnit(string(text))
	for _, b := range bad {
		t.lost(b.line, b.why, "correct it, or leave it out")
	}
	for _, d := range all {
		t.directive(d)
	}
	switch {
	case len(t.calendar)+len(t.monotonic) == 0:
		t.lost(0, "there is no [Timer] with a time that can be translated", "name a .timer unit")
	default:
		t.dropIns(t.name)
		t.writeJobs()
	}
	return t.result()
}

// directive takes one line of the timer.
func (t *timer) directive(d directive) {
	if d.section != "Timer" {
		t.elsewhere(d)
		return
	}
	switch d.key {
	case "OnCalendar":
		if d.value == "" {
			t.drop(d.line)
			return
		}
		t.calendar = append(t.calendar, d)
	case "OnBootSec", "OnStartupSec", "OnActiveSec", "OnUnitActiveSec", "OnUnitInactiveSec":
		if d.value == "" {
			t.drop(d.line)
			return
		}
		t.monotonic = append(t.monotonic, d)
	case "Persistent":
		t.persistent = systemdTrue(d.value)
		t.remark(d.line, "%s: catch_up", d)
	case "RandomizedDelaySec", "RandomizedOffsetSec":
		delay, r := wholeSpan(d.value)
		if r != nil {
			t.lost(d.line, fmt.Sprintf("%s: %s", d.key, r.why), r.do)
			return
		}
		t.delay = delay
		t.remark(d.line, "%s: jitter", d)
	case "Unit":
		t.unit = d
		t.remark(d.line, "%s", d)
	case "AccuracySec":
		t.remark(d.line, "%s: left out; onerun serve starts jobs on time, and jitter spreads them", d)
	case "FixedRandomDelay", "RemainAfterElapsed", "DeferReactivation":
		t.remark(d.line, "%s: left out, it has no meaning here", d)
	case "OnClockChange", "OnTimezoneChange", "WakeSystem":
		if !systemdTrue(d.value) {
			t.remark(d.line, "%s: left out, it is switched off", d)
			return
		}
		t.lost(d.line, d.String()+" can't be said here", "keep a timer for it that starts onerun run")
	default:
		t.lost(d.line, d.key+"= is not known, or has no counterpart here", "look into systemd.timer(5) whether it matters")
	}
}

// drop forgets the times above an empty one, as systemd does.
func (t *timer) drop(line int) {
	for _, d := range append(t.calendar, t.monotonic...) {
		t.remark(d.line, "%s: left out", d)
	}
	t.remark(line, "an empty time: those above are dropped, as with systemd")
	t.calendar, t.monotonic = nil, nil
}

// elsewhere takes a line of a section that isn't of the timer or service itself.
func (t *timer) elsewhere(d directive) {
	switch {
	case d.section == "Unit" && (strings.HasPrefix(d.key, "Condition") || strings.HasPrefix(d.key, "Assert")):
		t.lost(d.line, d.String()+" is not asked here", "put the test in front of the command")
	case d.section == "Unit" && (d.key == "OnFailure" || d.key == "OnSuccess"):
		t.remark(d.line, "%s: left out; alerts and notify tell of failures", d)
	case d.section == "Unit" || d.section == "Install" || strings.HasPrefix(d.section, "X-"):
		t.remark(d.line, "%s: left out, it has no meaning here", d)
	default:
		t.lost(d.line, fmt.Sprintf("%s= in [%s] has no counterpart here", d.key, shown(d.section, 40)), "look into systemd.unit(5) whether it matters")
	}
}

// dropIns says which files change a unit, beside its own.
func (t *timer) dropIns(u unitName) {
	if t.o.Files == nil {
		return
	}
	dirs := []string{u.full + ".d"}
	if u.instance != "" {
		dirs = append(dirs, u.template()+".d")
	}
	for _, dir := range dirs {
		entries, err := fs.ReadDir(t.o.Files, dir)
		if err != nil {
			continue // there is none, usually
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".conf") {
				t.lost(0, fmt.Sprintf("the drop-in %s/%s changes the unit, and is not read", dir, shown(e.Name(), 100)), "look what it says; systemctl cat shows all of a unit")
			}
		}
	}
}

// trigger is one time at which a timer elapses.
type trigger struct {
	from       directive
	expr, zone string
	notes      []string
}

// writeJobs writes the jobs: one for each time, since a job has one schedule.
func (t *timer) writeJobs() {
	triggers := t.triggers()
	command, ok := t.service()
	if !ok || len(triggers) == 0 {
		for _, one := range triggers {
			t.remark(one.from.line, "%s: schedule: %s", one.from, quote(one.expr))
		}
		return
	}
	name := t.name.prefix
	if t.name.instance != "" {
		name += "-" + t.name.instance
	}
	t.coincide(triggers)
	for i, one := range triggers {
		j := job{line: one.from.line, name: name, source: []string{fmt.Sprintf("line %d: %s", one.from.line, one.from)}}
		j.notes = append(append(j.notes, one.notes...), t.job.notes...)
		j.set(word("schedule", one.expr))
		if one.zone != "" {
			j.set(word("tz", one.zone))
		}
		if t.persistent && one.expr != "@reboot" {
			j.set(catchUp("latest"))
		} else if one.expr != "@reboot" {
			j.set(catchUp("none"))
		}
		if t.delay > 0 {
			j.set(word("jitter", span(t.delay)))
		}
		if len(triggers) > 1 {
			j.set(word("lock", legal(name)))
			if i == 0 {
				j.note("the timer has %d times, so there are %d jobs; by their lock they don't run beside each other, as the one service doesn't", len(triggers), len(triggers))
			}
		}
		j.set(command...)
		j.set(t.job.settings...)
		zone := one.zone
		if zone == "" {
			zone = t.o.Zone
		}
		if zone == "" {
			zone = "local"
		}
		j.remarks(one.expr)
		j.next(one.expr, zone, t.o)
		t.add(j)
	}
}

// coincide says of which times two are one: systemd starts a service once then, and two jobs would run it twice.
func (t *timer) coincide(triggers []trigger) {
	if t.o.Now.IsZero() {
		return
	}
	var all []schedule.Schedule
	looks := 20_000 // at times, of all together: a moment
	for _, one := range triggers {
		s := schedule.Schedule{}
		s.Cron, _ = schedule.ParseCron(one.expr) // which was checked
		s.Zone, _ = schedule.LoadZone(cmp.Or(one.zone, t.o.Zone, "local"))
		for i, other := range all {
			if at, ok := meet(s, other, t.o.Now, &looks); ok {
				t.warn(one.from.line, "the times of line %d and of this one are the same at %s: systemd starts the service once then, and here both jobs would run it, one after the other; change one of them",
					triggers[i].from.line, at.In(s.Zone).Format(time.RFC3339))
				break
			}
		}
		all = append(all, s)
	}
}

// meet finds the first instant that two schedules have in common, as far as it looks.
func meet(a, b schedule.Schedule, from time.Time, looks *int) (time.Time, bool) {
	if a.Zone == nil || b.Zone == nil {
		return from, false
	}
	x, ok := a.Next(from)
	for n := 0; n < 1000 && *looks > 0; n++ {
		*looks--
		y, more := b.Next(x.Add(-1))
		switch {
		case !ok || !more:
			return from, false
		case x.Equal(y):
			return x, true
		}
		a, b, x = b, a, y
	}
	return from, false
}

// triggers are the times that can be said; the others are reported.
func (t *timer) triggers() (all []trigger) {
	for _, d := range t.calendar {
		value, r := t.name.specifiers(d.value)
		one := trigger{from: d}
		if r == nil {
			var note string
			if one.expr, one.zone, note, r = calendarEvent(value); note != "" {
				one.notes = append(one.notes, note)
			}
		}
		if r != nil {
			t.lost(d.line, r.why, r.do)
			continue
		}
		all = append(all, one)
	}
	repeats := slices.ContainsFunc(t.monotonic, func(d directive) bool { return strings.HasPrefix(d.key, "OnUnit") })
	for _, d := range t.monotonic {
		after, r := timespan(d.value)
		one := trigger{from: d}
		switch {
		case r != nil:
			t.lost(d.line, d.key+": "+r.why, r.do)
			continue
		case strings.HasPrefix(d.key, "OnUnit"):
			if one.expr = "@every " + span(after); checked(one.expr) != nil {
				t.lost(d.line, fmt.Sprintf("%s: a schedule repeats in whole seconds, from 1s to 365 days", d), "write one that does")
				continue
			}
			one.notes = append(one.notes, "every "+span(after)+" from a fixed instant on, the same on each host; systemd counts from the last start, or with OnUnitInactiveSec from the last end")
		case repeats:
			t.remark(d.line, "%s: left out, since the job repeats: its times don't depend on when the machine has started", d)
			continue
		default:
			one.expr = "@reboot"
			one.notes = append(one.notes, fmt.Sprintf("once per boot, as soon as onerun serve is there; %s waits %s before. If that matters, put sleep in front of the command", d.key, span(after)))
		}
		all = append(all, one)
	}
	return all
}

// readBeside reads a file of the timer's directory.
func (t *timer) readBeside(name string) (string, error) {
	if t.o.Files == nil {
		return "", fs.ErrNotExist
	}
	info, err := fs.Stat(t.o.Files, name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fs.ErrInvalid
	}
	f, err := t.o.Files.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err == nil && len(text) > MaxSize {
		err = fmt.Errorf("it is larger than %d KiB", MaxSize>>10)
	}
	return string(text), err
}
