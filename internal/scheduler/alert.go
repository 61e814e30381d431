package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// Alert is somebody who is told of a job.
type Alert struct {
	Name   string
	On     []AlertKind
	Remind time.Duration // while it is open; 0: never
	Skips  int           // so many fires in a row that didn't run are told; 0: never
}

// AlertKind is what an alert is about.
type AlertKind string

// The kinds.
const (
	AlertFailure  AlertKind = "failure"  // a run FAILED
	AlertStale    AlertKind = "stale"    // a run goes on for too long, or its owner is gone
	AlertLate     AlertKind = "late"     // a fire didn't start, or didn't finish, by its time
	AlertSkip     AlertKind = "skip"     // so many fires in a row didn't run
	AlertOften    AlertKind = "often"    // it ran more often than AtMost says
	AlertRecovery AlertKind = "recovery" // of one that was open
)

// trouble is what is wrong with a job now, of one kind.
type trouble struct {
	kind  AlertKind
	cause string // the same as long as it is the same trouble
	title string
	lines []string
	run   *onerun.Run
	fire  string // of AlertLate: which
	done  bool   // and nothing can be done about that one any more
	fires int    // of AlertSkip: how many
	held  bool   // whether it is over is open: what failed is being done again
}

// tells reports whether somebody is told of a kind.
func (j *Job) tells(kind AlertKind) bool {
	return slices.ContainsFunc(j.Alerts, func(a Alert) bool { return a.hears(kind) })
}

// hears reports whether an alert is about a kind. Who wants to hear of errors alone hears of a job that hangs, which fails at
// nothing for as long as it does.
func (a Alert) hears(kind AlertKind) bool {
	return slices.Contains(a.On, kind) || kind == AlertStale && slices.Contains(a.On, AlertFailure)
}

// concerns reports whether a trouble is one that an alert is about.
func (t trouble) concerns(a Alert) bool {
	return a.hears(t.kind) && (t.kind != AlertSkip || a.Skips > 0 && t.fires >= a.Skips)
}

// What the partitions of fires begin with that are none of a slot.
const (
	startPrefix = "start+" // somebody asked for it
	bootPrefix  = "boot-"
)

// alone reports whether a run is of a fire that stands for nothing but itself, so that a later one makes up for it.
func (j *Job) alone(r onerun.Run) bool {
	return r.Partition == "" || r.Partition == r.ScheduledAt.UTC().Format(time.RFC3339) || strings.HasPrefix(r.Partition, startPrefix) ||
		j.Schedule.Cron.Reboot() && strings.HasPrefix(r.Partition, bootPrefix)
}

// failure is the trouble of a run that FAILED.
func (j *Job) failure(r onerun.Run) trouble {
	cause := string(r.Reason)
	if r.ExitCode != nil {
		cause += fmt.Sprintf(" %d", *r.ExitCode)
	}
	t := trouble{kind: AlertFailure, cause: cause, title: fmt.Sprintf("%s failed: %s", r.Name(), cause), run: &r}
	if !j.alone(r) {
		t.cause = r.Name() + " " + cause
	}
	if r.Error != "" {
		t.lines = append(t.lines, r.Error)
	}
	if !r.NextRetryAt.IsZero() {
		t.lines = append(t.lines, "it will be tried again at "+r.NextRetryAt.Format(time.RFC3339))
	}
	return t
}

func staleness(r onerun.Run) trouble {
	return trouble{
		kind: AlertStale, cause: r.RunID, title: r.Name() + " is stale", run: &r,
		lines: []string{"it is RUNNING since " + r.StartedAt.Format(time.RFC3339), r.Evidence},
	}
}
