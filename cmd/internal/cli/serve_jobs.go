package cli

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/config"
	"github.com/onerun-dev/onerun/internal/scheduler"
	"github.com/onerun-dev/onerun/schedule"
)

// scheduled are the jobs of the file that have a schedule. An error is a config.Errors with all that is wrong in the file.
func (e *env) scheduled() ([]scheduler.Job, error) {
	var jobs []scheduler.Job
	wrong := mistakes{path: e.file.Path, list: checkFile(e.file)}
	for _, name := range slices.Sorted(maps.Keys(e.file.Jobs)) {
		values, c := e.layers(name), e.runOf(name)
		clashes := c.clashes(true) // that it has a key is the schedule's, or may be typed
		for _, x := range clashes {
			wrong.add(e.blamed(name, values, x.flags...), "%s", x.filed)
		}
		at, ok := values["schedule"]
		if !ok {
			continue
		}
		j, err := e.scheduledJob(name, values, c)
		if err == nil && clashes == nil {
			err = e.starts(c, &j)
		}
		var bad *schedule.UsageError
		switch {
		case err == nil:
			jobs = append(jobs, j)
			continue
		case errors.As(err, &bad):
			flag := strings.TrimPrefix(bad.Flag, "--")
			if v := e.blamed(name, values, flag); v.Line > 0 {
				at = v
			}
			err = &schedule.UsageError{Flag: key(flag), Value: bad.Value, Why: bad.Why, Do: bad.Do} // nobody has typed a flag
		}
		wrong.put(at, "job "+name, err)
	}
	return jobs, wrong.list.OrNil()
}

// starts refuses a job of which onerun run would refuse every start.
func (e *env) starts(c *runCmd, j *scheduler.Job) error {
	f, err := j.Try(time.Now())
	if err != nil { // no zone for a date, a calendar that has ended: what can't be now can't be at any fire
		return err
	}
	one := *c
	one.At = word(f.Slot.UTC().Format(time.RFC3339))
	if f.Own {
		one.Date, one.Period, one.Partition = "", "", word(f.Partition)
	}
	_, _, err = one.prepare(e)
	return err
}

// blamed is where a job's settings of some flags stand: the last one of its own, else of those that it has from the defaults.
func (e *env) blamed(job string, values map[string]config.Value, flags ...string) (at config.Value) {
	for _, from := range []map[string]config.Value{e.file.Jobs[job], values} {
		for _, f := range flags {
			if v, ok := from[key(f)]; ok && (v.Line > at.Line || v.Line == at.Line && v.Column > at.Column) {
				at = v
			}
		}
		if at.Line > 0 {
			break
		}
	}
	return at
}

// mistakes are what is wrong with a file, each once: what stands in the defaults is wrong of every job.
type mistakes struct {
	path string
	list config.Errors
}

func (m *mistakes) add(at config.Value, format string, args ...any) {
	m.put(at, "", fmt.Errorf(format, args...))
}

// put adds an error about what; "": it says that itself.
func (m *mistakes) put(at config.Value, what string, err error) {
	text := strings.TrimPrefix(err.Error(), onerun.ErrUsage.Error()+": ")
	if what != "" {
		text = what + ": " + text
	}
	one := config.Error{Path: m.path, Line: at.Line, Column: at.Column, Message: text, Repeated: repeatedBy(err)}
	if !slices.Contains(m.list, one) {
		m.list = append(m.list, one)
	}
}

