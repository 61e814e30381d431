package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/scheduler"
	"github.com/onerun-dev/onerun/schedule"
)

type nextCmd struct {
	Job      string `arg:"" optional:"" help:"A job of the configuration file (all that have a schedule)."`
	Cron     word   `placeholder:"EXPR" help:"A cron expression: five fields, six with seconds first, @daily and its like, @every DURATION."`
	TZ       word   `name:"tz" placeholder:"ZONE" help:"With --cron: the zone whose clock it goes by, for example Asia/Seoul, or local (ONERUN_TZ)."`
	DST      word   `name:"dst" placeholder:"once|skip|twice" help:"With --cron: what becomes of fixed times when the clock is changed (once)."`
	From     word   `placeholder:"TIME" help:"Times after this one: RFC 3339, or YYYY-MM-DD in the zone (now)."`
	Count    int    `default:"5" placeholder:"N" help:"How many (5)."`
	Previous bool   `help:"Times before it, instead of after."`
	JSON     bool   `name:"json" help:"One JSON document instead of a table."`
}

// Help explains the command.
func (nextCmd) Help() string {
	return `Of a job of the configuration file, of all of them, or with --cron of an expression. Oldest first, in the zone's own time and in UTC. Nothing is executed, and no store is asked. A time is fixed unless its minute or
hour field starts with a star. With --dst once, as with cron, a fixed time that the clock skips is right after the jump, and one that it
shows twice is the first of the two; skip leaves the first kind out, twice counts both of the second. The business date is that
of a period of a day.`
}

// fireView is a time at which a schedule fires, as documented.
type fireView struct {
	Job          *string `json:"job"` // null: of an expression alone
	At           string  `json:"at"`
	Local        string  `json:"local"`
	BusinessDate *string `json:"business_date"`
}

// mostFires is more than anybody reads, and found in a moment.
const mostFires = 100_000

func (c *nextCmd) run(_ context.Context, e *env) error {
	if c.Count < 1 || c.Count > mostFires {
		return usage("--count %d: give a number from 1 to %d", c.Count, mostFires)
	}
	if c.Cron == "" {
		for flag, value := range map[string]word{"tz": c.TZ, "dst": c.DST} {
			if value != "" {
				return usage("next: --%s goes with --cron; a job goes by the %s of the configuration file: leave the flag out", flag, flag)
			}
		}
		return c.jobs(e)
	}
	if c.Job != "" {
		return usage("next: give a job or --cron, not both")
	}
	s, zone, err := c.schedule(e)
	if err != nil {
		return err
	}
	from, err := c.from(s.Zone)
	if err != nil {
		return err
	}
	views, rows := []fireView{}, [][]string{{"LOCAL", "UTC", "BUSINESS DATE"}}
	for _, at := range fires(s, from, c.Count, c.Previous) {
		day, err := s.Slot(schedule.Spec{Period: "day", Zone: zone}, at)
		if err != nil {
			return err
		}
		local := at.In(s.Zone).Format(time.RFC3339)
		views = append(views, fireView{At: at.Format(time.RFC3339), Local: local, BusinessDate: nilIf(day.BusinessDate, "")})
		rows = append(rows, []string{local, at.Format(time.RFC3339), day.BusinessDate})
	}
	switch {
	case c.JSON:
		return writeJSON(e.out, views)
	case len(views) == 0 && s.Cron.Reboot():
		return say(e, "once per boot, which has no time")
	case len(views) == 0:
		return say(e, "never")
	}
	return writeTable(e.out, rows)
}

// from is the instant to count from.
func (c *nextCmd) from(zone *time.Location) (time.Time, error) {
	if c.From == "" {
		return time.Now(), nil
	}
	return timeIn(string(c.From), zone)
}

// jobs shows the fires of one job of the file, or of all.
func (c *nextCmd) jobs(e *env) error {
	if e.file == nil {
		return usage("next: without --cron it shows the jobs of a configuration file, and there is none; give --config")
	}
	jobs, err := e.scheduled()
	if err != nil {
		return err
	}
	if c.Job != "" {
		name, err := onerun.CleanName("job", c.Job)
		if err != nil {
			return err
		}
		jobs = slices.DeleteFunc(jobs, func(j scheduler.Job) bool { return j.Name != name })
		if len(jobs) == 0 {
			return &onerun.StateError{Why: fmt.Sprintf("%s has no job %s with a schedule", e.file.Path, name)}
		}
	}
	var all []*scheduler.Fire
	for _, j := range jobs {
		from, err := c.from(j.Schedule.Zone)
		if err != nil {
			return err
		}
		for _, at := range fires(j.Schedule, from, c.Count, c.Previous) {
			f, err := j.Try(at)
			if err != nil {
				return err
			}
			all = append(all, f)
		}
	}
	slices.SortStableFunc(all, func(a, b *scheduler.Fire) int { return a.Slot.Compare(b.Slot) })
	if len(all) > c.Count {
		if c.Previous {
			all = all[len(all)-c.Count:]
		} else {
			all = all[:c.Count]
		}
	}
	views, rows := []fireView{}, [][]string{{"JOB", "LOCAL", "UTC", "KEY"}}
	for _, f := range all {
		local, at := f.Slot.In(f.Job.Schedule.Zone).Format(time.RFC3339), f.Slot.Format(time.RFC3339)
		views = append(views, fireView{Job: &f.Job.Name, At: at, Local: local, BusinessDate: nilIf(f.BusinessDate, "")})
		rows = append(rows, []string{f.Job.Name, local, at, f.Key()})
	}
	if c.JSON {
		return writeJSON(e.out, views)
	}
	if len(all) == 0 {
		return say(e, "none")
	}
	return writeTable(e.out, rows)
}

// schedule is what the flags, the environment and the file say; zone is the name of its zone.
func (c *nextCmd) schedule(e *env) (s schedule.Schedule, zone string, err error) {
	zone = cmp.Or(string(c.TZ), os.Getenv("ONERUN_TZ"))
	if zone == "" && e.file != nil {
		zone = e.file.Top["timezone"].Text
	}
	if s.Cron, err = schedule.ParseCron(string(c.Cron)); err != nil {
		return s, "", err
	}
	if s.DST, err = schedule.ParseDST(string(c.DST)); err != nil {
		return s, "", err
	}
	s.Zone, err = schedule.LoadZone(zone)
	return s, zone, err
}

// fires are the next, or the previous, instants from one on, oldest first.
func fires(s schedule.Schedule, from time.Time, count int, previous bool) (all []time.Time) {
	step := s.Next
	if previous {
		step = s.Previous
	}
	for range count {
		at, ok := step(from)
		if !ok {
			break
		}
		all, from = append(all, at), at
	}
	if previous {
		slices.Reverse(all)
	}
	return all
}

// timeIn reads an instant, or the beginning of a date by a zone's clock.
func timeIn(text string, zone *time.Location) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, text, zone); err == nil {
		return t, nil
	}
	return time.Time{}, usage("--from %q is no time; give RFC 3339 with an offset, such as 2026-09-15T01:00:00+09:00, or YYYY-MM-DD", text)
}
