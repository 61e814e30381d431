package cli

import (
	"fmt"
	"net"
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

// What the scheduler hands to the processes that it starts, and nobody else sets: of what the text at ONERUN_CONFIG
// is, and that the alerts are the scheduler's to send.
const (
	configAs = "ONERUN_CONFIG_AS"
	served   = "ONERUN_SERVED"
)

// scheduleTop are the keys at the top of the file that are the scheduler's.
var scheduleTop = map[string]config.Key{
	"alerts": {Kind: config.Table, Check: cleanAs("alert"), Inner: map[string]config.Key{
		"url":    {Check: checkAddress},
		"on":     {Kind: config.List, Check: oneOf("failure", "stale", "late", "skip", "often", "recovery")},
		"remind": {Check: checkDuration},
		"skips":  {Check: checkCount(1)},
	}},
	"groups": {Kind: config.Map, Check: func(s string) error {
		name, n, _ := strings.Cut(s, "=")
		if err := cleanAs("group")(name); err != nil {
			return err
		}
		return checkCount(1)(n)
	}},
	"limit":      {Check: checkCount(1)},
	"generation": {Check: checkCount(1)},
	"listen":     {Check: checkListen},
}

// scheduleJob are those of a job.
var scheduleJob = map[string]config.Key{
	"schedule": {Check: func(s string) error { _, err := schedule.ParseCron(s); return err }},
	"dst":      {Check: func(s string) error { _, err := schedule.ParseDST(s); return err }},
	"jitter":   {Check: checkDuration},
	"catch_up": {Kind: config.Map, Check: checkCatchUp},
	"overlap":  {Check: func(s string) error { _, err := parseOverlap(s); return err }},
	"group":    {Check: cleanAs("group")},
	"at_most":  {Check: func(s string) error { _, err := parseAtMost(s); return err }},
	"start_by": {Check: checkDuration}, "finish_by": {Check: checkDuration},
}

func cleanAs(what string) func(string) error {
	return func(s string) error { _, err := onerun.CleanName(what, s); return err }
}

func oneOf(words ...string) func(string) error {
	return func(s string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("%q is none of %s", s, strings.Join(words, ", "))
		}
		return nil
	}
}

// checkListen refuses what no address to listen at can be. That a host has it can't be told from here.
func checkListen(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r == '/' }) {
		return fmt.Errorf("%q is no address to listen at; give HOST:PORT, such as 127.0.0.1:9180, or :9180 for all of this host", s)
	}
	return nil
}

func checkDuration(s string) error { _, err := durationOf(s); return err }

func durationOf(s string) (time.Duration, error) {
	var d duration
	err := d.UnmarshalText([]byte(s))
	return time.Duration(d), err
}

func checkCount(least int) func(string) error {
	return func(s string) error {
		if n, err := strconv.ParseInt(s, 10, 64); err != nil || n < int64(least) {
			return fmt.Errorf("%q is no number from %d on", s, least)
		}
		return nil
	}
}

// catchUpKeys are what catch_up has, with their checks.
var catchUpKeys = map[string]func(string) error{
	"policy": oneOf(string(scheduler.CatchUpNone), string(scheduler.CatchUpLatest), string(scheduler.CatchUpAll)),
	"window": checkDuration, "spread": checkDuration, "cap": checkCount(1),
}

func checkCatchUp(s string) error {
	name, text, _ := strings.Cut(s, "=")
	check, ok := catchUpKeys[name]
	if !ok {
		return fmt.Errorf("%q is none of policy, window, cap, spread", name)
	}
	return check(text)
}

// catchUp is what a job's catch_up says.
func catchUp(v config.Value) scheduler.CatchUp {
	c := scheduler.DefaultCatchUp
	for name, text := range v.Map {
		switch name { // what they are was checked
		case "policy":
			c.Policy = scheduler.CatchUpPolicy(text)
		case "window":
			c.Window, _ = durationOf(text)
		case "spread":
			c.Spread, _ = durationOf(text)
		case "cap":
			c.Cap, _ = strconv.Atoi(text)
		}
	}
	return c
}

// parseOverlap reads skip, queue, queue:N or replace; "" is skip.
func parseOverlap(s string) (scheduler.Overlap, error) {
	kind, n, counted := strings.Cut(s, ":")
	o := scheduler.Overlap{Kind: scheduler.OverlapKind(kind)}
	switch {
	case s == "":
		return scheduler.Overlap{Kind: scheduler.OverlapSkip}, nil
	case counted && o.Kind == scheduler.OverlapQueue:
		var err error
		if o.Queue, err = strconv.Atoi(n); err != nil || o.Queue < 1 {
			return o, fmt.Errorf("%q: queue:N takes a number from 1 on", s)
		}
		return o, nil
	case !counted && slices.Contains([]scheduler.OverlapKind{scheduler.OverlapSkip, scheduler.OverlapQueue, scheduler.OverlapReplace}, o.Kind):
		return o, nil
	}
	return o, fmt.Errorf("%q is none of skip, queue, queue:N, replace", s)
}

// parseAtMost reads N/D; "" is no bound.
func parseAtMost(s string) (most scheduler.AtMost, err error) {
	if s == "" {
		return most, nil
	}
	n, within, ok := strings.Cut(s, "/")
	if most.Runs, err = strconv.Atoi(n); err == nil && ok {
		most.Within, err = durationOf(within)
	}
	if err != nil || !ok || most.Runs < 1 || most.Runs > 1000 || most.Within <= 0 {
		return most, fmt.Errorf("%q: a number of runs up to 1000, and the time in which they are, such as 12/1h", s)
	}
	return most, nil
}

// isAlert reports whether an item of notify names somebody below alerts: an address has a colon, or is a file's.
func isAlert(item string) bool { return !strings.ContainsAny(item, ":@") }

// alertURL is where an alert's messages go; "": nowhere from here, since the scheduler sends them.
func (e *env) alertURL(name string) string {
	if os.Getenv(served) != "" {
		return ""
	}
	return e.file.Top["alerts"].Table[name]["url"].Text
}

// defaultRemind is how often an alert that stays open is told again.
const defaultRemind = 4 * time.Hour

// alertsOf are the alerts that a job's notify names.
func (e *env) alertsOf(values map[string]config.Value) (all []scheduler.Alert) {
	for _, name := range values["notify"].List {
		if !isAlert(name) {
			continue
		}
		row := e.file.Top["alerts"].Table[name]
		a := scheduler.Alert{Name: name, Remind: defaultRemind}
		for _, on := range row["on"].List {
			a.On = append(a.On, scheduler.AlertKind(on))
		}
		if a.On == nil {
			a.On = []scheduler.AlertKind{scheduler.AlertFailure, scheduler.AlertStale, scheduler.AlertLate, scheduler.AlertOften, scheduler.AlertRecovery}
		}
		if v, ok := row["remind"]; ok {
			a.Remind, _ = durationOf(v.Text)
		}
		// Either of them says that skips are to be told: neither alone may tell nobody.
		if a.Skips, _ = strconv.Atoi(row["skips"].Text); a.Skips > 0 && row["on"].List == nil {
			a.On = append(a.On, scheduler.AlertSkip)
		}
		a.Skips = max(a.Skips, 1)
		all = append(all, a)
	}
	return all
}