// scheduledJob makes a job of its settings.
func (e *env) scheduledJob(name string, values map[string]config.Value, c *runCmd) (scheduler.Job, error) {
	j := scheduler.Job{Name: name, Group: values["group"].Text, CatchUp: catchUp(values["catch_up"]), Alerts: e.alertsOf(values)}
	var err error
	if _, err := commandLine(string(c.Shell), c.Command); err != nil {
		return j, errors.New("there is no command or shell to execute")
	}
	zone := cmp.Or(string(c.TZ), os.Getenv("ONERUN_TZ"))
	if j.Schedule.Cron, err = schedule.ParseCron(values["schedule"].Text); err != nil {
		return j, err
	}
	if j.Schedule.Cron.Reboot() {
		for _, flag := range []string{"date", "period", "partition"} { // the defaults' are for the jobs that have a time
			if v, ok := e.file.Jobs[name][flag]; ok {
				return j, &schedule.UsageError{Flag: "--" + flag, Value: v.Text, Why: "the key of @reboot is the boot's id", Do: "leave it out, or give the job a schedule that has times"}
			}
		}
	}
	if j.Schedule.DST, err = schedule.ParseDST(values["dst"].Text); err != nil {
		return j, err
	}
	if j.Schedule.Zone, err = zoneOf(zone, j.Schedule.Cron); err != nil {
		return j, err
	}
	j.Spec = schedule.Spec{Date: string(c.Date), Zone: zone, DayStart: string(c.DayStart), Period: string(c.Period), Partition: string(c.Partition)}
	if j.Spec.Calendar, err = loadCalendar(c.Calendar); err != nil {
		return j, err
	}
	if j.AtMost, err = parseAtMost(values["at_most"].Text); err != nil {
		return j, err
	}
	j.RetryLater, j.Beside = c.RetryLater || c.Retries > 0, c.Scope == "key"
	if j.Overlap, err = parseOverlap(values["overlap"].Text); err != nil {
		return j, err
	}
	for key, to := range map[string]*time.Duration{"jitter": &j.Jitter, "start_by": &j.StartBy, "finish_by": &j.FinishBy} {
		if v, ok := values[key]; ok {
			*to, _ = durationOf(v.Text) // which was checked
		}
	}
	if j.Schedule.Cron.Reboot() {
		j.Boot = bootID()
	}
	digest := sha256.Sum256([]byte(strings.Join([]string{values["schedule"].Text, zone, string(j.Schedule.DST)}, "\x00")))
	j.Digest = hex.EncodeToString(digest[:8])
	return j, nil
}

// zoneOf is the zone of a schedule; those that go by no clock on a wall need none.
func zoneOf(zone string, c *schedule.Cron) (*time.Location, error) {
	if zone == "" && (c.Reboot() || strings.HasPrefix(c.String(), "@every")) {
		return time.UTC, nil
	}
	if zone == "" {
		return nil, errors.New("a schedule needs a zone: give tz, or timezone at the top of the file (local is an explicit choice)")
	}
	return schedule.LoadZone(zone)
}

// runOf is `run JOB` with the settings of the file.
func (e *env) runOf(job string) *runCmd {
	c := runByDefault(job)
	own := *e // what was typed is the scheduler's, and not the job's
	own.given, own.sources = map[string]bool{}, map[string]string{}
	own.apply(c, job)
	own.command(job, &c.Shell, &c.Command)
	return c
}

// bootID names this boot of the kernel.
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

// generation tells newer settings from older ones: what the file says, else when it was changed.
func (e *env) generation() int64 {
	if v, ok := e.file.Top["generation"]; ok {
		n, _ := strconv.ParseInt(v.Text, 10, 64) // which was checked
		return n
	}
	st, err := os.Stat(e.file.Path)
	if err != nil {
		return 0
	}
	return st.ModTime().Unix()
}

// limits are how many may run at once, in all and of each group.
func (e *env) limits() (int, map[string]int) {
	limit := defaultLimit
	if v, ok := e.file.Top["limit"]; ok {
		limit, _ = strconv.Atoi(v.Text)
	}
	groups := map[string]int{}
	for name, text := range e.file.Top["groups"].Map {
		groups[name], _ = strconv.Atoi(text)
	}
	return limit, groups
}

// defaultLimit keeps a catch-up of many jobs from taking the machine down.
const defaultLimit = 100
